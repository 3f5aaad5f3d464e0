"""Ground of the scheduler's tests: a control plane with its rights, worlds of nodes and pods, schedulers as processes.

(Imports of the collection stay inside the fixtures: pytest reads it before Python knows where it is.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

#: Files that take longest: begun first, so that all workers end together (IN_ORDER in the Makefile).
FIRST = (
    "test_faults_servers.py",
    "test_faults_leaders.py",
    "test_scheduler_service.py",
    "test_deaths.py",
    "test_backoff.py",
    "test_extender.py",
    "test_consulted.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    from tests.support.longest_first import begin_with

    begin_with(items, FIRST)


@pytest.fixture(scope="session")
def plane(control_plane: Any) -> Any:
    """A control plane with CRDs and the scheduler's rights, whose fake nodes are run by kwok."""
    from tests.daemons.scheduler.world import DEPLOY
    from tests.support.kube import install_crds

    install_crds(control_plane.kubeconfig)
    for folder in (DEPLOY, DEPLOY.parent / "extender"):
        control_plane.kubectl("apply", "-f", str(folder / "rbac.yaml"))
    control_plane.add_nodes(0)  # none of its own: it runs kwok, which keeps the worlds' nodes
    return control_plane


@pytest.fixture
def world(plane: Any) -> Iterator[Any]:
    from tests.daemons.scheduler.world import World
    from tests.support.kube import client_for

    made = World(client_for(plane.kubeconfig, warn=lambda _text: None), f"s{uuid4().hex[:8]}", plane)
    try:
        yield made
    finally:
        made.clear()


@pytest.fixture
def start(plane: Any, world: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """``start()`` starts the world's scheduler with the rights of its service account and waits until it works.

    ``config``: its file; ``server``: another way to the API server; ``wait=False``: do not wait; ``module``: another
    program; ``elect=True``: it takes part in the election.
    """
    from tests.daemons.controller.prepared import started
    from tests.daemons.scheduler.world import Process, kubeconfig

    running: list[Process] = []

    def begin(
        *flags: str, config: Path | None = None, server: str | None = None, wait: bool = True, elect: bool = False,
        **options: Any,
    ) -> Process:  # fmt: skip
        number = len(running)
        file = config or world.configuration(tmp_path / f"config-{number}.yaml")
        who = kubeconfig(plane, world.api, tmp_path / f"kubeconfig-{number}", server)
        if not elect:
            flags = (*flags, "--no-leader-elect")
        log, flags = tmp_path / f"scheduler-{number}.log", ("--config", str(file), *flags)
        running.append(Process(who, log, *flags, start=started, **options))
        return running[-1].works() if wait else running[-1]

    yield begin
    for process in running:
        process.stop()
        print(process.text())


@pytest.fixture
def extend(plane: Any, world: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """``extend()`` starts an extender and waits until it works; ``wait=False``: does not wait."""
    from tests.daemons.controller.prepared import started
    from tests.daemons.scheduler.extending import Extender
    from tests.daemons.scheduler.world import EXTENDER, kubeconfig

    running: list[Extender] = []

    def begin(*flags: str, wait: bool = True, **options: Any) -> Extender:
        number = len(running)
        who = kubeconfig(plane, world.api, tmp_path / f"kubeconfig-{number}", account=EXTENDER)
        patience = ("--bind-seconds", "240")  # on a slow machine Kubernetes takes its time to bind a claim
        log = tmp_path / f"extender-{number}.log"
        running.append(Extender(who, log, *patience, *flags, start=started, **options))
        return running[-1].works() if wait else running[-1]

    yield begin
    for process in running:
        process.stop()
        print(process.text())
