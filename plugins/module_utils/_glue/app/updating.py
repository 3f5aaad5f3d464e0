# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings a changed template to the pods, in place or one new pod after the other. Decides nothing: app.update does.

Every write is bound to the pod that was seen. What is refused because somebody was faster is looked at again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any, Callable

from ...berth_core.app import helper_pods, pre_pull, update, update_failure, update_hold, update_step
from ...berth_core.app.downtime import Downtime
from ...berth_core.app.hook_rules import AFTER, BEFORE, NO_HOOKS
from ...berth_core.app.not_ready import IMAGE_REASONS, why_not_ready
from ...berth_core.app.observed import ready
from ...berth_core.app.pod_change import PodChange
from ...berth_core.app.pod_revision import Target, change_of, updating
from ...berth_core.app.update_rules import IN_PLACE_ONLY, RESCHEDULE, SAME_NODE, UpdateRules
from ...berth_core.errors import ConflictError, InvalidError, NotFoundError, StateError, TimeoutExpired
from ...berth_core.model.resources import POD
from . import overtaking, pausing, wait
from .disrupting import Disruptions
from .hand import Hand
from .helping import Helper, priorities
from .hooks import HookRunner
from .primaries import Primaries
from .targets import UpdateTarget

Object = dict[str, Any]


