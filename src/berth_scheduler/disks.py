"""LocalDiskFit where it acts: locks the chosen disks for the pod's claims, and brings the claims to Bound.

Called by binding.py: `hold` takes the locks, `release` gives back what is not final yet, `pre_bind` makes the volumes
and waits. Each write is decided in berth_core.lifecycle, as the controller's are: whoever comes first
writes, the other finds it done. So either may die between any two writes, and the other one goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from berth_core.app import claims
from berth_core.app.asking import owner_of
from berth_core.app.claims import Asked
from berth_core.app.fsid import DEFAULT_MOUNT_ROOT
from berth_core.errors import BerthError, ConflictError, LockError
from berth_core.framework.binding import Binding
from berth_core.framework.contract import SKIPPED, SUCCESS, Status
from berth_core.lifecycle import states
from berth_core.lifecycle.claim import ClaimOwner
from berth_core.lifecycle.next_step import next_step
from berth_core.lifecycle.step import DONE, STATUS, Look, Wait, Write
from berth_core.lifecycle.view import View, recorded
from berth_core.model.resources import BERTH, PVC, STORAGE_CLASS
from berth_core.model.tenant import Tenant
from berth_kube.lifecycle import Driver, claim_berth, view_of_claim

from .cluster import Cluster
from .volumes import Volumes, select_node

_log = logging.getLogger(__name__)

Obj = dict[str, Any]
#: Writes and refusals on the way of one claim. A whole life has fewer; more: somebody works against the scheduler.
STEPS = 40


@dataclass
class _Claim:
    """One claim on its way. ``chosen``: the LocalDisk of the placement, until it was written down.

    ``tenant``: of its namespace, read since the claim was there.
    """

    asked: Asked
    node: str
    chosen: str
    begun: bool = False
    tenant: Tenant | None = None


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
        driver = Driver(binding.api, self._cluster, "berth-scheduler")
        await driver.read_anew(self._view(claim))
        self._look(claim)
        record, info = self._record(claim), claim.asked.claim
        if record is not None and recorded(record) != states.SELECTED:
            return
        if self._live(claim) is None:
            return  # deleted: the controller releases what it had
        await select_node(binding.api, self._cluster, info, None)
        claim.asked = replace(claim.asked, claim=replace(info, selected_node=None))
        for _number in range(STEPS):
            view = self._view(claim)
            step = next_step(view)
            forward = isinstance(step, Write) and step.do == STATUS and step.body["status"]["phase"] == states.RESERVED
            if not isinstance(step, Write) or view.berth is None or forward:
                return
            await driver.write(view, step)

    # -- one claim -----------------------------------------------------------------------------------------------------

    async def _walk(self, binding: Binding, claim: _Claim, phase: str) -> None:
        """Write until the claim's Berth is in that phase, or only Kubernetes can go on. Raises LockError."""
        driver = Driver(binding.api, self._cluster, "berth-scheduler")
        for _number in range(STEPS):
            view = self._view(claim)
            record = view.berth
            if record is not None and states.reached(recorded(record), states.RESERVED):
                self._same_node(claim, record)
            if record is not None and states.reached(recorded(record), phase):
                return
            step = next_step(view)
            if isinstance(step, Write):
                await self._write(driver, claim, view, step)
            elif isinstance(step, Look):
                claim.tenant = await driver.tenant(step.namespace)
            elif record is None and step == DONE:
                raise LockError(f"claim {claim.asked.key} was bound to a volume by somebody else")
            elif step == DONE or (isinstance(step, Wait) and step.reason == "Binding"):
                return
            elif isinstance(step, Wait):
                raise LockError(f"claim {claim.asked.key}: {step.message}")
            else:
                raise LockError(f"claim {claim.asked.key}: the chosen LocalDisk was taken by somebody else")
        raise ConflictError(f"claim {claim.asked.key}: {STEPS} steps did not bring it to {phase}", 409)

    async def _write(self, driver: Driver, claim: _Claim, view: View, step: Write) -> None:
        if not await driver.write(view, step):
            self._look(claim)
            return
        _log.debug("claim %s: %s %s: %s", claim.asked.key, step.do, step.resource.kind, step.why)
        if step.resource == BERTH and view.berth is None:
            claim.chosen = ""  # written down once: who loses it is looked at from the beginning

    def _same_node(self, claim: _Claim, record: Mapping[str, Any]) -> None:
        where = record["spec"]["nodeName"]
        if where != claim.node:
            raise LockError(f"claim {claim.asked.key} has its disk on node {where} since, not on {claim.node}")

    def _live(self, claim: _Claim) -> Obj | None:
        """The claim as it is known now; None: gone."""
        info = claim.asked.claim
        known = self._cluster.get(PVC, info.name, info.namespace)
        return known if known is not None and known["metadata"]["uid"] == info.uid else None

    def _look(self, claim: _Claim) -> None:
        """What is asked for, after everything was read anew: somebody may have bound the claim, or moved it."""
        storage_class = self._cluster.get(STORAGE_CLASS, claim.asked.claim.storage_class)
        current = self._live(claim)
        if current is not None and storage_class is not None:
            claim.asked = claims.parse(current, storage_class)

    def _record(self, claim: _Claim) -> Obj | None:
        return claim_berth(self._cluster, claim.asked.claim.namespace, claim.asked.claim.uid)

    def _view(self, claim: _Claim) -> View:
        disks, asked = self._cluster.snapshot.disks, claim.asked
        slot = disks.slot_of.get(claim.chosen)
        tenant = claim.tenant or self._cluster.snapshot.tenant(asked.claim.namespace)
        own = disks.own(owner_of(asked), tenant._replace(pod_uid=asked.claim.pod_uid))
        owner = ClaimOwner(
            asked,
            own=any(one.retained_for is not None for one in own),
            chosen=None if slot is None else disks.disks[slot],
            mount_root=self._mount_root,
        )
        view = View(
            asked.key,
            owner if self._live(claim) is not None else None,
            self._record(claim),
            hostname=self._cluster.hostname(claim.node),
            quiet=True,
            tenant=claim.tenant,
        )
        return view_of_claim(self._cluster, view)
