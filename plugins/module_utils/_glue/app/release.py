# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way back: stop the pods, untie the claims, give up the locks, forget the berth. Data is never touched.

Called by the flow for scaling down and by state absent. Highest ordinal first, and never a lock given up under a
living pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Callable, Optional

from ...berth_core.app.given_beside import BESIDE
from ...berth_core.app.observed import Observed
from ...berth_core.app.observing import view_of
from ...berth_core.app.wanted import APP_LABEL
from ...berth_core.app.wanted import POD as POD_WORKLOAD
from ...berth_core.app.wanted import STATEFUL_SET as STATEFUL_SET_WORKLOAD
from ...berth_core.errors import ConflictError, NotFoundError
from ...berth_core.lifecycle.locks import unlock_device, unlock_disk
from ...berth_core.model.resources import LOCAL_DEVICE, LOCAL_DISK, POD, PV, PVC, SERVICE, STATEFUL_SET, Resource
from ..base import Context
from . import wait
from .driver import Driver

Object = Mapping[str, Any]
Change = Callable[[Object], Optional[dict[str, Any]]]
#: How often one compare-and-swap is tried when the object changes before the write without being taken.
SWAPS = 8


class Release:
    """Gives up berths of one application."""

    def __init__(self, context: Context, observed: Observed, workload: str, wait_timeout: float) -> None:
        self._context = context
        self._client = context.client
        self._seen = observed
        self._workload = workload
        self._timeout = wait_timeout

    def scale_down(self, ordinals: Sequence[int], keep: int) -> None:
        """Give up ``ordinals`` (highest first) so that ``keep`` replicas are left."""
        if not ordinals:
            return
        self._stop(ordinals, keep)
        self._give_up(ordinals)

    def remove(self, ordinals: Sequence[int], service: str) -> None:
        """Give up everything, the workload's objects too."""
        self._stop(ordinals, 0)
        if self._seen.stateful_set:
            meta = self._seen.stateful_set["metadata"]
            self._client.delete(STATEFUL_SET, meta["name"], meta["namespace"], uid=meta["uid"])
        if self._seen.service:
            self._client.delete(SERVICE, service, self._seen.namespace, uid=self._seen.service["metadata"]["uid"])
        for (kind, name), body in self._seen.beside.items():
            self._client.delete(BESIDE[kind], name, self._seen.namespace, uid=body["metadata"]["uid"])
        self._give_up(ordinals)

    def clear_stale(self) -> None:
        """Locks in this app's name whose berth is gone become retained data: nobody is coming back for the lock
        itself."""
        for disk in self._seen.stale_disks():
            uid = disk["spec"]["claimRef"]["uid"]
            self._swap(LOCAL_DISK, disk, partial(unlock_disk, uid=uid, keep_data=True))
        for device, uid in self._seen.stale_devices():
            self._swap(LOCAL_DEVICE, device, partial(unlock_device, uid=uid))
        claims, volumes = self._seen.stale_claims()
        for claim in claims:
            meta = claim["metadata"]
            self._client.delete(PVC, meta["name"], meta["namespace"], uid=meta["uid"])
        for volume in volumes:
            self._client.delete(PV, volume["metadata"]["name"], uid=volume["metadata"]["uid"])

    def _stop(self, ordinals: Sequence[int], keep: int) -> None:
        workload = self._seen.stateful_set
        if workload and self._workload == STATEFUL_SET_WORKLOAD and int(workload["spec"].get("replicas", 1)) > keep:
            meta = workload["metadata"]
            self._client.patch(
                STATEFUL_SET,
                meta["name"],
                meta["namespace"],
                {"metadata": {"uid": meta["uid"]}, "spec": {"replicas": keep}},
            )
        names = [f"{self._seen.name}-{ordinal}" for ordinal in ordinals]
        for name in names:
            pod = self._seen.pods.get(name)
            if pod and self._workload == POD_WORKLOAD:
                self._client.delete(POD, name, self._seen.namespace, uid=pod["metadata"]["uid"])
        if self._seen.pods:
            wait.until(
                self._client,
                POD,
                self._seen.namespace,
                f"{APP_LABEL}={self._seen.name}",
                self._timeout,
                wait.pods_gone(names),
                "the pods to stop",
                self._context.progress,
            )

    def _give_up(self, ordinals: Sequence[int]) -> None:
        driver = Driver(self._context, self._context.progress, self._timeout)
        for ordinal in ordinals:
            self._context.progress(f"giving up berth {self._seen.namespace}/{self._seen.name}-{ordinal}")
            driver.drive(view_of(self._seen, ordinal))

    def _swap(self, resource: Resource, seen: Object, change: Change) -> None:
        """Change the object and write it, as long as only somebody else's change is in the way. Gone is well, too."""
        name, current = str(seen["metadata"]["name"]), seen
        for _attempt in range(SWAPS):
            changed = change(current)
            if changed is None:
                return
            try:
                self._client.replace(resource, changed)
                return
            except NotFoundError:
                return
            except ConflictError:
                found = self._client.find(resource, name)
                if found is None:
                    return
                current = found
        raise ConflictError(
            f"{resource.kind} {name} changed before the write {SWAPS} times in a row: somebody writes it without "
            "pause; berth changed nothing of it",
            409,
            "Conflict",
        )
