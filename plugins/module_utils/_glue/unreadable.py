# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of the cluster that cannot be read: whoever chooses a place or shows what is free warns of each.

Called by the operations that have a snapshot. What such an object may hold counts as taken.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..berth_core.app.choose import counts_as_taken
from .base import Context


def warn_of_unreadable(context: Context, problems: Iterable[str]) -> None:
    """``problems``: why each object was left out (`Snapshot.problems`)."""
    for problem in problems:
        context.warn(counts_as_taken(problem))
