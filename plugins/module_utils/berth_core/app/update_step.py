# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an update does next with one replica, from what its pod says: its steps, and what they mean for the pod. Pure.

Called by app.update, which knows whose turn it is, and app.update_preparation, which knows what comes before a step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from ..errors import StateError
from ..model.times import age
from . import in_service, resize_wait, update_hold
from .helper_pods import going
from .observed import ended, ready, unscheduled
from .pod_revision import (
    RESIZING,
    Target,
    begin_body,
    change_of,
    ends_for,
    mark_body,
    may_end_for,
    not_begun,
    patch_body,
    resize_body,
    updating,
)
from .update_rules import IN_PLACE_IF_POSSIBLE, IN_PLACE_ONLY, RESCHEDULE, SAME_NODE, UpdateRules

BEGIN, RESIZE, PATCH, MARK, DELETE, CREATE = "begin", "resize", "patch", "mark", "delete", "create"
#: Write down that the replica's update has failed: the update pauses. ``body``: why.
PAUSE = "pause"
#: Take a pod out of its Services, and bring it back.
SHUT, OPEN = "shut", "open"
#: Make, and delete, a helper pod; tell a scheduler of a pod that a node's room is for it.
PULL, HOLD, DROP, NOMINATE = "pull", "hold", "drop", "nominate"
#: What of the pod a write patches, where it is not the pod itself.
SUBRESOURCES = {RESIZE: "resize", SHUT: "status", OPEN: "status"}
Object = Mapping[str, Any]


class Act(NamedTuple):
    """One write, or with ``BEFORE`` and ``AFTER`` of hook_rules a command in the pod.

    ``body``: of the pod's patch; the helper pod that is to be made, or deleted. ``nomination``: with ``NOMINATE``.
    """

    do: str
    ordinal: int
    body: Mapping[str, Any] = {}
    nomination: update_hold.Nomination | None = None


@dataclass(frozen=True)
class NextStep:
    """``act``: what is next of one replica. ``begun``: its pod is on its way already. ``turn``: but nothing has been
    taken from it yet, so what is next waits for the others.

    ``arrived``: its pod has the new template. ``rest``: for how many seconds more it has to be Ready before it counts.
    ``primary``: its turn is the last. ``keeps``: the names of its helper pods that are of use. ``helped``: one of them
    is waited for; after ``again`` seconds time alone may end that. ``failed``: why the update cannot go on. ``note``:
    see Roll. ``takes``: the step by which the update takes the pod down, whatever is to be done before it. ``ends``:
    another run has taken it down already, and its kubelet is still to follow.
    """

    ordinal: int
    ready: bool
    act: Act | None = None
    begun: bool = False
    turn: bool = False
    wait: str = ""
    arrived: bool = False
    rest: float = 0.0
    primary: bool = False
    keeps: tuple[str, ...] = ()
    helped: bool = False
    again: float = 0.0
    failed: str = ""
    note: str = ""
    takes: str = ""
    ends: bool = False

    @property
    def busy(self) -> bool:
        return self.going or self.helped or self.ends or not self.ready or self.rest > 0

    @property
    def going(self) -> bool:
        return self.begun and not self.turn

    @property
    def done(self) -> bool:
        return self.act is None and not self.wait


def step_of(app: str, ordinal: int, pod: Object | None, target: Target, rules: UpdateRules) -> NextStep:
    name = f"{app}-{ordinal}"
    if pod is None:
        if target.comes_back or rules.keeps(ordinal):
            return NextStep(ordinal, False, begun=True, wait=f"pod {name} to be made anew on its node")
        return NextStep(ordinal, False, Act(CREATE, ordinal), begun=True)
    if going(pod):
        return NextStep(ordinal, False, begun=True, wait=f"pod {name} to stop")
    if rules.keeps(ordinal):
        return NextStep(ordinal, ready(pod))
    to = updating(pod)
    if target.mark.of(pod) == target.revision and to is None:
        told = unscheduled(pod)
        waits = "" if ready(pod) else f"pod {name} to be Ready with the new template{f' ({told})' if told else ''}"
        return NextStep(ordinal, ready(pod), begun=bool(waits), wait=waits, arrived=True)
    change, strategy = change_of(pod, target), rules.strategy_of(ordinal)
    if strategy == RESCHEDULE and not change.same:
        return NextStep(ordinal, ready(pod))  # its berth goes, and the pod with it: app.leaving
    if ended(pod):
        return NextStep(ordinal, False, Act(DELETE, ordinal))
    if strategy == SAME_NODE or not change.in_place:
        if strategy == IN_PLACE_ONLY:
            raise StateError(only_in_place(name, change.forced))
        return NextStep(ordinal, ready(pod), Act(DELETE, ordinal))
    return _in_place(ordinal, pod, to, target, rules)


