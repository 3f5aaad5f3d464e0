"""sched/localdisk's ground: claims that wait for their pods, and twice as many disks, spread over all nodes.

For berth-scheduler they are LocalDisks, which it locks and makes volumes over; for the stock scheduler volumes that are
there beforehand, as sig-storage-local-static-provisioner leaves them. Who binds claim to volume is Kubernetes in both
cases.
"""

from __future__ import annotations

from collections.abc import Sequence

from berth_core.model.resources import LOCAL_DISK, PV, PVC, STORAGE_CLASS
from tests.daemons.controller.world import OBSERVED

from .ground import GI
from .sched_checks import check_volumes
from .sched_contenders import OURS
from .sched_pods import claim_name
from .sched_run import Workload
from .sched_site import Obj, Site, each

#: So many disks for each claim, evenly on all nodes.
SPARE = 2
OF_BERTH, OF_NOBODY = "local.berth.dev", "kubernetes.io/no-provisioner"


async def lay_out(site: Site, work: Workload) -> None:
    """A class of the namespace's name, disks, and a claim for each pod."""
    ours = site.scheduler == OURS.scheduler
    await make_class(site, OF_BERTH if ours else OF_NOBODY)
    await (local_disks if ours else _volumes)(site, work)
    await make_claims(site, work)


async def make_class(site: Site, provisioner: str) -> None:
    body = {
        "metadata": {"name": site.namespace},
        "provisioner": provisioner,
        "reclaimPolicy": "Retain",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    await site.client.create(STORAGE_CLASS, body)


async def make_claims(site: Site, work: Workload) -> None:
    await site.create(PVC, (_claim(site, number) for number in range(work.pods)))


def _claim(site: Site, number: int) -> Obj:
    spec = {
        "storageClassName": site.namespace,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {"metadata": {"name": claim_name(number), "namespace": site.namespace}, "spec": spec}


def _places(work: Workload) -> list[tuple[str, int]]:
    on_each = -(-SPARE * work.pods // work.nodes)
    return [(f"{work.shape.prefix}{node}", index) for index in range(on_each) for node in range(work.nodes)]


async def local_disks(site: Site, work: Workload) -> None:
    """Free LocalDisks of the namespace's class on each node."""

    async def make(place: tuple[str, int]) -> None:
        node, index = place
        name = f"{site.namespace}-{node}-{index}"
        spec = {
            "nodeName": node,
            "identity": {"serial": name, "size": 2 * GI},
            "storageClassName": site.namespace,
            "fsType": "ext4",
        }
        body = {"apiVersion": LOCAL_DISK.api_version, "kind": LOCAL_DISK.kind, "metadata": {"name": name}, "spec": spec}
        await site.client.create(LOCAL_DISK, body, read=False)
        status = {"status": {"phase": "Available", "observed": OBSERVED}}
        await site.client.patch(LOCAL_DISK, name, None, status, subresource="status")

    await each(_places(work), make)


async def _volumes(site: Site, work: Workload) -> None:
    await site.create(PV, (_volume(site, node, index) for node, index in _places(work)))


def _volume(site: Site, node: str, index: int) -> Obj:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    spec = {
        "capacity": {"storage": str(2 * GI)},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": site.namespace,
        "persistentVolumeReclaimPolicy": "Retain",
        "local": {"path": f"/mnt/disks/{index}"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    return {"metadata": {"name": f"{site.namespace}-{node}-{index}"}, "spec": spec}


async def check(site: Site, pods: Sequence[Obj], _work: Workload) -> str:
    """No disk twice, each on its pod's node."""
    claims, volumes = (await site.client.list(PVC, site.namespace)).items, (await site.client.list(PV)).items
    check_volumes(pods, claims, volumes)
    return ""
