# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a request says of replicas that are to leave a place: the options of stateful_app, checked. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..lifecycle import states
from ..model.names import check_subdomain, shown
from . import replace_request
from .update_rules import RESCHEDULE


@dataclass(frozen=True)
class LeaveRules:
    """``nodes``: on which no replica is to be. ``ordinals``: whose data there may be given up.

    ``places``: (ordinal, node) whose data may be given up wherever else a replica leaves its berth. ``replaced``:
    (ordinal, node) of berths that are to be left for others.
    """

    nodes: tuple[str, ...] = ()
    ordinals: tuple[int, ...] = ()
    places: tuple[tuple[int, str], ...] = ()
    replaced: tuple[tuple[int, str], ...] = ()

    def give_up(self, ordinal: int, node: str) -> bool:
        """Whether that replica's data on that node may be given up."""
        return (ordinal, node) in self.places or (node in self.nodes and ordinal in self.ordinals)


def leave_rules(options: Mapping[str, Any], name: str, replicas: int) -> LeaveRules:
    """The options of stateful_app, checked. Raises InputError."""
    nodes, given = options.get("leave_nodes") or (), options.get("leave_data") or ()
    asked = options.get("replace") or ()
    if given and not (nodes or asked or options.get("update_strategy") == RESCHEDULE):
        raise InputError("leave_data is given without leave_nodes: name the nodes that the replicas leave, too")
    until = options.get("until") or states.CREATED
    if (nodes or asked) and until != states.CREATED:
        option = "leave_nodes" if nodes else "replace"
        raise InputError(
            f"{option} waits for each replica to be Ready elsewhere, and until: {until} makes no pods; leave one of "
            "them out"
        )
    for index, node in enumerate(nodes):
        check_subdomain(node, f"leave_nodes[{index}]")
    names = {f"{name}-{ordinal}": ordinal for ordinal in range(replicas)}
    names.update({str(ordinal): ordinal for ordinal in range(replicas)})
    whole, places = set(), set()
    for index, one in enumerate(given):
        replica, at, node = one.partition("@")
        if replica not in names:
            raise InputError(
                f"leave_data[{index}] is {shown(one)}: expected a replica of this app, {name}-0 to "
                f"{name}-{replicas - 1}, or its ordinal"
            )
        if at:
            check_subdomain(node, f"leave_data[{index}], the node after @,")
            places.add((names[replica], node))
        elif nodes:
            whole.add(names[replica])
        else:
            raise InputError(
                f"leave_data[{index}] is {shown(one)}: with {'replace' if asked else f'update_strategy {RESCHEDULE}'} "
                f"name the node, too, on whose disks the data is that is given up: {name}-{names[replica]}@NODE"
            )
    replaced = replace_request.read(asked, names, places)
    return LeaveRules(tuple(dict.fromkeys(nodes)), tuple(sorted(whole)), tuple(sorted(places)), tuple(replaced))
