"""VolumeBinding where it acts: ties chosen volumes to their claims, asks for those that are made on demand, and waits.

Called by binding.py. Choices are the engine's. From the moment of the choice on, a volume and a claim's node count as
taken for every pod that is looked at later. Claims that a local disk fills are disks.py's.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from typing import Any

from berth_core.app.claims import SELECTED_NODE
from berth_core.errors import ConflictError, LockError, NotFoundError
from berth_core.framework.binding import Binding
from berth_core.framework.contract import SKIPPED, SUCCESS, Status
from berth_core.model.resources import PV, PVC
from berth_core.model.volume import ClaimInfo
from berth_core.plugins.claims import claim_volumes
from berth_kube.store import Key

from .cluster import Cluster

Obj = dict[str, Any]
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"


class Volumes:
    """``seconds``: how long a claim may take until it is bound (bindTimeoutSeconds)."""

    name = "VolumeBinding"

    def __init__(self, cluster: Cluster, seconds: float = 600.0) -> None:
        self._cluster, self._seconds = cluster, seconds

    # -- what counts at once -----------------------------------------------------------------------------------------

    def assume(self, binding: Binding) -> None:
        """Count the chosen volumes and nodes as taken."""
        if not binding.request.pod.volumes:
            return
        for claim in self._waiting(binding):
            volume = binding.placement.volumes.get(claim.name)
            if volume is not None:
                self._cluster.assume(PV, Key("", volume), partial(_tied, claim=claim))
            else:
                self._cluster.assume(
                    PVC, Key(claim.namespace, claim.name), partial(selected, node=binding.placement.node)
                )
        binding.data["VolumeBinding/claims"] = list(self._waiting(binding))

    def _waiting(self, binding: Binding) -> Iterator[ClaimInfo]:
        """The pod's claims that are not bound and that no local disk fills."""
        known, request = self._cluster.snapshot.volumes.claims, binding.request
        for one in claim_volumes(request):
            claim = known.get((request.pod.namespace, one.claim))
            if claim is not None and not claim.bound:
                yield claim

    # -- PreBind -----------------------------------------------------------------------------------------------------

    def pre_flight(self, binding: Binding) -> Status:
        """Nothing to tie and nothing to wait for: most pods."""
        return SUCCESS if binding.data.get("VolumeBinding/claims") else SKIPPED

    async def pre_bind(self, binding: Binding) -> Status:
        """Write, then wait until all are bound. Raises LockError where a volume was taken by another claim."""
        waiting: list[ClaimInfo] = binding.data.get("VolumeBinding/claims", [])
        for claim in waiting:
            volume = binding.placement.volumes.get(claim.name)
            if volume is not None:
                await self._tie(binding, claim, volume)
            else:
                await select_node(binding.api, self._cluster, claim, binding.placement.node)
        for claim in waiting:
            await self.until_bound(claim, binding.placement.node)
        return SUCCESS

    async def _tie(self, binding: Binding, claim: ClaimInfo, name: str) -> None:
        """The volume's claimRef, by compare-and-swap; read anew where somebody was faster."""
        volume = self._cluster.get(PV, name)
        for _try in range(3):
            if volume is None:
                raise LockError(f"PersistentVolume {name} is gone")
            ref = volume["spec"].get("claimRef") or {}
            if ref.get("uid") == claim.uid:
                return
            if ref and (ref.get("namespace"), ref.get("name"), ref.get("uid", "")) != (claim.namespace, claim.name, ""):
                raise LockError(f"PersistentVolume {name} was given to {ref.get('namespace')}/{ref.get('name')}")
            try:
                self._cluster.wrote(PV, await binding.api.replace(PV, _tied(volume, claim)))
            except (ConflictError, NotFoundError):
                volume = await binding.api.find(PV, name)
            else:
                return
        raise LockError(f"PersistentVolume {name} changes faster than it can be tied to {claim.namespace}/{claim.name}")

    async def until_bound(self, claim: ClaimInfo, node: str) -> None:
        """Raises LockError where the claim is gone or its node was taken back, TimeoutExpired."""
        where = f"PersistentVolumeClaim {claim.namespace}/{claim.name}"

        def ready(seen: Obj | None) -> bool:
            if seen is None or seen["metadata"]["uid"] != claim.uid:
                raise LockError(f"{where} is gone")
            if (seen.get("status") or {}).get("phase") == "Bound" and seen["spec"].get("volumeName"):
                return True
            chosen = (seen["metadata"].get("annotations") or {}).get(SELECTED_NODE)
            if chosen is not None and chosen != node:
                raise LockError(f"{where} was given to node {chosen} meanwhile")
            return False

        await self._cluster.until_claim(claim.namespace, claim.name, ready, self._seconds)


def forget(cluster: Cluster, binding: Binding) -> None:
    """What the API server says of the volumes and claims of a placement counts again."""
    for claim in binding.data.get("VolumeBinding/claims", ()):
        cluster.believe(PVC, Key(claim.namespace, claim.name))
    for volume in binding.placement.volumes.values():
        cluster.believe(PV, Key("", volume))


async def select_node(api: Any, cluster: Cluster, claim: ClaimInfo, node: str | None) -> None:
    """Write the claim's selected node (None: take it back), unless it stands there. Raises LockError, ConflictError."""
    live = cluster.get(PVC, claim.name, claim.namespace)
    for _try in range(3):
        if live is None or live["metadata"]["uid"] != claim.uid:
            raise LockError(f"PersistentVolumeClaim {claim.namespace}/{claim.name} is gone")
        meta = live["metadata"]
        if (meta.get("annotations") or {}).get(SELECTED_NODE) == node:
            return
        body = {
            "metadata": {
                "uid": meta["uid"],
                "resourceVersion": meta["resourceVersion"],
                "annotations": {SELECTED_NODE: node},
            }
        }
        try:
            cluster.wrote(PVC, await api.patch(PVC, claim.name, claim.namespace, body))
        except (ConflictError, NotFoundError):
            live = await api.find(PVC, claim.name, claim.namespace)
        else:
            return
    raise LockError(f"PersistentVolumeClaim {claim.namespace}/{claim.name} changes faster than its node can be written")


def selected(claim: Obj, node: str) -> Obj:
    """The claim with its node; one that has another keeps it."""
    changed = copy.deepcopy(claim)
    changed["metadata"].setdefault("annotations", {}).setdefault(SELECTED_NODE, node)
    return changed


def _tied(volume: Obj, claim: ClaimInfo) -> Obj:
    """The volume with its claimRef, as kube-scheduler writes it."""
    changed = copy.deepcopy(volume)
    ref = changed["spec"].get("claimRef")
    if ref and ref.get("uid"):
        return changed
    if not ref:
        changed["metadata"].setdefault("annotations", {})[BOUND_BY_CONTROLLER] = "yes"
    changed["spec"]["claimRef"] = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": claim.uid,
    }
    return changed
