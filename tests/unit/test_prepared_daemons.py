"""Daemons that are forked from a process that has the imports are as those that are started anew. No cluster."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.daemons.controller.prepared import Forked, started
from tests.daemons.controller.world import Process, anew

WAYS = (anew, started, started)


@pytest.mark.parametrize(
    ("flag", "options"),
    [
        ("--nonsense", {}),
        ("--help", {"module": "berth_scheduler", "command": ("run",)}),
        ("--help", {"module": "berth_scheduler", "command": ("extend",)}),
        ("--nonsense", {"module": "berth_tasks"}),
        ("--nonsense", {"module": "tests.support.wire", "environment": {"DAEMON": "berth_controller"}}),
    ],
)
def test_it_says_the_same_and_ends_alike(tmp_path: Path, flag: str, options: dict[str, Any]) -> None:
    ran = [Process(tmp_path, tmp_path / f"{way}.log", flag, start=start, **options) for way, start in enumerate(WAYS)]
    said = {(one.ended(), one.text()) for one in ran}
    assert len(said) == 1, said
    assert isinstance(ran[-1].process, Forked)
    assert said.pop()[0] == (2 if flag == "--nonsense" else 0)


def test_it_is_stopped_goes_on_and_is_killed(tmp_path: Path) -> None:
    """While it waits for an API server that nobody runs."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "it", "user": {"token": "none"}}],
    }
    config = tmp_path / "kubeconfig"
    config.write_text(yaml.safe_dump(content))
    for way in range(2):
        process = Process(config, tmp_path / f"{way}.log", "--no-leader-elect", start=started)
        for number in (signal.SIGSTOP, signal.SIGCONT):
            process.signal(number)
            assert process.process.poll() is None, process.text()
        process.signal(signal.SIGKILL)
        assert process.ended() == process.process.poll() == -signal.SIGKILL
