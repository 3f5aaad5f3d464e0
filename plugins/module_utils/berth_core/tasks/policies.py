# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which queue is served next.

The policy `fair` gives to the queue that has least of what its share entitles it to (dominant resource fairness);
`priority` gives to the queue of the highest priority first, and is fair between equals.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Callable

from .queues import Queue


def fair(queue: Queue, used: Mapping[str, int], whole: Mapping[str, int]) -> tuple[object, ...]:
    """The queue with the least of these is next: its dominant share of the cluster, by what it is entitled to."""
    shares = [Fraction(value, whole[name]) for name, value in used.items() if whole.get(name)]
    return (max(shares, default=Fraction(0)) / queue.share, queue.name)


def priority(queue: Queue, used: Mapping[str, int], whole: Mapping[str, int]) -> tuple[object, ...]:
    """The highest priority first, fair between equals."""
    return (-queue.priority, *fair(queue, used, whole))


Policy = Callable[[Queue, Mapping[str, int], Mapping[str, int]], tuple[object, ...]]
POLICIES: Mapping[str, Policy] = {"fair": fair, "priority": priority}
