# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Flags of a daemon that an installation may set: whether they are known, and within their bounds.

Called by controller_settings.py and task_backend_settings.py, each with its own dataclass of settings.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InputError
from ..model.names import shown

LOG_FORMATS = ("logfmt", "json")
LOG_LEVELS = ("debug", "info", "warning", "error")
_DIGITS = re.compile(r"[0-9]+(\.[0-9]+)?")


def fields_of(
    flags: Mapping[str, Any], allowed: Sequence[str], settings: Any, bounds: Mapping[str, tuple[float, float]]
) -> dict[str, Any]:
    """The fields of the dataclass ``settings`` that flags set, numbers as numbers. Raises InputError that names the
    flag. ``allowed``: without the dashes; ``bounds``: field -> least and most; a field without bounds is text."""
    unknown = sorted(str(name) for name in flags if name not in allowed)
    if unknown:
        raise InputError(f"flags.{unknown[0]}: unknown here; expected one of {', '.join(allowed)}")
    return {name.replace("-", "_"): _value(name, value, settings, bounds) for name, value in flags.items()}


def check_log_format(given: str) -> None:
    """Raises InputError."""
    if given not in LOG_FORMATS:
        raise InputError(f"flags.log-format is {shown(given)}: expected logfmt or json")


def check_log_level(given: str) -> None:
    """Raises InputError."""
    if given not in LOG_LEVELS:
        raise InputError(f"log_level is {given!r}: expected {', '.join(LOG_LEVELS)}")


def as_texts(fields: Mapping[str, Any]) -> dict[str, str]:
    """As variables of an environment have them."""
    return {name: f"{value:.10g}" if isinstance(value, (int, float)) else value for name, value in fields.items()}


def _value(flag: str, value: Any, settings: Any, bounds: Mapping[str, tuple[float, float]]) -> Any:
    name = flag.replace("-", "_")
    if name not in bounds:
        if not isinstance(value, str):
            raise InputError(f"flags.{flag} is {shown(value)}: expected text")
        return value
    least, most = bounds[name]
    whole = isinstance(getattr(settings, name), int)
    number = _number(value)
    if not least <= number <= most or (whole and not number.is_integer()):
        raise InputError(
            f"flags.{flag} is {shown(value)}: expected a {'whole ' * whole}number, {least:g} to {most:.10g}"
        )
    return number


def _number(value: Any) -> float:
    """Not a number (nan) where it is none, or one that no bound allows."""
    if isinstance(value, str):
        return float(value) if _DIGITS.fullmatch(value) else math.nan
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 1e18:
        return math.nan
    return float(value)
