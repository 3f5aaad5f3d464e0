"""Which event has which StatefulApp looked at. Made by the controller with its caches; writes nothing by itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from berth_core.app.controller_settings import Settings
from berth_core.app.helper_pods import replica_of
from berth_core.app.stateful_app_object import CONTROLLER
from berth_core.model.over_disk import disk_below
from berth_kube.client import KubeClient
from berth_kube.metrics import Metrics as RequestMetrics
from berth_kube.queue import Reconciler

from ..caches import Caches, Obj
from ..reports import Reports
from .visit import AppKey, Visits

NAME = "app"
#: Many pods change at one moment; the app is looked at once.
DEBOUNCE = 0.1
#: Apps that are worked on at one time, at most.
WORKERS = 4


class Apps:
    """The work on StatefulApps of a leader."""

    def __init__(
        self, client: KubeClient, caches: Caches, reports: Reports, requests: RequestMetrics, settings: Settings
    ) -> None:
        self._caches = caches
        account = f"{settings.namespace}:berth-controller"
        self._visits = Visits(
            client, reports, self._current, caches.nodes.get, account, settings.mount_root, settings.resync
        )
        workers = min(WORKERS, settings.workers)
        self._queue: Reconciler[AppKey] = Reconciler(
            NAME, self._visits.reconcile, workers, observe=requests.reconciles(NAME)
        )
        requests.depth(NAME, lambda: len(self._queue.queue))
        self._listen()

    async def run(self) -> None:
        """Until cancelled. The caches are synced."""
        await self._queue.run()

    def _listen(self) -> None:
        caches = self._caches
        caches.apps.on(self._app, lambda _old, new: self._app(new), self._app)
        for informer, told in ((caches.sets, self._set), (caches.berths, self._berth)):
            informer.on(told, partial(_newer, told), told)
        caches.app_pods.on(self._pod, partial(_newer, self._pod), partial(self._pod, gone=True))
        for informer in (caches.disks, caches.devices, caches.nodes, caches.classes):
            informer.on(lambda _new: self._room(), lambda _old, _new: self._room(), lambda _old: self._room())
        caches.berths.on(delete=lambda _old: self._room())  # what it takes of its node's cpu and memory is free
        caches.volumes.on(delete=self._volume_gone)

    def _current(self, key: AppKey) -> Obj | None:
        return self._caches.apps.get(key.name, key.namespace)

    def _app(self, body: Obj) -> None:
        self._queue.queue.add(AppKey(body["metadata"]["namespace"], body["metadata"]["name"]))

    def _set(self, body: Obj) -> None:
        self._part(body["metadata"]["namespace"], body["metadata"]["name"])

    def _pod(self, body: Obj, gone: bool = False) -> None:
        """Of a replica, or one that helps it."""
        namespace, name = body["metadata"]["namespace"], str(body["metadata"]["name"])
        replica = replica_of(name)
        app, _dash, ordinal = replica.rpartition("-")
        if replica == name and ordinal.isdecimal():
            self._visits.downtimes.tell(AppKey(namespace, app), int(ordinal), bool(body.get("ready")) and not gone)
        self._part(namespace, app)

    def _berth(self, body: Obj) -> None:
        self._part(body["metadata"]["namespace"], body["spec"]["app"])

    def _volume_gone(self, volume: Obj) -> None:
        """Whose Berth has the disk below it waits for that, or makes it anew; a disk whose lock is gone is free now."""
        below = disk_below(volume)
        for record in self._caches.berths.by_index("disk", below):
            self._berth(record)
        disk = self._caches.parse(self._caches.disk(below))
        if disk is not None and disk.unowned:
            self._room()

    def _part(self, namespace: str, app: str) -> None:
        """Something of an app has changed. One that a playbook carries out is its next run's to look at."""
        body = self._caches.apps.get(app, namespace)
        if body is not None and body["spec"].get("driver") == CONTROLLER:
            self._queue.queue.add_after(AppKey(namespace, app), DEBOUNCE)

    def _room(self) -> None:
        """Disks, devices, classes, nodes or Berths have changed: who found no place may find one.

        Of pods that are not berth's, whose cpu and memory may be free, nothing is told: there are too many of them.
        """
        self._visits.rooms += 1
        for key in self._visits.unplaced:
            self._queue.queue.add_after(key, DEBOUNCE)


def _newer(told: Callable[[Obj], None], _old: Obj, new: Obj) -> None:
    told(new)
