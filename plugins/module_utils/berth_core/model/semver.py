# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Semantic versions (semver.org 2.0.0), as devices have them for an attribute.

Read by cel_values.py and resource_slice.py. Build metadata does not count when versions are compared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ..errors import SelectorError

_NUMBER = r"(0|[1-9][0-9]*)"
_PART = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_PART}(?:\.{_PART})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?\Z"
)
_LONGEST = 256


@dataclass(frozen=True)
class Version:
    """A version and the text it was read from. `order` is what versions are compared by."""

    text: str
    order: tuple[Any, ...]

    @classmethod
    def parse(cls, text: str) -> Version:
        """Read a version. Raises SelectorError that names the text."""
        found = _VERSION.match(text) if len(text) <= _LONGEST else None
        if found is None:
            raise SelectorError(f"{text[:80]!r} is not a semantic version, as 1.2.3 or 1.2.3-rc.1")
        major, minor, patch, before = found.groups()
        # A version without a pre-release stands behind all that have one; numbers stand before words.
        parts = [(0, int(one), "") if one.isdigit() else (1, 0, one) for one in before.split(".")] if before else []
        return cls(text, (int(major), int(minor), int(patch), 0 if parts else 1, tuple(parts)))

    def compare(self, other: Version) -> int:
        """Return -1, 0 or 1."""
        return (self.order > other.order) - (self.order < other.order)
