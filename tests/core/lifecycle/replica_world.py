"""An API server in a dictionary, with what Kubernetes and the agents do beside it, for the lives of replicas.

Writes are compare-and-swaps and creates, as on the real one; the rules of the schemas that guard data are kept here,
and a write that breaks one is refused as there. `World.data` is the truth that no process sees: whose data is where.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from berth_core.app.fsid import filesystem_uuid
from berth_core.app.manifests import volume_name
from berth_core.app.wanted import parse_app
from berth_core.errors import ConflictError, InvalidError, NotFoundError
from berth_core.lifecycle import states
from berth_core.lifecycle.locks import BERTH_ANNOTATION, unlock_device, unlock_disk
from berth_core.lifecycle.next_step import next_step
from berth_core.lifecycle.replacing import Exchange
from berth_core.lifecycle.replica import ReplicaOwner
from berth_core.lifecycle.step import CREATE, PATCH, REMOVE, STATUS, Choose, Look, Wait, Write
from berth_core.lifecycle.view import View, disks_of, recorded
from berth_core.model.resources import BERTH, LOCAL_DEVICE, LOCAL_DISK, POD, PV, PVC, RESOURCE_CLAIM
from berth_core.model.tenant import Tenant
from tests.core.app.samples import changed, copied

PARTS = (LOCAL_DISK, LOCAL_DEVICE, PV, PVC, RESOURCE_CLAIM, POD)
HELD_BACK = {PV: "kubernetes.io/pv-protection", PVC: "kubernetes.io/pvc-protection"}
NAME, GI = "db-0", 1 << 30
#: Of a Berth: the rest is what the template says, and changes with it.
FIXED = ("app", "ordinal", "nodeName", "disks", "devices")
DISKS = [
    {"name": name, "size": "1Gi", "storage_class": "fast", "volume_mode": "Filesystem"} for name in ("data", "wal")
]
MOUNTS = [{"name": disk["name"], "mountPath": "/" + disk["name"]} for disk in DISKS]
TEMPLATE = {"spec": {"containers": [{"name": "db", "image": "db:1", "volumeMounts": MOUNTS}]}}
DEVICES = [{"name": "gpu", "device_class": "gpu", "count": 1}]
APP = parse_app(changed(replicas=1, disks=DISKS, devices=DEVICES, template=TEMPLATE))


def local_disk(name, node="h1"):
    spec = {
        "nodeName": node,
        "identity": {"serial": f"S-{name}", "size": GI},
        "storageClassName": "fast",
        "volumeMode": "Filesystem",
        "fsType": "ext4",
    }
    seen = {"phase": "Available", "observed": {"devicePath": f"/dev/{name}"}}
    return {"metadata": {"name": name}, "spec": spec, "status": seen}


def local_device(name="h1-gpu"):
    spec = {"nodeName": "h1", "deviceClass": "gpu", "uuid": name, "capacity": {"shares": 1000}}
    return {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Available"}}


def merged(before, patch):
    """As a JSON merge patch does."""
    whole = {**(before or {}), **patch}
    return {key: value for key, value in whole.items() if value is not None}


class World:
    """One node, one app of one replica with two disks and a device."""

    def __init__(self, disks=("d0", "d1", "d2")):
        self.store, self.count, self.log = {}, 0, []
        self.data, self.wanted, self.tenant = {}, False, Tenant("ns-1")
        for name in disks:
            self._put(LOCAL_DISK, local_disk(name))
        self._put(LOCAL_DEVICE, local_device())

    def get(self, resource, name):
        return copied(self.store.get((resource, name)))

    def all(self, resource):
        return [copied(one) for (kind, _name), one in self.store.items() if kind == resource]

    def _put(self, resource, body):
        self.count += 1
        meta = body["metadata"]
        meta["resourceVersion"] = str(self.count)
        meta.setdefault("uid", f"u-{self.count}")
        self.store[resource, meta["name"]] = body

    # -- the API server --------------------------------------------------------------------------------------------

    def apply(self, step):
        """Carry a write out. Returns the object; None: it is gone. Raises what the API server would."""
        key = (step.resource, step.body["metadata"]["name"])
        body, live = copied(step.body), self.store.get(key)
        if step.do == CREATE:
            if live is not None:
                raise ConflictError(f"{key} is there", 409, "AlreadyExists")
            held = [HELD_BACK[step.resource]] if step.resource in HELD_BACK else body["metadata"].get("finalizers", [])
            body["metadata"]["finalizers"] = held
        elif live is None:
            raise NotFoundError(f"{key} is gone", 404, "NotFound")
        elif step.do == REMOVE:
            if live["metadata"]["uid"] != body["metadata"]["uid"]:
                raise ConflictError("another uid", 409, "Conflict")
            return self._remove(key)
        else:
            if live["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
                raise ConflictError("somebody was faster", 409, "Conflict")
            body = self._changed(step, live, body)
            self._check(step.resource, live, body)
            if body["metadata"].get("deletionTimestamp") and not body["metadata"].get("finalizers"):
                self._gone(key)
                return None
        self._put(step.resource, body)
        self.log.append((step.do, step.resource.kind))
        self.check()
        return self.get(*key)

    def _changed(self, step, live, body):
        if step.do == STATUS:
            return {**live, "metadata": dict(live["metadata"]), "status": body["status"]}
        if step.do == PATCH:
            parts = {key: merged(live["metadata"].get(key), body["metadata"][key]) for key in ("labels", "annotations")}
            meta = {**live["metadata"], **parts}
            return {**live, "metadata": meta, "spec": {**live["spec"], **body.get("spec", {})}}
        return {**body, "status": live.get("status", {})}

    def _check(self, resource, live, body):
        """The rules of the schemas."""
        before, after = live.get("spec", {}), body.get("spec", {})
        if resource == LOCAL_DISK:
            ref, now = before.get("claimRef"), after.get("claimRef")
            if ref and now and ref != now:
                raise InvalidError("a held lock is handed over", 422, "Invalid")
            kept = before.get("retainedFor")
            if kept and now and now["dataUID"] != kept["dataUID"]:
                raise InvalidError("retained data is given to another", 422, "Invalid")
        if resource == BERTH:
            was, now = recorded(live), recorded(body)
            if was != now and not states.may_follow(was, now):
                raise InvalidError(f"{was} -> {now}", 422, "Invalid")
            fixed = [{key: spec.get(key) for key in FIXED} for spec in (before, after)]
            if was not in (states.SELECTED, states.REPLACING) and fixed[0] != fixed[1]:
                raise InvalidError("its disks change", 422, "Invalid")

    def _remove(self, key):
        live = self.store[key]
        if live["metadata"].get("finalizers"):
            self.count += 1
            live["metadata"].update(deletionTimestamp="now", resourceVersion=str(self.count))
            return self.get(*key)
        self._gone(key)
        return None

    def _gone(self, key):
        del self.store[key]
        self.log.append((REMOVE, key[0].kind))
        self.check()

    # -- what goes on beside the processes ---------------------------------------------------------------------------

    def kubernetes(self):
        """Finalizers come off what nobody uses; a pod is made where it is wanted and its claims are bound."""
        running = self.store.get((POD, NAME))
        for claim in self.all(PVC):
            name = claim["metadata"]["name"]
            if claim["metadata"].get("deletionTimestamp") and running is None:
                del self.store[PVC, name]
        for volume in self.all(PV):
            claim = self.store.get((PVC, volume["spec"]["claimRef"]["name"]))
            used = claim is not None and claim["spec"].get("volumeName") == volume["metadata"]["name"]
            if volume["metadata"].get("deletionTimestamp") and not used:
                del self.store[PV, volume["metadata"]["name"]]
        if self.wanted and running is None:
            self._start()

    def _start(self):
        names = [APP.claim_name(disk["name"], 0) for disk in DISKS]
        for name in names:
            if (PVC, name) not in self.store:  # as a StatefulSet's controller does
                meta = {"name": name, "namespace": "default", "finalizers": [HELD_BACK[PVC]]}
                size = {"requests": {"storage": str(GI)}}
                spec = {"accessModes": ["ReadWriteOnce"], "resources": size, "storageClassName": "fast",
                        "volumeMode": "Filesystem"}  # fmt: skip
                self._put(PVC, {"metadata": meta, "spec": spec})
        claims = [self.store[PVC, name] for name in names]
        volumes = [self.store.get((PV, claim["spec"].get("volumeName"))) for claim in claims]
        going = [one for one in (*claims, *volumes) if one is None or one["metadata"].get("deletionTimestamp")]
        if not going:
            self._put(POD, {"metadata": {"name": NAME, "namespace": "default"}, "spec": {}})
            for volume in volumes:
                disk = volume["spec"]["local"]["path"].split("/")[-2]
                spec = self.store[LOCAL_DISK, disk]["spec"]
                ref = spec.get("claimRef") or spec.get("retainedFor")
                assert ref, f"a pod writes to {disk}, which is nobody's"
                assert self.data.get(disk, ref["dataUID"]) == ref["dataUID"], f"{disk} has another one's data"
                self.data[disk] = ref["dataUID"]

    def agent(self):
        """Makes locked disks ready whose Berth is Reserved, and says what it sees."""
        for disk in self.all(LOCAL_DISK):
            name, ref = disk["metadata"]["name"], disk["spec"].get("claimRef")
            record = self.store.get((BERTH, ref["name"])) if ref else None
            lives = record is not None and record["metadata"]["uid"] == ref["uid"]
            if lives and states.reached(recorded(record), states.RESERVED) and name not in self.data:
                self.data[name] = ref["dataUID"]
                uuid = filesystem_uuid(ref["dataUID"], name)
                disk["status"]["journal"] = {"step": "Mounted", "lockUID": ref["uid"], "dataUID": ref["dataUID"]}
                disk["status"]["observed"]["filesystem"] = {"uuid": uuid, "type": "ext4"}
                self._put(LOCAL_DISK, disk)
            elif "status" not in disk or not disk["status"]:
                disk["status"] = {"phase": "Available", "observed": {"devicePath": f"/dev/{name}"}}
                self._put(LOCAL_DISK, disk)

    # -- what must always be so --------------------------------------------------------------------------------------

    def check(self):
        """No disk has two holders, and none that carries data is anybody's to take."""
        pointed = [
            volume["spec"]["local"]["path"]
            for volume in self.all(PV)
            if not volume["metadata"].get("deletionTimestamp")
        ]
        assert len(set(pointed)) == len(pointed), f"two volumes over one disk: {pointed}"
        for name, owner in self.data.items():
            spec = self.store[LOCAL_DISK, name]["spec"]
            keeper = spec.get("claimRef") or spec.get("retainedFor")
            assert keeper, f"{name} carries the data of {owner}, and is nobody's"
            assert keeper["dataUID"] == owner, f"{name} carries the data of {owner}, and is {keeper}"

    def stale_locks(self):
        """Locks that no living Berth has."""
        alive = {one["metadata"]["uid"] for one in self.all(BERTH)}
        held = [(one, one["spec"]["claimRef"]["uid"]) for one in self.all(LOCAL_DISK) if one["spec"].get("claimRef")]
        held += [(one, ref["uid"]) for one in self.all(LOCAL_DEVICE) for ref in one["spec"].get("claimRefs") or ()]
        return [(one, uid) for one, uid in held if uid not in alive]


