# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps by which a replica gets another disk. Each is idempotent and ends when its effect is there.

Called by disk_replace in the order of replace_plan. Never wipes, never unlocks under a living pod, and touches no other
replica and no other disk of this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...berth_core.app import manifests, states
from ...berth_core.app.compare import differences
from ...berth_core.app.disk_acts import cordoned_disk
from ...berth_core.app.observed import ready
from ...berth_core.app.replace_plan import Replica, Seen, check_new, remaining, why_not_adopted
from ...berth_core.app.wanted import APP_LABEL, STATEFUL_SET, AppWanted, DiskWanted
from ...berth_core.errors import ConflictError, StateError, TimeoutExpired
from ...berth_core.model import resources as kinds
from ..base import Context
from ..objects import poll
from . import steps, wait


class Replacement:
    """One disk for another. ``declared``: the LocalDisk of the new one."""

    def __init__(self, context: Context, declared: Mapping[str, Any], replica: Replica | None) -> None:
        self._client, self._progress = context.client, context.progress
        self._declared, self._replica = declared, replica
        self._name = str(declared["metadata"]["name"])
        self._timeout, self._mount_root = context.params["wait_timeout"], context.params["mount_root"]
        self._seen: Seen | None = None

    def look(self, old: str) -> Seen:
        """Everything that the plan needs, read now."""
        one, client = self._replica, self._client
        disk, new = client.get(kinds.LOCAL_DISK, old), client.find(kinds.LOCAL_DISK, self._name)
        berth = client.find(kinds.BERTH, one.berth, one.namespace) if one else None
        if one is None or berth is None:
            return Seen(disk, new, None, None, frozenset(), False)
        labels = f"{APP_LABEL}={one.app},{manifests.NAMESPACE_LABEL}={one.namespace}"
        volumes = frozenset(each["metadata"]["name"] for each in client.list(kinds.PV, labels=labels))
        claim = client.find(kinds.PVC, one.claim_name, one.namespace)
        pod = client.find(kinds.POD, one.berth, one.namespace)
        self._seen = Seen(disk, new, berth, claim, volumes, ready(pod))
        return self._seen

    def left(self, old: str) -> list[str]:
        return remaining(self.look(old), self._replica, self._name)

    def do(self, step: str) -> None:
        """One step by its name in replace_plan.STEPS."""
        self._progress(f"replacing a disk: {step}")
        getattr(self, f"_{step}")()

    # -- away from the old disk ------------------------------------------------------------------------------------

    def _cordon(self) -> None:
        name = self._old["metadata"]["name"]
        steps.swap(self._client, kinds.LOCAL_DISK, name, _cordoned)

    def _stop(self) -> None:
        """The claim goes first: while it is going, no new pod is made, and it goes when the pod has stopped."""
        one, claim = self._one, self._look.claim
        uid = claim["metadata"]["uid"] if claim else ""
        if claim and not claim["metadata"].get("deletionTimestamp"):
            self._client.delete(kinds.PVC, one.claim_name, one.namespace, uid=uid)
        pod = self._client.find(kinds.POD, one.berth, one.namespace)
        if pod is not None and not pod["metadata"].get("deletionTimestamp"):
            self._client.delete(kinds.POD, one.berth, one.namespace, uid=pod["metadata"]["uid"])

        def gone() -> bool | None:
            live = self._client.find(kinds.PVC, one.claim_name, one.namespace)
            return True if live is None or live["metadata"]["uid"] != uid else None

        self._await(gone, f"pod {one.namespace}/{one.berth} to stop and its claim {one.claim_name} to go")

    def _unbind(self) -> None:
        name = manifests.volume_name(self._old["metadata"]["name"], self._uid)
        self._client.delete(kinds.PV, name)
        self._await(lambda: True if self._client.find(kinds.PV, name) is None else None, f"volume {name} to go")

    def _reopen(self) -> None:
        """A berth that is Reserved or later never changes its disks; its other locks stay."""
        meta = self._berth["metadata"]
        body = {
            "metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]},
            "status": {"phase": states.SELECTED},
        }
        self._client.patch(kinds.BERTH, meta["name"], meta["namespace"], body, "status")

    def _release(self) -> None:
        steps.unlock_disk(self._client, self._old["metadata"]["name"], self._uid, keep_data=True)

    # -- onto the new one ------------------------------------------------------------------------------------------

    def _adopt(self) -> None:
        if self._client.find(kinds.LOCAL_DISK, self._name) is None:
            self._client.create(kinds.LOCAL_DISK, self._declared)
        told = {"why": ""}

        def available() -> bool | None:
            live = self._client.get(kinds.LOCAL_DISK, self._name)
            check_new(self._declared, live)
            told["why"] = why_not_adopted(live)
            return True if (live.get("status") or {}).get("phase") == "Available" else None

        if not poll(available, self._timeout, most=2.0):
            raise TimeoutExpired(
                f"waited {self._timeout} s for the new disk, LocalDisk {self._name}: {told['why']}. Put it into node "
                f"{self._declared['spec']['nodeName']}, and run the task again",
                new=self._name,
            )

    def _assign(self) -> None:
        record, one = self._berth, self._one
        disks = [
            {**entry, "name": self._name} if entry["claim"] == one.claim else entry for entry in record["spec"]["disks"]
        ]
        self._client.replace(kinds.BERTH, {**record, "spec": {**record["spec"], "disks": disks}})

    def _lock(self) -> None:
        holder = manifests.holder(self._app(), self._berth, self._one.claim)
        steps.lock_disk(self._client, holder, self._name, None)

    def _bind(self) -> None:
        record, one, app = dict(self._berth), self._one, self._app()
        steps.record_phase(self._client, record, states.RESERVED)
        node = self._client.get(kinds.NODE, record["spec"]["nodeName"])["metadata"]
        hostname = (node.get("labels") or {}).get(manifests.HOSTNAME_LABEL) or node["name"]
        disk = self._client.get(kinds.LOCAL_DISK, self._name)
        self._create(kinds.PV, manifests.volume(app, record, one.claim, disk, hostname))
        self._tie(manifests.claim(app, record, one.claim, disk))
        steps.record_phase(self._client, record, states.BOUND)

    def _tie(self, body: dict[str, Any]) -> None:
        """Our claim, or the one that the StatefulSet's controller has made meanwhile, tied to the volume."""
        meta, volume = body["metadata"], body["spec"]["volumeName"]
        live = self._client.find(kinds.PVC, meta["name"], meta["namespace"])
        if live is None:
            self._create(kinds.PVC, body)
            live = self._client.get(kinds.PVC, meta["name"], meta["namespace"])
        if live["spec"].get("volumeName") not in (None, "", volume):
            raise StateError(
                f"PersistentVolumeClaim {meta['namespace']}/{meta['name']} is bound to {live['spec']['volumeName']}, "
                f"not to {volume}: delete it and its pod, and run the task again; no data was touched"
            )
        if differences({"metadata": meta, "spec": {"volumeName": volume}}, live):
            same = {"uid": live["metadata"]["uid"], "resourceVersion": live["metadata"]["resourceVersion"]}
            change = {"metadata": {**same, "labels": meta["labels"], "annotations": meta["annotations"]}}
            self._client.patch(kinds.PVC, meta["name"], meta["namespace"], {**change, "spec": {"volumeName": volume}})

    def _run(self) -> None:
        one, record = self._one, dict(self._berth)
        wait.until(
            self._client,
            kinds.POD,
            one.namespace,
            f"{APP_LABEL}={one.app}",
            self._timeout,
            wait.pods_ready([one.berth]),
            f"pod {one.berth} to be Ready on the new disk",
            self._progress,
        )
        steps.record_phase(self._client, record, states.CREATED, one.berth)
        steps.record_phase(self._client, record, states.RUNNING, one.berth)

    # -- helpers ---------------------------------------------------------------------------------------------------

    @property
    def _one(self) -> Replica:
        if self._replica is None:
            raise StateError("disk_replace: the disk is nobody's, and there is no such step for it")
        return self._replica

    @property
    def _look(self) -> Seen:
        if self._seen is None:
            raise StateError("disk_replace: nobody has looked yet")
        return self._seen

    @property
    def _old(self) -> Mapping[str, Any]:
        return self._look.old

    @property
    def _berth(self) -> dict[str, Any]:
        if self._look.berth is None:
            raise StateError(f"Berth {self._one.namespace}/{self._one.berth} is gone: run the task again")
        return dict(self._look.berth)

    @property
    def _uid(self) -> str:
        return str(self._berth["metadata"]["uid"])

    def _app(self) -> AppWanted:
        """As much of the app as volumes and claims are made from: size from the berth, class from the workload."""
        one, spec = self._one, self._declared["spec"]
        size = next(entry["size"] for entry in self._berth["spec"]["disks"] if entry["claim"] == one.claim)
        workload = self._client.find(kinds.STATEFUL_SET, one.app, one.namespace)
        templates = (workload or {}).get("spec", {}).get("volumeClaimTemplates") or ()
        classes = [each["spec"].get("storageClassName") for each in templates if each["metadata"]["name"] == one.claim]
        name = classes[0] if classes else spec.get("storageClassName")
        disk = DiskWanted(one.claim, size, name, spec.get("volumeMode", "Filesystem"), None, None, ())
        return AppWanted(
            one.app, one.namespace, 1, STATEFUL_SET, {}, None, (disk,), (), "OrderedReady", self._mount_root
        )

    def _create(self, resource: kinds.Resource, body: Mapping[str, Any]) -> None:
        """Create it, or find that it is there just so."""
        try:
            self._client.create(resource, body)
        except ConflictError:
            meta = body["metadata"]
            live = self._client.get(resource, meta["name"], meta.get("namespace"))
            wrong = differences(body["spec"], live["spec"]) if resource is kinds.PV else []
            if wrong:
                raise StateError(
                    f"{resource.describe(meta['name'], meta.get('namespace'))} is there and is not what this replica "
                    f"needs (it differs in {', '.join(wrong)})"
                ) from None

    def _await(self, probe: Any, goal: str) -> None:
        if not poll(probe, self._timeout, most=1.0):
            raise TimeoutExpired(f"waited {self._timeout} s for {goal}; run the task again to go on", changed=True)


def _cordoned(disk: Mapping[str, Any]) -> dict[str, Any] | None:
    changed = cordoned_disk(disk, True)
    return None if changed == disk else changed
