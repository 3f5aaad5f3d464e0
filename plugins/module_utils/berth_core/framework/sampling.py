# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A share of the nodes instead of all: kube-scheduler's percentageOfNodesToScore, where a configuration gives one.

Called by framework/cycle.py. The search goes on from where the last one ended, and ends with the last node that it
needs. Where the file says nothing, or 0, all nodes are looked at: kube-scheduler would choose a share by itself.
"""

from __future__ import annotations

from typing import NamedTuple

from ..cluster.columns import IntColumn, np

LEAST = 100
"""So many nodes that fit are always looked for, and in a smaller cluster all."""


class Sample(NamedTuple):
    """What share of the nodes has to be found, in per cent, and at which row the search starts."""

    percentage: int
    start: int = 0

    def wanted(self, total: int) -> int:
        """Return how many nodes that fit are enough, of so many nodes."""
        return total if total < LEAST else max(LEAST, total * self.percentage // 100)


def sampled(sample: Sample, rows: IntColumn, total: int) -> tuple[IntColumn, int]:
    """Return which of the rows that passed (ascending) are found, ascending, and how many nodes were looked at."""
    wanted, start = sample.wanted(total), sample.start % max(total, 1)
    if len(rows) <= wanted:
        return rows, total
    first = int(np.searchsorted(rows, start))
    found: IntColumn = np.roll(rows, -first)[:wanted]
    looked_at = (int(found[-1]) - start) % total + 1
    return np.sort(found), looked_at
