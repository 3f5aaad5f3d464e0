"""Objects right and wrong are thrown at a cluster in which an app is well; the app and all daemons work as before.

The schemas take what an older release could have let in. A few batches in `make test`, many in `make explore`, with new
ones in each round: `make explore MINUTES=10 ONLY=tests/daemons/scheduler/test_strange_objects.py`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import ApiError, ConflictError
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_cli.__main__ import main
from tests.apiserver.app.world import params
from tests.badinput.asking import answer
from tests.badinput.strange_objects import relaxed, some
from tests.daemons.controller.world import Process, install
from tests.daemons.controller.world import kubeconfig as controller_kubeconfig
from tests.daemons.scheduler.test_extender import asking, settled
from tests.daemons.scheduler.world import POOL, until
from tests.support.kube import client_for, forget, install_crds
from tests.support.made_up_host import made_up, said

pytestmark = [pytest.mark.slow, pytest.mark.hypothesis, pytest.mark.timeout(1800)]
KINDS = {one.kind: one for one in (kinds.BERTH, kinds.LOCAL_DEVICE, kinds.LOCAL_DISK, kinds.PV, kinds.POD, kinds.NODE)}
#: Batches, by the profile's number of examples.
BATCHES = settings.default.max_examples // 50
FAULTS = ("Traceback", "internal error", "please report")


class Ground:
    """The daemons, an app that is well, and what is thrown at them."""

    def __init__(self, plane: Any, world: Any, folder: Path, daemons: dict[str, Any], agent: Any) -> None:
        self.plane, self.world, self.folder, self.daemons, self.agent = plane, world, folder, daemons, agent
        self.thrown: list[tuple[Any, str]] = []
        self.taken = 0

    # -- the app ---------------------------------------------------------------------------------------------------

    def run(self, module: str, **options: Any) -> dict[str, Any]:
        result = answer(module, options, client_for(self.plane.kubeconfig, warn=lambda _text: None))
        assert not result.get("failed"), result
        return result

    def app(self, name: str, **options: Any) -> dict[str, Any]:
        made = params(name, self.plane.kubeconfig, namespace=self.world.name, replicas=1, **options)
        made["disks"] = [{"name": "data", "size": "1Gi", "storage_class": self.world.name}]
        made["template"]["spec"]["nodeSelector"] = {POOL: self.world.name}
        return self.run("stateful_app", **made)

    # -- what is thrown --------------------------------------------------------------------------------------------

    def throw(self, thing: dict[str, Any]) -> None:
        """Written as far as the API server takes it."""
        kind, name = KINDS[thing["kind"]], f"{self.world.name}-z{len(self.thrown)}"
        space = self.world.name if kind.namespaced else None
        meta = {"name": name, **({"namespace": space} if space else {})}
        meta |= {key: thing[key] for key in ("labels", "annotations") if key in thing}
        with contextlib.suppress(ApiError, UnicodeError):
            made = self.world.api.create(
                kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": thing["spec"]}
            )
            self.thrown.append((kind, name))
            if thing.get("status"):
                self.world.api.replace(kind, {**made, "status": thing["status"]}, subresource="status")

    def clear(self) -> None:
        self.taken += len(self.thrown)
        for kind, name in self.thrown:
            space = self.world.name if kind.namespaced else None
            forget(self.world.api, kind, name, space)
            with contextlib.suppress(ApiError, ConflictError):  # what protects a volume or a claim's disk
                self.world.api.patch(kind, name, space, {"metadata": {"finalizers": None}})
        self.thrown = []

    # -- what holds ------------------------------------------------------------------------------------------------

    def check(self, node: str) -> None:
        world = self.world
        assert not self.app("db")["changed"]
        assert self.app("new", wait_timeout=60)["changed"]
        assert self.app("new", state="absent")["changed"]
        world.claim("probe")
        world.pod("probe", "probe")
        settled(self.daemons["extender"], asking(world, "probe", [node]), [node])
        assert world.placed("probe") == [node]
        world.wait_bound("probe")
        for kind in (kinds.POD, kinds.PVC):
            world.delete(kind, "probe")
        until(lambda: not world.api.find(kinds.PVC, "probe", world.name), "the claim does not go")
        until(lambda: not world.get_pod("probe"), "the pod does not go")
        self.read()
        for name, daemon in self.daemons.items():
            assert daemon.process.poll() is None, f"{name} has ended: {daemon.text()[-3000:]}"
            assert not [word for word in FAULTS if word in daemon.text()], f"{name}: {_around(daemon.text())}"

    def read(self) -> None:
        for command in ("show", "top", "drift"):
            args = [command, "--kubeconfig", str(self.plane.kubeconfig)]
            assert main([*args, "-A"] if command == "show" else args) in (0, 1)
        self.run("resource_list_info")
        self.run("report", dest=str(self.folder / "page.html"))
        template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
        self.run("placement_info", name="x", namespace=self.world.name, template=template, replicas=1)


def _around(text: str) -> str:
    at = min(text.find(word) for word in FAULTS if word in text)
    return text[max(0, at - 500) : at + 4000]


class AgentLog:
    """An agent's output, read as it comes."""

    def __init__(self, process: Any) -> None:
        self.process, self._lines = process, [said(process, "look 1:")]
        self._reader = threading.Thread(target=lambda: self._lines.extend(process.stdout), daemon=True)
        self._reader.start()

    def text(self) -> str:
        return "".join(self._lines)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)
        self._reader.join(30)
        self.process.stdout.close()


@pytest.fixture
def older_schemas(world: Any, plane: Any) -> Iterator[None]:
    """Only types are checked; afterwards the schemas are as they should be."""
    for name in ("berths", "localdevices", "localdisks"):
        live = world.api.get(kinds.CRD, f"{name}.berth.dev")
        version = live["spec"]["versions"][0]
        version["schema"]["openAPIV3Schema"]["properties"] = relaxed(version["schema"]["openAPIV3Schema"]["properties"])
        version["schema"]["openAPIV3Schema"].pop("x-kubernetes-validations", None)
        world.api.replace(kinds.CRD, live)
    yield
    install_crds(plane.kubeconfig)


def test_strange_objects_disturb_nobody(
    plane: Any,
    world: Any,
    start: Callable[..., Any],
    extend: Callable[..., Any],
    tmp_path: Path,
    older_schemas: None,
) -> None:
    install(plane)
    world.storage_class(waits=True)
    node, elsewhere = world.node("0"), world.node("other", unschedulable=True)
    for index in range(4):
        world.disk(node, index)
    with made_up(plane) as host, contextlib.ExitStack() as ending:
        host.configure()
        agent = AgentLog(host.start("run"))
        ending.callback(agent.stop)
        controller = Process(
            controller_kubeconfig(plane, world.api, tmp_path / "controller"), tmp_path / "controller.log"
        )
        ending.callback(controller.stop)
        daemons = {"scheduler": start(), "extender": extend(), "controller": controller.works(), "agent": agent}
        ground = Ground(plane, world, tmp_path, daemons, agent)
        assert ground.app("db")["changed"]
        ground.check(node)

        @settings(
            max_examples=BATCHES,
            phases=[Phase.explicit, Phase.generate],
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        )
        @given(batch=some([elsewhere, host.node], world.name))
        def batches(batch: list[dict[str, Any]]) -> None:
            try:
                for thing in batch:
                    ground.throw(thing)
                ground.check(node)
            finally:
                ground.clear()

        batches()
        assert ground.taken > 5 * BATCHES
