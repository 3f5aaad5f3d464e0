"""DynamicResources where it acts: writes the chosen devices and the pod into the pod's ResourceClaims.

Called by binding.py. What is chosen is the engine's, and counts from the choice on. Nothing in the API stops two
schedulers from writing one device into two claims; so before the pod is bound the watch has to come to this process's
own write, and with it to all that were made before: whoever then sees a device twice gives his choice back. Of two who
both look, one at least sees it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from berth_core.errors import BerthError, ConflictError, LockError
from berth_core.framework.binding import Binding
from berth_core.framework.contract import SKIPPED, SUCCESS, Status
from berth_core.model.pod import PodInfo
from berth_core.model.resource_claim import FINALIZER
from berth_core.model.resources import RESOURCE_CLAIM
from berth_kube.store import Key

from .cluster import Cluster

_log = logging.getLogger(__name__)

Obj = dict[str, Any]
#: Others write a claim too: its controller, drivers. Each time it is read anew.
TRIES = 8
#: Until the watch tells what was written. It comes at once, unless the API server is away.
SEEN_SECONDS = 60.0


@dataclass
class _Claim:
    """One claim of a pod. ``allocation`` None: it has its devices already. ``wrote``: what was added to it."""

    name: str
    uid: str
    allocation: Obj | None
    wrote: str = ""


class ResourceClaims:
    """Acts for the plugin of the same name."""

    name = "DynamicResources"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def pre_flight(self, binding: Binding) -> Status:
        """No ResourceClaim: most pods."""
        return SUCCESS if binding.request.pod.resource_claims else SKIPPED

    async def hold(self, binding: Binding) -> Status:  # noqa: ARG002 - there is nothing to take
        """Nothing is taken before PreBind; `release` gives back what that has written."""
        return SUCCESS

    async def pre_bind(self, binding: Binding) -> Status:
        """Raises LockError where a claim is gone, or a device of it was given to another claim as well."""
        claims = list(self._claims(binding))
        binding.data["DynamicResources/claims"] = claims
        for claim in claims:
            await self._write(binding, claim)
        for claim in claims:
            if claim.wrote == "devices":
                await self._alone(binding, claim)
        return SUCCESS

    async def release(self, binding: Binding) -> None:
        """Take the pod out of the claims, and devices that no other pod has come to use."""
        for claim in reversed(binding.data.pop("DynamicResources/claims", [])):
            if claim.wrote:
                try:
                    await self._take_back(binding, claim)
                except BerthError as exc:
                    _log.warning("claim %s is not given back yet: %s", claim.name, exc.message)

    async def deallocate(self, api: Any, pod: PodInfo) -> None:
        """Take the devices from one claim of a pod that fits nowhere with them, and that nobody else uses.

        So a choice ends that was written and not carried out, by a scheduler that died; its claim's news wakes the pod.
        """
        known = self._cluster.snapshot.dynamic.claims
        found = [known.get((pod.namespace, one.claim or "")) for one in pod.resource_claims]
        mine = [one for one in found if one is not None and one.allocation is not None]
        claim = next((one for one in mine if set(one.reserved_for) <= {pod.uid}), None)
        live = None if claim is None else self._cluster.get(RESOURCE_CLAIM, claim.name, claim.namespace)
        if claim is None or live is None or live["metadata"]["uid"] != claim.uid:
            return
        dropped = ("allocation", "reservedFor", "devices")
        status = {key: value for key, value in (live.get("status") or {}).items() if key not in dropped}
        try:
            answer = await api.replace(RESOURCE_CLAIM, {**live, "status": status}, subresource="status")
        except BerthError as exc:  # somebody has come to use it, or the pod is tried again anyway
            _log.info("claim %s is not deallocated: %s", claim, exc.message)
        else:
            self._cluster.wrote(RESOURCE_CLAIM, answer)

    def _claims(self, binding: Binding) -> Iterator[_Claim]:
        pod, known = binding.request.pod, self._cluster.snapshot.dynamic.claims
        for one in pod.resource_claims:
            found = known.get((pod.namespace, one.claim or ""))
            if one.claim is not None and found is None:
                raise LockError(f"ResourceClaim {pod.namespace}/{one.claim} is gone")
            if found is not None:
                chosen = binding.placement.allocations.get(found.uid)
                yield _Claim(found.name, found.uid, None if chosen is None else dict(chosen))

    # -- writing

    async def _write(self, binding: Binding, claim: _Claim) -> None:
        """Allocation and pod, by compare-and-swap."""
        pod = binding.request.pod
        where = f"ResourceClaim {pod.namespace}/{claim.name}"
        live = self._cluster.get(RESOURCE_CLAIM, claim.name, pod.namespace)
        for _try in range(TRIES):
            if live is None or live["metadata"]["uid"] != claim.uid or live["metadata"].get("deletionTimestamp"):
                raise LockError(f"{where} is gone")
            try:
                if await self._written(binding, claim, live, where):
                    return
            except ConflictError as exc:
                _log.debug("%s: %s; reading anew", where, exc.message)
            live = await binding.api.find(RESOURCE_CLAIM, claim.name, pod.namespace)
        raise LockError(f"{where} changes faster than it can be written")

    async def _written(self, binding: Binding, claim: _Claim, live: Obj, where: str) -> bool:
        """One write towards the aim; True: it is reached."""
        pod, status = binding.request.pod, live.get("status") or {}
        reserved = status.get("reservedFor") or []
        allocation = status.get("allocation")
        if allocation is not None and any(one["uid"] == pod.uid for one in reserved):
            return True
        if claim.allocation is None and allocation is None:
            raise LockError(f"{where} was deallocated meanwhile")
        if claim.allocation is not None and allocation is not None:
            raise LockError(f"{where} was allocated by somebody else meanwhile")
        if allocation is None:
            if FINALIZER not in (live["metadata"].get("finalizers") or []):
                live = await self._with_finalizer(binding, live)
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            allocation = {**(claim.allocation or {}), "allocationTimestamp": now}
        me = {"resource": "pods", "name": pod.name, "uid": pod.uid}
        changed = {**live, "status": {**status, "allocation": allocation, "reservedFor": [*reserved, me]}}
        claim.wrote = "devices" if claim.allocation is not None else "pod"  # perhaps: its answer may be lost
        self._cluster.wrote(RESOURCE_CLAIM, await binding.api.replace(RESOURCE_CLAIM, changed, subresource="status"))
        return True

    async def _with_finalizer(self, binding: Binding, live: Obj) -> Obj:
        meta = live["metadata"]
        changed = {**live, "metadata": {**meta, "finalizers": [*(meta.get("finalizers") or []), FINALIZER]}}
        answer: Obj = await binding.api.replace(RESOURCE_CLAIM, changed)
        return answer

    # -- looking

    async def _alone(self, binding: Binding, claim: _Claim) -> None:
        """Raises LockError where the watch, having told the own write, knows a device of it in another claim too."""
        pod = binding.request.pod
        where = f"ResourceClaim {pod.namespace}/{claim.name}"

        def told(seen: Obj | None) -> bool:
            if seen is None or seen["metadata"]["uid"] != claim.uid:
                raise LockError(f"{where} is gone")
            return any(one["uid"] == pod.uid for one in (seen.get("status") or {}).get("reservedFor") or ())

        key = Key(pod.namespace, claim.name)
        await self._cluster.until(RESOURCE_CLAIM, key, told, SEEN_SECONDS, "was not told by the watch")
        twice = self._cluster.snapshot.dynamic.overdrawn(claim.allocation or {})
        if twice:
            raise LockError(f"{where}: device {'/'.join(twice)} was given to another claim as well")

    async def _take_back(self, binding: Binding, claim: _Claim) -> None:
        pod = binding.request.pod
        for _try in range(TRIES):
            live = await binding.api.find(RESOURCE_CLAIM, claim.name, pod.namespace)
            if live is None or live["metadata"]["uid"] != claim.uid:
                return
            status = dict(live.get("status") or {})
            reserved = status.pop("reservedFor", None) or []
            others = [one for one in reserved if one["uid"] != pod.uid]
            if len(others) == len(reserved):
                return
            if others:
                status["reservedFor"] = others
            elif claim.wrote == "devices":
                status.pop("allocation", None)
                status.pop("devices", None)
            try:
                changed = {**live, "status": status}
                answer = await binding.api.replace(RESOURCE_CLAIM, changed, subresource="status")
            except ConflictError:
                continue
            self._cluster.wrote(RESOURCE_CLAIM, answer)
            return
