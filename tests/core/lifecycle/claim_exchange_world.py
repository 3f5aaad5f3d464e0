"""A StatefulSet's claim in a dictionary, with Kubernetes, berth's controller, and the exchange of its disk."""

from __future__ import annotations

from dataclasses import replace

from berth_core.app import claim_before, claim_disks, claims
from berth_core.app.manifests import volume_name
from berth_core.errors import ConflictError, NotFoundError, UnschedulableError
from berth_core.lifecycle.claim import ClaimOwner
from berth_core.lifecycle.next_step import next_step
from berth_core.lifecycle.replacing import Exchange, OfClaim
from berth_core.lifecycle.step import Choose, Look, Wait, Write
from berth_core.lifecycle.view import View, disks_of
from berth_core.model.disk import LocalDisk
from berth_core.model.resources import BERTH, LOCAL_DISK, POD, PV, PVC
from tests.core.app.claim_world import node, places, storage_class
from tests.core.lifecycle.replica_world import GI, HELD_BACK, World, local_disk

SET, POD_NAME, CLAIM = "web", "web-0", "data-web-0"
KEY = {"namespace": "default", "app": claims.app_name(CLAIM), "ordinal": 0, "claim": CLAIM}


class ClaimWorld(World):
    """One node, d0 for the claim, and d1 that anybody may be given."""

    def __init__(self, waits, policy="Retain"):
        super().__init__(("d0", "d1"))
        self.storage_class = storage_class(waits=waits, policy=policy)
        for name in ("d0", "d1"):
            self.store[LOCAL_DISK, name]["spec"]["reclaimPolicy"] = policy
        self.wanted = True

    def kubernetes(self):
        """The claim, the pod and their ends; a claim is bound to the volume that names its uid."""
        claim, pod = self.store.get((PVC, CLAIM)), self.store.get((POD, POD_NAME))
        if claim is not None and claim["metadata"].get("deletionTimestamp") and pod is None:
            del self.store[PVC, CLAIM]
            claim = None
        for volume in self.all(PV):
            used = claim is not None and claim["spec"].get("volumeName") == volume["metadata"]["name"]
            if volume["metadata"].get("deletionTimestamp") and not used:
                del self.store[PV, volume["metadata"]["name"]]
        if claim is None and self.wanted:
            self._make_claim()
        elif claim is not None and not claim["metadata"].get("deletionTimestamp"):
            self._bind(claim)
            if pod is None and claim["spec"].get("volumeName") and (PV, claim["spec"]["volumeName"]) in self.store:
                self._start_on(claim)

    def _make_claim(self):
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": str(GI)}},
            "storageClassName": "fast",
        }
        meta = {"name": CLAIM, "namespace": "default", "finalizers": [HELD_BACK[PVC]], "annotations": {}}
        self._put(PVC, {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}})

    def _bind(self, claim):
        for volume in self.all(PV):
            ours = volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
            if ours and not volume["metadata"].get("deletionTimestamp") and not claim["spec"].get("volumeName"):
                claim["spec"]["volumeName"], claim["status"]["phase"] = volume["metadata"]["name"], "Bound"
                self._put(PVC, claim)

    def _start_on(self, claim):
        path = self.store[PV, claim["spec"]["volumeName"]]["spec"]["local"]["path"]
        disk = path.split("/")[-2]
        ref = self.store[LOCAL_DISK, disk]["spec"].get("claimRef")
        assert ref, f"a pod writes to {disk}, which nobody holds"
        assert self.data.get(disk, ref["dataUID"]) == ref["dataUID"], f"{disk} has another one's data"
        self.data[disk] = ref["dataUID"]
        status = {"conditions": [{"type": "Ready", "status": "True"}]}
        self._put(POD, {"metadata": {"name": POD_NAME, "namespace": "default"}, "spec": {}, "status": status})

    def choose_node(self):
        """What a scheduler writes on a claim that waits for it."""
        claim = self.store.get((PVC, CLAIM))
        if claim is not None and claims.SELECTED_NODE not in claim["metadata"]["annotations"]:
            claim["metadata"]["annotations"][claims.SELECTED_NODE] = "h1"
            self._put(PVC, claim)

    def ask_to_go(self, resource, name):
        """By hand: kubectl delete."""
        live = self.store.get((resource, name))
        if live is not None and not live["metadata"].get("deletionTimestamp"):
            self._remove((resource, name))

    def berth_on(self, disk):
        """The name of the Berth with that disk."""
        found = [one for one in self.all(BERTH) if disk in [each["name"] for each in disks_of(one)]]
        return found[0]["metadata"]["name"] if found else ""


