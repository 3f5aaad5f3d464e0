"""Carries out what berth_core.lifecycle.next_step says of a claim's berth: one write, and the look after a refusal.

Used by controller and scheduler, each with its own caches. Decides nothing: what is refused is read anew, and next_step
is asked again. So a stale cache costs a conflict, never a wrong write.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Protocol

from berth_core.app import claims
from berth_core.app.manifests import volume_of, volume_over
from berth_core.errors import ConflictError, NotFoundError
from berth_core.lifecycle.back import left_locks
from berth_core.lifecycle.claim import ClaimOwner
from berth_core.lifecycle.driving import berth_of
from berth_core.lifecycle.history import Actor, noted
from berth_core.lifecycle.left_volumes import with_volumes
from berth_core.lifecycle.locks import unlock_device, unlock_disk
from berth_core.lifecycle.step import CREATE, REMOVE, STATUS, Ref, Write
from berth_core.lifecycle.view import View, devices_of, disks_of
from berth_core.model.resources import BERTH, LOCAL_DEVICE, LOCAL_DISK, NAMESPACE, PV, PVC, Resource
from berth_core.model.tenant import Tenant

from .clocks import stamp, utc_now

_log = logging.getLogger(__name__)

Obj = dict[str, Any]


class Known(Protocol):
    """The caches of a daemon, with what was answered to its own writes and questions beside them."""

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Obj | None:
        """The object as it is known now."""

    def volumes_over(self, disk: str) -> list[Obj]:
        """The PersistentVolumes of berth's that stand for that LocalDisk, whoever they were made for."""

    def wrote(self, resource: Resource, answer: Obj) -> None:
        """The answer to a write."""

    def heard(self, resource: Resource, before: Obj | None, found: Obj | None) -> None:
        """What is there now, asked for; ``before`` was known when it was asked."""


class Driver:
    """``api`` makes the requests, in the name of ``component``."""

    def __init__(self, api: Any, known: Known, component: str) -> None:
        self._api, self._known, self._actor = api, known, Actor(component)

    async def write(self, view: View, step: Write) -> bool:
        """Carry one write out. False: somebody was faster, and everything that the steps look at was read anew."""
        if step.do == REMOVE and step.resource == BERTH and await self._locks(step.body):
            _log.debug("claim %s: its Berth still locks something; giving that up first", view.key)
            return False
        try:
            await self._send(noted(step, berth_of(view, step), self._actor, stamp(utc_now())))
        except (ConflictError, NotFoundError) as exc:
            _log.debug("claim %s: %s; reading anew", view.key, exc.message)
            await self.read_anew(view, step)
            await self._free_left_locks(view)
            return False
        return True

    async def read_anew(self, view: View, step: Write | None = None) -> None:
        """The Berth, its disks and volumes, and the claim, as they are now. ``step``: what it writes, too."""
        record_ref = _record_ref(view, step)
        record = await self.look(record_ref) if record_ref is not None else None
        names = {each["name"] for each in disks_of(record)} if record is not None else set()
        if step is not None and step.resource == LOCAL_DISK:
            names.add(step.ref.name)
        for name in sorted(names):
            await self.look(Ref(LOCAL_DISK, name))
            if record is not None:
                await self.look(Ref(PV, volume_over(record, name)))
        namespace, _slash, claim = view.key.partition("/")
        if view.owner is not None:
            await self.look(Ref(PVC, claim, namespace))

    async def look(self, ref: Ref) -> Obj | None:
        """The object as it is now."""
        # Only what was there before the question is gone for certain: the watch may have told of a new one since.
        before = self._known.get(*ref)
        found: Obj | None = await self._api.find(*ref)
        self._known.heard(ref.resource, before, found)
        return found

    async def tenant(self, namespace: str) -> Tenant:
        """Who asks in this namespace, read now: no cache tells whether it was made anew a moment ago."""
        return Tenant.in_namespace(await self._api.find(NAMESPACE, namespace))

    async def _send(self, step: Write) -> None:
        api, ref = self._api, step.ref
        if step.do == REMOVE:
            meta = step.body["metadata"]
            await api.delete(*ref, uid=meta["uid"], version=meta["resourceVersion"])
            await self.look(ref)
        elif step.do == CREATE:
            self._known.wrote(step.resource, await api.create(step.resource, step.body))
        else:
            subresource = "status" if step.do == STATUS else None
            self._known.wrote(step.resource, await api.replace(step.resource, step.body, subresource=subresource))

    async def _locks(self, record: Mapping[str, Any]) -> bool:
        """Whether something is locked for this Berth, asked now: it is the last that knows of it.

        A cache may lag behind a lock whose answer was lost, and no conflict tells of that: the Berth is another object.
        """
        uid = record["metadata"]["uid"]
        for each in disks_of(record):
            disk = await self.look(Ref(LOCAL_DISK, each["name"]))
            if disk is not None and unlock_disk(disk, uid, keep_data=False) is not None:
                return True
        for each in devices_of(record):
            device = await self.look(Ref(LOCAL_DEVICE, each["name"]))
            if device is not None and unlock_device(device, uid) is not None:
                return True
        return False

    async def _free_left_locks(self, view: View) -> None:
        """Give up the locks of a Berth that went while they were taken. A volume says: it was Reserved after all."""
        record = view.berth
        if record is None:
            return
        meta: Mapping[str, Any] = record["metadata"]
        now = self._known.get(BERTH, meta["name"], meta["namespace"])
        for step in left_locks(view, record, now):
            if await self._api.find(PV, volume_over(record, step.ref.name)) is not None:
                continue
            try:
                self._known.wrote(step.resource, await self._api.replace(step.resource, step.body))
            except (ConflictError, NotFoundError):
                continue  # somebody has touched it since: what is left over then is the orphan watch's
            _log.info("claim %s: %s", view.key, step.why)


def _record_ref(view: View, step: Write | None) -> Ref | None:
    """The claim's Berth: the one in the view, or the one that is to be made."""
    if view.berth is not None:
        return Ref(BERTH, view.berth["metadata"]["name"], view.berth["metadata"]["namespace"])
    if isinstance(view.owner, ClaimOwner):
        claim = view.owner.asked.claim
        return Ref(BERTH, claims.berth_name(claim.uid), claim.namespace)
    return step.ref if step is not None and step.resource == BERTH else None


def view_of_claim(known: Known, view: View) -> View:
    """``view`` with the disk and the volume that its Berth names, as they are known, and others' volumes over it."""
    record = view.berth
    if record is None:
        return view
    for each in disks_of(record):
        disk = known.get(LOCAL_DISK, each["name"])
        volume = known.get(PV, volume_of(record, each))
        view = view if disk is None else view.having(LOCAL_DISK, disk)
        view = view if volume is None else view.having(PV, volume)
        view = with_volumes(view, known.volumes_over(each["name"]))
    return view


def claim_berth(known: Known, namespace: str, uid: str) -> Obj | None:
    """The Berth of the claim with that uid."""
    return known.get(BERTH, claims.berth_name(uid), namespace)
