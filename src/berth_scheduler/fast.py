"""What makes the daemons' loop and their clients fast where the packages for it are installed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from berth_kube import http1_fast, json_fast


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
