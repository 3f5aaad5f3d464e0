# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A PersistentVolumeClaim that no app made, as the owner of a berth: it is there first, and is bound to what it gets.

Four writes bring it to its volume, and each is needed: the Berth, whose uid the lock carries; the lock; Reserved, the
fence between a disk that is given up without a trace and one that may carry data; the volume. Then the record follows
what Kubernetes says of the claim and its pod: one write that it is Bound, which names the pod where there is one, and
one that the pod is Running.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..app import claim_manifests, claims, next_commands
from ..app.claim_disks import unfit, words
from ..app.claim_pods import ClaimPod, named_pod
from ..app.claims import Asked
from ..app.fsid import DEFAULT_MOUNT_ROOT
from ..app.manifests import volume_of
from ..errors import StateError
from ..model.disk import Condition, LocalDisk, condition_of
from ..model.resources import BERTH
from ..model.volume import ClaimInfo
from . import states
from .locks import Holder, holds_disk
from .recording import record_phase
from .step import CREATE, DONE, Choose, Step, Wait, Write
from .view import Object, View, disks_of, recorded

_BROKEN = (Condition.FAULTED, Condition.MISSING, Condition.UNHEALTHY)


@dataclass(frozen=True)
class ClaimOwner:
    """``asked``: the claim. ``own``: an earlier claim of this name has left its data, so no scheduler needs to be
    waited for. ``chosen``: the LocalDisk that was chosen. ``pods``: those that mount the claim; None: not known to who
    asks, and the record is left to somebody who knows them. ``before``: an earlier claim of this name is waited for.
    """

    asked: Asked
    own: bool = False
    chosen: LocalDisk | None = None
    mount_root: str = DEFAULT_MOUNT_ROOT
    pods: tuple[ClaimPod, ...] | None = None
    before: Wait | None = None

    def begin(self) -> Step:
        """Absent -> Selected."""
        asked = self.asked
        if asked.claim.volume_name or asked.claim.terminating:
            return DONE  # bound by somebody else, or about to go
        if asked.unsupported:
            return Wait("Unsupported", asked.unsupported, True)
        if self.before is not None:
            return self.before  # its disk keeps this claim's data as soon as it is given up: no other one is chosen
        if not asked.due and not self.own:
            return Wait(
                "WaitForFirstConsumer", "waits for a scheduler to choose the node of the first pod that uses it"
            )
        if self.chosen is None:
            return Choose()
        body = claim_manifests.berth(asked, self.chosen.name, self.chosen.node_name)
        return Write(CREATE, BERTH, body, f"LocalDisk {self.chosen.name} on node {self.chosen.node_name} is chosen")

    def withdrawn(self, view: View, record: Object) -> str:
        """The claim is bound or about to go, or the scheduler has changed its mind; a claim's data never moves."""
        claim, uid = self.asked.claim, record["metadata"]["uid"]
        if claim.volume_name:
            return "the claim was bound by somebody else"
        if claim.terminating:
            return "the claim is being deleted"
        held = [view.disks[each["name"]] for each in disks_of(record) if each["name"] in view.disks]
        refs = [disk["spec"]["claimRef"] for disk in held if holds_disk(disk, uid)]
        own = self.own or any(ref["dataUID"] != ref["uid"] for ref in refs)
        if self.asked.storage_class.waits and not own and self.asked.node != record["spec"]["nodeName"]:
            return f"the scheduler has chosen another node than {record['spec']['nodeName']}"
        return ""

    def unusable(self, claim: str, disk: Object) -> str:
        """Asked right before the lock: the disk may have changed, and anybody may have written the Berth."""
        seen = LocalDisk.from_object(disk)
        condition = condition_of(seen)
        return unfit(self.asked, seen) if condition == Condition.GOOD else words(condition)

    def waits_for_others(self) -> bool:
        return False

    def holder(self, record: Object, claim: str) -> Holder:
        return claims.holder(self.asked.claim, record["metadata"]["uid"])

    def volume(self, record: Object, claim: str, disk: Object, hostname: str) -> dict[str, Any] | Wait:
        name, condition = disk["metadata"]["name"], condition_of(LocalDisk.from_object(disk))
        if condition in _BROKEN and not self.asked.claim.volume_name:
            text = f"LocalDisk {name} is {condition.name.lower()}; waits for it to come back"
            return Wait("DiskNotUsable", text, True)
        try:
            return claim_manifests.volume(self.asked, record, disk, hostname, self.mount_root)
        except StateError as exc:
            return Wait("NoStableLink", exc.message, True)

    def check_volume(self, record: Object, claim: str, disk: Object, volume: Object) -> Wait | None:
        """Tied to this claim, by uid, and the claim not bound to another one."""
        asked, name = self.asked.claim, volume["metadata"]["name"]
        ref = volume["spec"].get("claimRef") or {}
        if ref.get("uid") not in (asked.uid, None):
            return Wait("VolumeTaken", f"PersistentVolume {name} is tied to another claim", True)
        if asked.volume_name and asked.volume_name != name:
            return Wait("BoundElsewhere", f"the claim is bound to PersistentVolume {asked.volume_name}", True)
        return None

    def claim(self, record: Object, claim: str, disk: Object) -> dict[str, Any] | None:
        return None

    def made_by_its_workload(self, live: Object) -> bool:
        return False

    def device_claims(self, view: View, record: Object) -> list[dict[str, Any] | Wait]:
        return []

    def kept(self, record: Object) -> str:
        """A claim that is going itself waits for its pod: an exchange of its disk may have died in between."""
        if not self.asked.claim.terminating:
            return "the claim is there: nothing is given up before the claim is deleted"
        return _kept_while_going(self.asked.claim, record, self.pods)

    def arrived(self, view: View, record: Object) -> Step:
        claim = self.asked.claim
        if claim.phase == "Bound" and claim.volume_name:
            return DONE if self.pods is None else _follow(record, self.pods)
        names = ", ".join(sorted(volume_of(record, each) for each in disks_of(record)))
        return Wait("Binding", f"PersistentVolume {names} is there; Kubernetes binds the claim to it")


def _kept_while_going(claim: ClaimInfo, record: Object, pods: tuple[ClaimPod, ...] | None) -> str:
    """``pods``: None where they are not known: then the one that the Berth names may be there."""
    named = (record.get("status") or {}).get("podName")
    names = ([named] if named else []) if pods is None else [pod.name for pod in pods if not pod.going]
    if not names:
        what = next_commands.show_claim(claim.name, claim.namespace)
        return f"the claim is going: nothing is given up before its pods and its finalizers have gone: {what}"
    do = next_commands.delete_pods(names, claim.namespace)
    again = ", or run disk_replace again" if recorded(record) == states.REPLACING else ""
    return (
        f"the claim is going and waits for pod {', '.join(names)}: nothing is given up under a living pod: delete the "
        f"pod ({do}){again}"
    )


def _follow(record: Object, pods: tuple[ClaimPod, ...]) -> Step:
    """Bound, Created or Running, whichever is reached by now, in one write. A pod that goes takes no phase back."""
    status = record.get("status") or {}
    pod, phase = named_pod(pods, status.get("podName")), recorded(record)
    reached = states.BOUND if pod is None else states.RUNNING if pod.ready else states.CREATED
    told = {} if pod is None else {"podName": pod.name, "workload": pod.workload or None}
    step = record_phase(record, phase if states.reached(phase, reached) else reached, **told)
    return DONE if step.body["status"] == status else step
