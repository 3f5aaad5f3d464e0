"""Ground of the tests against a real API server: the fixture control_plane comes from berth_dev.pytest_plugin.

Objects that a test makes carry a name of their own, so that tests need no order; `world` tells whether anything
changed. (Imports of the collection stay inside the fixtures: pytest reads it before Python knows where it is.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
    from tests.support.playbook import Run

#: Files that take longest: begun first, so that all workers end together (IN_ORDER in the Makefile).
FIRST = (
    "test_role_berth.py",
    "test_stateful_app_faults.py",
    "test_crds.py",
    "test_adopted.py",
    "test_node_loss.py",
    "test_host_maintenance.py",
    "test_upgrade.py",
    "test_update_hold.py",
    "test_overtaken.py",
    "test_replacing.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    from tests.support.longest_first import begin_with

    begin_with(items, FIRST)


@pytest.fixture
def api(control_plane: Any) -> ApiClient:
    """The administrator's client, new for each test: its counters start at nothing."""
    from tests.support.kube import client_for

    return client_for(control_plane.kubeconfig)


@pytest.fixture(scope="session")
def crds(control_plane: Any) -> None:
    """Installed once for each worker: a test that removes or changes them puts them back at its end."""
    from tests.support.kube import install_crds

    install_crds(control_plane.kubeconfig)


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"t{uuid4().hex[:10]}"


@pytest.fixture
def namespace(api: ApiClient, name: str) -> Iterator[str]:
    from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import NAMESPACE

    api.create(NAMESPACE, {"metadata": {"name": name}})
    yield name
    api.delete(NAMESPACE, name)


@pytest.fixture
def playbook(control_plane: Any, tmp_path: Path) -> Callable[..., Run]:
    """Runs tasks as the administrator: ``playbook([{...}], "--check")``; ``env`` replaces K8S_AUTH_KUBECONFIG."""
    from tests.support.playbook import run_playbook

    def run(tasks: list[dict[str, Any]], *args: str, env: dict[str, str] | None = None, **more: Any) -> Run:
        wanted = {"K8S_AUTH_KUBECONFIG": str(control_plane.kubeconfig)} if env is None else env
        return run_playbook(tasks, tmp_path / "play", *args, env=wanted, **more)

    return run


@pytest.fixture
def world(control_plane: Any) -> Callable[[], dict[str, str]]:
    """Look before and after: equal means that nothing was written."""
    from tests.support.kube import world

    return lambda: world(control_plane.kubeconfig)
