"""Ground of the controller's tests: fake nodes with disks, the stock scheduler, and controllers as processes.

(Imports of the collection stay inside the fixtures: pytest reads it before Python knows where it is.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

NODES = 4

#: Files that take longest: begun first, so that all workers end together (IN_ORDER in the Makefile).
FIRST = (
    "test_stateful_app_autoscaled.py",
    "test_faults.py",
    "test_stateful_app_life.py",
    "test_stateful_app_hands.py",
    "test_wake_ups.py",
    "test_claims.py",
    "test_stateful_app_leaving.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    from tests.support.longest_first import begin_with

    begin_with(items, FIRST)


@pytest.fixture(scope="session")
def plane(control_plane: Any) -> Any:
    """A control plane with CRDs, the controller's rights, and fake nodes."""
    from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
    from tests.daemons.controller.world import install
    from tests.support.kube import client_for, install_crds

    install_crds(control_plane.kubeconfig)
    install(control_plane)
    if len(client_for(control_plane.kubeconfig).list(kinds.NODE)) < NODES:
        control_plane.add_nodes(NODES)
    return control_plane


@pytest.fixture
def nodes(plane: Any) -> list[str]:
    """Names of nodes without hosts behind them."""
    from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
    from tests.support.kube import client_for

    return sorted(one["metadata"]["name"] for one in client_for(plane.kubeconfig).list(kinds.NODE))[:NODES]


@pytest.fixture
def world(plane: Any) -> Iterator[Any]:
    from tests.daemons.controller.world import World
    from tests.support.kube import client_for

    made = World(client_for(plane.kubeconfig, warn=lambda _text: None), f"c{uuid4().hex[:8]}")
    try:
        yield made
    finally:
        made.clear()


@pytest.fixture
def start(plane: Any, world: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """``start("--flag", ...)`` starts a controller with the rights of its service account and waits until it works.

    ``server``: another way to the API server; ``wait=False``: do not wait; ``module``: another program.
    """
    from tests.daemons.controller.prepared import started
    from tests.daemons.controller.world import Process, kubeconfig

    running: list[Process] = []

    def begin(*flags: str, server: str | None = None, wait: bool = True, **options: Any) -> Process:
        number = len(running)
        config = kubeconfig(plane, world.api, tmp_path / f"kubeconfig-{number}", server)
        running.append(Process(config, tmp_path / f"controller-{number}.log", *flags, start=started, **options))
        return running[-1].works() if wait else running[-1]

    yield begin
    for process in running:
        process.stop()
        print(process.text())
    caught = [line for process in running for line in process.rescued()]
    assert not caught, caught
