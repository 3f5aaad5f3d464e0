"""What makes the daemons' loop and their clients fast where the packages for it are installed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from . import http1_fast, json_fast

T = TypeVar("T")


def client_options() -> dict[str, Any]:
    """For `KubeClient`."""
    return {"framing": http1_fast.framing(), "decode": json_fast.decoder(), "encode": json_fast.encoder()}


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed: the same loop with less of the daemon's own time in it."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def run(work: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run` does it, in that loop."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(work)
