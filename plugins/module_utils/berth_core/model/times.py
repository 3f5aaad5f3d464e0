# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Times as the API server writes them. Pure: the present is an argument."""

from __future__ import annotations

import re
from datetime import datetime


def age(told: str, now: datetime) -> float | None:
    """Seconds since an RFC 3339 time of the API server; None where it is none."""
    moment = _moment(told)
    return None if moment is None else (now.replace(tzinfo=None) - moment).total_seconds()


def between(first: str, second: str) -> float | None:
    """Seconds from one such time to another; None where either is none."""
    moment = _moment(second)
    return None if moment is None else age(first, moment)


def _moment(told: str) -> datetime | None:
    match = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?Z", told)
    return datetime.fromisoformat(match[1]) if match else None


def spoken(seconds: float | None) -> str:
    """An age as kubectl writes it: 45s, 12m, 30h, 9d; empty where it is not known."""
    if seconds is None:
        return ""
    for unit, size, most in (("s", 1, 120), ("m", 60, 120), ("h", 3600, 48)):
        if seconds < size * most:
            return f"{max(0, int(seconds / size))}{unit}"
    return f"{int(seconds / 86400)}d"
