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

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from ..errors import StateError
from . import pre_pull, update_failure, update_hold
from .helper_pods import left_over, ordinal_of
from .hook_rules import BEFORE, NO_HOOKS, HookState
from .pod_revision import Target
from .update_budgets import UNRESTRICTED, Allowance, Restrictions
from .update_preparation import cannot_be_pulled, gated, hooked, judged, pull_pod, pulled_first, with_room
from .update_rules import UpdateRules
from .update_step import (
    DELETE,
    DROP,
    HOLD,
    NOMINATE,
    PAUSE,
    PULL,
    Act,
    NextStep,
    ends_soon,
    first_touch,
    ready_words,
    step_of,
    takes_down,
)

Object = Mapping[str, Any]


class Roll(NamedTuple):
    """What can be done now, and what is waited for, a line each. Both empty: the update has ended.

    ``again``: seconds after which time alone makes it another answer. ``notes``: what a person is to be warned of.
    ``asks``: not to be carried out as it is; restrictions have a say, so they are to be read, those of ``nodes`` too,
    to which pods are to come back, and the roll made anew.
    """

    acts: tuple[Act, ...]
    waits: tuple[str, ...]
    again: float | None = None
    notes: tuple[str, ...] = ()
    asks: bool = False
    nodes: tuple[str, ...] = ()


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
    restrictions: Restrictions | None = UNRESTRICTED,
    exchanged: Collection[int] = (),
) -> Roll:
    """``ordinals``: all of the app, but those ``exchanged``: whose disk is being exchanged, so that they are left alone
    and count as down. ``pods``: by name; ``now``: for ``min_ready`` and helper pods; ``hooks``: as far as they are
    known; ``pulls`` and ``holds``: as they are; ``restrictions``: None where nobody has read them yet.

    Raises StateError where the rules forbid what would be next, where a node cannot pull what it needs for that, and
    where no waiting has a budget allow it.
    """
    steps = []
    for ordinal in sorted(ordinals, reverse=True):
        pod = pods.get(f"{app}-{ordinal}")
        step = judged(gated(step_of(app, ordinal, pod, target, rules), pod, target, now), pod, rules, hooks, now)
        step = replace(step, takes=takes_down(step.act, pod, target), ends=ends_soon(pod, target))
        want = pull_pod(app, step, pod, target, rules) if ordinal not in pulls.without else None
        if want is not None and not step.ready and not cannot_be_pulled(want, pulls.pods, now):
            want = None
        step = hooked(step, pod, target, hooks)
        step = step if want is None else pulled_first(step, want, pulls.pods, now)
        steps.append(with_room(app, step, pod, target, rules, holds, now))
    steps.sort(key=lambda step: step.primary)
    left = left_over({**pulls.pods, **holds.pods}, [name for step in steps for name in step.keeps])
    if left:
        return Roll(tuple(Act(DROP, ordinal_of(one), one) for one in left), ())
    found = _failed(app, steps, pods, target, rules, now)
    if isinstance(found, Act):
        return Roll((found,), ())
    allowance = _allowance(app, steps, pods, rules, restrictions)
    acts, waits = _due(app, steps, pods, rules, allowance, exchanged)
    if allowance.asks:
        return Roll((), (), asks=True, nodes=tuple(dict.fromkeys(allowance.nodes)))
    rests = [each for each in (found, *(one for step in steps for one in (step.rest, step.again))) if each > 0]
    rests += [allowance.again(now)] if allowance.waits else []
    notes = tuple(step.note for step in steps if step.note)
    return Roll(tuple(acts), tuple(waits), min(rests) if rests and waits else None, notes)


def _due(
    app: str,
    steps: Sequence[NextStep],
    pods: Mapping[str, Object],
    rules: UpdateRules,
    allowance: Allowance,
    exchanged: Collection[int],
) -> tuple[list[Act], list[str]]:
    """What is done now, and what is waited for. Raises StateError where a budget is all that is waited for, in vain."""
    busy = {step.ordinal for step in steps if step.busy}.union(exchanged)
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
        waits.append(f"{f'pod {others}' if busy else 'other replicas'} to be {ready_words(rules)} ({told})")
    return acts, waits


def _allowance(
    app: str,
    steps: Sequence[NextStep],
    pods: Mapping[str, Object],
    rules: UpdateRules,
    restrictions: Restrictions | None,
) -> Allowance:
    if restrictions is not None and not rules.budgets:
        restrictions = restrictions._replace(budgets=())
    mine = [pods[name] for name in (f"{app}-{step.ordinal}" for step in steps) if name in pods]
    away = (f"{app}-{step.ordinal}" for step in steps if step.going)
    return Allowance(restrictions, mine, away, len(mine) == len(steps))


def _asks(step: NextStep, pod: Object, rules: UpdateRules) -> bool:
    """Whether budgets and nodes have a say: the pod is going to be taken down. What is begun is brought to its end."""
    if not step.takes or step.going or step.act is None or step.act.do in (PULL, DROP, NOMINATE):
        return False
    return rules.budgets or bool(step.takes == DELETE and pod["spec"].get("nodeName"))


def _failed(
    app: str, steps: Sequence[NextStep], pods: Mapping[str, Object], target: Target, rules: UpdateRules, now: datetime
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


def begins(acts: Sequence[Act], pods: Mapping[str, Object], app: str, target: Target) -> bool:
    """Whether one of them is the first that is done with a replica: whose turn it is has to be known by then."""
    touched = ((act, pods.get(f"{app}-{act.ordinal}")) for act in acts)
    return any(
        act.do in (BEFORE, PULL, HOLD) or (pod is not None and first_touch(act, pod, target)) for act, pod in touched
    )


def _in_turn(step: NextStep, steps: Sequence[NextStep]) -> bool:
    """A primary comes when all others have their new template: what it gives up to goes down no second time."""
    return not step.primary or all(other.done for other in steps if not other.primary)


def _spared(step: NextStep, steps: Sequence[NextStep], busy: set[int], rules: UpdateRules) -> bool:
    """Whether the replica, which is Ready, may be taken down beside those that are down (``busy``)."""
    up = sum(other.ordinal not in busy for other in steps if other.ordinal != step.ordinal)
    return len(busy - {step.ordinal}) < rules.unavailable and up >= rules.quorum
