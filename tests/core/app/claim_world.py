"""Objects of a claim for the tests of its steps, and a cluster in a dictionary that carries the steps out."""

from __future__ import annotations

from dataclasses import replace

from berth_core.app import claim_disks, claims
from berth_core.lifecycle import step as steps
from berth_core.lifecycle.claim import ClaimOwner
from berth_core.lifecycle.locks import BERTH_ANNOTATION
from berth_core.lifecycle.next_step import next_step
from berth_core.lifecycle.view import View
from berth_core.model.disk import LocalDisk
from berth_core.model.resources import BERTH, LOCAL_DISK, PV
from berth_core.model.tenant import Tenant
from tests.core.app.samples import copied

GI = 1 << 30
TENANT = Tenant("ns-1", since="2026-11-24T20:00:00Z")


def storage_class(name="fast", waits=False, policy="Retain", provisioner=claims.PROVISIONER):
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    return {
        "metadata": {"name": name},
        "provisioner": provisioner,
        "reclaimPolicy": policy,
        "volumeBindingMode": mode,
    }


def claim(name="data", uid="c-1", size="1Gi", node=None, storage_class="fast", **spec):
    annotations = {claims.SELECTED_NODE: node} if node else {}
    meta = {"name": name, "namespace": "default", "uid": uid, "annotations": annotations}
    body = {
        "storageClassName": storage_class,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        **spec,
    }
    return {"metadata": meta, "spec": body, "status": {"phase": "Pending"}}


def asked(waits=False, policy="Retain", **options):
    return claims.parse(claim(**options), storage_class(waits=waits, policy=policy))


def disk(name="n1-d0", node="n1", size=2 * GI, phase="Available", labels=None, **spec):
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "labels": labels or {}},
        "spec": {
            "nodeName": node,
            "identity": {"serial": f"S-{name}", "size": size},
            "storageClassName": "fast",
            "volumeMode": "Filesystem",
            **spec,
        },
        "status": {"phase": phase, "observed": {"devicePath": "/dev/x"}},
    }


def node(name="n1", ready=True, **spec):
    status = {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
    return {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "spec": spec, "status": status}


def parsed(*disks):
    return [LocalDisk.from_object(one) for one in disks]


def places(*nodes):
    return {one["metadata"]["name"]: claim_disks.place_of(one) for one in nodes or (node("n1"), node("n2"))}


class Cluster:
    """A dictionary with compare-and-swap: carries the steps of one claim out, as the API server would."""

    def __init__(self, claim, storage_class, disks, nodes=(), tenant=TENANT):
        self.claim, self.storage_class, self.nodes = claim, storage_class, nodes
        self.tenant, self.looked = tenant, None
        self.store = {(LOCAL_DISK, one["metadata"]["name"]): one for one in disks}
        self.count, self.log = 100, []
        #: those that mount the claim, as claim_pods reads them; None: as a scheduler, which does not look
        self.pods = ()

    def get(self, resource, name):
        return copied(self.store.get((resource, name)))

    def disks(self):
        return [one for (resource, _name), one in self.store.items() if resource == LOCAL_DISK]

    def view(self, chosen=None):
        wanted = claims.parse(self.claim, self.storage_class) if self.claim else None
        record = next((copied(one) for (kind, _n), one in self.store.items() if kind == BERTH), None)
        own = bool(wanted and claim_disks.own_disks(wanted, parsed(*self.disks()), self.tenant))
        owner = ClaimOwner(wanted, own, chosen, pods=self.pods) if wanted else None
        view = View("default/data", owner, record, quiet=True, tenant=self.looked)
        if not record:
            return view
        for name in (each["name"] for each in record["spec"]["disks"]):
            held = self.get(LOCAL_DISK, name)
            view = view if held is None else view.having(LOCAL_DISK, held)
        for (kind, _name), one in self.store.items():
            if kind == PV and one["metadata"]["annotations"][BERTH_ANNOTATION] == record["metadata"]["uid"]:
                view = view.having(PV, copied(one))
        return replace(view, hostname=record["spec"]["nodeName"])

    def step(self):
        """One write, or the wait at which it stops."""
        step = next_step(self.view())
        if isinstance(step, steps.Choose):
            wanted = claims.parse(self.claim, self.storage_class)
            chosen = claim_disks.choose(wanted, parsed(*self.disks()), places(*self.nodes), tenant=self.tenant)
            step = next_step(self.view(chosen))
        if isinstance(step, steps.Look):
            self.looked = self.tenant
            step = next_step(self.view())
        if isinstance(step, steps.Write):
            self.write(step)
            self.log.append((step.do, step.resource.kind))
        return step

    def run(self, writes=50):
        for _number in range(writes):
            step = self.step()
            if isinstance(step, steps.Wait):
                return step
            self.kubernetes()
        raise AssertionError(f"it does not come to rest: {self.log[-8:]}")

    def write(self, step):
        body = copied(step.body)
        key = (step.resource, body["metadata"]["name"])
        self.count += 1
        if step.do == steps.CREATE:
            assert key not in self.store, key
            body["metadata"].update(uid=f"u-{self.count}", resourceVersion=str(self.count))
        elif step.do == steps.REMOVE:
            if body["metadata"].get("finalizers"):
                self.store[key]["metadata"].update(deletionTimestamp="now", resourceVersion=str(self.count))
            else:
                del self.store[key]
            return
        else:
            live = self.store[key]
            assert live["metadata"]["resourceVersion"] == body["metadata"]["resourceVersion"], "a lost compare-and-swap"
            if step.do == steps.STATUS:
                body = {**live, "status": body["status"], "metadata": dict(live["metadata"])}
            body["metadata"]["resourceVersion"] = str(self.count)
            if body["metadata"].get("deletionTimestamp") and not body["metadata"].get("finalizers"):
                del self.store[key]
                return
        self.store[key] = body

    def kubernetes(self):
        """What the volume controller does: it binds a claim to the volume that names it."""
        for (kind, name), volume in self.store.items():
            if kind == PV and self.claim and volume["spec"]["claimRef"]["uid"] == self.claim["metadata"]["uid"]:
                volume["status"] = {"phase": "Bound"}
                self.claim["spec"]["volumeName"] = name
                self.claim["status"] = {"phase": "Bound"}