def _in_place(ordinal: int, pod: Object, to: Mapping[str, Any] | None, target: Target, rules: UpdateRules) -> NextStep:
    name, begun = pod["metadata"]["name"], to is not None and to.get("to") == target.revision
    resizing = RESIZING in (to or {})
    refused = _condition(pod, "PodResizePending", "Infeasible")
    body = resize_body(pod, target.template)
    if body is not None and to is None:
        return NextStep(ordinal, ready(pod), Act(BEGIN, ordinal, begin_body(target)))
    if body is not None:
        return NextStep(ordinal, ready(pod), Act(RESIZE, ordinal, body), begun, turn=resizing)
    if refused is not None:
        if rules.strategy_of(ordinal) == IN_PLACE_ONLY:
            raise StateError(only_in_place(name, (f"spec.containers resources (the node says: {refused})",)))
        return NextStep(ordinal, ready(pod), Act(DELETE, ordinal), begun, turn=resizing)
    if not begun or resizing:
        return NextStep(ordinal, ready(pod), Act(PATCH, ordinal, patch_body(pod, target)), begun, turn=resizing)
    waits = next(_unfinished(pod, rules), "")
    if waits:
        return NextStep(ordinal, ready(pod), begun=True, wait=f"pod {name} {waits}")
    return NextStep(ordinal, True, Act(MARK, ordinal, mark_body(target)), begun=True)


def only_in_place(name: str, forced: Sequence[str]) -> str:
    """Why a pod is not updated under the strategy that forbids to make it anew."""
    return (
        f"pod {name} cannot be updated in place: {', '.join(forced)}, and update_strategy is {IN_PLACE_ONLY}; use "
        f"{IN_PLACE_IF_POSSIBLE} or {SAME_NODE} to have it made anew on its node, or leave that field as it is"
    )


def _unfinished(pod: Object, rules: UpdateRules) -> Iterator[str]:
    """What the kubelet has not done yet of what the pod asks for, in the order in which a person looks."""
    meta, status = pod["metadata"], pod.get("status") or {}
    seen = status.get("observedGeneration")
    if seen is not None and int(seen) < int(meta.get("generation") or 0):
        yield "to be seen by its kubelet"
    for kind in in_service.RESIZES:
        told = _condition(pod, kind)
        if told is not None:
            yield f"to be resized: {told}{resize_wait.words(pod, rules.deadline)}"
    for name in not_begun(pod):
        yield f"to start container {name} with its new image"
    if not ready(pod):
        yield f"to be Ready{_why(status)}"


def _why(status: Mapping[str, Any]) -> str:
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason"):
            told = f"{waiting['reason']} {waiting.get('message', '')}".rstrip()
            return f" (container {container['name']}: {told})"
    return ""


def _condition(pod: Object, kind: str, reason: str | None = None) -> str | None:
    """What a condition of the pod that is True says; None where it is not there."""
    for one in (pod.get("status") or {}).get("conditions") or ():
        if one["type"] == kind and one["status"] == "True" and reason in (None, one.get("reason")):
            return ": ".join(str(one[key]) for key in ("reason", "message") if one.get(key)) or kind
    return None


def under_way(pod: Object, target: Target) -> bool:
    """Whether an update in place to this very template has taken something from the pod."""
    to = updating(pod) or {}
    return to.get("to") == target.revision and RESIZING not in to


def ends_soon(pod: Object | None, target: Target) -> bool:
    """Whether a run with another template has written new images into the pod, whose containers are those of before: it
    says that it is Ready, and is about to go down."""
    to = updating(pod) if pod is not None else None
    return pod is not None and to is not None and to.get("to") != target.revision and bool(not_begun(pod))


def first_touch(act: Act, pod: Object, target: Target) -> bool:
    """Whether with this write the update begins to change the pod."""
    if act.do not in (BEGIN, SHUT, RESIZE, PATCH, DELETE) or (updating(pod) or {}).get("to") == target.revision:
        return False
    return act.do != PATCH or updating(pod) is not None or not change_of(pod, target).same


def takes_down(act: Act | None, pod: Object | None, target: Target) -> str:
    """The act, where the update ends the pod or a container of it by this one, or by what follows from it."""
    if act is None or pod is None:
        return ""
    ends = act.do in (DELETE, SHUT) or (act.do in (BEGIN, RESIZE, PATCH) and ends_in_place(pod, target))
    return act.do if ends else ""


def leaves_services(pod: Object, target: Target) -> bool:
    """Whether the pod is taken out of its Services before it is updated in place."""
    return in_service.gated(pod) and (ends_for(pod, target) or _ends_by_resize(pod, target))


def ends_in_place(pod: Object, target: Target) -> bool:
    """Whether the kubelet may end containers of the pod when that is updated in place."""
    return may_end_for(pod, target) or _ends_by_resize(pod, target)


def _ends_by_resize(pod: Object, target: Target) -> bool:
    body = resize_body(pod, target.template)
    return body is not None and in_service.ends_by_resize(pod, body)


def ends_containers(act: Act, pod: Object, target: Target) -> bool:
    """Whether the kubelet ends containers of the pod, which stays, for this write."""
    if act.do == RESIZE:
        return in_service.ends_by_resize(pod, act.body)
    return act.do == PATCH and ends_for(pod, target)


def rest(pod: Object, seconds: int, now: datetime) -> float:
    """For how long the pod, which is Ready, has to be Ready still. No longer than in all, whatever a clock says."""
    if not seconds:
        return 0.0
    for one in pod["status"]["conditions"]:
        since = age(str(one.get("lastTransitionTime")), now) if one["type"] == "Ready" else None
        if since is not None:
            return min(float(seconds), max(0.0, seconds - since))
    return 0.0


def ready_words(rules: UpdateRules) -> str:
    return f"Ready for {rules.min_ready} s" if rules.min_ready else "Ready"
