"""The way back: stop the pods, untie the claims, give up the locks, forget the berth. Data is never touched.

Highest ordinal first, and never a lock given up under a living pod: a look ends while one is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from berth_core.app.given_beside import BESIDE
from berth_core.app.observed import Observed
from berth_core.app.observing import view_of
from berth_core.app.plan import Plan
from berth_core.errors import ConflictError, NotFoundError
from berth_core.lifecycle.locks import unlock_device, unlock_disk
from berth_core.lifecycle.step import Wait
from berth_core.lifecycle.view import going
from berth_core.model.resources import LOCAL_DEVICE, LOCAL_DISK, POD, PV, PVC, SERVICE, STATEFUL_SET, Resource

from .drive import Driver
from .requests import Obj, Requests
from .run import SOON, Later


class Release:
    """Gives up berths of one application."""

    def __init__(self, api: Requests, seen: Observed, plan: Plan) -> None:
        self._api, self._seen, self._plan = api, seen, plan

    async def scale_down(self, keep: int) -> None:
        """Give up the berths of the plan, so that ``keep`` replicas are left. Raises Later while pods are there."""
        if self._plan.release:
            await self._stop(keep)
            await self._give_up(self._plan.release)

    async def remove(self) -> None:
        """Give up everything, the workload's objects too. Raises Later while pods are there."""
        await self._stop(0)
        seen = self._seen
        for resource, body in ((STATEFUL_SET, seen.stateful_set), (SERVICE, seen.service)):
            if body is not None:
                await self._delete(resource, body)
        for (kind, _name), body in seen.beside.items():
            await self._delete(BESIDE[kind], body)
        await self._give_up(self._plan.release)

    async def clear_stale(self) -> None:
        """Locks in this app's name whose berth is gone become retained data; its claims and volumes go."""
        for disk in self._seen.stale_disks():
            uid = disk["spec"]["claimRef"]["uid"]
            await self._swap(LOCAL_DISK, disk, partial(unlock_disk, uid=uid, keep_data=True))
        for device, uid in self._seen.stale_devices():
            await self._swap(LOCAL_DEVICE, device, partial(unlock_device, uid=uid))
        claims, volumes = self._seen.stale_claims()
        for claim in claims:
            await self._delete(PVC, claim)
        for volume in volumes:
            await self._delete(PV, volume)

    async def _delete(self, resource: Resource, body: Mapping[str, Any]) -> None:
        meta = body["metadata"]
        await self._api.delete(resource, meta["name"], meta.get("namespace"), uid=meta["uid"])

    async def _stop(self, keep: int) -> None:
        workload = self._seen.stateful_set
        if workload is not None and int(workload["spec"].get("replicas", 1)) > keep:
            meta = workload["metadata"]
            less = {"metadata": {"uid": meta["uid"]}, "spec": {"replicas": keep}}
            await self._api.patch(STATEFUL_SET, meta["name"], meta["namespace"], less)
        names = [f"{self._seen.name}-{ordinal}" for ordinal in self._plan.release]
        left = [name for name in (names if keep else self._seen.pods) if name in self._seen.pods]
        for name in left:
            pod = self._seen.pods[name]
            if not pod["metadata"].get("ownerReferences") and not going(pod):
                await self._delete(POD, pod)
        if left:
            raise Later("Stopping", f"waits for pods to stop: {', '.join(left)}; their locks are kept", SOON)

    async def _give_up(self, ordinals: Sequence[int]) -> None:
        for ordinal in ordinals:
            driven = await Driver(self._api).drive(view_of(self._seen, ordinal))
            if isinstance(driven.step, Wait) and driven.step.on is not None:
                raise Later(driven.step.reason, driven.step.message, SOON)

    async def _swap(
        self, resource: Resource, seen: Mapping[str, Any], change: Callable[[Mapping[str, Any]], Obj | None]
    ) -> None:
        """Change the object and write it; what somebody else has changed meanwhile is the next look's."""
        changed = change(seen)
        if changed is not None:
            try:
                await self._api.replace(resource, changed)
            except (ConflictError, NotFoundError) as exc:
                raise Later("Releasing", exc.message, SOON) from exc
