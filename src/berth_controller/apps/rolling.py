"""Brings a changed template to the pods, one step at each look. Decides nothing: berth_core.app.update does.

Every write is bound to the pod that was seen. What is refused because somebody was faster is looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

from berth_core.app import pre_pull, update
from berth_core.app.pod_revision import Target
from berth_core.app.update_rules import IN_PLACE_ONLY, UpdateRules
from berth_core.errors import ApiError, ConflictError, InvalidError, NotFoundError
from berth_core.model.resources import POD
from berth_kube.clocks import utc_now

from .building import Builder
from .requests import Requests
from .run import SOON, Later, Run
from .target import read_target


async def delete_pull_pods(api: Requests, pods: Iterable[Mapping[str, Any]]) -> None:
    """Delete these very pull pods."""
    for pod in pods:
        meta = pod["metadata"]
        await api.delete(POD, meta["name"], meta["namespace"], uid=meta["uid"])


class Roller:
    """``warn`` is told what could not be done as it was meant."""

    def __init__(self, run: Run, builder: Builder, rules: UpdateRules, warn: Callable[[str], None]) -> None:
        self._run, self._builder, self._rules, self._warn = run, builder, rules, warn

    async def step(self) -> tuple[tuple[str, ...], float | None]:
        """Do what is due of the update. Returns what is waited for, and for how many seconds at most."""
        run = self._run
        target = await self._target()
        ordinals = [ordinal for ordinal in range(run.app.replicas) if ordinal not in run.plan.replacing]
        without: set[int] = set()
        roll = self._roll(ordinals, target, without)
        for act in roll.acts:
            without |= await self._do(act)
        if without:  # whose turn it is is updated at once: the next look would ask for the pull pod again
            roll = self._roll(ordinals, target, without)
            for act in roll.acts:
                if act.ordinal in without:
                    await self._do(act)
        return roll.waits, roll.again

    def _roll(self, ordinals: Sequence[int], target: Target, without: Set[int]) -> update.Roll:
        run = self._run
        pulls = pre_pull.Pulls(run.seen.pulls, frozenset(without))
        roll = update.roll(run.app.name, ordinals, run.seen.pods, target, self._rules, utc_now(), pulls=pulls)
        for note in roll.notes:
            self._warn(note)
        return roll

    async def _do(self, act: update.Act) -> set[int]:
        """The ordinals that are to go on without a pull pod."""
        if act.do == update.PULL:
            return set() if await self._pull(act) else {act.ordinal}
        if act.do == update.DROP:
            await delete_pull_pods(self._run.api, [act.body])
        else:
            await self._touch(act)
        return set()

    async def _pull(self, act: update.Act) -> bool:
        """Whether there is a pull pod now."""
        try:
            await self._run.api.create(POD, act.body)
        except ConflictError as exc:
            raise Later("Updating", exc.message, SOON) from exc
        except ApiError as exc:
            if not pre_pull.no_pull_pod(exc):
                raise
            self._warn(pre_pull.goes_on_without(self._run.app.berth_name(act.ordinal), exc.message))
            return False
        return True

    async def _touch(self, act: update.Act) -> None:
        run, name = self._run, self._run.app.berth_name(act.ordinal)
        pod = run.seen.pods.get(name)
        if act.do == update.CREATE or pod is None:
            await self._builder.create_pod(act.ordinal)
            return
        uid, namespace = pod["metadata"]["uid"], run.app.namespace
        seen = {"uid": uid, "resourceVersion": pod["metadata"]["resourceVersion"]}
        try:
            if act.do == update.DELETE:
                await run.api.delete(POD, name, namespace, uid=uid)
                return
            body = {**act.body, "metadata": {**act.body.get("metadata", {}), **seen}}
            await run.api.patch(POD, name, namespace, body, "resize" if act.do == update.RESIZE else None)
        except (ConflictError, NotFoundError) as exc:
            raise Later("Updating", exc.message, SOON) from exc
        except InvalidError as exc:
            if act.do != update.RESIZE or self._rules.strategy == IN_PLACE_ONLY:
                raise
            self._warn(f"pod {name} cannot be resized ({exc.message}): it is made anew on its node")
            await run.api.delete(POD, name, namespace, uid=uid)

    async def _target(self) -> Target:
        found = await read_target(self._run.api, self._run.app, self._run.seen)
        if found is None:
            raise Later("Updating", f"waits for StatefulSet {self._run.app.name} to be seen by its controller", SOON)
        return found