class Process:
    """A driver of one goal: present, absent, or the exchange of one disk. It acts by its own view, which may be old."""

    def __init__(self, world, goal, exchange=None):
        self.world, self.goal, self.view, self.chosen = world, goal, None, None
        self.exchange = exchange

    def kill(self):
        """The next step is another process's first."""
        self.view, self.chosen = None, None

    def look(self):
        world = self.world
        view = View(f"default/{NAME}", None, world.get(BERTH, NAME), hostname="h1", exchange=self.exchange)
        for resource in PARTS:
            for one in world.all(resource):
                view = view.having(resource, one)
        return view

    def step(self):
        """One step. Returns what next_step said."""
        if self.goal == "absent" and self._stop():
            return Wait("Stopping")
        if self.view is None:
            self.view = self.look()
            self._clear_stale()
        self.view = replace(self.view, owner=self.owner())
        step = next_step(self.view)
        if isinstance(step, Choose):
            self.chosen = self._choose()
            step = next_step(replace(self.view, owner=self.owner())) if self.chosen else Wait("NoRoom")
        if isinstance(step, Look):
            self.view = replace(self.view, tenant=self.world.tenant)
        elif isinstance(step, Write):
            self._write(step)
        elif isinstance(step, Wait):
            self.view = None  # looks again
            if step.reason == "Workload":
                self.world.wanted = True
        return step

    def owner(self):
        if self.goal == "absent":
            return None
        pod = (POD, NAME) in self.world.store
        return ReplicaOwner(APP, 0, self.chosen, told=self.world.wanted, ready=pod)

    def _stop(self):
        """A lock is never given up under a living pod."""
        self.world.wanted = False
        return self.world.store.pop((POD, NAME), None) is not None

    def _choose(self):
        kept, free = {}, []
        for disk in self.world.all(LOCAL_DISK):
            spec, name = disk["spec"], disk["metadata"]["name"]
            if spec.get("claimRef") or spec.get("unschedulable") or spec.get("wipe"):
                continue
            if spec.get("retainedFor"):
                kept[spec["retainedFor"]["claim"]] = name
            elif disk["status"].get("phase") == "Available" and "filesystem" not in disk["status"]["observed"]:
                free.append(name)
        disks = {each["name"]: kept.get(each["name"]) or (free.pop(0) if free else None) for each in DISKS}
        if None in disks.values():
            return None
        return SimpleNamespace(ordinal=0, node="h1", disks=disks, devices=(("gpu", "h1-gpu", 1000),), volumes={})

    def _write(self, step):
        try:
            answer = self.world.apply(step)
        except (ConflictError, NotFoundError):
            self.kill()
            return
        name = step.body["metadata"]["name"]
        if (step.do, step.resource) == (CREATE, BERTH):
            self.chosen = None
        self.view = (
            self.view.lacking(step.resource, name) if answer is None else self.view.having(step.resource, answer)
        )

    def _clear_stale(self):
        """As a run's beginning does: a lock whose Berth is gone becomes retained data."""
        if self.goal not in ("present", "absent"):
            return
        for one, uid in self.world.stale_locks():
            disk = "claimRef" in one["spec"]
            change = unlock_disk(one, uid, keep_data=True) if disk else unlock_device(one, uid)
            self.world.apply(Write("replace", LOCAL_DISK if disk else LOCAL_DEVICE, change, "stale"))
        alive = {one["metadata"]["uid"] for one in self.world.all(BERTH)}
        for resource in (PVC, PV) if (POD, NAME) not in self.world.store else ():
            for one in self.world.all(resource):
                uid = (one["metadata"].get("annotations") or {}).get(BERTH_ANNOTATION)
                if uid and uid not in alive and not one["metadata"].get("deletionTimestamp"):
                    self.world.apply(Write(REMOVE, resource, one, "stale"))
        self.view = self.look()


def exchange(old="d0", new="d9", claim="data"):
    return Exchange(claim, old, local_disk(new) | {"status": {}})


def run(world, process, steps=400, until=("Pod", "Workload", "NoRoom", "")):
    """The process alone, with Kubernetes and the agents beside it, until it rests. Returns what it rests at."""
    rested = 0
    for _number in range(steps):
        step = process.step()
        world.kubernetes()
        world.agent()
        rested = rested + 1 if isinstance(step, Wait) and step.reason in until else 0
        if rested > 3:
            return step
        if isinstance(step, Wait) and step.warn:
            return step
    raise AssertionError(f"it does not come to rest: {world.log[-12:]}")


def locks(world):
    """Which disk the berth's claims hold, and what is kept."""
    record = world.get(BERTH, NAME)
    held = {each["claim"]: each["name"] for each in disks_of(record)} if record else {}
    kept = {one["metadata"]["name"] for one in world.all(LOCAL_DISK) if one["spec"].get("retainedFor")}
    return held, kept


def volumes_of(world):
    """The names of the volumes that the berth is to have."""
    record = world.get(BERTH, NAME)
    return {volume_name(each["name"], record["metadata"]["uid"]) for each in disks_of(record)}
