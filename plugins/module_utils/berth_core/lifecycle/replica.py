# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One replica of a stateful app, as the owner of a berth: its claims are made for it, and its pod after them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..app import manifests
from ..app.claim_disks import words
from ..app.compare import differences
from ..app.device_claim import DRIVER
from ..app.replace_request import marked
from ..app.wanted import AppWanted
from ..model.disk import Condition, LocalDisk, condition_of
from ..model.resources import BERTH, PV
from . import states
from .forward import differs
from .locks import Holder
from .recording import record_phase
from .step import CREATE, DONE, Choose, Step, Wait, Write
from .view import Object, View, devices_of, recorded

#: What the lock's own rules refuse, and say more about.
_BY_THE_LOCK = (Condition.GOOD, Condition.RESERVED, Condition.CORDONED, Condition.WIPING)


class Place(Protocol):
    """Where a replica goes. ``disks``: claim -> LocalDisk; ``devices``: (claim, LocalDevice, shares).

    ``volumes``: claim -> PersistentVolume over it that was there before berth, of a replica that is adopted.
    """

    @property
    def node(self) -> str: ...

    @property
    def disks(self) -> Mapping[str, str]: ...

    @property
    def devices(self) -> tuple[tuple[str, str, int], ...]: ...

    @property
    def volumes(self) -> Mapping[str, str]: ...


@dataclass(frozen=True)
class ReplicaOwner:
    """``chosen``: its node, disks and devices. ``refused``: why its choice cannot stand beside those of others.

    ``alone``: its Reserved need not wait for other replicas. ``told``: its workload has been told of it.
    ``ready``: its pod is Ready. ``selector``: the labels by which its StatefulSet, where there is one, finds its pods.
    ``replaced``: nodes of requests for another place that a new berth answers.
    """

    app: AppWanted
    ordinal: int
    chosen: Place | None = None
    refused: str = ""
    alone: bool = True
    told: bool = False
    ready: bool = False
    replaced: tuple[str, ...] = ()
    selector: Mapping[str, str] = field(default_factory=dict)

    def begin(self) -> Step:
        """Absent -> Selected."""
        chosen = self.chosen
        if chosen is None:
            return Choose()
        body = manifests.berth(self.app, self.ordinal, chosen.node, chosen.disks, chosen.devices, chosen.volumes)
        return Write(CREATE, BERTH, marked(body, self.replaced), f"node {chosen.node} is chosen")

    def withdrawn(self, view: View, record: Object) -> str:
        return self.refused

    def unusable(self, claim: str, disk: Object) -> str:
        """Asked right before the lock: the choice may be an earlier run's, and the disk's agent may have found data
        since. A disk of somebody's is judged by the lock's own rules: this replica's data stays its own."""
        if disk["spec"].get("claimRef") or disk["spec"].get("retainedFor"):
            return ""
        condition = condition_of(LocalDisk.from_object(disk))
        return words(condition) if condition not in _BY_THE_LOCK else ""

    def waits_for_others(self) -> bool:
        return not self.alone

    def holder(self, record: Object, claim: str) -> Holder:
        return manifests.holder(self.app, record, claim)

    def volume(self, record: Object, claim: str, disk: Object, hostname: str) -> dict[str, Any] | Wait:
        return manifests.volume(self.app, record, claim, disk, hostname)

    def check_volume(self, record: Object, claim: str, disk: Object, volume: Object) -> Wait | None:
        """One that names this berth belongs to berth, whichever release made it."""
        body = manifests.volume(self.app, record, claim, disk, "")
        body["spec"].pop("nodeAffinity")
        ours = not differences({"metadata": {"annotations": body["metadata"]["annotations"]}}, volume)
        return None if ours else differs(PV, volume, differences(body, volume))

    def claim(self, record: Object, claim: str, disk: Object) -> dict[str, Any] | None:
        return manifests.claim(self.app, record, claim, disk)

    def made_by_its_workload(self, live: Object) -> bool:
        """A StatefulSet's controller gives its claims the labels of the set's selector, whoever has made the set."""
        labels = live["metadata"].get("labels") or {}
        return bool(self.selector) and self.selector.items() <= labels.items()

    def device_claims(self, view: View, record: Object) -> list[dict[str, Any] | Wait]:
        """One for each device claim that is handed to containers, over the berth's own locked devices."""
        found: list[dict[str, Any] | Wait] = []
        for wanted in self.app.handed:
            entries = [each for each in devices_of(record) if each["claim"] == wanted.name]
            unpublished = [each["name"] for each in entries if not _published(view.devices.get(each["name"]))]
            if unpublished and self.app.claim_name(wanted.name, self.ordinal) not in view.device_claims:
                found.append(_cannot_be_handed(unpublished[0], record))
            else:
                devices = [(view.devices[each["name"]], each["shares"]) for each in entries]
                found.append(manifests.device_claim(self.app, record, wanted.name, devices))
        return found

    def kept(self, record: Object) -> str:
        return "the replica is there: nothing is given up before the replica is deleted"

    def arrived(self, view: View, record: Object) -> Step:
        phase, pod = recorded(record), self.app.berth_name(self.ordinal)
        if not states.reached(phase, states.BOUND):
            return record_phase(record, states.BOUND, replacing=None)
        if not self.told:
            return Wait("Workload", "its claims are there; the workload is next")
        if not states.reached(phase, states.CREATED):
            return record_phase(record, states.CREATED, podName=pod)
        if not self.ready:
            return Wait("Pod", f"waits for pod {pod} to be Ready")
        return DONE if phase == states.RUNNING else record_phase(record, states.RUNNING, podName=pod)


def _published(device: Object | None) -> bool:
    """Whether the device's agent can hand it over."""
    return (((device or {}).get("status") or {}).get("observed") or {}).get("driver") == DRIVER


def _cannot_be_handed(name: str, record: Object) -> Wait:
    text = (
        f"LocalDevice {name} is locked, but the agent of node {record['spec']['nodeName']} does not publish it to the "
        f"kubelet (status.observed.driver is not {DRIVER}; see its condition Published): no container can get it; "
        "start the agent there, or take the device out of resources.claims of the template"
    )
    return Wait("NotPublished", text, True)
