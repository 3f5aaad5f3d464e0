# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the pods of an app come from one template to the next: one pure step after the other, from what is there.

A replica goes through these steps, each found again from its pod alone, so that a run which died is continued:
begin, before a resize alone -> resize -> patch (images, labels; the pod's annotation `UPDATING` says what is waited
for) -> Ready -> mark (the pod bears the new revision), or delete -> the pod comes back to its berth -> Ready. Highest
ordinal first, a primary last where one is named, and never more replicas not Ready than ``max_unavailable`` allows.
A pod with berth's readiness gate (app.in_service) leaves its Services before its containers are ended (shut), and comes
back with the new ones (open). With hooks a command in the pod (before) stands in front of its first step, and one
(after) behind its last. In front of all of that its node pulls the new images (app.pre_pull), while the pod is Ready as
before. Where it is asked for, the replica's room is held from before the pod is deleted until the new one has been
nominated for it (app.update_hold). Nothing of this takes a pod down while a PodDisruptionBudget forbids it
(app.update_budgets).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from ..errors import StateError
from ..model.times import age
from . import in_service, pre_pull, resize_wait, update_failure, update_hold
from .budgets import Budget
from .helper_pods import going, left_over, ordinal_of, replica_of
from .hook_rules import AFTER, BEFORE, NO_HOOKS, HookState
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
from .update_budgets import Allowance
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


