"""What a process has taken so far, as /proc tells it."""

from __future__ import annotations

import os
import re
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(stat: str) -> float:
    """Of /proc/PID/stat: seconds of CPU so far."""
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def resident(status: str) -> float:
    """Of /proc/PID/status: resident memory in MB (10^6)."""
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found
    return int(found[1]) * 1024 / 1e6


def cpu_of(*pids: int) -> float:
    """Seconds of CPU of all of them."""
    return sum(cpu_seconds(Path(f"/proc/{pid}/stat").read_text()) for pid in pids)


def resident_of(*pids: int) -> float:
    """Resident memory of all of them in MB (10^6)."""
    return sum(resident(Path(f"/proc/{pid}/status").read_text()) for pid in pids)
