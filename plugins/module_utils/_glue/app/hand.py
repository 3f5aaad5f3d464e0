# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one run has in hand: the application, what was seen of it, what is to be done, and the berths as they are now.

Shared by the steps of the flow (selecting, reserving, building), which change nothing else.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from ...berth_core.app.observed import Observed
from ...berth_core.app.plan import Plan
from ...berth_core.app.wanted import AppWanted
from ..base import Context
from ..client import ApiClient

Object = dict[str, Any]


@dataclass
class Hand:
    """``records``: ordinal -> Berth as last read or written. ``disks``: ordinal -> claim -> LocalDisk locked by this
    run."""

    context: Context
    app: AppWanted
    seen: Observed
    plan: Plan
    timeout: float
    records: dict[int, Object] = field(default_factory=dict)
    disks: dict[int, dict[str, Object]] = field(default_factory=dict)

    @classmethod
    def of(cls, context: Context, app: AppWanted, seen: Observed, plan: Plan) -> Hand:
        """A run's beginning."""
        records = {ordinal: copy.deepcopy(dict(record)) for ordinal, record in seen.berths.items()}
        return cls(context, app, seen, plan, context.params["wait_timeout"], records)

    @property
    def client(self) -> ApiClient:
        return self.context.client

    def title(self, ordinal: int) -> str:
        """The replica's name for people."""
        return f"{self.app.namespace}/{self.app.berth_name(ordinal)}"
