"""Brings a changed template to the pods, one step at each look. Decides nothing: berth_core.app.update does.

Every write is bound to the pod that was seen. What is refused because somebody was faster is looked at again.
"""

from __future__ import annotations

from collections.abc import Callable

from berth_core.app import update
from berth_core.app.pod_revision import Target
from berth_core.app.update_rules import IN_PLACE_ONLY, UpdateRules
from berth_core.errors import ConflictError, InvalidError, NotFoundError
from berth_core.model.resources import POD
from berth_kube.clocks import utc_now

from .building import Builder
from .run import SOON, Later, Run
from .target import read_target


class Roller:
    """``warn`` is told what could not be done as it was meant."""

    def __init__(self, run: Run, builder: Builder, rules: UpdateRules, warn: Callable[[str], None]) -> None:
        self._run, self._builder, self._rules, self._warn = run, builder, rules, warn

    async def step(self) -> tuple[tuple[str, ...], float | None]:
        """Do what is due of the update. Returns what is waited for, and for how many seconds at most."""
        run = self._run
        target = await self._target()
        ordinals = [ordinal for ordinal in range(run.app.replicas) if ordinal not in run.plan.replacing]
        roll = update.roll(run.app.name, ordinals, run.seen.pods, target, self._rules, utc_now())
        for act in roll.acts:
            await self._do(act)
        return roll.waits, roll.again

    async def _do(self, act: update.Act) -> None:
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
