# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading a configuration file's fields strictly, as kube-scheduler does: what is not known is refused.

Called by the modules of this folder. Every error names the path of the field and what was expected there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from ..errors import InputError

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(h|ms|m|s|us|µs|ns)")
#: Go's durations are nanoseconds in 64 bits.
_MOST_SECONDS = (1 << 63) / 1e9
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def wrong(path: str, expected: str, got: Any) -> InputError:
    """Return the error for a field with a wrong value."""
    return InputError(f"{path}: expected {expected}, got {got!r}", field=path)


def only(source: Mapping[str, Any], known: Collection[str], path: str) -> None:
    """Refuse a field that is not known."""
    unknown = sorted(str(key) for key in source if key not in known)
    if unknown:
        where = f"{path}.{unknown[0]}" if path else unknown[0]
        raise InputError(f"{where}: unknown field; expected {', '.join(sorted(known))}", field=where)


def within(value: int, low: int, high: int | None, path: str) -> int:
    """Return a number that is in its range. `high` None: any number from `low` on."""
    if value < low or (high is not None and value > high):
        raise wrong(path, f"at least {low}" if high is None else f"{low} to {high}", value)
    return value


def seconds(source: Mapping[str, Any], key: str, path: str, default: float) -> float:
    """Read a duration as Go writes it ("15s", "1m30s"), in seconds."""
    text = source.get(key)
    if text is None:
        return default
    if not isinstance(text, str):
        raise wrong(path, 'a duration such as "15s"', text)
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text)
    parts = _DURATION.findall(rest)
    if rest != "0" and (not parts or "".join(number + unit for number, unit in parts) != rest):
        raise wrong(path, 'a duration such as "15s"', text)
    value = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if value > _MOST_SECONDS:
        raise wrong(path, "a duration of at most 2562047h", text)
    return sign * value
