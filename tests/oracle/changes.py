"""Changes of single objects, and pods that wait meanwhile, for the oracle: what of it would wake which pod?

Each change is of one object of a kind that kube-scheduler's plugins listen to: it comes, goes, or is something else
than before in a few fields. Names, labels and amounts are few, so that pods and objects meet.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any

from tests.oracle import clusters, storage
from tests.oracle.storage import HOST, maybe

Object = dict[str, Any]
CLAIMS = ["claim0", "claim1"]
DEVICE_CLAIMS = ["rc0", "rc1", "rc2", "rc3"]
#: Made for the pod from its template; and one that is not there.
MADE, GONE = "rc2", "rc3"
DRIVERS = ["csi.example.com", "vast.example.com"]
FEATURES = ["RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport", "Other"]
NODES = ["n0", "n1", "n2"]


def case(seed: int, changes: int) -> Object:
    """Return one document: the profile's arguments, and many changes."""
    rng = Random(f"changes {seed}")
    return {
        "pluginConfig": clusters.case(seed)["pluginConfig"],
        "resourceClaims": [device_claim(rng, name) for name in DEVICE_CLAIMS if name != GONE],
        "happenings": [_happening(rng, number) for number in range(changes)],
    }


def _happening(rng: Random, number: int) -> Object:
    often = [*["Pod"] * 8, *["Node"] * 4, *_KINDS]
    kind = often[number % len(often)]
    pod = waiting(rng)
    old, new = _KINDS[kind](rng, pod)
    return {"pod": pod, "kind": kind, "old": old, "new": new}


def waiting(rng: Random) -> Object:
    """Return a pod that waits, with some of everything that a plugin looks at."""
    pod = clusters.make_pod(rng, "new", [], _volumes(rng))
    pod["metadata"]["namespace"] = maybe(rng, 0.8, "default", "other")
    if rng.random() < 0.5:
        listed = [_device_source(rng, index) for index in range(rng.choice([1, 1, 2]))]
        pod["spec"]["resourceClaims"] = listed
        pod["status"]["resourceClaimStatuses"] = _generated(rng, listed)
    _needs(rng, pod)
    _port(rng, pod)
    return pod


def _volumes(rng: Random) -> list[Object]:
    found: list[Object] = []
    for index in range(rng.choice([0, 1, 1, 2])):
        kind = rng.random()
        if kind < 0.7:
            source: Object = {"persistentVolumeClaim": {"claimName": rng.choice(CLAIMS)}}
        elif kind < 0.85:
            source = {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
        else:
            source = {"csi": {"driver": rng.choice(DRIVERS)}}
        found.append({"name": f"v{index}", **source})
    return found + storage.inline(rng, 0.25)


def _device_source(rng: Random, index: int) -> Object:
    source = maybe(
        rng,
        0.5,
        {"resourceClaimName": rng.choice(["rc0", "rc0", "rc1", "rc1", GONE])},
        {"resourceClaimTemplateName": "t"},
    )
    return {"name": f"d{index}", **source}


def _generated(rng: Random, listed: list[Object]) -> list[Object]:
    named = [one["name"] for one in listed if "resourceClaimTemplateName" in one]
    return [{"name": one, "resourceClaimName": maybe(rng, 0.9, MADE, GONE)} for one in named if rng.random() < 0.8]


def _needs(rng: Random, pod: Object) -> None:
    """Now and then a feature that the node has to declare."""
    if rng.random() < 0.4:
        rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}
        pod["spec"]["containers"][0]["restartPolicyRules"] = [rule]


