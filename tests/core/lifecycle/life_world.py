"""A small cluster for whole runs of stateful_app, disk_replace and the controller: five nodes with three disks each.

Requests are answered as the API server does, with resourceVersions, preconditions and the rules of the schemas. Beside
it stand the StatefulSet controller, the volume controller, a scheduler, kubelets and agents, which do one turn each
when they are told to. `World.pods` is the truth of what runs, whatever the API server says: on a node that is cut off
a pod runs on, its object or not, until somebody has switched the machine off.
"""

from __future__ import annotations

import hashlib
import json

from berth_core.app.fsid import filesystem_uuid
from berth_core.app.node_loss import OUT_OF_SERVICE
from berth_core.app.phase import disk_phase
from berth_core.app.pod_revision import HASH
from berth_core.app.wanted import APP_LABEL, ORDINAL_LABEL
from berth_core.errors import ConflictError, NotFoundError
from berth_core.lifecycle.locks import BERTH_ANNOTATION
from berth_core.model.resources import (
    BERTH,
    CONTROLLER_REVISION,
    LOCAL_DEVICE,
    LOCAL_DISK,
    NODE,
    POD,
    PV,
    PVC,
    STATEFUL_APP,
    STATEFUL_SET,
)
from tests.core.app.claim_world import node
from tests.core.app.samples import copied
from tests.core.lifecycle.race_world import RaceWorld
from tests.core.lifecycle.replica_world import HELD_BACK, local_disk

NODES = tuple(f"n{number}" for number in range(1, 6))
DISKS = 3
#: Of what the API server counts the changes of the spec.
COUNTED = (STATEFUL_SET, STATEFUL_APP, POD)
SINCE = "2026-01-01T00:00:00Z"
UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
TAINT = {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}


def patched(before, patch):
    """As a JSON merge patch does, at every depth."""
    if not isinstance(patch, dict):
        return copied(patch)
    whole = dict(before) if isinstance(before, dict) else {}
    for key, value in patch.items():
        if value is None:
            whole.pop(key, None)
        else:
            whole[key] = patched(whole.get(key), value)
    return whole


