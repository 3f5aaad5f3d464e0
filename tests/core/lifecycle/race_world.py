"""An app's replica and a StatefulSet's claims that want the same disks, with Kubernetes, the agent and people's edits.

Three disks, and four claims on them. `RaceWorld.check` is asked after every write, whoever made it: no disk has two
holders, none that carries data is Available, and every lock has a living Berth or is reported.
"""

from __future__ import annotations

from contextlib import suppress

from berth_core.app import claims, orphans
from berth_core.app.disk_acts import cordoned_disk, released_disk
from berth_core.app.fsid import filesystem_uuid
from berth_core.app.phase import AVAILABLE, disk_phase
from berth_core.app.wanted import APP_LABEL, MANAGED_LABEL
from berth_core.errors import LockError
from berth_core.lifecycle import states
from berth_core.lifecycle.locks import BERTH_ANNOTATION, unlock_disk
from berth_core.lifecycle.step import REMOVE, REPLACE, Write
from berth_core.lifecycle.view import recorded
from berth_core.model.over_disk import disk_below
from berth_core.model.resources import (
    BERTH,
    LOCAL_DEVICE,
    LOCAL_DISK,
    NAMESPACE,
    NODE,
    POD,
    PV,
    PVC,
    STATEFUL_SET,
    STORAGE_CLASS,
)
from tests.core.app.claim_world import storage_class
from tests.core.lifecycle.race_checks import check
from tests.core.lifecycle.replica_world import APP, DISKS, GI, HELD_BACK, NAME, World

WEB = ("web-0", "web-1")
#: The claims of each pod.
CLAIMS = {NAME: [APP.claim_name(disk["name"], 0) for disk in DISKS], **{pod: [f"data-{pod}"] for pod in WEB}}
WANTED = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": str(GI)}},
    "storageClassName": "fast",
    "volumeMode": "Filesystem",
}


