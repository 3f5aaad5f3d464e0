# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a node takes a replica back whose pod an update is about to make anew: its data is there and nowhere else.

Pure. Looked at right before the pod goes, for a node may be cordoned, tainted or lost while an update is under way.
Called by the drivers of an update; whether there is room is asked before it begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..model.fields import mapping
from ..model.taint import CORDON, NO_EXECUTE, NO_SCHEDULE, parse_taints, parse_tolerations, tolerated
from .host_maintenance import node_ready
from .maintenance_mark import cordoned

Object = Mapping[str, Any]


def closed(name: str, node: Object | None, spec: Mapping[str, Any]) -> str:
    """Why the node takes no new pod of this spec now, with what to do about it; empty: it may take one.

    ``node``: None where there is none of that ``name``.
    """
    if node is None:
        return "its Node is deleted"
    tolerations = parse_tolerations(spec, "spec.tolerations")
    if cordoned(node) and not tolerated(CORDON, tolerations):
        return f"it is cordoned: kubectl uncordon {name}"
    why = node_ready(node)
    if why:
        return why
    for taint in parse_taints(mapping(node, "spec"), f"Node {name}: spec.taints"):
        if taint.effect in (NO_SCHEDULE, NO_EXECUTE) and not tolerated(taint, tolerations):
            return f"it has the taint {taint}: take it off, or have the template tolerate it"
    return ""
