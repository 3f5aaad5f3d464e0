"""Which event wakes which work: the caches' handlers, the queues and the reconcilers of one controller.

Made by __main__ when this process may lead, and run until it may not. Decides nothing and writes nothing by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from berth_core.app import claim_wakes, claims
from berth_core.app.claim_disks import not_free, place_of
from berth_core.app.controller_settings import Settings
from berth_core.model.disk import LocalDisk
from berth_core.model.over_disk import disk_below
from berth_kube.client import KubeClient
from berth_kube.lifecycle import claim_berth
from berth_kube.metrics import Metrics as RequestMetrics
from berth_kube.queue import Reconciler

from .apps.watch import Apps
from .binder import Binder
from .caches import Caches, Obj
from .capacities import Capacities
from .changes import Changes
from .orphan_watch import OrphanWatch
from .reports import Reports
from .wakes import ClaimKey, Wakes

#: Many disks change at one moment; their capacity is written once.
DEBOUNCE = 0.1
CAPACITY = "capacity"
#: How long after a pod its claims' Berths follow: one that is Ready by then costs one write in the place of two.
FOLLOW = 0.5


class Controller:
    """The work of a leader. ``reports`` and ``requests`` outlive it."""

    def __init__(
        self, client: KubeClient, caches: Caches, reports: Reports, requests: RequestMetrics, settings: Settings
    ) -> None:
        self._caches = caches
        self._wakes = Wakes(self._visit)
        self.binder = Binder(client, caches, reports, self._wakes, settings.mount_root, settings.resync)
        self._claims: Reconciler[ClaimKey] = Reconciler(
            "claim", self.binder.reconcile, settings.workers, observe=requests.reconciles("claim")
        )
        capacities = Capacities(client, caches, self.binder.held_back, settings.namespace)
        self._capacity: Reconciler[str] = Reconciler(
            CAPACITY, capacities.reconcile, 1, observe=requests.reconciles(CAPACITY)
        )
        self._apps = Apps(client, caches, reports, requests, settings)
        self._changes = Changes(caches, reports)
        self._orphans = OrphanWatch(client, caches, reports, settings)
        reports.metrics.waiting.set_function(lambda: len(self._wakes))
        requests.depth("claim", lambda: len(self._claims.queue))
        self._listen()

    async def run(self) -> None:
        """Until cancelled. The caches are synced."""
        self._capacity.queue.add(CAPACITY)
        works = (self._claims, self._wakes, self._capacity, self._orphans, self._apps)
        await asyncio.gather(*(work.run() for work in works))

    def _listen(self) -> None:
        """What is in the caches already is told as added: nothing of the time before is missed."""
        caches = self._caches
        caches.claims.on(self._claim, lambda _old, new: self._claim(new), self._claim)
        caches.berths.on(self._berth, lambda _old, new: self._berth(new), self._berth)
        caches.volumes.on(self._volume, self._volume, self._volume)
        caches.disks.on(
            lambda disk: self._disk(None, disk),
            self._disk,
            lambda disk: self._disk(disk, None),
            listed=self._disks_listed,
        )
        caches.nodes.on(lambda node: self._node(None, node), self._node, lambda node: self._node(node, None))
        caches.classes.on(lambda one: self._class(None, one), self._class, lambda one: self._class(one, None))
        caches.pods.on(lambda pod: self._pod(None, pod), self._pod, lambda pod: self._pod(pod, None))
        caches.capacities.on(*3 * [lambda *_versions: self._measure()])

    def _visit(self, key: ClaimKey) -> None:
        self.binder.rescues.asked(key)
        self._claims.queue.add(key)

    def _visit_later(self, key: ClaimKey) -> None:
        self.binder.rescues.asked(key)
        self._claims.queue.add_after(key, FOLLOW)

    def _claim(self, claim: Obj) -> None:
        self._visit(_key_of(claim))
        if self.binder.held_back:
            self._measure()

    def _berth(self, record: Obj) -> None:
        self._holders([record])
        meta = record["metadata"]
        # A claim that was made anew waits for the earlier one's Berth.
        self._of_data(meta["namespace"], record["spec"]["app"])
        self._measure()

    def _holders(self, records: Iterable[Obj]) -> None:
        """The claims of these Berths. By name: also where an app's berth stood in the way of a claim's, and went."""
        for record in records:
            uid = claims.claim_uid(record["metadata"]["name"])
            if uid:
                self._visit(ClaimKey(record["metadata"]["namespace"], uid))

    def _volume(self, *versions: Obj) -> None:
        """Whom it is tied to, and whose disk is below it."""
        for volume in versions:
            ref, notes = volume["spec"].get("claimRef") or {}, volume["metadata"].get("annotations") or {}
            if notes.get(claims.PROVISIONED_BY) == claims.PROVISIONER:
                self._visit(ClaimKey(ref.get("namespace", ""), ref.get("uid", "")))
            below = disk_below(volume)
            self._holders(self._caches.berths.by_index("disk", below))
            self._off_disk(self._caches.parse(self._caches.disk(below)))

    def _off_disk(self, disk: LocalDisk | None) -> None:
        """A volume over it has come to be known, or goes: where its lock is gone, claims see another disk."""
        if disk is not None and disk.unowned:
            self._wakes.wake([disk.storage_class], soon=not not_free(disk))
            self._measure()

    def _disk(self, old: Obj | None, new: Obj | None) -> None:
        for disk in (old, new):
            ref = disk["spec"].get("claimRef") if disk is not None else None
            uid = claims.claim_uid(ref["name"]) if ref else None
            if ref and uid:
                self._visit(ClaimKey(ref["namespace"], uid))
            self._holders(self._caches.berths.by_index("disk", disk["metadata"]["name"]) if disk is not None else ())
        self._measure()
        concerned = claim_wakes.of_disk(self._caches.parse(old), self._caches.parse(new))
        self._wakes.wake(concerned.classes, concerned.soon)
        for namespace, app in concerned.data:
            self._of_data(namespace, app)

    def _of_data(self, namespace: str, app: str) -> None:
        """The claims by whose name data is kept under that ``app``."""
        for claim in self._caches.claims.by_index("data", f"{namespace}/{app}"):
            self._visit(_key_of(claim))

    def _disks_listed(self) -> None:
        """What came and went since the last watch was told to nobody; a visit may have seen it in own writes."""
        self._wakes.wake_all(soon=True)
        self._measure()

    def _node(self, old: Obj | None, new: Obj | None) -> None:
        before, now = (place_of(node) if node is not None else None for node in (old, new))
        soon = claim_wakes.of_node(before, now)
        if soon is None:
            return
        self._wakes.wake_all(soon)
        if before is None or now is None or before.hostname != now.hostname:
            name = (new or old or {})["metadata"]["name"]
            self._holders(self._caches.berths.by_index("node", name))
        self._measure()

    def _class(self, old: Obj | None, new: Obj | None) -> None:
        if claim_wakes.of_class(old, new):
            name = (new or old or {})["metadata"]["name"]
            for claim in self._caches.claims.all():
                if claims.class_of(claim) == name:
                    self._claim(claim)
            self._measure()

    def _pod(self, old: Obj | None, new: Obj | None) -> None:
        """The Berths of a pod's claims follow it; what else of a pod changes concerns none of them."""
        pod = new or old
        if pod is None or (old is not None and new is not None and old["seen"] == new["seen"]):
            return
        namespace = pod["metadata"]["namespace"]
        for name in pod["claims"]:
            claim = self._caches.claims.get(name, namespace)
            if claim is not None and claim_berth(self._caches, namespace, claim["metadata"]["uid"]) is not None:
                self._visit_later(_key_of(claim))

    def _measure(self) -> None:
        self._capacity.queue.add_after(CAPACITY, DEBOUNCE)


def _key_of(claim: Obj) -> ClaimKey:
    return ClaimKey(claim["metadata"]["namespace"], claim["metadata"]["uid"])