class RaceWorld(World):
    """``pods``: of each that runs, its disks with whose data it takes them for. ``mounted``: disks that the agent has
    mounted. ``torn``: disks with data whose lock a person has cleared, without a word of whose data it is. ``owners``:
    whose data a lock was taken for, by the Berth's uid and the disk; ``cleared``: those that a person has cleared.
    ``blind``: volumes that were made after that, by who had not heard of it."""

    def __init__(self, waits=False, **ground):
        """``ground``: World's."""
        self.pods, self.owners, self.found = {}, {}, {}
        self.mounted, self.torn, self.cleared, self.blind = set(), set(), set(), set()
        self.storage_class, self.web = storage_class(waits=waits), set(WEB)
        super().__init__(**ground)
        self.store[NAMESPACE, "default"] = {"metadata": {"name": "default", "uid": self.tenant.namespace_uid}}
        self.store[NODE, "h1"] = {"metadata": {"name": "h1"}}
        self.store[STORAGE_CLASS, "fast"] = self.storage_class
        spec = {"replicas": len(WEB), "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}
        self.store[STATEFUL_SET, "web"] = {"metadata": {"name": "web", "namespace": "default"}, "spec": spec}

    def check(self):
        check(self)

    def _put(self, resource, body):
        made = (resource, body["metadata"]["name"]) not in self.store
        if resource == LOCAL_DISK:
            body.setdefault("status", {})
        super()._put(resource, body)
        if resource == PV and made and self._is_cleared(body):
            self.blind.add(body["metadata"]["name"])
        ref = body["spec"].get("claimRef") if resource == LOCAL_DISK else None
        if ref:
            self.owners[ref["uid"], body["metadata"]["name"]] = ref["dataUID"]

    def _is_cleared(self, volume):
        """Whether a person has cleared the lock that the volume was made for."""
        uid, disk = volume["metadata"]["annotations"][BERTH_ANNOTATION], disk_below(volume)
        held = self.store[LOCAL_DISK, disk]["spec"].get("claimRef") or {}
        return (uid, disk) in self.cleared and held.get("uid") != uid

    def _gone(self, key):
        if key[0] == POD:
            self.pods.pop(key[1], None)
        super()._gone(key)

    def ask_to_go(self, resource, name):
        """As kubectl delete does."""
        live = self.get(resource, name)
        if live is not None and not live["metadata"].get("deletionTimestamp"):
            self.apply(Write(REMOVE, resource, live, "by hand"))

    # -- Kubernetes ------------------------------------------------------------------------------------------------

    def kubernetes(self):
        """Pods that are not wanted stop, what nobody uses goes, claims are made and bound, pods start."""
        for pod, names in CLAIMS.items():
            if pod in WEB and pod not in self.web:
                self.ask_to_go(POD, pod)
            for name in names:
                self._settle_claim(pod, name)
        for volume in self.all(PV):
            self._settle_volume(volume["metadata"]["name"])
        for pod in self._wanted_pods():
            if (POD, pod) not in self.store:
                self._run(pod)
        self.check()

    def _wanted_pods(self):
        return [*([NAME] if self.wanted else ()), *sorted(self.web)]

    def _settle_claim(self, pod, name):
        claim = self.store.get((PVC, name))
        if claim is not None and claim["metadata"].get("deletionTimestamp") and (POD, pod) not in self.store:
            del self.store[PVC, name]
        elif claim is None and pod in self._wanted_pods():
            meta = {"name": name, "namespace": "default", "finalizers": [HELD_BACK[PVC]], "annotations": {}}
            meta["labels"] = {APP_LABEL: APP.name, MANAGED_LABEL: "berth"} if pod == NAME else {}
            self._put(PVC, {"metadata": meta, "spec": dict(WANTED), "status": {"phase": "Pending"}})
        elif pod in WEB and pod not in self.web:
            self.ask_to_go(PVC, name)  # as persistentVolumeClaimRetentionPolicy says

    def _settle_volume(self, name):
        """Bound to the claim that it names, by its uid where it has one; Released when that claim is gone."""
        volume = self.store[PV, name]
        ref = volume["spec"]["claimRef"]
        claim = self.store.get((PVC, ref["name"]))
        if claim is not None and ref.get("uid") not in (None, claim["metadata"]["uid"]):
            claim = None
        going = [one for one in (volume, claim) if one is not None and one["metadata"].get("deletionTimestamp")]
        if claim is not None and not claim["spec"].get("volumeName") and not going:
            claim["spec"]["volumeName"] = name
            self._put(PVC, claim)
        used = claim is not None and claim["spec"].get("volumeName") == name
        if volume["metadata"].get("deletionTimestamp") and not used:
            del self.store[PV, name]
            return
        volume["status"] = {"phase": "Bound" if used else "Available" if ref.get("uid") is None else "Released"}
        if used:
            claim["status"] = {"phase": "Bound"}

    def _run(self, pod):
        """A kubelet starts it where its volumes are bound and their paths are there. The path of a volume that was made
        after its lock was cleared, which is reported, may be another holder's: that pod is left to the person."""
        taken = {}
        for name in CLAIMS[pod]:
            claim = self.store.get((PVC, name))
            volume = self.store.get((PV, claim["spec"].get("volumeName"))) if claim is not None else None
            if volume is None or any(one["metadata"].get("deletionTimestamp") for one in (claim, volume)):
                return
            disk = volume["spec"]["local"]["path"].split("/")[-2]
            uid = volume["metadata"]["annotations"][BERTH_ANNOTATION]
            if disk not in self.mounted or volume["metadata"]["name"] in self.blind:
                return
            taken[disk] = self.owners[uid, disk]
        self.pods[pod] = taken
        meta = {"name": pod, "namespace": "default", "labels": {APP_LABEL: pod.rpartition("-")[0]}}
        self._put(POD, {"metadata": meta, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})

    def choose_node(self):
        """What a scheduler writes on claims that wait for it."""
        for pod in sorted(self.web):
            claim = self.store.get((PVC, CLAIMS[pod][0]))
            if claim is not None and claims.SELECTED_NODE not in claim["metadata"]["annotations"]:
                claim["metadata"]["annotations"][claims.SELECTED_NODE] = "h1"
                self._put(PVC, claim)

    # -- the agent, and the controller's watch for orphans ----------------------------------------------------------

    def agent(self):
        """Makes locked disks ready, unmounts those that nobody holds or uses, and says what it sees."""
        for disk in self.all(LOCAL_DISK):
            name, ref = disk["metadata"]["name"], disk["spec"].get("claimRef")
            status = disk["status"] = disk["status"] or {"observed": {"devicePath": f"/dev/{name}"}}
            if not any(name in taken for taken in self.pods.values()):
                self.mounted.discard(name)
            if ref and self._may_prepare(name, ref):
                self.data[name] = ref["dataUID"]
                self.mounted.add(name)
                status["journal"] = {"step": "Mounted", "lockUID": ref["uid"], "dataUID": ref["dataUID"]}
                status["observed"]["filesystem"] = {"uuid": filesystem_uuid(ref["dataUID"], name), "type": "ext4"}
            status["phase"] = disk_phase(disk["spec"], status["observed"])
            if disk != self.store[LOCAL_DISK, name]:
                self._put(LOCAL_DISK, disk)
        self.check()

    def _may_prepare(self, name, ref):
        """For a living Berth that is Reserved. Another one's filesystem is never touched."""
        record = self.store.get((BERTH, ref["name"]))
        lives = record is not None and record["metadata"]["uid"] == ref["uid"]
        reserved = lives and states.reached(recorded(record), states.RESERVED)
        return reserved and self.data.get(name, ref["dataUID"]) == ref["dataUID"]

    def orphans(self):
        """What the controller's watch finds in what is there now."""
        kinds = (LOCAL_DISK, LOCAL_DEVICE, PV, BERTH)
        held = [[one for (kind, _name), one in self.store.items() if kind == resource] for resource in kinds]
        pods = frozenset(("default", name) for kind, name in self.store if kind == POD)
        return orphans.find(orphans.Holdings(*held, pods=pods))

    def watch(self):
        """Repairs what it may of what it found at the look before, read anew, and looks again."""
        for key, finding in sorted(self.found.items()):
            again = [one for one in self.orphans() if one.key == key and one.repair]
            if not again:
                continue
            if finding.repair == orphans.DELETE_VOLUME:
                self.ask_to_go(PV, finding.about["metadata"]["name"])
            else:
                freed = unlock_disk(again[0].about, finding.about["spec"]["claimRef"]["uid"], keep_data=True)
                self.apply(Write(REPLACE, LOCAL_DISK, freed, "an orphan"))
        self.found = {one.key: one for one in self.orphans() if one.repair}

    # -- people ------------------------------------------------------------------------------------------------------

    def clear_lock(self, disk):
        """kubectl edit: the lock is taken away, without a word of whose data is there. Its agent says what it is now
        when it comes to look."""
        live = self.get(LOCAL_DISK, disk)
        ref = live["spec"].pop("claimRef", None) if live is not None else None
        if ref:
            self.cleared.add((ref["uid"], disk))
            if disk in self.data:
                self.torn.add(disk)
            self._put(LOCAL_DISK, live)
            self.check()

    def release(self, disk):
        """local_disk, state released: the lock of a Berth that is gone, and of no other; its data is kept."""
        alive = {one["metadata"]["uid"] for one in self.all(BERTH)}
        live = self.get(LOCAL_DISK, disk)
        if live is None:
            return
        with suppress(LockError):
            freed = released_disk(live, (live["spec"].get("claimRef") or {}).get("uid") in alive, forget=False)
            self.apply(Write(REPLACE, LOCAL_DISK, freed, "by hand"))

    def wipe(self, disk):
        """What a wipe that a person asked for leaves behind: it waits for a holder, for who uses the disk, and for its
        agent."""
        live = self.get(LOCAL_DISK, disk)
        if (
            live is not None
            and live["status"]
            and not (live["spec"].get("claimRef") or any(disk in taken for taken in self.pods.values()))
        ):
            for part, key in ((live["spec"], "retainedFor"), (live["status"], "journal"), (self.data, disk)):
                part.pop(key, None)
            live["status"]["observed"].pop("filesystem", None)
            live["status"]["phase"] = AVAILABLE
            self.torn.discard(disk)
            self.mounted.discard(disk)
            self._put(LOCAL_DISK, live)

    def uncordon(self, name):
        """local_disk, unschedulable false: it may be given to somebody anew, the old one of an exchange too."""
        live = self.get(LOCAL_DISK, name)
        if live is not None and live["spec"].get("unschedulable"):
            self.apply(Write(REPLACE, LOCAL_DISK, cordoned_disk(live, False), "by hand"))

    def give_up_exchanges(self):
        """kubectl delete of each Berth whose disk is being exchanged."""
        for record in self.all(BERTH):
            if recorded(record) == states.REPLACING:
                self.ask_to_go(BERTH, record["metadata"]["name"])

    def berth_of(self, owner):
        """The name of a Berth of the app, or of the claim of a pod of the StatefulSet, where there is one."""
        if owner == NAME:
            return NAME if (BERTH, NAME) in self.store else None
        mine = [one for one in self.all(BERTH) if (claims.claim_of(one) or ("", ""))[1] == CLAIMS[owner][0]]
        return mine[0]["metadata"]["name"] if mine else None

    def drop_berth(self, owner):
        """kubectl delete, and its finalizers are taken off."""
        name = self.berth_of(owner)
        if name is not None:
            self._gone((BERTH, name))

    def set_phase(self, owner, number):
        """kubectl edit --subresource=status: to one of the phases that may follow."""
        record = self.get(BERTH, self.berth_of(owner))
        now = recorded(record) if record is not None else ""
        following = [phase for phase in states.RECORDED if record is not None and states.may_follow(now, phase)]
        if following:
            record["status"] = {**record.get("status", {}), "phase": following[number % len(following)]}
            self._put(BERTH, record)
            self.check()