class Roll(NamedTuple):
    """What can be done now, and what is waited for, a line each. Both empty: the update has ended.

    ``again``: seconds after which time alone makes it another answer. ``notes``: what a person is to be warned of.
    ``asks``: not to be carried out as it is; budgets have a say, so they are to be read, and ``nodes``, to which pods
    are to come back, and the roll made anew.
    """

    acts: tuple[Act, ...]
    waits: tuple[str, ...]
    again: float | None = None
    notes: tuple[str, ...] = ()
    asks: bool = False
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Next:
    """``act``: what is next of one replica. ``begun``: its pod is on its way already. ``turn``: but nothing has been
    taken from it yet, so what is next waits for the others.

    ``arrived``: its pod has the new template. ``rest``: for how many seconds more it has to be Ready before it counts.
    ``primary``: its turn is the last. ``keeps``: the names of its helper pods that are of use. ``helped``: one of them
    is waited for; after ``again`` seconds time alone may end that. ``failed``: why the update cannot go on. ``note``:
    see Roll. ``takes``: the step by which the update takes the pod down, whatever is to be done before it.
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

    @property
    def busy(self) -> bool:
        return self.going or self.helped or not self.ready or self.rest > 0

    @property
    def going(self) -> bool:
        return self.begun and not self.turn

    @property
    def done(self) -> bool:
        return self.act is None and not self.wait


def roll(
    app: str,
    ordinals: Sequence[int],
    pods: Mapping[str, Object],
    target: Target,
    rules: UpdateRules,
    now: datetime,
    hooks: HookState = NO_HOOKS,
    pulls: pre_pull.Pulls = pre_pull.NO_PULLS,
    holds: update_hold.Holds = update_hold.NO_HOLDS,
    budgets: Sequence[Budget] | None = (),
    closed: Mapping[str, str] | None = None,
) -> Roll:
    """``ordinals``: all of the app; ``pods``: by name; ``now``: for ``min_ready`` and helper pods; ``hooks``: as far as
    they are known; ``pulls`` and ``holds``: as they are; ``budgets``: those of the namespace, None where nobody has
    read them yet; ``closed``: node -> why it takes no pod back (way_home), of the nodes that were asked for.

    Raises StateError where the rules forbid what would be next, where a node cannot pull what it needs for that, and
    where no waiting has a budget allow it.
    """
    steps = []
    for ordinal in sorted(ordinals, reverse=True):
        pod = pods.get(f"{app}-{ordinal}")
        step = _judged(_gated(_next(app, ordinal, pod, target, rules), pod, target, now), pod, rules, hooks, now)
        step = replace(step, takes=_takes_down(step.act, pod, target))
        want = _pull_pod(app, step, pod, target, rules) if ordinal not in pulls.without else None
        if want is not None and not step.ready and not _cannot_be_pulled(want, pulls.pods, now):
            want = None
        step = _hooked(step, pod, target, hooks)
        step = step if want is None else _pulled_first(step, want, pulls.pods, now)
        steps.append(_with_room(app, step, pod, target, rules, holds, now))
    steps.sort(key=lambda step: step.primary)
    left = left_over({**pulls.pods, **holds.pods}, [name for step in steps for name in step.keeps])
    if left:
        return Roll(tuple(Act(DROP, ordinal_of(one), one) for one in left), ())
    found = _failed(app, steps, pods, target, rules, now)
    if isinstance(found, Act):
        return Roll((found,), ())
    allowance = _allowance(app, steps, pods, budgets if rules.budgets or budgets is None else (), closed)
    acts, waits = _due(app, steps, pods, rules, allowance)
    if allowance.asks:
        return Roll((), (), asks=True, nodes=tuple(dict.fromkeys(allowance.nodes)))
    rests = [each for each in (found, *(one for step in steps for one in (step.rest, step.again))) if each > 0]
    rests += [allowance.again(now)] if allowance.waits else []
    notes = tuple(step.note for step in steps if step.note)
    return Roll(tuple(acts), tuple(waits), min(rests) if rests and waits else None, notes)


def _due(
    app: str, steps: Sequence[_Next], pods: Mapping[str, Object], rules: UpdateRules, allowance: Allowance
) -> tuple[list[Act], list[str]]:
    """What is done now, and what is waited for. Raises StateError where a budget is all that is waited for, in vain."""
    busy = {step.ordinal for step in steps if step.busy}
    acts, held = [], False
    waits = [step.wait for step in steps if step.wait]
    for step in steps:
        if step.act is None or (rules.paused and not step.begun):
            continue
        if step.going or not step.ready or (_in_turn(step, steps) and _spared(step, steps, busy, rules)):
            busy.add(step.ordinal)
            pod, deletes = pods.get(f"{app}-{step.ordinal}"), step.takes == DELETE
            if pod is None or not _asks(step, pod, rules) or allowance.may(pod, deletes):
                acts.append(step.act)
        else:
            held = True
    if allowance.never and not acts and not waits:
        raise StateError(allowance.never, changed=True)
    waits += allowance.waits
    if held and not acts and not waits:
        others = ", ".join(f"{app}-{ordinal}" for ordinal in sorted(busy))
        told = f"max_unavailable is {rules.unavailable}{f', quorum is {rules.quorum}' if rules.quorum else ''}"
        waits.append(f"{f'pod {others}' if busy else 'other replicas'} to be {_ready_words(rules)} ({told})")
    return acts, waits


def _allowance(
    app: str,
    steps: Sequence[_Next],
    pods: Mapping[str, Object],
    budgets: Sequence[Budget] | None,
    closed: Mapping[str, str] | None,
) -> Allowance:
    mine = [pods[name] for name in (f"{app}-{step.ordinal}" for step in steps) if name in pods]
    away = (f"{app}-{step.ordinal}" for step in steps if step.going)
    return Allowance(budgets, mine, away, len(mine) == len(steps), closed)


def _asks(step: _Next, pod: Object, rules: UpdateRules) -> bool:
    """Whether budgets and nodes have a say: the pod is going to be taken down. What is begun is brought to its end."""
    if not step.takes or step.going or step.act is None or step.act.do in (PULL, DROP, NOMINATE):
        return False
    return rules.budgets or bool(step.takes == DELETE and pod["spec"].get("nodeName"))


def _takes_down(act: Act | None, pod: Object | None, target: Target) -> str:
    """The act, where the update ends the pod or a container of it by this one, or by what follows from it."""
    if act is None or pod is None:
        return ""
    ends = act.do in (DELETE, SHUT) or (act.do in (BEGIN, RESIZE, PATCH) and ends_in_place(pod, target))
    return act.do if ends else ""


def _failed(
    app: str, steps: Sequence[_Next], pods: Mapping[str, Object], target: Target, rules: UpdateRules, now: datetime
) -> Act | float:
    """Where a failure pauses the update, the act that says so; else after how many seconds time alone may be one.

    Raises StateError for the first replica that cannot be updated, where nothing pauses.
    """
    for step in steps:
        if step.failed and rules.deadline is not None:
            return Act(PAUSE, step.ordinal, {"why": step.failed})
        if step.failed:
            raise StateError(step.failed, changed=True)
    if rules.deadline is None or rules.paused:
        return 0.0
    rests = []
    for step in steps:
        told = update_failure.verdict(pods.get(f"{app}-{step.ordinal}"), target, rules.deadline, now)
        if told.why:
            return Act(PAUSE, step.ordinal, {"why": told.why})
        rests.append(told.again)
    return min((rest for rest in rests if rest > 0), default=0.0)


def _gated(step: _Next, pod: Object | None, target: Target, now: datetime) -> _Next:
    """The step with what the pod's readiness gate asks for."""
    if pod is None or going(pod) or not in_service.gated(pod):
        return step
    act = step.act
    if act is not None and _ends_containers(act, pod, target):
        if in_service.leaves_first(pod):
            return replace(step, act=Act(SHUT, step.ordinal, in_service.gate_body(pod, False, now)))
        if in_service.still_serves(pod):
            return replace(
                step, act=None, begun=True, turn=False, wait=f"pod {pod['metadata']['name']} to leave its Services"
            )
        return replace(step, begun=step.begun or in_service.is_shut(pod))
    if (act is None or act.do == MARK) and in_service.may_return(pod):
        return replace(step, act=Act(OPEN, step.ordinal, in_service.gate_body(pod, True, now)), begun=True, wait="")
    return step


