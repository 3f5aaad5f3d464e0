"""LocalDiskFit where it acts: locks the chosen disks for the pod's claims, and brings the claims to Bound.

binding.py calls me: `hold` takes the locks, `release` gives back what is not final yet, `pre_bind` makes the volumes
and waits. Each write is decided in berth_core.app.claim_steps, as the controller's are: whoever of us comes first
writes, the other finds it done. So either may die between any two writes, and the other one goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from berth_core.app import claim_steps, claims, states
from berth_core.app.asking import owner_of
from berth_core.app.claim_steps import CREATE, DONE, REMOVE, STATUS, View, Wait, Write
from berth_core.app.claims import Asked
from berth_core.app.fsid import DEFAULT_MOUNT_ROOT
from berth_core.app.manifests import volume_name
from berth_core.app.observed import recorded
from berth_core.errors import BerthError, ConflictError, LockError, NotFoundError
from berth_core.framework.binding import Binding
from berth_core.framework.contract import SKIPPED, SUCCESS, Status
from berth_core.model.resources import BERTH, LOCAL_DISK, PV, PVC, STORAGE_CLASS
from berth_kube.locks import take_back

from .cluster import Cluster
from .volumes import Volumes, select_node

_log = logging.getLogger(__name__)

Obj = dict[str, Any]
#: Writes and refusals on the way of one claim. A whole life has fewer; more means that somebody works against us.
STEPS = 40


@dataclass
class _Claim:
    """One claim on its way. ``chosen``: the LocalDisk of the placement, until it was written down."""

    asked: Asked
    node: str
    chosen: str
    begun: bool = False
    objects: dict[str, Obj | None] = field(default_factory=dict)


class LocalDisks:
    """``mount_root``: where agents mount disks."""

    name = "LocalDiskFit"

    def __init__(self, cluster: Cluster, volumes: Volumes, mount_root: str = DEFAULT_MOUNT_ROOT) -> None:
        self._cluster, self._volumes, self._mount_root = cluster, volumes, mount_root

    def begin(self, binding: Binding, asked: Mapping[str, Asked]) -> None:
        """Note down which claims are to be filled."""
        if not asked:
            return
        node, disks = binding.placement.node, binding.placement.disks
        binding.data["LocalDiskFit/claims"] = [_Claim(one, node, disks[volume]) for volume, one in asked.items()]

    def pre_flight(self, binding: Binding) -> Status:
        """No claim that a local disk fills: most pods."""
        return SUCCESS if self._claims(binding) else SKIPPED

    async def hold(self, binding: Binding) -> Status:
        """Take every lock. Raises LockError where somebody else was faster."""
        claims = self._claims(binding)
        if not claims:
            return SUCCESS
        for claim in claims:
            claim.begun = True
            await select_node(binding.api, self._cluster, claim.asked.claim, claim.node)
            claim.asked = replace(claim.asked, claim=replace(claim.asked.claim, selected_node=claim.node))
            await self._read(binding, claim, live=False)
            await self._walk(binding, claim, states.RESERVED)
        self._cluster.snapshot.locked(binding.request)
        return SUCCESS

    async def pre_bind(self, binding: Binding) -> Status:
        """Make the volumes, and wait until Kubernetes has bound the claims."""
        waiting = self._claims(binding)
        for claim in waiting:
            await self._walk(binding, claim, states.BOUND)
        for claim in waiting:
            await self._volumes.until_bound(claim.asked.claim, claim.node)
        return SUCCESS

    async def release(self, binding: Binding) -> None:
        """Give back locks that are not Reserved yet, and the nodes of their claims. What is Reserved stays the claim's.

        In reverse order; a claim that cannot be given back now does not keep the others.
        """
        for claim in reversed([one for one in self._claims(binding) if one.begun]):
            try:
                await self._give_back(binding, claim)
            except BerthError as exc:
                _log.warning("claim %s: its disk is not given back yet: %s", claim.asked.key, exc.message)

    def _claims(self, binding: Binding) -> list[_Claim]:
        found: list[_Claim] = binding.data.get("LocalDiskFit/claims", [])
        return found

    async def _give_back(self, binding: Binding, claim: _Claim) -> None:
        await self._read(binding, claim, live=True)
        record = claim.objects["berth"]
        if record is not None and recorded(record) != states.SELECTED:
            return
        if claim.objects["claim"] is None:
            return  # deleted: the controller releases what it had
        await select_node(binding.api, self._cluster, claim.asked.claim, None)
        claim.asked = replace(claim.asked, claim=replace(claim.asked.claim, selected_node=None))
        for _number in range(STEPS):
            step = claim_steps.next_step(self._view(claim))
            if not isinstance(step, Write) or claim.objects["berth"] is None or step.do == STATUS:
                return
            await self._write(binding, claim, step)

    # -- one claim -----------------------------------------------------------------------------------------------------

    async def _walk(self, binding: Binding, claim: _Claim, phase: str) -> None:
        """Write until the claim's Berth is in that phase, or only Kubernetes can go on. Raises LockError."""
        for _number in range(STEPS):
            record = claim.objects["berth"]
            if record is not None and states.reached(recorded(record), states.RESERVED):
                self._same_node(claim, record)
            if record is not None and states.reached(recorded(record), phase):
                return
            step = claim_steps.next_step(self._view(claim))
            if isinstance(step, Write):
                await self._write(binding, claim, step)
            elif record is None and step == DONE:
                raise LockError(f"claim {claim.asked.key} was bound to a volume by somebody else")
            elif step == DONE or (isinstance(step, Wait) and step.reason == "Binding"):
                return
            elif isinstance(step, Wait):
                raise LockError(f"claim {claim.asked.key}: {step.message}")
            else:
                raise LockError(f"claim {claim.asked.key}: the chosen LocalDisk was taken by somebody else")
        raise ConflictError(f"claim {claim.asked.key}: {STEPS} steps did not bring it to {phase}", 409)

    def _same_node(self, claim: _Claim, record: Obj) -> None:
        where = record["spec"]["nodeName"]
        if where != claim.node:
            raise LockError(f"claim {claim.asked.key} has its disk on node {where} since, not on {claim.node}")

    def _view(self, claim: _Claim) -> View:
        seen, disks = claim.objects, self._cluster.snapshot.disks
        slot = disks.slot_of.get(claim.chosen)
        return View(
            claim.asked.key,
            claim.asked if seen["claim"] is not None else None,
            seen["berth"],
            disk=seen["disk"],
            volume=seen["volume"],
            hostname=self._cluster.hostname(claim.node),
            own=any(one.retained_for is not None for one in disks.own(owner_of(claim.asked))),
            chosen=None if slot is None else disks.disks[slot],
            mount_root=self._mount_root,
        )

    async def _read(self, binding: Binding, claim: _Claim, live: bool) -> None:
        """What there is of a claim: from the caches, or asked for now."""
        info = claim.asked.claim

        async def find(kind: Any, name: str, namespace: str | None = None) -> Obj | None:
            known = self._cluster.get(kind, name, namespace)
            if not live:
                return known
            found: Obj | None = await binding.api.find(kind, name, namespace)
            self._cluster.heard(kind, known, found)
            return found

        current = await find(PVC, info.name, info.namespace)
        current = current if current is not None and current["metadata"]["uid"] == info.uid else None
        record = await find(BERTH, claims.berth_name(info.uid), info.namespace)
        name = record["spec"]["disks"][0]["name"] if record is not None else ""
        claim.objects = {
            "claim": current,
            "berth": record,
            "disk": await find(LOCAL_DISK, name) if name else None,
            "volume": await find(PV, volume_name(name, record["metadata"]["uid"])) if record is not None else None,
        }
        storage_class = self._cluster.get(STORAGE_CLASS, info.storage_class)
        if live and current is not None and storage_class is not None:
            claim.asked = claims.parse(current, storage_class)

    async def _write(self, binding: Binding, claim: _Claim, step: Write) -> None:
        """One write. Refused because somebody was faster: read anew, and ask again."""
        api, meta, body = binding.api, step.body["metadata"], step.body
        try:
            if step.do == REMOVE:
                seen = {"uid": meta["uid"], "version": meta["resourceVersion"]}
                await api.delete(step.resource, meta["name"], meta.get("namespace"), **seen)
                await self._read(binding, claim, live=True)
                return
            if step.do == CREATE:
                answer = await api.create(step.resource, body)
            else:
                answer = await api.replace(step.resource, body, subresource="status" if step.do == STATUS else None)
        except (ConflictError, NotFoundError) as exc:
            _log.debug("claim %s: %s; reading anew", claim.asked.key, exc.message)
            before = claim.objects
            await self._read(binding, claim, live=True)
            freed = await take_back(api, before["berth"], before["disk"], claim.objects["berth"])
            if freed is not None:
                self._cluster.wrote(LOCAL_DISK, freed)
            return
        _log.debug("claim %s: %s %s: %s", claim.asked.key, step.do, step.resource.kind, step.why)
        await self._keep(binding, claim, step, answer)

    async def _keep(self, binding: Binding, claim: _Claim, step: Write, answer: Obj) -> None:
        self._cluster.wrote(step.resource, answer)
        if answer["metadata"].get("deletionTimestamp"):  # the last that is heard of it
            await self._read(binding, claim, live=True)
            return
        place = {BERTH: "berth", LOCAL_DISK: "disk", PV: "volume"}[step.resource]
        claim.objects[place] = answer
        if step.resource == BERTH and step.do == CREATE:
            name = answer["spec"]["disks"][0]["name"]
            claim.objects["disk"] = self._cluster.get(LOCAL_DISK, name)
            claim.chosen = ""  # written down once: who loses it is looked at from the beginning
