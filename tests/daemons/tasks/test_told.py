"""Who subscribes to the states of tasks is told each of them once, in order, however slow others are or fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.daemons.tasks.world import World, until

Start = Callable[..., Any]


def test_a_slow_and_a_raising_subscriber_delay_nobody_and_are_told_what_they_missed(
    world: World, start: Start, tmp_path: Path
) -> None:
    world.node()
    environment = {"BERTH_TOLD": str(tmp_path), "BERTH_SPACE": world.name}
    process = start(module="tests.daemons.tasks.told", environment=environment)

    def heard(name: str) -> list[str]:
        path = tmp_path / name
        return path.read_text().splitlines() if path.exists() else []

    world.submit("good")
    world.submit("bad", retries=1)
    world.end(world.running("good"))
    world.end(world.running("bad"), 1)
    world.end(world.running("bad", 2), 1)
    ends = {"good": ["Submitted 0", "Running 0", "Succeeded 1"]}
    ends["bad"] = ["Submitted 0", "Running 0", "Submitted 1", "Running 1", "Failed 2"]

    def of(name: str, task: str) -> list[str]:
        return [line.removeprefix(f"{task} ") for line in heard(name) if line.startswith(f"{task} ")]

    until(lambda: {task: of("prompt", task) for task in ends} == ends, lambda: heard("prompt"))
    assert (tmp_path / "waits").exists()
    assert heard("slow") == []
    until(lambda: heard("raises") == heard("prompt"), lambda: (heard("raises"), process.text()))
    (tmp_path / "go").touch()
    until(lambda: heard("slow") == heard("prompt"), lambda: heard("slow"))
    assert "subscriber Raises: not now; it is told again" in process.text()
