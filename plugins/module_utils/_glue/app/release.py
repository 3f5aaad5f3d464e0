# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way back: stop the pods, untie the claims, give up the locks, forget the berth. Data is never touched.

Called by the flow for scaling down and by state absent. Highest ordinal first, and never a lock given up under a
living pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...berth_core.app import states
from ...berth_core.app.manifests import NAMESPACE_LABEL, volume_name
from ...berth_core.app.observed import Observed, recorded
from ...berth_core.app.wanted import APP_LABEL
from ...berth_core.app.wanted import POD as POD_WORKLOAD
from ...berth_core.app.wanted import STATEFUL_SET as STATEFUL_SET_WORKLOAD
from ...berth_core.model.resources import POD, PV, PVC, RESOURCE_CLAIM, SERVICE, STATEFUL_SET
from ..base import Context
from . import steps, wait


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
        self._give_up(ordinals)

    def clear_stale(self) -> None:
        """Locks in this app's name whose berth is gone become retained data: nobody is coming back for the lock
        itself."""
        for disk in self._seen.stale_disks():
            steps.unlock_disk(self._client, disk["metadata"]["name"], disk["spec"]["claimRef"]["uid"], keep_data=True)
        for device, uid in self._seen.stale_devices():
            steps.unlock_device(self._client, device["metadata"]["name"], uid)
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
            self._gone(POD, self._seen.namespace, wait.pods_gone(names), "the pods to stop")

    def _give_up(self, ordinals: Sequence[int]) -> None:
        for ordinal in ordinals:
            record = self._seen.berths[ordinal]
            self._context.progress(f"giving up berth {self._seen.namespace}/{record['metadata']['name']}")
            self._unbind(record)
            steps.unreserve(self._client, record, keep_data=states.reached(recorded(record), states.RESERVED))

    def _unbind(self, record: Mapping[str, Any]) -> None:
        meta, spec = record["metadata"], record["spec"]
        claims = [f"{disk['claim']}-{spec['app']}-{spec['ordinal']}" for disk in spec.get("disks") or ()]
        there = [name for name in claims if name in self._seen.claims]
        for name in there:
            self._client.delete(PVC, name, meta["namespace"], uid=self._seen.claims[name]["metadata"]["uid"])
        if there:
            self._gone(PVC, meta["namespace"], wait.objects_gone("PersistentVolumeClaim", there), "the claims to go")
        volumes = [volume_name(disk["name"], meta["uid"]) for disk in spec.get("disks") or ()]
        for name in volumes:
            if name in self._seen.volumes:
                self._client.delete(PV, name, uid=self._seen.volumes[name]["metadata"]["uid"])
        self._untie(record)
        held = [name for name in volumes if name in self._seen.volumes]
        if held:
            labels = f"{APP_LABEL}={self._seen.name},{NAMESPACE_LABEL}={self._seen.namespace}"
            self._gone(PV, None, wait.objects_gone("PersistentVolume", held), "the volumes to go", labels)

    def _untie(self, record: Mapping[str, Any]) -> None:
        """The claims of its devices go, and are waited for: until then the scheduler counts the devices as given."""
        spec, meta = record["spec"], record["metadata"]
        names = {f"{device['claim']}-{spec['app']}-{spec['ordinal']}" for device in spec.get("devices") or ()}
        there = sorted(names & set(self._seen.device_claims))
        for name in there:
            uid = self._seen.device_claims[name]["metadata"]["uid"]
            self._client.delete(RESOURCE_CLAIM, name, meta["namespace"], uid=uid)
        if there:
            gone = wait.objects_gone("ResourceClaim", there)
            self._gone(RESOURCE_CLAIM, meta["namespace"], gone, "the claims of devices to go")

    def _gone(
        self, resource: Any, namespace: str | None, missing: wait.Missing, goal: str, labels: str | None = None
    ) -> None:
        wait.until(
            self._client,
            resource,
            namespace,
            labels or f"{APP_LABEL}={self._seen.name}",
            self._timeout,
            missing,
            goal,
            self._context.progress,
        )