def _port(rng: Random, pod: Object) -> None:
    """Half of the pods take one of two ports of the host."""
    port = rng.choice([80, 81])
    if rng.random() < 0.5:
        pod["spec"]["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port}]


# -- pods and nodes ----------------------------------------------------------------------------------------------------


def _pods(rng: Random, mine: Object) -> tuple[Object | None, Object | None]:
    if rng.random() < 0.35:
        old = deepcopy(mine)
        _change_pod(rng, old)
        return old, deepcopy(mine)
    other = clusters.make_pod(rng, "p0", NODES)
    other["status"].pop("phase", None)
    other["metadata"].pop("deletionTimestamp", None)
    other["spec"]["volumes"] = _volumes(rng) + storage.inline(rng, 0.3)
    _port(rng, other)
    other["spec"]["nodeName"] = rng.choice(["n0", "n0", ""])
    if not other["spec"]["nodeName"] and rng.random() < 0.5:
        other["status"]["nominatedNodeName"] = "n0"
    if rng.random() < 0.4:
        other["metadata"]["namespace"] = mine["metadata"]["namespace"]
    return _life(rng, other, _change_pod)


def _change_pod(rng: Random, pod: Object) -> None:
    change = rng.choice([_relabel, _rescale, _tolerate, _gate, _generate, _generate, _generate, _need_else, _need_else])
    change(rng, pod)


def _relabel(rng: Random, pod: Object) -> None:
    pod["metadata"]["labels"] = {"app": rng.choice(clusters.APPS), "rev": rng.choice(["1", "2", "3"])}


def _rescale(rng: Random, pod: Object) -> None:
    for container in pod["spec"]["containers"]:
        requests = container["resources"]["requests"]
        name = rng.choice(["cpu", "memory"])
        requests[name] = rng.choice(["1", "2", "3"]) if name == "cpu" else rng.choice(["300Mi", "2Gi"])
        container["resources"]["limits"].pop(name, None)


def _tolerate(rng: Random, pod: Object) -> None:
    pod["spec"]["tolerations"] = [*(pod["spec"].get("tolerations") or ()), {"key": "z", "operator": "Exists"}]


def _gate(_rng: Random, pod: Object) -> None:
    pod["spec"]["schedulingGates"] = [{"name": "example.com/gate"}]


def _generate(rng: Random, pod: Object) -> None:
    pod["status"]["resourceClaimStatuses"] = _generated(rng, pod["spec"].get("resourceClaims") or [])


def _need_else(rng: Random, pod: Object) -> None:
    pod["spec"]["containers"][0].pop("restartPolicyRules", None)
    _needs(rng, pod)


def _nodes(rng: Random, _mine: Object) -> tuple[Object | None, Object | None]:
    node = clusters.make_node(rng, rng.choice(NODES))
    if rng.random() < 0.5:
        node["spec"]["taints"] = []
    if rng.random() < 0.5:
        node["status"]["allocatable"].update({"cpu": "16", "memory": "64G", "pods": "110", "example.com/gpu": "8"})
    node["status"]["declaredFeatures"] = sorted(one for one in FEATURES if rng.random() < 0.5)
    return _life(rng, node, _change_node)


def _change_node(rng: Random, node: Object) -> None:
    for _number in range(rng.choice([1, 1, 2])):
        fresh = clusters.make_node(rng, node["metadata"]["name"])
        kind = rng.choice(["taints", "cordon", "labels", "amount", "features", "heartbeat"])
        if kind == "taints":
            node["spec"]["taints"] = fresh["spec"]["taints"]
        elif kind == "cordon":
            node["spec"]["unschedulable"] = not node["spec"].get("unschedulable", False)
        elif kind == "labels":
            node["metadata"]["labels"] = {**fresh["metadata"]["labels"], HOST: node["metadata"]["name"]}
        elif kind == "amount":
            name = rng.choice(["cpu", "memory", "pods", "example.com/gpu"])
            node["status"]["allocatable"][name] = rng.choice(["1", "2"]) if name != "memory" else "1G"
        elif kind == "features":
            node["status"]["declaredFeatures"] = sorted(one for one in FEATURES if rng.random() < 0.5)
        else:
            node["status"]["conditions"] = [{"type": "Ready", "status": rng.choice(["True", "False"])}]


# -- storage -----------------------------------------------------------------------------------------------------------


def _volume(rng: Random, _mine: Object) -> tuple[Object | None, Object | None]:
    return _life(rng, storage.make_volume(rng, "pv0", NODES), _change_volume)


def _change_volume(rng: Random, volume: Object) -> None:
    if rng.random() < 0.5:
        volume["metadata"]["labels"] = storage.make_volume(rng, "pv0", NODES)["metadata"]["labels"]
    else:
        volume["status"]["phase"] = rng.choice(["Available", "Bound"])


def _claim(rng: Random, mine: Object) -> tuple[Object | None, Object | None]:
    claim = storage.make_claim(rng, rng.choice([*CLAIMS, "new-v0"]), [])
    claim["metadata"]["namespace"] = maybe(rng, 0.8, mine["metadata"]["namespace"], "third")
    claim["metadata"].pop("deletionTimestamp", None)
    return _life(rng, claim, lambda one, changed: changed["spec"].update(volumeName=f"pv{one.randint(0, 9)}"))


def _storage_class(rng: Random, _mine: Object) -> tuple[Object | None, Object | None]:
    mode = rng.choice(["WaitForFirstConsumer", "Immediate"])
    found: Object = {"metadata": {"name": "local"}, "provisioner": "csi.example.com", "volumeBindingMode": mode}

    def change(one: Random, changed: Object) -> None:
        if one.random() < 0.6:
            zones = one.sample(["a", "b"], 1)
            changed["allowedTopologies"] = [{"matchLabelExpressions": [{"key": "zone", "values": zones}]}]
        else:
            changed["metadata"]["labels"] = {"touched": "yes"}

    return _life(rng, found, change)


def _csi_node(rng: Random, _mine: Object) -> tuple[Object | None, Object | None]:
    def change(one: Random, changed: Object) -> None:
        if one.random() < 0.7:
            changed["spec"] = storage.csi_node(one, "n0")["spec"]
        else:
            changed["metadata"]["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": one.choice("ab")}

    return _life(rng, storage.csi_node(rng, "n0"), change)


def _csi_driver(rng: Random, mine: Object) -> tuple[Object | None, Object | None]:
    found: Object = {"metadata": {"name": rng.choice(DRIVERS)}, "spec": rng.choice([{"storageCapacity": True}, {}])}
    if rng.random() < 0.5:
        mine["spec"]["volumes"].append({"name": "own", "csi": {"driver": rng.choice(DRIVERS)}})

    def change(one: Random, changed: Object) -> None:
        if one.random() < 0.7:
            changed["spec"] = {"storageCapacity": not changed["spec"].get("storageCapacity", False)}
        else:
            changed["metadata"]["labels"] = {"touched": "yes"}

    return _life(rng, found, change)


def _capacity(rng: Random, _mine: Object) -> tuple[Object | None, Object | None]:
    def change(one: Random, changed: Object) -> None:
        fresh = storage.make_capacity(one, "c0", NODES)
        for key in ("capacity", "maximumVolumeSize"):
            changed.pop(key, None)
            changed.update({key: fresh[key]} if key in fresh else {})

    return _life(rng, storage.make_capacity(rng, "c0", NODES), change)


def _attachment(rng: Random, _mine: Object) -> tuple[Object | None, Object | None]:
    attacher = rng.choice([*DRIVERS, "ebs.csi.aws.com", "pd.csi.storage.gke.io"])
    spec = {"nodeName": "n0", "attacher": attacher, "source": {"persistentVolumeName": "pv0"}}
    return {"metadata": {"name": "va0"}, "spec": spec}, None


# -- devices -----------------------------------------------------------------------------------------------------------


def device_claim(rng: Random, name: str) -> Object:
    """Return a claim with a uid; it may have its devices."""
    metadata: Object = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    exact = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    claim: Object = {"metadata": metadata, "spec": {"devices": {"requests": [{"name": "r", "exactly": exact}]}}}
    if name == MADE:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "new", "uid": "uid-new", "controller": True}
        metadata["ownerReferences"] = [owner]
    _allocate(rng, claim)
    return claim


