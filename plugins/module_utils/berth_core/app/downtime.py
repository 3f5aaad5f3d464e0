# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""For how long each replica was not Ready while it was updated, as far as whoever looks now and then has seen it. Pure.

Kept by the playbook for a run, and by berth-controller from the first look at an update to its end.
"""

from __future__ import annotations

from collections.abc import Mapping

#: How many replicas are told one by one: an Event is short.
_MOST = 20


class Downtime:
    """Filled by `look`. ``now`` of its calls is a clock of one's own that never goes back."""

    def __init__(self) -> None:
        self._since: dict[int, float] = {}
        self._seconds: dict[int, float] = {}

    @property
    def ordinals(self) -> frozenset[int]:
        """Those that were looked at."""
        return frozenset(self._seconds)

    def look(self, ready: Mapping[int, bool], now: float) -> None:
        """Whether each of these replicas is Ready now."""
        for ordinal, is_ready in ready.items():
            self._seconds.setdefault(ordinal, 0.0)
            if not is_ready:
                self._since.setdefault(ordinal, now)
            elif ordinal in self._since:
                self._seconds[ordinal] += now - self._since.pop(ordinal)

    def seconds(self, ordinal: int) -> float:
        """Of the times that are over."""
        return self._seconds.get(ordinal, 0.0)

    def words(self) -> str:
        """Ordinal by ordinal, the highest first; of many those that were down for longest."""
        known = sorted(self._seconds, reverse=True)
        told = set(sorted(known, key=self.seconds, reverse=True)[:_MOST])
        rest = [self.seconds(ordinal) for ordinal in known if ordinal not in told]
        parts = [f"{ordinal}: {round(self.seconds(ordinal), 2):g} s" for ordinal in known if ordinal in told]
        return ", ".join([*parts, *([f"{len(rest)} others: {round(max(rest), 2):g} s at most"] if rest else [])])
