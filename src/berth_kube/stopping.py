"""How a daemon runs its parts, and how it ends: asked to, or because one cannot go on. Called by composition roots."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from berth_core.errors import BerthError, InputError

from . import logs
from .serve import Server


class Logged(Protocol):
    """Settings that say how the log is written."""

    @property
    def log_format(self) -> str:
        """logfmt or json."""

    @property
    def log_level(self) -> str:
        """The least level that is written."""


S = TypeVar("S", bound=Logged)


def command(
    name: str,
    argv: Sequence[str] | None,
    parse: Callable[[Sequence[str]], S],
    run: Callable[[S], Coroutine[Any, Any, int]],
    in_loop: Callable[[Coroutine[Any, Any, int]], int] = asyncio.run,
) -> int:
    """The whole of a daemon that has flags and no commands. ``argv``: None: those of this process.

    ``in_loop``: who makes the loop, for a daemon that does much in it that of fast.py.

    Exit status: 2 for wrong settings, else that of ``run``.
    """
    try:
        settings = parse(sys.argv[1:] if argv is None else argv)
        logs.setup(settings.log_format, settings.log_level)
        return in_loop(run(settings))
    except InputError as exc:
        print(f"{name}: {exc.message}", file=sys.stderr)  # noqa: T201 - nothing runs yet that could log
        return 2


async def until_stopped(work: Coroutine[Any, Any, None], log: logging.Logger) -> int:
    """Run the work until SIGTERM or SIGINT, or until it fails.

    Exit status: 0 asked to stop; 1 the API refused, or the lease was lost. Raises InputError for wrong settings.
    """
    whole = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, whole.cancel)
    try:
        await whole
    except asyncio.CancelledError:
        log.info("asked to stop")
    except InputError:
        raise
    except BerthError as exc:
        log.error("%s", exc.message)
        return 1
    return 0


async def together(server: Server | None, *works: Coroutine[Any, Any, None]) -> None:
    """Run them side by side, with the port open, until the first ends; then none runs. Raises what ended it.

    Where the port cannot be had, none begins.
    """
    tasks: list[asyncio.Task[None]] = []
    try:
        if server is not None:
            await server.start()
        tasks = [asyncio.ensure_future(one) for one in works]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for one in works:
            one.close()  # what has not begun; of what has ended it changes nothing
        if server is not None:
            await server.stop()
