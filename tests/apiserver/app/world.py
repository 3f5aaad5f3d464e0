"""A world for the app tests on the real API server: fake nodes with free disks, and what must always hold."""

from __future__ import annotations

import time

STORAGE_CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "berth-test"},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}
MI = 2**20
OURS = "app.kubernetes.io/managed-by=berth"


def params(app, kubeconfig, **values):
    """The options of a small app: one disk for each replica."""
    container = {
        "name": "main",
        "image": "berth.local/busybox:1",
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    base = {
        "name": app,
        "kubeconfig": str(kubeconfig),
        "replicas": 2,
        "disks": [{"name": "data", "size": "100Mi", "storage_class": "berth-test"}],
        # Not 0: the API server would take the pod away at once, and kwok, which deletes by name and not by uid, might
        # then end the next pod of that name.
        "template": {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}},
        "pod_management_policy": "Parallel",
        "wait_timeout": 60,
    }
    return {**base, **values}


def local_disk(node, index, size=256 * MI, **spec):
    name = f"{node}-d{index}"
    return {
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "LocalDisk",
        "metadata": {"name": name, "labels": {"berth.dev/test": "yes"}},
        "spec": {
            "nodeName": node,
            "identity": {"serial": f"SERIAL-{name}", "size": size},
            "storageClassName": "berth-test",
            "fsType": "ext4",
            **spec,
        },
    }


OBSERVED = {"devicePath": "/dev/sdx", "health": "Healthy"}


class World:
    """Talks to the API server as the administrator; every test makes and removes what it needs by name."""

    def __init__(self, client, resources):
        self.client = client
        self.kinds = resources

    def add_disk(self, disk, phase="Available"):
        made = self.client.create(self.kinds.LOCAL_DISK, disk)
        status = {"metadata": {}, "status": {"phase": phase, "observed": OBSERVED}}
        return self.client.patch(self.kinds.LOCAL_DISK, made["metadata"]["name"], None, status, "status")

    def ours(self, kind):
        """What berth has made of a kind in the namespace of these tests; other files' tests use it too."""
        return self.client.list(kind, "default" if kind.namespaced else None, labels=OURS)

    def disks(self):
        return {disk["metadata"]["name"]: disk for disk in self.client.list(self.kinds.LOCAL_DISK)}

    def berths(self, app=None):
        records = self.client.list(self.kinds.BERTH)
        return {record["metadata"]["name"]: record for record in records if app in (None, record["spec"]["app"])}

    def holders(self):
        """disk -> berth uid, of every lock."""
        return {
            name: disk["spec"]["claimRef"]["uid"] for name, disk in self.disks().items() if disk["spec"].get("claimRef")
        }

    def check(self):
        """What holds at every moment: no lock without a living berth, and every berth holds what it says."""
        holders = self.holders()
        living = {record["metadata"]["uid"]: record for record in self.berths().values()}
        assert set(holders.values()) <= set(living), "a lock without a living berth"
        for uid, record in living.items():
            named = {disk["name"] for disk in record["spec"].get("disks") or ()}
            held = {name for name, holder in holders.items() if holder == uid}
            assert held == named, f"{record['metadata']['name']} says {named} and holds {held}"

    def clear(self):
        """Remove everything that tests have made, whatever state it is in, and wait until it is gone."""
        from tests.support.kube import forget

        ours = (
            self.kinds.STATEFUL_SET,
            self.kinds.SERVICE,
            self.kinds.POD,
            self.kinds.PVC,
            self.kinds.PV,
            self.kinds.RESOURCE_CLAIM,
        )
        for kind in ours:
            for item in self.client.list(kind, labels=OURS):
                meta = item["metadata"]
                self.client.delete(kind, meta["name"], meta.get("namespace"))
        for item in self.client.list(self.kinds.STATEFUL_APP):
            self.client.delete(self.kinds.STATEFUL_APP, item["metadata"]["name"], item["metadata"]["namespace"])
        for item in self.client.list(self.kinds.BERTH):
            self.client.delete(self.kinds.BERTH, item["metadata"]["name"], item["metadata"]["namespace"])
        for kind in (self.kinds.LOCAL_DISK, self.kinds.LOCAL_DEVICE):
            for item in self.client.list(kind):
                forget(self.client, kind, item["metadata"]["name"])
        deadline, left = time.monotonic() + 30, ours
        while left := tuple(kind for kind in left if self.client.list(kind, labels=OURS)):
            assert time.monotonic() < deadline, f"what the last test made does not go: {left}"
            time.sleep(0.2)