class Updater:
    """``create``: makes the bare pod of an ordinal. ``tried``: the StatefulSet as a dry run returned it, if one was."""

    def __init__(self, hand: Hand, rules: UpdateRules, create: Callable[[int], None], tried: Object | None) -> None:
        self._hand, self._rules, self._create = hand, rules, create
        self._target = UpdateTarget(hand, tried)
        self.hooks = HookRunner(hand, rules.hooks) if rules.hooks is not None else None
        self._primaries = Primaries(hand, rules.primary_command) if rules.primary_command else None
        self._values = priorities(hand)
        self._helper = Helper(hand, self._values)
        self._disruptions = Disruptions(hand, rules.budgets)
        self._again: float | None = None
        self._downtime = Downtime()

    def changes(self) -> dict[int, PodChange]:
        """What the update is going to do with each pod of the plan. Raises StateError where the rules forbid it, and
        where a budget does that no waiting changes."""
        found = self._changes(self._hand.plan.update, refuse=True)
        for ordinal, change in found.items():
            if self._rules.strategy_of(ordinal) == IN_PLACE_ONLY and not change.in_place:
                raise StateError(update_step.only_in_place(self._hand.app.berth_name(ordinal), change.forced))
        return found

    def left(self) -> dict[int, PodChange]:
        """What would be done with each pod of another template that the rules leave as it is."""
        return self._changes(self._hand.plan.outdated)

    def hooks_planned(self, changes: Mapping[int, PodChange]) -> list[dict[str, Any]]:
        """The hooks that go with them. Raises ForbiddenError or InputError where there are some and none can be run."""
        planned = self.hooks.planned(changes) if self.hooks is not None else []
        if planned and self.hooks is not None:
            self.hooks.check()
        if changes and self._primaries is not None:
            self._primaries.check()
        return planned

    def _changes(self, ordinals: Iterable[int], refuse: bool = False) -> dict[int, PodChange]:
        hand, found = self._hand, {}
        for ordinal in ordinals:
            pod = hand.seen.pod(ordinal)
            if pod is None:
                continue  # updated, and on its way back: its hook is what is left
            change = change_of(pod, self._target.get())
            if change.same and updating(pod) is None:
                continue  # the same template under another revision of the StatefulSet's own fields
            strategy = self._rules.strategy_of(ordinal)
            if change.in_place and (strategy == SAME_NODE or (strategy == RESCHEDULE and not change.same)):
                change = PodChange(forced=(*change.fields, f"update_strategy: {strategy}"))
            pulled, held = self._pulled(pod, change, strategy), self._held(pod, change, strategy)
            gated = change.in_place and update_step.leaves_services(pod, self._target.get())
            forbidden = self._forbidden(pod, change, strategy, refuse)
            room = self._room(pod, change, strategy, held)
            found[ordinal] = replace(change, pulled=pulled, held=held, room=room, gated=gated, forbidden=forbidden)
        return found

    def _forbidden(self, pod: Mapping[str, Any], change: PodChange, strategy: str, refuse: bool) -> tuple[str, ...]:
        """The budgets that do not allow it now. What is on its way has been allowed."""
        if strategy == RESCHEDULE or update_step.under_way(pod, self._target.get()):
            return ()
        found = self._disruptions.verdict(pod, change, update_step.ends_in_place(pod, self._target.get()))
        if refuse and found.never:
            raise StateError(f"{found.never}. Nothing was changed", changed=False)
        return found.names

    def _pulled(self, pod: Mapping[str, Any], change: PodChange, strategy: str) -> tuple[str, ...]:
        """The images that its node pulls before this pod is touched."""
        target, rules = self._target.get(), self._rules
        touched = (updating(pod) or {}).get("to") == target.revision
        if not rules.pre_pull or strategy == RESCHEDULE or touched or not ready(pod):
            return ()
        return tuple(pre_pull.new_images(pod, target.template, not change.in_place))

    def _room(self, pod: Mapping[str, Any], change: PodChange, strategy: str, held: bool) -> str:
        """Who holds its room while there is no pod; empty where there is one, or it is nobody's room any more."""
        if change.in_place or strategy == RESCHEDULE or not pod["spec"].get("nodeName"):
            return ""
        return update_hold.holder(held, pod, self._target.get().template, change.forced)

    def _held(self, pod: Mapping[str, Any], change: PodChange, strategy: str) -> bool:
        """Whether its room is held while there is no pod."""
        if change.in_place or strategy == RESCHEDULE or not pod["spec"].get("nodeName"):
            return False
        return update_hold.holds_room(pod, self._target.get().template, self._values)

    def run(self) -> dict[int, dict[str, Any]]:
        """Go on until every pod has the new template and is Ready.

        Returns what of each replica's row is known afterwards: for how long it was not Ready, and its images were
        waited for, as far as this run has seen it; that its room was not held.
        """
        self._target.written()
        target = self._target.get()
        overtaking.check(self._hand)
        self._helper.begin()
        while True:
            pods = self._next_due(target)
            overtaking.check(self._hand)
            rolled = self._roll(pods, target)
            if self._primaries is not None and update.begins(rolled.acts, pods, self._hand.app.name, target):
                rolled = self._roll(pods, target) if self._primaries.ask(pods) else rolled
            self._disruptions.forget()
            self._helper.warn(rolled.notes)
            if not rolled.acts and rolled.waits:
                continue  # another one is the primary by now
            if not rolled.acts:
                return {ordinal: self._told(ordinal) for ordinal in self._hand.plan.update}
            for act in rolled.acts:
                if act.do == update_step.PAUSE:
                    raise pausing.pause(self._hand, act.ordinal, str(act.body["why"]))
                if self._helper.do(act):
                    continue
                pod = pods.get(self._hand.app.berth_name(act.ordinal))
                if act.do in (BEFORE, AFTER) and self.hooks is not None and pod is not None:
                    self.hooks.run(act.do, act.ordinal, pod)
                    break  # it took its time: what was seen may be over
                self._do(act, pod, target)

    def _told(self, ordinal: int) -> dict[str, Any]:
        pulled = self._helper.seconds
        found: dict[str, Any] = {"not_ready_seconds": round(self._downtime.seconds(ordinal), 1)}
        if self._helper.went_without(ordinal):
            found.update({"held": False, **self._without_hold(ordinal)})
        return {**found, "pull_seconds": pulled[ordinal]} if ordinal in pulled else found

    def _without_hold(self, ordinal: int) -> dict[str, str]:
        """Whose room it was instead, of the pod that was there when the run began."""
        pod = self._hand.seen.pod(ordinal)
        if pod is None:
            return {}
        change = change_of(pod, self._target.get())
        return {"room": update_hold.holder(False, pod, self._target.get().template, change.forced)}

    def _next_due(self, target: Target) -> wait.Objects:
        """The pods, once something is to be done, or all is done. What fails meanwhile may be another run's doing."""
        try:
            return wait.until(
                self._hand.client,
                POD,
                self._hand.app.namespace,
                helper_pods.selector(self._hand.app.name),
                self._hand.timeout + self._rules.min_ready,
                lambda seen: self._missing(seen, target),
                "the update",
                self._hand.context.progress,
                lambda: self._again,
            )
        except (StateError, TimeoutExpired) as exc:
            overtaking.check(self._hand)
            failed = self._failed(target) if isinstance(exc, TimeoutExpired) else None
            if failed is not None:
                raise pausing.pause(self._hand, *failed, exc.details.get("missing")) from exc
            raise

    def _failed(self, target: Target) -> tuple[int, str] | None:
        """Whose update has failed because this run has waited for it as long as it may (wait_timeout), and why."""
        hand, seconds = self._hand, self._hand.timeout + self._rules.min_ready
        if self._rules.deadline is None or self._rules.paused:
            return None
        for ordinal in reversed(range(hand.app.replicas)):
            pod = hand.client.find(POD, hand.app.berth_name(ordinal), hand.app.namespace)
            told = update_failure.verdict(pod, target, 0, datetime.now(timezone.utc)).why
            if told:
                words = told.partition(" was not Ready for ")
                return ordinal, f"{words[0]} was not Ready when a run had waited {seconds:g} s" if words[1] else told
        return None

    def _missing(self, seen: Mapping[str, Object], target: Target) -> tuple[str, ...]:
        """Nothing, as soon as there is something to do. Raises StateError for a pod that no waiting mends."""
        self._clock(seen)
        self._disruptions.forget()
        rolled = self._roll(seen, target)
        self._again = rolled.again
        if rolled.acts:
            return ()
        if rolled.waits:
            pausing.refuse_to_go_on(self._hand)
        for ordinal in self._hand.plan.update:
            pod = seen.get(self._hand.app.berth_name(ordinal))
            if pod is not None and not ready(pod) and not _of_the_image_before(pod):
                why_not_ready(pod)
        return rolled.waits

    def _roll(self, pods: Mapping[str, Object], target: Target) -> update.Roll:
        app, replacing = self._hand.app, self._hand.plan.replacing
        ordinals = [ordinal for ordinal in range(app.replicas) if ordinal not in replacing]
        known = self.hooks.state if self.hooks is not None else NO_HOOKS
        known = known._replace(primaries=self._primaries.uids) if self._primaries is not None else known
        now, pulls, holds = datetime.now(timezone.utc), self._helper.pulls(pods), self._helper.holds(pods)
        return self._disruptions.roll(
            lambda restrictions: update.roll(
                app.name, ordinals, pods, target, self._rules, now, known, pulls, holds, restrictions, replacing
            )
        )

    def _clock(self, seen: Mapping[str, Object]) -> None:
        pods = {ordinal: seen.get(self._hand.app.berth_name(ordinal)) for ordinal in self._hand.plan.update}
        self._downtime.look({ordinal: ready(pod) for ordinal, pod in pods.items()}, time.monotonic())

    def _do(self, act: update_step.Act, pod: Object | None, target: Target) -> None:
        hand, name = self._hand, self._hand.app.berth_name(act.ordinal)
        if act.do == update_step.CREATE or pod is None:
            self._create(act.ordinal)
            return
        if self.hooks is not None and update_step.first_touch(act, pod, target):
            self.hooks.touched(act.ordinal, pod)
        uid, version = pod["metadata"]["uid"], pod["metadata"]["resourceVersion"]
        seen = {"uid": uid, "resourceVersion": version}
        try:
            if act.do == update_step.DELETE:
                self._disruptions.end(pod)
                return
            body = {**act.body, "metadata": {**act.body.get("metadata", {}), **seen}}
            hand.client.patch(POD, name, hand.app.namespace, body, update_step.SUBRESOURCES.get(act.do))
        except (ConflictError, NotFoundError):
            return  # it is looked at again
        except InvalidError as exc:
            if act.do != update_step.RESIZE or self._rules.strategy_of(act.ordinal) == IN_PLACE_ONLY:
                raise
            hand.context.warn(f"pod {name} cannot be resized ({exc.message}): it is made anew on its node")
            self._disruptions.end(pod)


def _of_the_image_before(pod: Object) -> bool:
    """Whether the kubelet still tells what was against an image that the pod does not name any more."""
    images = {one["name"]: one["image"] for one in pod["spec"]["containers"]}
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in IMAGE_REASONS and images[container["name"]] not in waiting.get("message", ""):
            return True
    return False