def leaves_services(pod: Object, target: Target) -> bool:
    """Whether the pod is taken out of its Services before it is updated in place."""
    return in_service.gated(pod) and (ends_for(pod, target) or _ends_by_resize(pod, target))


def ends_in_place(pod: Object, target: Target) -> bool:
    """Whether the kubelet may end containers of the pod when that is updated in place."""
    return may_end_for(pod, target) or _ends_by_resize(pod, target)


def _ends_by_resize(pod: Object, target: Target) -> bool:
    body = resize_body(pod, target.template)
    return body is not None and in_service.ends_by_resize(pod, body)


def _ends_containers(act: Act, pod: Object, target: Target) -> bool:
    """Whether the kubelet ends containers of the pod, which stays, for this write."""
    if act.do == RESIZE:
        return in_service.ends_by_resize(pod, act.body)
    return act.do == PATCH and ends_for(pod, target)


def _judged(step: _Next, pod: Object | None, rules: UpdateRules, known: HookState, now: datetime) -> _Next:
    """The step with what the rules say of its pod beside the template."""
    if pod is None:
        return step
    left = rest(pod, rules.min_ready, now) if step.ready else 0.0
    wait = step.wait
    if left and step.arrived:
        wait = wait or f"pod {pod['metadata']['name']} to be {_ready_words(rules)}"
    primary = rules.primary is not None and rules.primary.matches(pod["metadata"].get("labels") or {})
    return replace(step, rest=left, wait=wait, primary=primary or pod["metadata"]["uid"] in known.primaries)


def _hooked(step: _Next, pod: Object | None, target: Target, known: HookState) -> _Next:
    """The step with the hook that comes first. A replica counts as begun until its last hook has been run."""
    if pod is None:
        return step
    if step.arrived and step.ready and not step.rest and known.hooks.after and step.ordinal in known.owed:
        return replace(step, act=Act(AFTER, step.ordinal), begun=True, wait="")
    act = step.act
    if act is None or not (known.hooks.before and step.ready) or not first_touch(act, pod, target):
        return step
    return step if pod["metadata"]["uid"] in known.ran else replace(step, act=Act(BEFORE, step.ordinal))


def _pull_pod(app: str, step: _Next, pod: Object | None, target: Target, rules: UpdateRules) -> dict[str, Any] | None:
    """What pulls the new images of a replica that is as before; None where nothing is to be pulled first."""
    act = step.act
    if not rules.pre_pull or rules.paused or pod is None or act is None:
        return None
    if not first_touch(act, pod, target):
        return None
    return pre_pull.pull_pod(app, step.ordinal, pod, target.template, act.do == DELETE)


