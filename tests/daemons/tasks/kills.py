"""berth-tasks as a part of a program that ends a Task by the backend's own method: BERTH_KILL is its namespace/name.

It does so when the file BERTH_KILL_WHEN is there, and leaves in it what the method said.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

from berth_core.errors import StateError
from berth_tasks import __main__ as tasks
from berth_tasks.daemon import Daemon


class Program(Daemon):
    """Kills once it works."""

    async def run(self, works: Callable[[], None]) -> None:
        ends = asyncio.create_task(self._kill())
        try:
            await super().run(works)
        finally:
            ends.cancel()

    async def _kill(self) -> None:
        namespace, name = os.environ["BERTH_KILL"].split("/")
        when = Path(os.environ["BERTH_KILL_WHEN"])
        while not when.exists():
            await asyncio.sleep(0.05)
        assert self.backend is not None
        try:
            self.backend.kill_task(namespace, "unknown")
        except StateError as exc:
            when.write_text(f"{exc.message} {self.backend.kill_task(namespace, name)}")


if __name__ == "__main__":
    tasks.Daemon = Program  # type: ignore[misc]
    sys.exit(tasks.main())
