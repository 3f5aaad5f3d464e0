"""berth-tasks as a part of a program that is told of states, and of what a queue could have: BERTH_TOLD is a folder.

Its subscribers write what they were told of the Tasks of namespace BERTH_SPACE into files of their names: one at once;
one raises whenever it hears a thing for the first time; one waits until the file `go` is there. What the queue of
BERTH_QUEUE could have it writes into `offers` all the time.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from berth_core.errors import StateError
from berth_tasks import __main__ as tasks
from berth_tasks.daemon import Daemon
from berth_tasks.task_registry import Update

FOLDER, SPACE = Path(os.environ["BERTH_TOLD"]), os.environ["BERTH_SPACE"]


class Program(Daemon):
    """Subscribes once it works."""

    async def run(self, works: Callable[[], None]) -> None:
        def begin() -> None:
            assert self.backend is not None
            for call in (slow, Raises(), prompt):
                self.backend.subscribe(type(call).__name__ if isinstance(call, Raises) else call.__name__, call)
            works()

        tells = asyncio.create_task(self._offers())
        try:
            await super().run(begin)
        finally:
            tells.cancel()

    async def _offers(self) -> None:
        while os.environ.get("BERTH_QUEUE"):
            await asyncio.sleep(0.1)
            if self.backend is not None and self.synced:
                found = self.backend.revive_offers(*os.environ["BERTH_QUEUE"].split("/"))
                new = FOLDER / "offers.new"
                new.write_text(json.dumps({offer.node: offer.free for offer in found}))
                new.rename(FOLDER / "offers")


def note(name: str, update: Update) -> None:
    if update.namespace == SPACE:
        with (FOLDER / name).open("a", encoding="utf-8") as file:
            file.write(f"{update.name} {update.state} {update.tries}\n")


async def prompt(update: Update) -> None:
    note("prompt", update)


async def slow(update: Update) -> None:
    (FOLDER / "waits").touch()
    while not (FOLDER / "go").exists():
        await asyncio.sleep(0.05)
    note("slow", update)


class Raises:
    """Each thing is told it twice."""

    def __init__(self) -> None:
        self._heard: set[Update] = set()

    async def __call__(self, update: Update) -> None:
        if update not in self._heard and update.namespace == SPACE:
            self._heard.add(update)
            raise StateError("not now")
        note("raises", update)


if __name__ == "__main__":
    tasks.Daemon = Program  # type: ignore[misc]
    sys.exit(tasks.main())
