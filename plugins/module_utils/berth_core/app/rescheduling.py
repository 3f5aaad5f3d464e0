# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""update_strategy: reschedule. A changed template costs a replica its place: the berth is given up by the rules of
leaving (app.leaving), and node, disks and devices are chosen again among all. Pure; called by both drivers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ..errors import StateError
from ..lifecycle.lost import Loss
from ..lifecycle.states import RELEASING
from ..lifecycle.view import disks_of, recorded
from .choose import World, without_disks
from .observed import Observed
from .plan import Plan
from .pod_change import PodChange
from .update_rules import IN_PLACE_IF_POSSIBLE, RESCHEDULE, SAME_NODE
from .wanted import AppWanted


def wanted(app: AppWanted) -> bool:
    """Whether a changed template costs a replica its place."""
    return app.update is not None and app.update.strategy == RESCHEDULE


def due(app: AppWanted, changes: Mapping[int, PodChange]) -> dict[int, tuple[str, ...]]:
    """Who is placed anew, and because of which fields. The same template under another revision moves nobody."""
    return {
        ordinal: change.forced or change.fields
        for ordinal, change in changes.items()
        if (change.forced or change.fields) and app.update is not None and app.update.strategy_of(ordinal) == RESCHEDULE
    }


def without_updates(plan: Plan, moving: Iterable[int]) -> Plan:
    """The plan that leaves alone what these replicas give up when it is their turn."""
    gone = set(moving)
    update, refresh = (tuple(one for one in part if one not in gone) for part in (plan.update, plan.refresh))
    return replace(plan, update=update, refresh=refresh)


def without_left(world: World, observed: Observed, losses: Mapping[int, Loss], plan: Plan) -> World:
    """The world without the pods that go, and without the disks that keep what is given up. Who finishes what a run
    before has begun gives up no data."""
    anew = [ordinal for ordinal, loss in losses.items() if loss.of_one]
    begun = [o for o in plan.discard if o in observed.berths and recorded(observed.berths[o]) == RELEASING]
    gone = [observed.berths[ordinal] for ordinal in anew if ordinal in observed.berths]
    records = [*gone, *(observed.berths[ordinal] for ordinal in begun)]
    if not records:
        return world
    disks = {each["name"] for record in gone for each in disks_of(record)}
    pods = {(record["metadata"]["namespace"], record["metadata"]["name"]) for record in records}
    left = [pod for pod in world.pods if (pod["metadata"]["namespace"], pod["metadata"]["name"]) not in pods]
    return replace(without_disks(world, disks), pods=left)


def with_data(app: AppWanted, held: Sequence[tuple[str, str, Sequence[str]]]) -> StateError:
    """The refusal for replicas (pod, node, LocalDisks) whose data nobody gives up."""
    told = "; ".join(f"{pod} on node {node} (LocalDisk {', '.join(disks)})" for pod, node, disks in held)
    names = ", ".join(f"{pod}@{node}" for pod, node, _disks in held)
    return StateError(
        f"{app.namespace}/{app.name}: update_strategy is {RESCHEDULE}, and these replicas have data where they are: "
        f"{told}. It does not come along: a replica begins empty where it goes. With update_strategy "
        f"{IN_PLACE_IF_POSSIBLE} or {SAME_NODE} they keep their places. Where the app has the data from its other "
        f"replicas, or from a backup, give it up by name and node with leave_data: [{names}]; the disks keep it. "
        "Nothing was changed"
    )
