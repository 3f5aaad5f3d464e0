"""The clocks of this room: one to measure with, one to write down. lease.py and events.py take them as arguments."""

from __future__ import annotations

import datetime as dt
import time


def boot_clock() -> float:
    """Seconds that also pass while the machine is suspended, and that nobody can set."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def utc_now() -> dt.datetime:
    """The wall clock: only written down, for people."""
    return dt.datetime.now(dt.timezone.utc)


def stamp(moment: dt.datetime) -> str:
    """A MicroTime of the API."""
    return moment.astimezone(dt.timezone.utc).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
