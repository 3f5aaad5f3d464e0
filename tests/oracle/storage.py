"""Volumes, claims and what is attached, for the oracle's clusters (clusters.py)."""

from __future__ import annotations

from random import Random
from typing import Any

HOST = "kubernetes.io/hostname"
Object = dict[str, Any]


def maybe(rng: Random, chance: float, value: Any, otherwise: Any = None) -> Any:
    return value if rng.random() < chance else otherwise


def storage(rng: Random, names: list[str]) -> tuple[list[Object], list[Object], list[Object]]:
    """Return volumes, claims, and the pod's volumes."""
    if rng.random() < 0.65:
        return [], [], []
    volumes = [make_volume(rng, f"pv{index}", names) for index in range(rng.randint(0, 6))]
    claims, wanted = [], []
    for index in range(rng.choice([1, 1, 2, 3])):
        name = f"claim{index}"
        if rng.random() < 0.95:
            claims.append(make_claim(rng, name, volumes))
        wanted.append({"name": f"v{index}", "persistentVolumeClaim": {"claimName": name}})
    if rng.random() < 0.05:
        wanted.append({"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}})
    return volumes, claims, wanted


def users(rng: Random, claims: list[Object]) -> list[Object]:
    """Now and then a running pod that uses one of the claims."""
    if not claims or rng.random() < 0.8:
        return []
    name = rng.choice(claims)["metadata"]["name"]
    return [{"name": "used", "persistentVolumeClaim": {"claimName": name}}]


def inline(rng: Random, chance: float) -> list[Object]:
    """Volumes that a pod names itself."""
    if rng.random() > chance:
        return []
    read_only = {"readOnly": rng.random() < 0.6}
    monitors = rng.sample(["m1", "m2", "m3"], rng.randint(1, 2))
    sources: list[Object] = [
        {"gcePersistentDisk": {"pdName": rng.choice("ab"), **read_only}},
        {"awsElasticBlockStore": {"volumeID": rng.choice(["vol-1", "vol-2"]), **read_only}},
        {"iscsi": {"targetPortal": "x", "iqn": rng.choice(["iqn.a", "iqn.b"]), "lun": 0, **read_only}},
        {"rbd": {"monitors": monitors, "image": rng.choice("ab"), **read_only}},
        {"emptyDir": {}},
    ]
    return [{"name": f"i{index}", **one} for index, one in enumerate(rng.sample(sources, rng.randint(1, 2)))]


def csi_node(rng: Random, name: str) -> Object:
    drivers: list[Object] = [{"name": "csi.example.com", "nodeID": name}, {"name": "ebs.csi.aws.com", "nodeID": name}]
    for one in drivers:
        if rng.random() < 0.8:
            one["allocatable"] = {"count": rng.choice([0, 1, 1, 2, 5])}
    return {"metadata": {"name": name}, "spec": {"drivers": drivers[: rng.randint(0, 2)]}}


def attachments(rng: Random, names: list[str], volumes: list[Object]) -> list[Object]:
    found = []
    for index in range(rng.choice([0, 0, 0, 1, 3])):
        volume = rng.choice([one["metadata"]["name"] for one in volumes] or ["gone"])
        spec = {
            "nodeName": rng.choice(names),
            "attacher": rng.choice(["csi.example.com", "csi.example.com", "ebs.csi.aws.com"]),
            "source": {"persistentVolumeName": volume},
        }
        found.append({"metadata": {"name": f"va{index}"}, "spec": spec})
    return found


def capacity(rng: Random, names: list[str], claims: list[Object]) -> tuple[list[Object], list[Object]]:
    """Return drivers and what they report. Half of the claims that wait are made such that it matters to them."""
    for claim in claims:
        spec = claim["spec"]
        if not spec.get("volumeName") and rng.random() < 0.5:
            spec["storageClassName"] = rng.choice(["made", "vast"])
            if rng.random() < 0.15:
                spec["resources"] = {}
    drivers = []
    for name in ("csi.example.com", "vast.example.com", "kubernetes.io/no-provisioner"):
        spec = rng.choice([{"storageCapacity": True}, {"storageCapacity": True}, {"storageCapacity": False}, {}])
        if rng.random() < 0.85:
            drivers.append({"metadata": {"name": name}, "spec": spec})
    return drivers, [make_capacity(rng, f"c{index}", names) for index in range(rng.choice([0, 1, 2, 4, 8]))]


def make_capacity(rng: Random, name: str, names: list[str]) -> Object:
    """Return one report: for a node, a few, all or none; of what is left, of the largest volume, or of nothing."""
    zone = {"key": "zone", "operator": rng.choice(["In", "NotIn"]), "values": rng.sample("abc", rng.randint(1, 2))}
    topologies: list[Object | None] = [
        {"matchLabels": {HOST: rng.choice(names)}},
        {"matchLabels": {HOST: rng.choice(names), "zone": rng.choice("abc")}},
        {"matchLabels": {"zone": rng.choice("abc")}, "matchExpressions": [zone]},
        {"matchExpressions": [zone]},
        {
            "matchExpressions": [
                {"key": rng.choice(["zone", "disk"]), "operator": rng.choice(["Exists", "DoesNotExist"])}
            ]
        },
        {},
        None,
    ]
    found: Object = {
        "metadata": {"name": name, "namespace": rng.choice(["default", "kube-system"])},
        "storageClassName": rng.choice(["made", "made", "vast", "vast", "local", "unknown"]),
        "nodeTopology": rng.choice(topologies),
    }
    # Sizes that are asked for, and a hair beside them: what is not whole counts as the next whole byte.
    sizes = ["0", "400Mi", "1Gi", "1073741823", "1073741823500m", "2Gi", "5Gi", "100Gi"]
    if rng.random() < 0.8:
        found["capacity"] = rng.choice(sizes)
    if rng.random() < 0.4:
        found["maximumVolumeSize"] = rng.choice(sizes)
    return found


_ZONE_LABELS: list[Object] = [
    {"topology.kubernetes.io/zone": "a"},
    {"topology.kubernetes.io/zone": "a__b"},
    {"failure-domain.beta.kubernetes.io/zone": "b", "topology.kubernetes.io/region": "r"},
    {"topology.kubernetes.io/zone": "a__"},
]


def make_volume(rng: Random, name: str, names: list[str]) -> Object:
    spec: Object = {
        "capacity": {"storage": rng.choice(["1Gi", "2Gi", "10Gi"])},
        "accessModes": rng.choice(
            [["ReadWriteOnce"], ["ReadWriteOnce"], ["ReadWriteMany", "ReadWriteOnce"], ["ReadOnlyMany"]]
        ),
        "storageClassName": rng.choice(["local", "local", "local", "made", ""]),
    }
    if rng.random() < 0.9:
        values = rng.sample(names, min(len(names), rng.choice([1, 1, 2])))
        terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": values}]}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    if rng.random() < 0.15:
        spec["claimRef"] = {"namespace": "default", "name": rng.choice(["claim0", "claim1", "stranger"])}
    if rng.random() < 0.1:
        spec["volumeMode"] = "Block"
    labels = {"tier": rng.choice(["hot", "cold"])}
    if rng.random() < 0.3:
        labels.update(rng.choice(_ZONE_LABELS))
    if rng.random() < 0.5:
        spec["csi"] = {"driver": "csi.example.com", "volumeHandle": rng.choice(["h1", "h2", name])}
    elif rng.random() < 0.3:
        spec["awsElasticBlockStore"] = {"volumeID": rng.choice(["aws://a/vol-1", "vol-2"])}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"phase": maybe(rng, 0.85, "Available", "Bound")},
    }


def make_claim(rng: Random, name: str, volumes: list[Object]) -> Object:
    spec: Object = {
        "resources": {"requests": {"storage": rng.choice(["500Mi", "1Gi", "2Gi", "5Gi"])}},
        "accessModes": [maybe(rng, 0.85, "ReadWriteOnce", "ReadWriteOncePod")],
        "storageClassName": rng.choice(["local", "local", "local", "local", "made", "now", "unknown"]),
    }
    annotations = {}
    if rng.random() < 0.2:
        spec["selector"] = {"matchLabels": {"tier": "hot"}}
    kind = rng.random()
    if kind < 0.3:
        spec["volumeName"] = rng.choice([one["metadata"]["name"] for one in volumes] or ["gone"])
        annotations["pv.kubernetes.io/bind-completed"] = "yes"
    elif kind < 0.35:
        spec["volumeName"] = "pv0"
    elif kind < 0.45:
        annotations["volume.kubernetes.io/selected-node"] = f"n{rng.randint(0, 3)}"
    metadata: Object = {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": annotations}
    if rng.random() < 0.03:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": metadata, "spec": spec, "status": {"phase": maybe(rng, 0.03, "Lost", "Pending")}}
