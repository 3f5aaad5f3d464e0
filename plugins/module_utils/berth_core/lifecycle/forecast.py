# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is left of an exchange of disks, for a plan: next_step asked again and again, as if all went well.

Called by disk_replace before it writes anything. Writes nothing.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from ..app.phase import AVAILABLE
from ..model.resources import LOCAL_DISK
from ..model.tenant import Tenant
from .next_step import next_step
from .replacing import PARTS, part_of
from .step import DONE, REMOVE, Look, Step, Wait, Write
from .view import View

#: What is left when the claim that a StatefulSet makes anew is next: nobody can suppose its uid.
_OF_THE_HEIR = tuple(PARTS)[tuple(PARTS).index("assign") :]


def remaining(view: View) -> list[str]:
    """The parts that are left, in order: what next_step would say if every write succeeded and every wait ended."""
    parts: list[str] = []
    for _number in range(100):
        step = next_step(view)
        if step == DONE:
            return parts
        part = part_of(step)
        if isinstance(step, Wait) and step.on is None and part != "run":
            return parts  # a person is asked first
        if view.exchange is not None and view.exchange.of is not None and part in _OF_THE_HEIR:
            return [*parts, *(one for one in _OF_THE_HEIR[_OF_THE_HEIR.index(part) :] if one not in parts)]
        if part not in parts:
            parts.append(part)
        if part == "run":
            return parts
        view = _supposed(view, step)
    raise AssertionError(f"an exchange of disks does not come to its end: {parts}")


def _supposed(view: View, step: Step) -> View:
    """The view after a step that went well."""
    if isinstance(step, Wait) and step.on is not None:
        if step.reason != "NotAdopted":
            return view.lacking(step.on.resource, step.on.name)
        new: dict[str, Any] = copy.deepcopy(dict(view.disks[step.on.name]))
        new["status"] = {**(new.get("status") or {}), "phase": AVAILABLE}
        return view.having(LOCAL_DISK, new)
    if isinstance(step, Look):
        return replace(view, tenant=Tenant("as it is then"))
    if isinstance(step, Write):
        if step.do == REMOVE:
            return view.lacking(step.resource, step.ref.name)
        return view.having(step.resource, step.body)
    return replace(view, exchange=None)
