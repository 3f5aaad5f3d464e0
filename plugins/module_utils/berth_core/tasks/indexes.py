# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets of indexes as a text of ranges, ``0-17,19``: how a Job tells its completed indexes."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import InputError


def to_text(indexes: Iterable[int]) -> str:
    """The ranges in ascending order; two in a row are told as a range, too."""
    parts: list[list[int]] = []
    for index in sorted(set(indexes)):
        if parts and parts[-1][1] == index - 1:
            parts[-1][1] = index
        else:
            parts.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def from_text(text: str, where: str, end: int) -> list[int]:
    """The indexes of such a text, each at least 0 and below ``end``. Raises InputError that names the field."""
    found: list[int] = []
    for part in text.split(",") if text else ():
        first, dash, last = part.partition("-")
        numbers = (first, last) if dash else (first, first)
        if not all(number.isdecimal() and number.isascii() for number in numbers):
            raise _wrong(where, part)
        low, high = int(numbers[0]), int(numbers[1])
        if not (found[-1] if found else -1) < low <= high < end:
            raise _wrong(where, part)
        found.extend(range(low, high + 1))
    return found


def _wrong(where: str, part: str) -> InputError:
    return InputError(f"{where} has {part[:40]!r}: expected ascending ranges of indexes, for example 0-17,19")
