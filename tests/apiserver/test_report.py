"""The module and the role report on a real API server: one page, left alone where nothing changed; no other write."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.base import Context, execute
from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils._glue.report import OPERATION
from tests.support.small_cluster import small_cluster

pytestmark = pytest.mark.usefixtures("crds")
Module = Callable[..., dict[str, Any]]


@pytest.fixture
def module(control_plane: Any) -> Module:
    def run(check: bool = False, **options: Any) -> dict[str, Any]:
        defaults = {name: spec.get("default") for name, spec in OPERATION.argument_spec().items()}
        params = {**defaults, "kubeconfig": str(control_plane.kubeconfig), **options}
        return execute(OPERATION, Context(params, check, lambda text: None, environ={}))

    return run


@pytest.fixture
def cluster(api: ApiClient, name: str, namespace: str) -> Iterator[str]:
    with small_cluster(api, name, namespace):
        yield name


def test_a_page(module: Module, cluster: str, namespace: str, world: Callable[[], Any], tmp_path: Path) -> None:
    before, dest = world(), tmp_path / "berth.html"
    assert module(check=True, dest=str(dest))["changed"]
    assert not dest.exists()
    result = module(dest=str(dest), title="East <1>")
    assert (result["changed"], result["requests"]) == (True, {"list": 8}), result
    assert world() == before
    text = dest.read_text()
    assert result["size"] == len(text.encode())
    for expected in (f"{cluster}-3-kept", f"{namespace}/db-0", "East &lt;1&gt;", "LockWithoutBerth", f"{cluster}-gpu"):
        assert expected in text
    mine = [one["object"] for one in result["findings"] if cluster in one["object"]]
    assert mine == [f"LocalDevice {cluster}-gpu", f"LocalDisk {cluster}-2-held"]
    assert stat.S_IMODE(dest.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [dest]


def test_a_page_is_left_alone_until_something_changes(
    module: Module, playbook: Callable[..., Any], cluster: str, tmp_path: Path
) -> None:
    """As the role has it. Other tests may change the cluster meanwhile: not two runs in a row, on and on."""
    dest = tmp_path / "out" / "berth.html"
    dest.parent.mkdir()
    role = {"ansible.builtin.include_role": {"name": "berth.stateful.report"}, "vars": {"report_dest": str(dest)}}
    run = playbook([role]).ok()
    assert run.last["summary"]["disks"] >= 7
    written = dest.read_text()
    assert f"{cluster}-1-free" in written
    for _attempt in range(50):
        result = module(dest=str(dest))
        if not result["changed"]:
            break
    assert not result["changed"]
    assert result["diff"] == []
    assert module(dest=str(dest), title="another")["changed"]


def test_what_is_refused(module: Module, tmp_path: Path) -> None:
    assert "is a folder" in module(dest=str(tmp_path))["msg"]
    assert "there is no folder" in module(dest=str(tmp_path / "a" / "b.html"))["msg"]
    assert "expected three octal digits" in module(dest=str(tmp_path / "b.html"), mode="u=rw")["msg"]
    assert list(tmp_path.iterdir()) == []
