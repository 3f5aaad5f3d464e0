# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands in front of a replica's step, and behind its last one: Services are left, commands are run, images are
pulled, its room is held. Pure.

Called by app.update, in that order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from . import in_service, pre_pull, update_hold
from .helper_pods import going, replica_of
from .hook_rules import AFTER, BEFORE, HookState
from .pod_revision import Target
from .update_rules import UpdateRules
from .update_step import (
    DELETE,
    DROP,
    HOLD,
    MARK,
    NOMINATE,
    OPEN,
    PULL,
    SHUT,
    Act,
    NextStep,
    ends_containers,
    first_touch,
    ready_words,
    rest,
)

Object = Mapping[str, Any]


def gated(step: NextStep, pod: Object | None, target: Target, now: datetime) -> NextStep:
    """The step with what the pod's readiness gate asks for."""
    if pod is None or going(pod) or not in_service.gated(pod):
        return step
    act = step.act
    if act is not None and ends_containers(act, pod, target):
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


def judged(step: NextStep, pod: Object | None, rules: UpdateRules, known: HookState, now: datetime) -> NextStep:
    """The step with what the rules say of its pod beside the template."""
    if pod is None:
        return step
    left = rest(pod, rules.min_ready, now) if step.ready else 0.0
    wait = step.wait
    if left and step.arrived:
        wait = wait or f"pod {pod['metadata']['name']} to be {ready_words(rules)}"
    primary = rules.primary is not None and rules.primary.matches(pod["metadata"].get("labels") or {})
    return replace(step, rest=left, wait=wait, primary=primary or pod["metadata"]["uid"] in known.primaries)


def hooked(step: NextStep, pod: Object | None, target: Target, known: HookState) -> NextStep:
    """The step with the hook that comes first. A replica counts as begun until its last hook has been run."""
    if pod is None:
        return step
    if step.arrived and step.ready and not step.rest and known.hooks.after and step.ordinal in known.owed:
        return replace(step, act=Act(AFTER, step.ordinal), begun=True, wait="")
    act = step.act
    if act is None or not (known.hooks.before and step.ready) or not first_touch(act, pod, target):
        return step
    return step if pod["metadata"]["uid"] in known.ran else replace(step, act=Act(BEFORE, step.ordinal))


def pull_pod(app: str, step: NextStep, pod: Object | None, target: Target, rules: UpdateRules) -> dict[str, Any] | None:
    """What pulls the new images of a replica that is as before; None where nothing is to be pulled first."""
    act = step.act
    if not rules.pre_pull or rules.paused or pod is None or act is None:
        return None
    if not first_touch(act, pod, target):
        return None
    return pre_pull.pull_pod(app, step.ordinal, pod, target.template, act.do == DELETE)


def cannot_be_pulled(want: dict[str, Any], live: Mapping[str, Object], now: datetime) -> bool:
    """Whether that is known already. It holds a replica back, too, that is not Ready: of such a one nothing is taken
    away, and its update may be what mends it, but not with an image that its node cannot pull."""
    pod = live.get(str(want["metadata"]["name"]))
    return pod is not None and pre_pull.troubled(pod, now)


def pulled_first(step: NextStep, want: dict[str, Any], live: Mapping[str, Object], now: datetime) -> NextStep:
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


def with_room(
    app: str,
    step: NextStep,
    pod: Object | None,
    target: Target,
    rules: UpdateRules,
    holds: update_hold.Holds,
    now: datetime,
) -> NextStep:
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
