"""What deploy/monitoring asks of Prometheus, asked of a real one that scrapes the running components."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.daemons.controller.prepared import started
from tests.daemons.controller.world import ROOT, Process, install
from tests.daemons.controller.world import kubeconfig as controllers
from tests.daemons.scheduler.extending import Extender
from tests.daemons.scheduler.world import kubeconfig, until
from tests.daemons.tasks.filler_load import Load
from tests.daemons.tasks.world import DEPLOY as TASKS
from tests.daemons.tasks.world import World as TaskWorld
from tests.support.made_up_host import made_up, said
from tests.support.prometheus import ask, prometheus
from tests.support.tcp import free_port

pytestmark = pytest.mark.slow
FOLDER = ROOT / "deploy" / "monitoring"
RULES = yaml.safe_load((FOLDER / "rules.yaml").read_text())
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())
METRIC = re.compile(r"\b(?:berth|scheduler)_[a-z_]+\b(?!\")")


def rules() -> list[dict[str, Any]]:
    return [rule for group in RULES["groups"] for rule in group["rules"]]


def questions() -> list[str]:
    """Every expression of the dashboard, as Grafana would send it."""
    asked = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    return [text.replace("$__rate_interval", "1m") for text in asked]


@pytest.fixture
def tasks(plane: Any, world: Any, tmp_path: Path) -> Iterator[tuple[Load, int]]:
    """The task backend at work: a task that runs, one that has ended, one that never starts, and filler work.

    What tells the use of its node, and its port.
    """
    plane.kubectl("apply", "-f", str(TASKS / "rbac.yaml"))
    made, port = TaskWorld(world.api, f"{world.name}t", plane), free_port()
    who = kubeconfig(plane, world.api, tmp_path / "kubeconfig-tasks", account="berth-tasks")
    flags = ("--port", str(port), "--no-leader-elect", "--filler-interval", "1")
    process = Process(who, tmp_path / "tasks.log", *flags, module="berth_tasks", start=started)
    load = Load(made, made.node())
    try:
        process.works()
        load.serve()
        made.queue("owned", ceiling={"cpu": "1"})
        made.submit("runs", queue="owned")
        made.running("runs")
        made.submit("ends")
        made.change("ends", kill=True)
        made.ended("ends", "Killed")
        made.queue("small", ceiling={"cpu": "100m"})
        made.submit("huge", cpu="200m", queue="small")
        made.queue("low", filler=True)
        made.submit("fills", queue="low")
        yield load, port
    finally:
        process.stop()
        print(process.text())
        load.stop()
        made.clear()


@pytest.fixture
def components(plane: Any, world: Any, start: Any, tasks: Any, tmp_path: Path) -> Iterator[dict[str, int]]:
    """One of each, at work; the ports of their figures, by job."""
    install(plane)
    ports = {f"berth-{name}": free_port() for name in ("agent", "controller", "scheduler", "extender")}
    ports["berth-tasks"] = tasks[1]
    start("--port", str(ports["berth-scheduler"]))
    who = controllers(plane, world.api, tmp_path / "kubeconfig-controller")
    controller = Process(who, tmp_path / "controller.log", "--port", str(ports["berth-controller"]), start=started)
    who = kubeconfig(plane, world.api, tmp_path / "kubeconfig-extender")
    extender = Extender(who, tmp_path / "extender.log", "--metrics-port", str(ports["berth-extender"]), start=started)
    with made_up(plane) as host:
        host.configure(metrics={"port": ports["berth-agent"]})
        with host.start("run") as agent:
            try:
                said(agent, "figures at")
                controller.works()
                extender.works()
                extender.ask("filter", {"Pod": {}, "Nodes": None, "NodeNames": []})
                yield ports
            finally:
                agent.send_signal(signal.SIGTERM)
                print(agent.communicate(timeout=60)[0])
                for process in (controller, extender):
                    process.stop()
                    print(process.text())


def configuration(ports: dict[str, int]) -> str:
    scrapes = [{"job_name": job, "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]} for job, port in ports.items()]
    every = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    files = [str(FOLDER / "rules.yaml")]
    return yaml.safe_dump({"global": every, "rule_files": files, "scrape_configs": scrapes})


def test_what_the_rules_and_the_dashboard_ask_for_is_there(
    world: Any, tasks: Any, components: Any, tmp_path: Path
) -> None:
    world.node()
    world.pod("fits")
    world.placed("fits")
    world.pod("huge", cpu="900")
    world.refused("huge", "Insufficient cpu")
    wanted = {name for text in [*questions(), *(rule["expr"] for rule in rules())] for name in METRIC.findall(text)}
    folder = tmp_path / "prometheus"
    folder.mkdir()
    with prometheus(folder, configuration(components)) as url:
        tasks[0].until(lambda: wanted <= exported(url), lambda: f"not exported: {wanted - exported(url)}")
        tasks[0].until(lambda: not silent(url), lambda: f"nothing to show for {silent(url)}")
        until(lambda: all(rule["health"] == "ok" for rule in loaded(url)), lambda: str(loaded(url)))
        waits = {rule["name"] for rule in loaded(url) if rule["state"] != "inactive"}
        assert waits == {"BerthPodsUnschedulable", "BerthTasksNeverStart"}, "a pod and a task wait, all else is well"


def loaded(url: str) -> list[dict[str, Any]]:
    return [rule for group in ask(url, "rules")["groups"] for rule in group["rules"]]


def exported(url: str) -> set[str]:
    return set(ask(url, "label/__name__/values"))


def silent(url: str) -> list[str]:
    """What the dashboard asks and has no answer, though it should: no request fails here, and no disk."""
    asked = [text for text in questions() if "0|5.." not in text and "Faulted" not in text]
    return [text for text in asked if not ask(url, "query", query=text)["result"]]
