"""Waiting among the faults, for their stories."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.daemons.controller.world import PATIENCE


def until(condition: Callable[[], Any], what: str | Callable[[], Any], patience: float = PATIENCE) -> Any:
    """The first true value of the condition, as the controller's tests have it, but looked for less often: here most
    looks start a program in a host, which takes the processor from what is waited for."""
    end, pause = time.monotonic() + patience, 0.05
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < end, f"not within {patience:.0f} s: {what() if callable(what) else what}"
        time.sleep(pause)
        pause = min(0.3, 1.5 * pause)
