"""How figures are shown and requests are told apart; the measurements themselves are run by `make bench`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

import pytest

from tests.bench import __main__ as bench
from tests.bench import ground
from tests.bench.counting import verb_of
from tests.bench.figures import Figure, table

PEER = Figure("task/info", 0.02, 0.5, "s/task", "kubernetes.core.k8s_info 6.2.0", ("a note",))
ALONE = Figure("app/100", 12.34567, None, "s", None)


def test_ratio_is_how_many_times_better_ours_is() -> None:
    assert PEER.as_json() == {
        "name": "task/info",
        "ours": 0.02,
        "peer": 0.5,
        "ratio": 25.0,
        "unit": "s/task",
        "peer_name": "kubernetes.core.k8s_info 6.2.0",
        "command": "make bench ONLY=task/info",
    }
    assert (ALONE.as_json()["peer"], ALONE.as_json()["ratio"], ALONE.as_json()["peer_name"]) == (None, None, None)


def test_table() -> None:
    lines = table([PEER, ALONE]).splitlines()
    assert lines[0].split() == ["name", "ours", "peer", "ratio", "unit", "peer", "is"]
    assert "25.0x" in lines[1]
    assert lines[2].strip() == "a note"
    assert lines[3].split() == ["app/100", "12.346", "-", "-", "s"]


class NoGround:
    """Neither of these benches needs a cluster."""

    def __enter__(self) -> NoGround:
        return self

    def __exit__(self, *_exc: object) -> None:
        """Nothing was made."""


def test_what_was_measured_is_told_though_another_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fails(_ground: object) -> NoReturn:
        raise RuntimeError("no Docker")

    (tmp_path / "build").mkdir()
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    monkeypatch.setattr(bench, "prepare", lambda: None)
    monkeypatch.setattr(ground, "Ground", NoGround)
    monkeypatch.setattr(bench, "known", lambda: {"a": lambda _ground: [PEER], "b": fails, "c": lambda _ground: [ALONE]})
    assert bench.main([]) == 1
    told = capsys.readouterr()
    assert "task/info" in told.out
    assert "app/100" in told.out
    assert "no Docker" in told.err
    assert "FAILED: b" in told.err
    assert [one["name"] for one in json.loads((tmp_path / "build/bench.json").read_text())] == ["task/info", "app/100"]


@pytest.mark.parametrize(
    ("method", "target", "verb"),
    [
        ("GET", "/version", "discovery"),
        ("GET", "/apis", "discovery"),
        ("GET", "/api/v1", "discovery"),
        ("GET", "/apis/apps/v1", "discovery"),
        ("GET", "/api/v1/nodes", "list"),
        ("GET", "/api/v1/nodes/n1", "get"),
        ("GET", "/api/v1/namespaces/x", "get"),
        ("GET", "/api/v1/namespaces/x/pods", "list"),
        ("GET", "/api/v1/namespaces/x/pods?watch=1", "watch"),
        ("GET", "/apis/apps/v1/namespaces/x/statefulsets/db", "get"),
        ("POST", "/apis/apps/v1/namespaces/x/statefulsets", "create"),
        ("PUT", "/apis/berth.dev/v1alpha1/localdisks/d/status", "update"),
        ("PATCH", "/api/v1/nodes/n1", "patch"),
        ("DELETE", "/api/v1/nodes/n1", "delete"),
    ],
)
def test_verb_of(method: str, target: str, verb: str) -> None:
    assert verb_of(method, target) == verb
