# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happens in a cluster, as far as it may make a waiting pod fit; and what a plugin says of it.

Made by who watches the cluster, handed to framework/queue.py. The kinds and their labels are kube-scheduler's v1.36.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntFlag
from typing import Any, Callable, NamedTuple, Optional, Union

from ..model.node import NodeInfo
from ..model.pod import PodInfo

POD, ASSIGNED_POD, UNSCHEDULED_POD, NODE = "Pod", "AssignedPod", "UnschedulablePod", "Node"
ANY = "*"
"""Every resource: pods are looked at again whatever refused them."""


class Action(IntFlag):
    """What became of an object. Names and meanings are kube-scheduler's ActionType."""

    ADD = 1 << 0
    DELETE = 1 << 1
    NODE_ALLOCATABLE = 1 << 2
    NODE_LABEL = 1 << 3
    NODE_TAINT = 1 << 4
    NODE_CONDITION = 1 << 5
    POD_LABEL = 1 << 6
    POD_SCALE_DOWN = 1 << 7
    POD_TOLERATION = 1 << 8
    POD_GATES_ELIMINATED = 1 << 9
    POD_CLAIMS_GENERATED = 1 << 10
    OTHER_UPDATE = 1 << 11
    NODE_DECLARED_FEATURE = 1 << 12
    UPDATE = (
        NODE_ALLOCATABLE | NODE_LABEL | NODE_TAINT | NODE_CONDITION | POD_LABEL | POD_SCALE_DOWN | POD_TOLERATION
        | POD_GATES_ELIMINATED | POD_CLAIMS_GENERATED | OTHER_UPDATE | NODE_DECLARED_FEATURE
    )  # fmt: skip
    ALL = ADD | DELETE | UPDATE


class ClusterEvent(NamedTuple):
    """A kind of change. As a pattern, `action` is a set and resource Pod stands for assigned and waiting pods."""

    resource: str
    action: Action

    def covers(self, other: ClusterEvent) -> bool:
        """Tell whether this pattern asks for that event."""
        kind = self.resource in (other.resource, ANY) or (
            self.resource == POD and other.resource in (ASSIGNED_POD, UNSCHEDULED_POD)
        )
        return kind and bool(self.action & other.action)


Fact = Optional[Union[PodInfo, NodeInfo, Mapping[str, Any]]]
"""A pod and a node are what scheduling sees of them, all else is the object of the API; None: was, is not there."""


class Change(NamedTuple):
    """One thing that happened, with the object before and after."""

    event: ClusterEvent
    old: Fact = None
    new: Fact = None


Hint = Callable[[PodInfo, Change], bool]
"""Tells whether the change may make this pod, which the plugin has refused, fit."""


class Wish(NamedTuple):
    """A change that a plugin wants to hear of. Without a hint every such change counts."""

    event: ClusterEvent
    hint: Hint | None = None


Wishes = Mapping[str, Sequence[Wish]]
"""By the plugin's name."""

EVERYTHING = ClusterEvent(ANY, Action.ALL)
WAITED_LONG = Change(EVERYTHING)
"""A pod has waited so long that something may have been missed."""
ACTIVATED = Change(EVERYTHING)
"""Somebody asks for the pod by name."""


def pod_changes(old: PodInfo, new: PodInfo) -> list[Change]:
    """Return what changed in a pod that may matter to scheduling; a change of something else is one of no kind."""
    resource = ASSIGNED_POD if new.node_name else UNSCHEDULED_POD
    found = []
    for action, differs in (
        (Action.POD_LABEL, old.labels != new.labels),
        (Action.POD_SCALE_DOWN, _scaled_down(old, new)),
        (Action.POD_GATES_ELIMINATED, bool(old.gates) and not new.gates),
        (Action.POD_TOLERATION, len(old.tolerations) != len(new.tolerations)),
        (Action.POD_CLAIMS_GENERATED, old.resource_claims != new.resource_claims),
    ):
        if differs:
            found.append(Change(ClusterEvent(resource, action), old, new))
    return found or [Change(ClusterEvent(resource, Action.OTHER_UPDATE), old, new)]


def _scaled_down(old: PodInfo, new: PodInfo) -> bool:
    asked = dict(new.requests)
    return any(amount > asked.get(name, 0) for name, amount in old.requests)


def node_changes(old: NodeInfo, new: NodeInfo) -> list[Change]:
    """Return what changed in a node that matters to scheduling; nothing, for a heartbeat."""
    found = []
    for action, differs in (
        (Action.NODE_TAINT, old.taints != new.taints or old.unschedulable != new.unschedulable),
        (Action.NODE_ALLOCATABLE, old.allocatable != new.allocatable),
        (Action.NODE_LABEL, old.labels != new.labels),
        (Action.NODE_DECLARED_FEATURE, old.features != new.features),
    ):
        if differs:
            found.append(Change(ClusterEvent(NODE, action), old, new))
    return found
