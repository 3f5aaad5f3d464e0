"""Ground of the task backend's tests: a control plane with its rights, worlds of fake nodes and tasks, the daemon.

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
    "test_outside.py",
    "test_deaths.py",
    "test_only_one.py",
    "test_program.py",
    "test_store_postgresql.py",
    "test_filler.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    from tests.support.longest_first import begin_with

    begin_with(items, FIRST)


@pytest.fixture(scope="session")
def plane(control_plane: Any) -> Any:
    """A control plane with CRDs and the backend's rights, whose fake nodes are run by kwok."""
    from tests.daemons.tasks.world import DEPLOY
    from tests.support.kube import install_crds

    install_crds(control_plane.kubeconfig)
    control_plane.kubectl("apply", "-f", str(DEPLOY / "rbac.yaml"))
    control_plane.add_nodes(0)  # none of its own: it runs kwok, which keeps the worlds' nodes
    return control_plane


@pytest.fixture
def world(plane: Any) -> Iterator[Any]:
    from tests.daemons.tasks.world import World
    from tests.support.kube import client_for

    made = World(client_for(plane.kubeconfig, warn=lambda _text: None), f"k{uuid4().hex[:8]}", plane)
    try:
        yield made
    finally:
        made.clear()


@pytest.fixture
def kubelets(world: Any) -> Iterator[Any]:
    from tests.daemons.tasks.kubelets import Kubelets

    acting = Kubelets(world, seed=46)
    acting.start()
    yield acting
    acting.stop()


@pytest.fixture
def start(plane: Any, world: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """``start("--flag", ...)`` starts the backend with the rights of its service account and waits until it works.

    ``server``: another way to the API server.
    """
    from tests.daemons.controller.prepared import started
    from tests.daemons.tasks.world import Process, kubeconfig

    running: list[Process] = []

    def begin(
        *flags: str,
        elect: bool = False,
        wait: bool = True,
        server: str | None = None,
        environment: dict[str, str] | None = None,
        module: str = "berth_tasks",
    ) -> Process:
        config = kubeconfig(plane, world.api, tmp_path / f"kubeconfig-{len(running)}", server, account="berth-tasks")
        log = tmp_path / f"tasks-{len(running)}.log"
        elected = () if elect else ("--no-leader-elect",)
        given = (*elected, "--log-lines", "0", *flags)
        running.append(Process(config, log, *given, module=module, environment=environment, start=started))
        return running[-1].works() if wait else running[-1]

    yield begin
    for process in running:
        process.stop()
        print(process.text())
    faults = [line for process in running for line in process.text().splitlines() if "trace=" in line]
    assert not faults, faults


@pytest.fixture
def module(plane: Any, world: Any) -> Callable[..., dict[str, Any]]:
    """``module(operation, check=True, **options)``: as a module carries it out in the world's namespace."""
    from ansible_collections.berth.stateful.plugins.module_utils._glue.base import Context, execute
    from ansible_collections.berth.stateful.plugins.module_utils._glue.task import OPERATION

    def run(operation: Any = OPERATION, check: bool = False, **options: Any) -> dict[str, Any]:
        defaults = {name: spec.get("default") for name, spec in operation.argument_spec().items()}
        params = {**defaults, "kubeconfig": str(plane.kubeconfig), "namespace": world.name, **options}
        return execute(operation, Context(params, check, lambda text: None, environ={}))

    return run
