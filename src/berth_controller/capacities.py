"""CSIStorageCapacity objects: what each node can still give to each class, for the stock scheduler.

The controller calls `reconcile` a moment after disks, nodes or classes changed. What the objects say is decided in
berth_core.app.capacity; a scheduler that has read an old one is corrected by the binder, which gives the node back.
"""

from __future__ import annotations

import logging

from berth_core.app import capacity, claims
from berth_core.lifecycle import states
from berth_core.lifecycle.view import recorded
from berth_core.model.resources import CSI_STORAGE_CAPACITY
from berth_kube.client import KubeClient

from .caches import Caches
from .held_back import HeldBack

_log = logging.getLogger(__name__)


class Capacities:
    """Writes the objects of one namespace; those that bear its label and are not wanted any more go."""

    def __init__(self, client: KubeClient, caches: Caches, held_back: HeldBack, namespace: str) -> None:
        self._client, self._caches, self._held_back, self._namespace = client, caches, held_back, namespace

    async def reconcile(self, _key: str) -> float | None:
        """Create, replace and delete what differs. Raises ConflictError when the cache was behind: try again."""
        todo = capacity.changes(self._wanted(), self._caches.capacities.all())
        for body in todo.create:
            await self._client.create(CSI_STORAGE_CAPACITY, body)
        for body in todo.replace:
            await self._client.replace(CSI_STORAGE_CAPACITY, body)
        for item in todo.delete:
            meta = item["metadata"]
            await self._client.delete(CSI_STORAGE_CAPACITY, meta["name"], self._namespace, uid=meta["uid"])
        if any(todo):
            _log.debug("capacity: %d created, %d changed, %d removed", *(len(part) for part in todo))
        return self._held_back.seconds()

    def _wanted(self) -> dict[str, dict[str, object]]:
        caches = self._caches
        classes = [
            one["metadata"]["name"]
            for one in caches.classes.all()
            if claims.ours(one) and one.get("volumeBindingMode") == "WaitForFirstConsumer"
        ]
        written = {
            disk["name"]
            for record in caches.berths.all()
            if recorded(record) == states.SELECTED
            for disk in record["spec"].get("disks") or ()
        }
        return capacity.wanted(
            self._namespace, classes, caches.parsed_disks(), caches.places(), written, self._held_back.places()
        )
