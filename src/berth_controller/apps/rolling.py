"""Brings a changed template to the pods, one step at each look. Decides nothing: berth_core.app.update does.

Every write is bound to the pod that was seen. What is refused because somebody was faster is looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from berth_core.app import manifests, update
from berth_core.app.plan import OWN
from berth_core.app.pod_change import with_running_fields
from berth_core.app.pod_revision import Target
from berth_core.app.update_rules import IN_PLACE_ONLY, UpdateRules
from berth_core.app.wanted import APP_LABEL
from berth_core.app.wanted import POD as POD_WORKLOAD
from berth_core.errors import ConflictError, InvalidError, NotFoundError
from berth_core.model.resources import CONTROLLER_REVISION, POD, STATEFUL_SET
from berth_kube.clocks import utc_now

from .building import Builder
from .requests import Obj
from .run import SOON, Later, Run


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

    # -- where the update goes

    async def _target(self) -> Target:
        app = self._run.app
        if app.workload == POD_WORKLOAD:
            return Target(app.revision, app.template, self._bare_templates(), OWN, comes_back=False)
        live = await self._run.api.get(STATEFUL_SET, app.name, app.namespace)
        status: Mapping[str, Any] = live.get("status") or {}
        current = int(status.get("observedGeneration") or 0) >= int(live["metadata"]["generation"])
        if not current or not status.get("updateRevision"):
            raise Later("Updating", f"waits for StatefulSet {app.name} to be seen by its controller", SOON)
        kept = await self._run.api.list(CONTROLLER_REVISION, app.namespace, labels=f"{APP_LABEL}={app.name}")
        templates = {one["metadata"]["name"]: one["data"]["spec"]["template"] for one in kept}
        return Target(str(status["updateRevision"]), live["spec"]["template"], templates)

    def _bare_templates(self) -> dict[str, Obj]:
        """The templates of bare pods that differ from the new one in nothing but what a running pod takes."""
        app, found = self._run.app, {}
        for pod in self._run.seen.pods.values():
            if (pod["metadata"].get("annotations") or {}).get(manifests.BASE_ANNOTATION) == app.base:
                found[OWN.of(pod) or ""] = with_running_fields(app.template, pod)
        return found
