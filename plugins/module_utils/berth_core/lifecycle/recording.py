# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one place where a berth's phase is written: no other than the table in states.py lets follow.

Called by whoever takes a berth a step on, forward and back.
"""

from __future__ import annotations

import copy
from typing import Any

from ..model.resources import BERTH
from . import states
from .step import STATUS, Write
from .view import Object, recorded


def record_phase(record: Object, phase: str, why: str = "", /, **fields: Any) -> Write:
    """The Berth with that phase, or with the one that it has; ``fields`` of its status that are None are taken out.

    Raises AssertionError where the table has no such step: the caller is wrong, and nothing is written.
    """
    now = recorded(record)
    if phase != now and not states.may_follow(now, phase):
        raise AssertionError(f"Berth {record['metadata']['name']} is {now}, which {phase} does not follow")
    status = {**(record.get("status") or {}), "phase": phase, **fields}
    kept = {key: value for key, value in status.items() if value is not None}
    return Write(STATUS, BERTH, {**copy.deepcopy(dict(record)), "status": kept}, why or f"phase {phase}")