def _cannot_be_pulled(want: dict[str, Any], live: Mapping[str, Object], now: datetime) -> bool:
    """Whether that is known already. It holds a replica back, too, that is not Ready: of such a one nothing is taken
    away, and its update may be what mends it, but not with an image that its node cannot pull."""
    pod = live.get(str(want["metadata"]["name"]))
    return pod is not None and pre_pull.troubled(pod, now)


def _pulled_first(step: _Next, want: dict[str, Any], live: Mapping[str, Object], now: datetime) -> _Next:
    """The step, once its node has the images; before that, what is done or waited for to that end."""
    name, node = str(want["metadata"]["name"]), want["spec"]["nodeName"]
    step, pod = replace(step, keeps=(name,)), live.get(name)
    images = ", ".join(one["image"] for one in want["spec"]["containers"])
    waits = f"node {node} to pull {images} (pod {name}"
    if pod is None:
        return replace(step, act=Act(PULL, step.ordinal, want))
    if going(pod):
        return replace(step, act=None, wait=f"{waits} is still to go)", helped=True)
    found = pre_pull.verdict(pod, now)
    if found.state == pre_pull.EXPIRED:
        return replace(step, act=Act(DROP, step.ordinal, pod))
    if found.state == pre_pull.FAILED:
        return replace(step, act=None, failed=pre_pull.cannot_pull(pod, found.words))
    if found.state == pre_pull.PULLING:
        told = f"{waits}: {found.words})" if found.words else f"{waits})"
        return replace(step, act=None, wait=told, helped=True, again=found.again)
    if found.state == pre_pull.REFUSED:
        return replace(step, note=pre_pull.goes_on_without(replica_of(name), found.words))
    return step


def _with_room(
    app: str,
    step: _Next,
    pod: Object | None,
    target: Target,
    rules: UpdateRules,
    holds: update_hold.Holds,
    now: datetime,
) -> _Next:
    """The step, once the replica's room is held; before that, what is done or waited for to that end. Of a replica
    whose pod has no node yet, what brings it into the room that is held, whoever has held it."""
    ordinal, deletes = step.ordinal, step.act is not None and step.act.do == DELETE
    if pod is None or going(pod) or not pod["spec"].get("nodeName"):
        room = update_hold.after(pod, ordinal, deletes, holds)
        step = replace(step, begun=step.begun or bool(room.keeps), wait=step.wait or room.wait)
    elif deletes and rules.hold and (step.begun or not rules.paused):
        room = update_hold.before(app, ordinal, pod, target.template, holds, now)
        if room.wait:
            step = replace(step, act=None, wait=room.wait, helped=True, again=room.again)
    else:
        return step
    step = replace(step, keeps=(*step.keeps, *room.keeps), note=step.note or room.note)
    if room.make is not None:
        return replace(step, act=Act(HOLD, ordinal, room.make))
    if room.nominate is not None:
        return replace(step, act=Act(NOMINATE, ordinal, nomination=room.nominate))
    return step


def under_way(pod: Object, target: Target) -> bool:
    """Whether an update in place to this very template has taken something from the pod."""
    to = updating(pod) or {}
    return to.get("to") == target.revision and RESIZING not in to


def first_touch(act: Act, pod: Object, target: Target) -> bool:
    """Whether with this write the update begins to change the pod."""
    if act.do not in (BEGIN, SHUT, RESIZE, PATCH, DELETE) or (updating(pod) or {}).get("to") == target.revision:
        return False
    return act.do != PATCH or updating(pod) is not None or not change_of(pod, target).same


def begins(acts: Sequence[Act], pods: Mapping[str, Object], app: str, target: Target) -> bool:
    """Whether one of them is the first that is done with a replica: whose turn it is has to be known by then."""
    touched = ((act, pods.get(f"{app}-{act.ordinal}")) for act in acts)
    return any(
        act.do in (BEFORE, PULL, HOLD) or (pod is not None and first_touch(act, pod, target)) for act, pod in touched
    )


