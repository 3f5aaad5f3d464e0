# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Coscheduling: the pods of a group are bound when enough of them have a place, and none before.

The group stands in two labels of its pods, as the lightweight form of scheduler-plugins has them: its name and the
least number of its members. Who has a place waits at Permit, and counts; nothing is locked or written for it yet. When
one member finds no place, all that wait give theirs back at once: so of two groups that each hold half of a cluster one
goes on, and no time-out has to come first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..framework.contract import GO_ON, SUCCESS, Code, Permission, Status, Waiting, unresolvable, unschedulable
from ..framework.events import UNSCHEDULED_POD, Action, Change, ClusterEvent, Wish
from ..framework.state import Cycle
from ..model.fields import integer
from ..model.labels import LabelSelector
from ..model.pod import PodInfo
from ..model.pod_groups import GROUP, MINIMUM
from .args import known_only

WAIT_SECONDS = 60


def group_of(pod: PodInfo) -> tuple[str, str] | None:
    """Return (namespace, group) of a pod; None for one that stands alone."""
    for key, name in pod.labels:
        if key == GROUP:
            return (pod.namespace, name) if name else None
    return None


def minimum_of(pod: PodInfo) -> int:
    """Return how many members must have a place. Raises InputError where the label is no whole number above 0."""
    text = dict(pod.labels).get(MINIMUM, "1")
    if not text.isdigit() or int(text) < 1:
        raise InputError(f"pod {pod.namespace}/{pod.name}: label {MINIMUM} is {text!r}: expected a number from 1 on")
    return int(text)


@dataclass(frozen=True)
class Coscheduling:
    """All of a group or nothing. `seconds`: how long one that has a place waits for the others."""

    seconds: int = WAIT_SECONDS
    name: str = "Coscheduling"

    @classmethod
    def from_args(cls, args: Mapping[str, Any], path: str) -> Coscheduling:
        """Read permitWaitingTimeSeconds. Raises InputError with the path."""
        known_only(args, ("permitWaitingTimeSeconds",), path)
        where = f"{path}.permitWaitingTimeSeconds"
        seconds = integer(args, "permitWaitingTimeSeconds", where, WAIT_SECONDS)
        if not 1 <= seconds <= 900:
            raise InputError(f"{where}: expected 1 to 900, got {seconds}", field=where)
        return cls(seconds)

    def permit(self, cycle: Cycle, waiting: Sequence[Waiting]) -> Permission:
        """Wait until the members with a place, on nodes or about to be, are as many as are needed."""
        pod: PodInfo = cycle.pod
        group = group_of(pod)
        if group is None:
            return GO_ON
        try:
            needed = minimum_of(pod)
        except InputError as exc:
            return Permission(unresolvable(exc.message))
        selector = LabelSelector.from_labels({GROUP: group[1]})
        placed = int(cycle.snapshot.count_pods(pod.namespace, selector).column.sum())
        if placed >= needed:
            return Permission(allow=_members(group, waiting))
        reason = f"pod group {group[1]} has {placed} of {needed} members with a place"
        return Permission(Status(Code.WAIT, (reason,)), float(self.seconds))

    def give_way(self, pod: PodInfo, waiting: Sequence[Waiting]) -> frozenset[str]:
        """Take the places of a group back one of whose members found none."""
        group = group_of(pod)
        return frozenset() if group is None else _members(group, waiting)

    def requeue_on(self) -> Sequence[Wish]:
        """Listen to new members, and to members that got their gates out of the way."""
        wanted = Action.ADD | Action.POD_GATES_ELIMINATED | Action.POD_LABEL
        return (Wish(ClusterEvent(UNSCHEDULED_POD, wanted), _sibling),)

    def gate(self, pod: PodInfo, known: int) -> Status:
        """Say whether a member may be tried: not before there are enough of them. `known`: members that there are."""
        group = group_of(pod)
        if group is None:
            return SUCCESS
        try:
            needed = minimum_of(pod)
        except InputError as exc:
            return unresolvable(exc.message)
        if known < needed:
            return unschedulable(f"pod group {group[1]} has {known} of {needed} members")
        return Status()


def _members(group: tuple[str, str], waiting: Sequence[Waiting]) -> frozenset[str]:
    return frozenset(one.pod.uid for one in waiting if group_of(one.pod) == group)


def _sibling(pod: PodInfo, change: Change) -> bool:
    return (
        isinstance(change.new, PodInfo) and group_of(change.new) is not None and group_of(change.new) == group_of(pod)
    )