class LifeWorld(RaceWorld):
    """``pods``: what runs, by pod and node. ``lost``: nodes that are cut off; ``off``: those of them that are switched
    off. ``homes``: the disk with a replica's data, by ordinal and claim. ``trace``: what was done, and by whom."""

    def __init__(self):
        self.runs, self.homes, self.trace = {}, {}, []
        self.lost, self.off = set(), set()
        super().__init__(waits=True, disks=())
        for key in [key for key in self.store if key[0] == LOCAL_DEVICE]:
            del self.store[key]
        del self.store[NODE, "h1"], self.store[STATEFUL_SET, "web"]
        for name in NODES:
            body = node(name)
            body["status"]["allocatable"] = {"cpu": "8", "memory": "32Gi", "pods": "110"}
            self._put(NODE, body)
            for number in range(DISKS):
                self._put(LOCAL_DISK, local_disk(f"{name}-d{number}", name))

    # -- requests ----------------------------------------------------------------------------------------------------

    def create(self, resource, body, dry_run=False):
        key = (resource, body["metadata"]["name"])
        if key in self.store:
            raise ConflictError(f"{resource.kind} {key[1]} is there", 409, "AlreadyExists")
        made = copied(dict(body))
        if resource in HELD_BACK:
            made["metadata"]["finalizers"] = [HELD_BACK[resource]]
        if dry_run:
            made["metadata"]["uid"] = "tried"
            return made
        return self._saved(resource, None, made)

    def replace(self, resource, body, subresource=None):
        live = self._live(resource, body["metadata"]["name"], body["metadata"])
        made = copied(dict(body))
        part = (
            {"spec": live.get("spec"), "status": made.get("status")} if subresource else {"status": live.get("status")}
        )
        return self._saved(resource, live, {**made, **{key: one for key, one in part.items() if one is not None}})

    def patch(self, resource, name, body, subresource=None):
        live = self._live(resource, name, body.get("metadata") or {})
        made = patched(live, body)
        made["metadata"].update({key: live["metadata"][key] for key in ("uid", "resourceVersion", "name")})
        if subresource == "status":
            made = {**live, "status": made.get("status", {})}
        elif "status" in live:
            made["status"] = live["status"]
        return self._saved(resource, live, made)

    def apply(self, resource, body, subresource=None, dry_run=False):
        """Of a spec that berth applies all fields are its own, but those that the API server fills in."""
        live = self.store.get((resource, body["metadata"]["name"]))
        if live is None:
            return self.create(resource, body, dry_run)
        live = self._live(resource, body["metadata"]["name"], body["metadata"])
        if subresource == "status":
            return self._saved(resource, live, {**live, "status": copied(body["status"])})
        made = {**copied(live), "spec": copied(body["spec"])}
        for part in ("labels", "annotations"):
            made["metadata"][part] = copied(body["metadata"].get(part) or {})
        return made if dry_run else self._saved(resource, live, made)

    def remove(self, resource, name, uid=None, version=None, grace=None):
        """False: it was gone already."""
        live = self.store.get((resource, name))
        if live is None:
            return False
        seen = {key: value for key, value in (("uid", uid), ("resourceVersion", version)) if value}
        self._live(resource, name, seen)
        if resource == POD and grace == 0:
            self._gone((resource, name))
            return True
        stays = live["metadata"].get("finalizers") or (resource == POD and live["spec"].get("nodeName"))
        if not stays:
            self._gone((resource, name))
        elif not live["metadata"].get("deletionTimestamp"):
            live["metadata"]["deletionTimestamp"] = SINCE
            self._put(resource, live)
        return True

    def _live(self, resource, name, seen):
        live = self.store.get((resource, name))
        if live is None:
            raise NotFoundError(f"{resource.kind} {name} is not there", 404, "NotFound")
        for key in ("uid", "resourceVersion"):
            if seen.get(key) and seen[key] != live["metadata"][key]:
                raise ConflictError(f"{resource.kind} {name} is another one by now ({key})", 409, "Conflict")
        return copied(live)

    def _saved(self, resource, live, made):
        name = made["metadata"]["name"]
        if live is not None:
            self._check(resource, live, made)
            if made["metadata"].get("deletionTimestamp") and not made["metadata"].get("finalizers") and resource != POD:
                self._gone((resource, name))
                return copied(made)
        if resource in COUNTED and (live is None or made.get("spec") != live.get("spec")):
            made["metadata"]["generation"] = int(made["metadata"].get("generation") or 0) + 1
        self._put(resource, made)
        if resource == STATEFUL_SET:
            self._revise(self.store[resource, name])
        self.check()
        return self.get(resource, name)

    def _gone(self, key):
        self.count += 1
        super()._gone(key)

    # -- the controller of StatefulSets ------------------------------------------------------------------------------

    def _revise(self, live):
        """The newest revision is the one that the template is equal to; it is numbered anew."""
        template = live["spec"]["template"]
        digest = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:8]
        kept = [one for one in self.all(CONTROLLER_REVISION) if self._owned(one)]
        number, name = max((one["revision"] for one in kept), default=0), f"db-{digest}"
        newest = next((one["metadata"]["name"] for one in kept if one["revision"] == number), None)
        if newest != name:
            owner = [{"uid": live["metadata"]["uid"]}]
            meta = {"name": name, "labels": {APP_LABEL: "db"}, "ownerReferences": owner, "creationTimestamp": SINCE}
            body = {"metadata": meta, "revision": number + 1, "data": {"spec": {"template": copied(template)}}}
            self._put(CONTROLLER_REVISION, {**body, "spec": {}})
        generation = live["metadata"]["generation"]
        live["status"] = {"observedGeneration": generation, "updateRevision": name, "currentRevision": name}

    def _owned(self, thing):
        live = self.store.get((STATEFUL_SET, "db"))
        owners = {one["uid"] for one in thing["metadata"].get("ownerReferences") or ()}
        return live is not None and live["metadata"]["uid"] in owners

    def sets(self):
        """Pods that are too many, or whose StatefulSet is gone, are asked to go; those that are missing are made."""
        live = self.store.get((STATEFUL_SET, "db"))
        count = live["spec"]["replicas"] if live is not None else 0
        for pod in self.all(POD):
            name = pod["metadata"]["name"]
            if not self._owned(pod) or int(name.rpartition("-")[2]) >= count:
                self.remove(POD, name)
        for ordinal in range(count):
            pod = self.store.get((POD, f"db-{ordinal}"))
            if pod is not None and pod["spec"].get("nodeName"):
                continue
            volumes = self._claimed(live, ordinal)
            if pod is None and volumes is not None:
                self._make(live, ordinal, volumes)

    def _claimed(self, live, ordinal):
        """The volumes of a pod, whose claims are made where they are missing; None: one is asked to go."""
        volumes = []
        for template in live["spec"]["volumeClaimTemplates"]:
            claim = f"{template['metadata']['name']}-db-{ordinal}"
            there = self.store.get((PVC, claim))
            if there is not None and there["metadata"].get("deletionTimestamp"):
                return None
            if there is None:
                labels = {**template["metadata"]["labels"], APP_LABEL: "db"}
                meta = {"name": claim, "namespace": "default", "labels": labels, "finalizers": [HELD_BACK[PVC]]}
                self._put(PVC, {"metadata": meta, "spec": copied(template["spec"]), "status": {"phase": "Pending"}})
            own = {"name": template["metadata"]["name"], "persistentVolumeClaim": {"claimName": claim}}
            volumes.append(own)
        return volumes

    def _make(self, live, ordinal, volumes):
        name, body = f"db-{ordinal}", copied(live["spec"]["template"])
        labels = {**body["metadata"].get("labels", {}), HASH.key: live["status"]["updateRevision"]}
        meta = {"name": name, "namespace": "default", "labels": {**labels, ORDINAL_LABEL: str(ordinal)}}
        meta["annotations"] = dict(body["metadata"].get("annotations") or {})
        meta["ownerReferences"] = [{"kind": "StatefulSet", "uid": live["metadata"]["uid"]}]
        meta["generation"] = 1
        pod = {"metadata": meta, "spec": {**body["spec"], "volumes": volumes}, "status": {"phase": "Pending"}}
        self._put(POD, pod)

    # -- volumes, the scheduler, kubelets ----------------------------------------------------------------------------

    def volumes(self):
        """Claims that no pod with a node uses any more go, volumes are bound, and those that no claim uses go."""
        used = {name for pod in self.all(POD) if pod["spec"].get("nodeName") for name in _claims(pod)}
        for claim in self.all(PVC):
            name = claim["metadata"]["name"]
            if claim["metadata"].get("deletionTimestamp") and name not in used:
                self._gone((PVC, name))
        for volume in self.all(PV):
            self._settle(volume["metadata"]["name"])
        self.check()

    def _settle(self, name):
        """Once bound, a volume is that very claim's."""
        self._settle_volume(name)
        volume = self.store.get((PV, name))
        ref = volume["spec"]["claimRef"] if volume is not None else {}
        if volume is None:
            self.count += 1
        elif volume["status"]["phase"] == "Bound" and not ref.get("uid"):
            ref["uid"] = self.store[PVC, ref["name"]]["metadata"]["uid"]
            self._put(PV, volume)

    def _place(self, pod):
        """The node of its volumes, with their disks; None: they are not bound yet."""
        nodes, disks = set(), {}
        for name in _claims(pod):
            claim = self.store.get((PVC, name))
            volume = self.store.get((PV, claim["spec"].get("volumeName"))) if claim is not None else None
            if volume is None or any(one["metadata"].get("deletionTimestamp") for one in (claim, volume)):
                return None
            if volume.get("status", {}).get("phase") != "Bound":
                return None
            disk = volume["spec"]["local"]["path"].split("/")[-2]
            nodes.add(self.store[LOCAL_DISK, disk]["spec"]["nodeName"])
            disks[disk] = (name, volume["metadata"]["annotations"][BERTH_ANNOTATION])
        assert len(nodes) == 1, f"the claims of {pod['metadata']['name']} are on several nodes: {nodes}"
        return nodes.pop(), disks

    def kubelets(self):
        """Pods get the nodes of their volumes; kubelets that are reached start, restart and stop theirs."""
        self._stop_what_nobody_wants()
        for pod in self.all(POD):
            where = pod["spec"].get("nodeName")
            if where in self.lost:
                self._cut_off(pod)
            elif pod["metadata"].get("deletionTimestamp"):
                self.pods.pop(_key(pod), None)
                self._gone((POD, pod["metadata"]["name"]))
            elif where is None:
                place = self._place(pod)
                if place is not None and place[0] not in self.lost:
                    pod["spec"]["nodeName"] = place[0]
                    self._put(POD, pod)
            else:
                self._run_pod(pod)
        self.check()

    def _stop_what_nobody_wants(self):
        for key, uid in list(self.runs.items()):
            name, _at, where = key.partition("@")
            pod = self.store.get((POD, name))
            here = pod is not None and pod["metadata"]["uid"] == uid
            if where not in self.lost and not here:
                self.pods.pop(key, None)
                del self.runs[key]

    def _cut_off(self, pod):
        """Its node's controller says that it is not Ready; with the taint, its object goes when it is asked to."""
        taints = self.store[NODE, pod["spec"]["nodeName"]]["spec"].get("taints") or ()
        if any(taint["key"] == OUT_OF_SERVICE for taint in taints):
            self._gone((POD, pod["metadata"]["name"]))
        elif _is_ready(pod):
            pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
            self._put(POD, pod)

    def _run_pod(self, pod):
        key, status = _key(pod), pod["status"]
        if self.runs.get(key) != pod["metadata"]["uid"]:
            place = self._place(pod)
            if place is None or not set(place[1]) <= self.mounted:
                return
            self._start_pod(key, pod, place[1])
        container = pod["spec"]["containers"][0]
        told = {"name": container["name"], "runs": container["image"]}
        before = (status.get("containerStatuses") or [{}])[0]
        restarts = before.get("runs") not in (None, told["runs"])
        if before.get("runs") != told["runs"]:
            told["containerID"] = f"containerd://{self.count}"
            status["containerStatuses"] = [told]
        ready = {"type": "Ready", "status": "False" if restarts else "True", "lastTransitionTime": SINCE}
        wanted = {**status, "phase": "Running", "conditions": [ready]}
        wanted["observedGeneration"] = pod["metadata"].get("generation", 1)
        if wanted != self.store[POD, pod["metadata"]["name"]]["status"]:
            self._put(POD, {**pod, "status": wanted})

    def _start_pod(self, key, pod, disks):
        name = pod["metadata"]["name"]
        twins = [other for other in self.pods if other.partition("@")[0] == name and other != key]
        assert not twins, f"{key} starts, and {twins} runs"
        self.runs[key] = pod["metadata"]["uid"]
        self.pods[key] = {disk: self.owners[uid, disk] for disk, (_claim, uid) in disks.items()}
        for disk, (claim, _uid) in disks.items():
            self.homes[claim] = disk

    def agents(self):
        """Locked disks of nodes that are reached are made ready, those that nobody uses any more are unmounted."""
        for disk in self.all(LOCAL_DISK):
            name, ref = disk["metadata"]["name"], disk["spec"].get("claimRef")
            if disk["spec"]["nodeName"] in self.lost:
                continue
            status = disk["status"] = disk.get("status") or {"observed": {"devicePath": f"/dev/{name}"}}
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

    def all_turns(self):
        """Everybody beside berth, as often as it takes until nothing more comes of it."""
        for _number in range(20):
            before = self.count
            for turn in (self.sets, self.volumes, self.agents, self.kubelets):
                turn()
            if self.count == before:
                return
        raise AssertionError("the cluster does not come to rest")

    # -- people and machines -----------------------------------------------------------------------------------------

    def lose(self, name):
        """The node is cut off: its pods run on, and nobody hears of them but that they are not Ready."""
        self.lost.add(name)
        body = self.get(NODE, name)
        body["status"]["conditions"] = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]
        body["spec"]["taints"] = [UNREACHABLE]
        self._put(NODE, body)
        for pod in self.all(POD):
            if pod["spec"].get("nodeName") == name:
                self._cut_off(pod)

    def switch_off(self, name, taint):
        """Somebody has pulled the plug; ``taint``: and says so."""
        self.lose(name)
        self.off.add(name)
        for key in [key for key in self.pods if key.endswith(f"@{name}")]:
            del self.pods[key]
        for key in [key for key in self.runs if key.endswith(f"@{name}")]:
            del self.runs[key]
        if taint:
            body = self.get(NODE, name)
            body["spec"]["taints"] = [UNREACHABLE, TAINT]
            self._put(NODE, body)

    def bring_back(self, name):
        """As it was, and reached again."""
        self.lost.discard(name)
        self.off.discard(name)
        body = self.get(NODE, name)
        body["spec"].pop("taints", None)
        body["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        self._put(NODE, body)

    def uncordon(self, name):
        """local_disk, unschedulable: false."""
        live = self.get(LOCAL_DISK, name)
        if live["spec"].pop("unschedulable", None):
            self._put(LOCAL_DISK, live)

    def places(self):
        """ordinal -> the node of its Berth."""
        return {one["spec"]["ordinal"]: one["spec"]["nodeName"] for one in self.all(BERTH)}


def _key(pod):
    return f"{pod['metadata']['name']}@{pod['spec']['nodeName']}"


def _claims(pod):
    claims = [one.get("persistentVolumeClaim") for one in pod["spec"].get("volumes") or ()]
    return [one["claimName"] for one in claims if one]


def _is_ready(pod):
    return any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions") or ())
