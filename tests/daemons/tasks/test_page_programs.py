"""The programs of docs/guides/tasks.md, from the page itself: run as they stand there, against the backend."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.daemons.tasks import program
from tests.daemons.tasks.process_kubelet import ProcessKubelet
from tests.daemons.tasks.world import World
from tests.support import pages

PROGRAMS = [example for example in pages.examples(program.GUIDE) if example.language == "python"]
CALLED = [str(math.sqrt(2)), str([math.factorial(n) for n in range(20)])]


def followed(lines: list[str]) -> bool:
    return lines[0].split()[0] in ("Submitted", "Running") and lines[-1].split()[:2] == ["Succeeded", "0"]


def called(lines: list[str]) -> bool:
    return lines[:2] == CALLED and "not defined for negative values" in lines[2]


@pytest.mark.parametrize(
    ("example", "printed"), list(zip(PROGRAMS, (followed, called), strict=True)), ids=lambda one: getattr(one, "id", "")
)
def test_programs(
    example: pages.Example, printed: Callable[[list[str]], bool], world: World, start: Any, tmp_path: Path
) -> None:
    world.node(cpu="16")
    start()
    path = program.allow(world)
    kubelet = ProcessKubelet(world, tmp_path)
    kubelet.start()
    try:
        (tmp_path / "program.py").write_text(example.text)
        environment = {**os.environ, "KUBECONFIG": str(path)}
        argv = [sys.executable, str(tmp_path / "program.py")]
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=240, check=False)
    finally:
        kubelet.stop()
        path.unlink()
    assert done.returncode == 0, done.stdout + done.stderr
    assert printed(done.stdout.splitlines()), done.stdout