def rest(pod: Object, seconds: int, now: datetime) -> float:
    """For how long the pod, which is Ready, has to be Ready still. No longer than in all, whatever a clock says."""
    if not seconds:
        return 0.0
    for one in pod["status"]["conditions"]:
        since = age(str(one.get("lastTransitionTime")), now) if one["type"] == "Ready" else None
        if since is not None:
            return min(float(seconds), max(0.0, seconds - since))
    return 0.0


def _ready_words(rules: UpdateRules) -> str:
    return f"Ready for {rules.min_ready} s" if rules.min_ready else "Ready"


def _in_turn(step: _Next, steps: Sequence[_Next]) -> bool:
    """A primary comes when all others have their new template: what it gives up to goes down no second time."""
    return not step.primary or all(other.done for other in steps if not other.primary)


def _spared(step: _Next, steps: Sequence[_Next], busy: set[int], rules: UpdateRules) -> bool:
    """Whether the replica, which is Ready, may be taken down beside those that are down. Who is not among the steps,
    for its disk is being exchanged, counts for no quorum."""
    up = sum(other.ordinal not in busy for other in steps if other.ordinal != step.ordinal)
    return len(busy - {step.ordinal}) < rules.unavailable and up >= rules.quorum


def _next(app: str, ordinal: int, pod: Object | None, target: Target, rules: UpdateRules) -> _Next:
    name = f"{app}-{ordinal}"
    if pod is None:
        if target.comes_back or rules.keeps(ordinal):
            return _Next(ordinal, False, begun=True, wait=f"pod {name} to be made anew on its node")
        return _Next(ordinal, False, Act(CREATE, ordinal), begun=True)
    if going(pod):
        return _Next(ordinal, False, begun=True, wait=f"pod {name} to stop")
    if rules.keeps(ordinal):
        return _Next(ordinal, ready(pod))
    to = updating(pod)
    if target.mark.of(pod) == target.revision and to is None:
        told = unscheduled(pod)
        waits = "" if ready(pod) else f"pod {name} to be Ready with the new template{f' ({told})' if told else ''}"
        return _Next(ordinal, ready(pod), begun=bool(waits), wait=waits, arrived=True)
    change, strategy = change_of(pod, target), rules.strategy_of(ordinal)
    if strategy == RESCHEDULE and not change.same:
        return _Next(ordinal, ready(pod))  # its berth goes, and the pod with it: app.leaving
    if ended(pod):
        return _Next(ordinal, False, Act(DELETE, ordinal))
    if strategy == SAME_NODE or not change.in_place:
        if strategy == IN_PLACE_ONLY:
            raise StateError(only_in_place(name, change.forced))
        return _Next(ordinal, ready(pod), Act(DELETE, ordinal))
    return _in_place(ordinal, pod, to, target, rules)


def _in_place(ordinal: int, pod: Object, to: Mapping[str, Any] | None, target: Target, rules: UpdateRules) -> _Next:
    name, begun = pod["metadata"]["name"], to is not None and to.get("to") == target.revision
    resizing = RESIZING in (to or {})
    refused = _condition(pod, "PodResizePending", "Infeasible")
    body = resize_body(pod, target.template)
    if body is not None and to is None:
        return _Next(ordinal, ready(pod), Act(BEGIN, ordinal, begin_body(target)))
    if body is not None:
        return _Next(ordinal, ready(pod), Act(RESIZE, ordinal, body), begun, turn=resizing)
    if refused is not None:
        if rules.strategy_of(ordinal) == IN_PLACE_ONLY:
            raise StateError(only_in_place(name, (f"spec.containers resources (the node says: {refused})",)))
        return _Next(ordinal, ready(pod), Act(DELETE, ordinal), begun, turn=resizing)
    if not begun or resizing:
        return _Next(ordinal, ready(pod), Act(PATCH, ordinal, patch_body(pod, target)), begun, turn=resizing)
    waits = next(_unfinished(pod, rules), "")
    if waits:
        return _Next(ordinal, ready(pod), begun=True, wait=f"pod {name} {waits}")
    return _Next(ordinal, True, Act(MARK, ordinal, mark_body(target)), begun=True)


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