class Controller:
    """Every claim and every claim's Berth, one write of one of them at a time."""

    def __init__(self, world):
        self.world, self.last = world, {}

    def step(self):
        for uid in self._uids():
            step = self._step(uid)
            if isinstance(step, Write):
                return step
        return None

    def _uids(self):
        found = {one["metadata"]["uid"] for one in self.world.all(PVC)}
        return sorted(found | {claims.claim_uid(one["metadata"]["name"]) for one in self.world.all(BERTH)})

    def _step(self, uid):
        world = self.world
        claim, record = world.get(PVC, CLAIM), world.get(BERTH, claims.berth_name(uid))
        claim = claim if claim is not None and claim["metadata"]["uid"] == uid else None
        owner = self._owner(claim, record) if claim is not None else None
        view = View(f"default/{CLAIM}", owner, record, hostname="h1", quiet=True, tenant=world.tenant)
        for each in disks_of(record) if record is not None else ():
            view = view.having(LOCAL_DISK, world.get(LOCAL_DISK, each["name"]))
            volume = world.get(PV, volume_name(each["name"], record["metadata"]["uid"]))
            view = view if volume is None else view.having(PV, volume)
        step = next_step(view)
        if isinstance(step, Choose):
            try:
                chosen = claim_disks.choose(owner.asked, self._parsed(), places(node("h1")), tenant=world.tenant)
            except UnschedulableError as exc:
                step = Wait("NoDisk", exc.message, True)
            else:
                step = next_step(replace(view, owner=replace(owner, chosen=chosen)))
        self.last[uid] = step
        if isinstance(step, Write):
            world.apply(step)
        return step

    def _owner(self, claim, record):
        asked = claims.parse(claim, self.world.storage_class)
        disks = self._parsed()
        before = claim_before.earlier(asked, self.world.all(BERTH), disks) if record is None else None
        return ClaimOwner(asked, bool(claim_disks.own_disks(asked, disks, self.world.tenant)), before=before)

    def _parsed(self):
        return [LocalDisk.from_object(one) for one in self.world.all(LOCAL_DISK)]


class Module:
    """disk_replace. It acts by its own view, which may be old."""

    def __init__(self, world, new="d9"):
        of = OfClaim("default", CLAIM, SET, POD_NAME, world.storage_class, "/var/lib/berth/disks")
        self.world, self.view = world, None
        self.exchange = Exchange(CLAIM, "d0", local_disk(new) | {"status": {}}, of)

    def kill(self):
        """The next step is another process's first."""
        self.view = None

    def look(self):
        """As _glue/app/replacing_claim.py does."""
        world = self.world
        claim, berths = world.get(PVC, CLAIM), world.all(BERTH)
        heir = claims.berth_name(claim["metadata"]["uid"]) if claim is not None else ""
        on_old = [one for one in berths if "d0" in [each["name"] for each in disks_of(one)]]
        view = View(
            f"default/{POD_NAME}",
            None,
            on_old[0] if on_old else None,
            hostname="h1",
            exchange=self.exchange,
            heir=next((one for one in berths if one["metadata"]["name"] == heir and one not in on_old), None),
        )
        for resource in (LOCAL_DISK, PV, PVC, POD):
            for one in world.all(resource):
                view = view.having(resource, one)
        return view

    def step(self):
        """One step. Returns what next_step said."""
        self.view = self.view or self.look()
        step = next_step(self.view)
        if isinstance(step, Look):
            self.view = replace(self.view, tenant=self.world.tenant)
        if isinstance(step, Wait):
            self.view = None
        if not isinstance(step, Write):
            return step
        try:
            answer = self.world.apply(step)
        except (ConflictError, NotFoundError):
            self.kill()
            return step
        name = step.body["metadata"]["name"]
        gone = self.view.lacking(step.resource, name)
        self.view = gone if answer is None else self.view.having(step.resource, answer)
        return step


def bound(waits, policy="Retain"):
    """A claim on d0, its pod on it."""
    world = ClaimWorld(waits, policy)
    controller = Controller(world)
    for _number in range(20):
        world.kubernetes()
        world.choose_node()
        controller.step()
        world.agent()
    assert world.data.keys() == {"d0"}
    assert (POD, POD_NAME) in world.store
    return world, controller


def finish(world, controller, module, beside=True, steps=200):
    """The module to its end, with everybody else beside it. Returns what it rests at."""
    for _number in range(steps):
        step = module.step()
        world.kubernetes()
        if beside:
            world.choose_node()
            controller.step()
        world.agent()
        if isinstance(step, Wait) and (step.reason == "" or step.warn):
            return step
    raise AssertionError(f"it does not come to rest: {world.log[-12:]}; {step}")
