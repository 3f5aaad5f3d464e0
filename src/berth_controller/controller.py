"""Which event wakes which work: the caches' handlers, the queues and the reconcilers of one controller.

__main__ makes me when this process may lead, and runs me until it may not. I decide nothing and write nothing myself.
"""

from __future__ import annotations

import asyncio
from typing import Any

from berth_core.app import claims
from berth_core.app.claim_disks import not_free, place_of
from berth_core.errors import InputError
from berth_core.model.disk import LocalDisk
from berth_kube.client import KubeClient
from berth_kube.metrics import Metrics as RequestMetrics
from berth_kube.queue import Reconciler

from .binder import Binder, ClaimKey
from .caches import Caches, Obj
from .capacities import Capacities
from .orphan_watch import OrphanWatch
from .reports import Reports
from .settings import Settings

#: Many disks change at one moment; their capacity is written once.
DEBOUNCE = 0.1
CAPACITY = "capacity"


class Controller:
    """The work of a leader. ``reports`` and ``requests`` outlive it."""

    def __init__(
        self, client: KubeClient, caches: Caches, reports: Reports, requests: RequestMetrics, settings: Settings
    ) -> None:
        self._caches = caches
        self.binder = Binder(client, caches, reports, settings.mount_root, settings.resync)
        self._claims: Reconciler[ClaimKey] = Reconciler(
            "claim", self.binder.reconcile, settings.workers, observe=requests.reconciles("claim")
        )
        capacities = Capacities(client, caches, self.binder.held_back, settings.namespace)
        self._capacity: Reconciler[str] = Reconciler(
            CAPACITY, capacities.reconcile, 1, observe=requests.reconciles(CAPACITY)
        )
        self._orphans = OrphanWatch(client, caches, reports, settings)
        reports.metrics.waiting.set_function(lambda: len(self.binder.waiting))
        requests.depth("claim", lambda: len(self._claims.queue))
        self._listen()

    async def run(self) -> None:
        """Until cancelled. The caches are synced."""
        self._capacity.queue.add(CAPACITY)
        await asyncio.gather(self._claims.run(), self._capacity.run(), self._orphans.run())

    def _listen(self) -> None:
        """What is in the caches already is told as added: nothing of the time before is missed."""
        caches = self._caches
        caches.claims.on(self._claim, lambda _old, new: self._claim(new), self._claim)
        caches.berths.on(self._berth, lambda _old, new: self._berth(new), self._berth)
        caches.volumes.on(self._volume, lambda _old, new: self._volume(new), self._volume)
        caches.disks.on(lambda disk: self._disk(None, disk), self._disk, lambda disk: self._disk(disk, None))
        caches.nodes.on(lambda node: self._node(None, node), self._node, lambda node: self._node(node, None))
        caches.classes.on(self._class, lambda _old, new: self._class(new), self._class)
        caches.capacities.on(delete=lambda _item: self._measure())

    def _claim(self, claim: Obj) -> None:
        meta = claim["metadata"]
        self._claims.queue.add(ClaimKey(meta["namespace"], meta["uid"]))
        if self.binder.held_back:
            self._measure()

    def _berth(self, record: Obj) -> None:
        of_claim = claims.claim_of(record)
        if of_claim is not None:
            self._claims.queue.add(ClaimKey(of_claim[0], of_claim[2]))
        self._measure()

    def _volume(self, volume: Obj) -> None:
        ref = volume["spec"].get("claimRef") or {}
        if (volume["metadata"].get("annotations") or {}).get(claims.PROVISIONED_BY) == claims.PROVISIONER:
            self._claims.queue.add(ClaimKey(ref.get("namespace", ""), ref.get("uid", "")))

    def _disk(self, old: Obj | None, new: Obj | None) -> None:
        for disk in (old, new):
            ref = disk["spec"].get("claimRef") if disk is not None else None
            uid = claims.claim_uid(ref["name"]) if ref else None
            if ref and uid:
                self._claims.queue.add(ClaimKey(ref["namespace"], uid))
        if _is_free(new) and not _is_free(old):
            self._wake()
        self._measure()

    def _node(self, old: Obj | None, new: Obj | None) -> None:
        if old is None or new is None or place_of(old) != place_of(new):
            self._wake()
            self._measure()

    def _class(self, storage_class: Obj) -> None:
        if claims.ours(storage_class):
            for claim in self._caches.claims.all():
                if claims.class_of(claim) == storage_class["metadata"]["name"]:
                    self._claim(claim)
            self._measure()

    def _wake(self) -> None:
        """There may be a disk for those who wait."""
        for key in self.binder.waiting:
            self._claims.queue.add(key)

    def _measure(self) -> None:
        self._capacity.queue.add_after(CAPACITY, DEBOUNCE)


def _is_free(disk: dict[str, Any] | None) -> bool:
    """Also a disk with retained data counts: its own claim may be among those who wait."""
    if disk is None:
        return False
    try:
        problem = not_free(LocalDisk.from_object(disk))
    except InputError:
        return False
    return not problem or problem.startswith("with retained data")
