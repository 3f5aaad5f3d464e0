"""Brings a changed template to the pods, one step at each look. Decides nothing: berth_core.app.update does.

Every write is bound to the pod that was seen. What is refused because somebody was faster is looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from berth_core.app import helper_pods, update, update_hold, update_step
from berth_core.app.budgets import Budget
from berth_core.app.helped import Helped
from berth_core.app.observed import ready
from berth_core.app.pod_revision import Target
from berth_core.app.stateful_app_object import with_budgets_in_fields
from berth_core.app.update_budgets import Restrictions
from berth_core.app.update_rules import IN_PLACE_ONLY, UpdateRules
from berth_core.app.way_home import closed
from berth_core.errors import ApiError, ConflictError, ForbiddenError, InvalidError, NotFoundError, StateError
from berth_core.model.resources import NODE, POD, POD_DISRUPTION_BUDGET, PRIORITY_CLASS
from berth_kube.clocks import utc_now

from . import pausing
from .building import Builder
from .requests import Requests
from .run import SOON, Later, Run
from .target import read_target

Warn = Callable[[str], None]


async def delete_helper_pods(api: Requests, pods: Iterable[Mapping[str, Any]]) -> None:
    """Delete these very helper pods."""
    for pod in pods:
        meta = pod["metadata"]
        await api.delete(POD, meta["name"], meta["namespace"], uid=meta["uid"])


async def priorities(run: Run, warn: Warn) -> dict[str, int]:
    """The values of the PriorityClasses that count where rooms are to be held; empty: none is held.

    Raises StateError where the cluster has no class for hold pods.
    """
    rules = run.app.update
    if rules is None or not rules.hold or not run.plan.update:
        return {}
    try:
        names = update_hold.classes(run.app.template, run.seen.pods.values())
        found = {name: await run.api.find(PRIORITY_CLASS, name) for name in names}
    except ForbiddenError as exc:
        warn(update_hold.not_known(exc.message))
        return {}
    return update_hold.values(found)


class Roller:
    """``values``: see priorities. ``warn`` is told what could not be done as it was meant."""

    def __init__(self, run: Run, builder: Builder, rules: UpdateRules, values: Mapping[str, int], warn: Warn) -> None:
        self._run, self._builder, self._rules, self._warn = run, builder, rules, warn
        self._helped = Helped(run.app.name, values)

    async def step(self) -> tuple[tuple[str, ...], float | None]:
        """Do what is due of the update. Returns what is waited for, and for how many seconds at most."""
        run = self._run
        target = await self._target()
        ordinals = [ordinal for ordinal in range(run.app.replicas) if ordinal not in run.plan.replacing]
        roll = await self._roll(ordinals, target)
        refused = {act.ordinal for act in roll.acts if not await self._do(act)}
        while refused:  # whose turn it is is updated at once: the next look would ask for the helper pod again
            roll = await self._roll(ordinals, target)
            refused = {act.ordinal for act in roll.acts if act.ordinal in refused and not await self._do(act)}
        return tuple(with_budgets_in_fields(line) for line in roll.waits), roll.again

    async def _roll(self, ordinals: Sequence[int], target: Target) -> update.Roll:
        try:
            roll = self._rolled(ordinals, target, None)
            if roll.asks:
                restrictions = Restrictions(await self._budgets(), await self._closed(roll.nodes))
                roll = self._rolled(ordinals, target, restrictions)
        except StateError as exc:
            exc.message = with_budgets_in_fields(exc.message)
            raise
        for note in roll.notes:
            self._warn(note)
        return roll

    async def _budgets(self) -> list[Budget]:
        if not self._rules.budgets:
            return []
        return [Budget.of(one) for one in await self._run.api.list(POD_DISRUPTION_BUDGET, self._run.app.namespace)]

    async def _closed(self, nodes: Iterable[str]) -> dict[str, str]:
        """Each is listed by its name: the controller has no right to get one."""
        spec, found = self._run.app.template.get("spec") or {}, {}
        for name in nodes:
            listed = await self._run.api.list(NODE, fields=f"metadata.name={name}")
            found[name] = closed(name, listed[0] if listed else None, spec)
        return found

    def _rolled(
        self,
        ordinals: Sequence[int],
        target: Target,
        restrictions: Restrictions | None,
    ) -> update.Roll:
        run, helped = self._run, self._helped
        return update.roll(
            *(run.app.name, ordinals, run.seen.pods, target, self._rules, utc_now()),
            pulls=helped.pulls(run.seen.helpers),
            holds=helped.holds(run.seen.helpers, run.views),
            restrictions=restrictions,
            exchanged=run.plan.replacing,
        )

    async def _do(self, act: update_step.Act) -> bool:
        """False: the replica is to go on without its helper pod."""
        if act.do == update_step.PAUSE:
            await pausing.pause(self._run, act.ordinal, str(act.body["why"]))
            return True
        if act.do in (update_step.PULL, update_step.HOLD):
            return await self._make(act)
        if act.nomination is not None:
            return await self._nominate(act.ordinal, act.nomination)
        if act.do == update_step.DROP:
            await delete_helper_pods(self._run.api, [act.body])
        else:
            await self._touch(act)
        return True

    async def _make(self, act: update_step.Act) -> bool:
        """Whether there is a helper pod now."""
        try:
            await self._run.api.create(POD, act.body)
        except ConflictError as exc:
            raise Later("Updating", exc.message, SOON) from exc
        except ApiError as exc:
            if not helper_pods.refused(exc):
                raise
            self._goes_on_without(act.do, act.ordinal, exc.message)
            return False
        return True

    async def _nominate(self, ordinal: int, nomination: update_hold.Nomination) -> bool:
        """The room changes hands in one go: between the two writes a scheduler may try the pod, and take it back."""
        meta, done = nomination.pod["metadata"], True
        try:
            await self._run.api.patch(POD, meta["name"], meta["namespace"], nomination.patch, "status")
        except (ConflictError, NotFoundError) as exc:
            raise Later("Updating", exc.message, SOON) from exc
        except ApiError as exc:
            if not helper_pods.refused(exc):
                raise
            self._goes_on_without(update_step.HOLD, ordinal, update_hold.no_right(exc.message))
            done = bool(nomination.drop)
        await delete_helper_pods(self._run.api, nomination.drop)
        return done

    def _goes_on_without(self, kind: str, ordinal: int, why: str) -> None:
        self._warn(self._helped.goes_on_without(kind, ordinal, why))

    async def _touch(self, act: update_step.Act) -> None:
        run, name = self._run, self._run.app.berth_name(act.ordinal)
        pod = run.seen.pods.get(name)
        run.begun(act.ordinal, ready(pod))
        if act.do == update_step.CREATE or pod is None:
            await self._builder.create_pod(act.ordinal)
            return
        seen = {key: pod["metadata"][key] for key in ("uid", "resourceVersion")}
        try:
            if act.do == update_step.DELETE:
                await self._end(pod)
                return
            body = {**act.body, "metadata": {**act.body.get("metadata", {}), **seen}}
            await run.api.patch(POD, name, run.app.namespace, body, update_step.SUBRESOURCES.get(act.do))
        except (ConflictError, NotFoundError) as exc:
            raise Later("Updating", exc.message, SOON) from exc
        except InvalidError as exc:
            if act.do != update_step.RESIZE or self._rules.strategy_of(act.ordinal) == IN_PLACE_ONLY:
                raise
            self._warn(f"pod {name} cannot be resized ({exc.message}): it is made anew on its node")
            await self._end(pod)

    async def _end(self, pod: Mapping[str, Any]) -> None:
        """Raises Later where a budget forbids it, although it seemed to allow it."""
        meta = pod["metadata"]
        if not self._rules.budgets:
            await self._run.api.delete(POD, meta["name"], meta["namespace"], uid=meta["uid"])
            return
        why = await self._run.api.evict(pod)
        if why:
            raise Later("Updating", f"the eviction of pod {meta['name']} to be allowed: {why}", SOON)

    async def _target(self) -> Target:
        found = await read_target(self._run.api, self._run.app, self._run.seen)
        if found is None:
            raise Later("Updating", f"waits for StatefulSet {self._run.app.name} to be seen by its controller", SOON)
        return found