def _allocate(rng: Random, claim: Object) -> None:
    result = {"request": "r", "driver": "gpu.example.com", "pool": "p", "device": rng.choice(["d0", "d1"])}
    claim["status"] = maybe(rng, 0.5, {"allocation": {"devices": {"results": [result]}}}, {})


def _resource_claim(rng: Random, _mine: Object) -> tuple[Object | None, Object | None]:
    def change(one: Random, changed: Object) -> None:
        if one.random() < 0.8:
            _allocate(one, changed)
        else:
            changed["metadata"]["finalizers"] = ["example.com/held"]

    claim = device_claim(rng, rng.choice(DEVICE_CLAIMS))
    if rng.random() < 0.2:
        claim["metadata"].update(namespace="third", uid="uid-third")
    return _life(rng, claim, change)


def _slice(rng: Random, _mine: Object) -> tuple[Object | None, Object | None]:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "n0", "pool": pool, "devices": [{"name": "d0"}]}

    def change(_one: Object, changed: Object) -> None:
        changed["spec"]["devices"] = [{"name": "d0"}, {"name": "d1"}]

    return _life(rng, {"metadata": {"name": "s0"}, "spec": spec}, change)


def _device_class(rng: Random, _mine: Object) -> tuple[Object | None, Object | None]:
    def change(_one: Random, changed: Object) -> None:
        changed["spec"] = {"selectors": [{"cel": {"expression": "true"}}]}

    return _life(rng, {"metadata": {"name": "gpu"}, "spec": {}}, change)


def _life(rng: Random, found: Object, change: Callable[[Random, Object], None]) -> tuple[Object | None, Object | None]:
    """The object comes, goes, or is changed: most objects live long, and change often."""
    kind = rng.random()
    if kind < 0.3:
        return None, found
    if kind < 0.5:
        return found, None
    new = deepcopy(found)
    change(rng, new)
    return (found, new) if rng.random() < 0.5 else (new, found)


_KINDS: dict[str, Callable[[Random, Object], tuple[Object | None, Object | None]]] = {
    "Pod": _pods,
    "Node": _nodes,
    "PersistentVolumeClaim": _claim,
    "PersistentVolume": _volume,
    "ResourceClaim": _resource_claim,
    "StorageClass": _storage_class,
    "CSINode": _csi_node,
    "CSIDriver": _csi_driver,
    "CSIStorageCapacity": _capacity,
    "VolumeAttachment": _attachment,
    "ResourceSlice": _slice,
    "DeviceClass": _device_class,
}
