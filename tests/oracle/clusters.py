"""Clusters for the oracle: made from a seed, small enough to read, mixed enough to meet every rule."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.oracle import storage

ZONES = ["a", "b", "c"]
APPS = ["web", "db"]
NAMESPACES = ["default", "other", "third"]
HOST = storage.HOST
Object = dict[str, Any]

FEATURES = ("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport")


def case(seed: int) -> Object:
    """Return the documents of one case, as the oracle reads them."""
    rng = Random(seed)
    nodes = [make_node(rng, f"n{index}") for index in range(rng.randint(1, 8))]
    names = [node["metadata"]["name"] for node in nodes]
    pods = [make_pod(rng, f"p{index}", names) for index in range(rng.randint(0, 20))]
    volumes, claims, wanted = storage.storage(rng, names)
    for one in pods:
        one["spec"]["volumes"] = storage.users(rng, claims) + storage.inline(rng, 0.06)
    pod = make_pod(rng, "new", [], wanted + storage.inline(rng, 0.1))
    pod["spec"].pop("nodeName", None)
    if rng.random() < 0.05:
        pod["spec"]["nodeName"] = rng.choice(names)
    _features(Random(f"features {seed}"), nodes, pod)
    drivers, capacities = storage.capacity(Random(f"capacity {seed}"), names, claims)
    return {
        "nodes": nodes,
        "pods": pods,
        "namespaces": [_namespace(rng, name) for name in NAMESPACES if rng.random() < 0.9],
        "pvs": volumes,
        "pvcs": claims,
        "storageClasses": _CLASSES,
        "csiNodes": [storage.csi_node(rng, name) for name in names if rng.random() < 0.7],
        "csiDrivers": drivers,
        "csiStorageCapacities": capacities,
        "volumeAttachments": storage.attachments(rng, names, volumes),
        **_workloads(rng, pod),
        "pod": pod,
        "pluginConfig": _plugin_config(rng),
    }


def _features(rng: Random, nodes: list[Object], pod: Object) -> None:
    """What kubelets declare, and pods that need it or only seem to."""
    if rng.random() < 0.85:
        return
    for node in nodes:
        known = [name for name in (*FEATURES, "Other") if rng.random() < 0.6]
        if known:
            node.setdefault("status", {})["declaredFeatures"] = known
    rule = {"action": rng.choice(["RestartAllContainers", "Restart"]), "exitCodes": {"operator": "In", "values": [1]}}
    containers = pod["spec"].get(rng.choice(["containers", "initContainers"])) or pod["spec"]["containers"]
    containers[-1]["restartPolicyRules"] = [rule]
    if rng.random() < 0.5:
        pod["spec"].update(hostNetwork=rng.random() < 0.8, hostUsers=rng.random() < 0.3)


def _namespace(rng: Random, name: str) -> Object:
    return {"metadata": {"name": name, "labels": storage.maybe(rng, 0.7, {"team": rng.choice(["blue", "red"])}, {})}}


def _workloads(rng: Random, pod: Object) -> Object:
    """Services, and a controller of the pod that may be gone."""
    found: Object = {"services": [], "replicationControllers": [], "replicaSets": [], "statefulSets": []}
    for index in range(rng.choice([0, 0, 1, 2])):
        selector = rng.choice([{"app": rng.choice(APPS)}, {"app": rng.choice(APPS), "rev": "1"}, {}, None])
        metadata = {"name": f"s{index}", "namespace": storage.maybe(rng, 0.9, "default", "other")}
        found["services"].append({"metadata": metadata, "spec": {"selector": selector} if selector is not None else {}})
    if rng.random() < 0.5:
        kinds = {
            "replicationControllers": ("v1", "ReplicationController"),
            "replicaSets": ("apps/v1", "ReplicaSet"),
            "statefulSets": ("apps/v1", "StatefulSet"),
        }
        key = rng.choice(sorted(kinds))
        version, kind = kinds[key]
        labels = {"app": pod["metadata"]["labels"]["app"]}
        selector = labels if key == "replicationControllers" else {"matchLabels": labels}
        owner = {"apiVersion": version, "kind": kind, "name": "c", "uid": "uid-c", "controller": rng.random() < 0.9}
        pod["metadata"]["ownerReferences"] = [owner]
        if rng.random() < 0.9:
            found[key].append({"metadata": {"name": "c", "namespace": "default"}, "spec": {"selector": selector}})
    return found


_CLASSES = [
    {
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    },
    {"metadata": {"name": "now"}, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "Immediate"},
    {
        "metadata": {"name": "made"},
        "provisioner": "csi.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}],
    },
    {
        "metadata": {"name": "vast"},
        "provisioner": "vast.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    },
]


def make_node(rng: Random, name: str) -> Object:
    labels = {HOST: name, "cores": rng.choice(["4", "8", "x", "-3"])}
    if rng.random() < 0.85:
        labels["zone"] = rng.choice(ZONES)
    if rng.random() < 0.4:
        labels["topology.kubernetes.io/zone"] = rng.choice("ab")
    if rng.random() < 0.1:
        labels["failure-domain.beta.kubernetes.io/zone"] = rng.choice("ab")
    if rng.random() < 0.1:
        labels["topology.kubernetes.io/region"] = "r"
    if rng.random() < 0.5:
        labels["disk"] = rng.choice(["ssd", "hdd", ""])
    effects = ["NoSchedule", "PreferNoSchedule", "PreferNoSchedule", "NoExecute"]
    taints = [
        {"key": rng.choice("kl"), "value": rng.choice(["", "v"]), "effect": rng.choice(effects)}
        for _number in range(rng.choice([0, 0, 0, 0, 1, 1, 2]))
    ]
    allocatable = {
        "cpu": rng.choice(["2", "3900m", "4", "16", "16", "32", "0", "12.5"]),
        "memory": rng.choice(["3Gi", "7500Mi", "16Gi", "64G", "64G", "1e10"]),
        "pods": rng.choice(["110", "110", "3", "1"]),
        "ephemeral-storage": rng.choice(["10Gi", "100Gi"]),
    }
    if rng.random() < 0.4:
        allocatable["example.com/gpu"] = rng.choice(["1", "4", "8"])
    if rng.random() < 0.2:
        allocatable["hugepages-2Mi"] = "64Mi"
    spec: Object = {"taints": taints}
    if rng.random() < 0.12:
        spec["unschedulable"] = True
    status = {"allocatable": allocatable, "images": rng.sample(_IMAGES, rng.randint(0, 3))}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}


_IMAGES: list[Object] = [
    {"names": ["i:latest", "registry.example.com/i@sha256:1"], "sizeBytes": 900 << 20},
    {"names": ["registry.example.com:5000/web:latest"], "sizeBytes": 333 << 20},
    {"names": ["web:2"], "sizeBytes": 3000 << 20},
    {"names": ["i:latest"], "sizeBytes": 50 << 20},
]


def _resources(rng: Random) -> Object:
    requests, limits = {}, {}
    for name, values in (
        ("cpu", ["0", "100m", "333m", "1", "1.5", "2", "7"]),
        ("memory", ["0", "100Mi", "200Mi", "1G", "1Gi", "2500Mi"]),
    ):
        kind = rng.random()
        if kind < 0.6:
            requests[name] = rng.choice(values)
        elif kind < 0.7:
            limits[name] = rng.choice(values)
    if rng.random() < 0.15:
        requests["ephemeral-storage"] = rng.choice(["1Gi", "20Gi"])
    if rng.random() < 0.15:
        requests["example.com/gpu"] = limits["example.com/gpu"] = rng.choice(["1", "2", "5"])
    if rng.random() < 0.05:
        requests["hugepages-2Mi"] = limits["hugepages-2Mi"] = "32Mi"
    return {"requests": requests, "limits": limits}


def _container(rng: Random, name: str) -> Object:
    ports = []
    if rng.random() < 0.2:
        port = {"containerPort": rng.choice([80, 81]), "protocol": rng.choice(["TCP", "TCP", "UDP"])}
        if rng.random() < 0.8:
            port["hostPort"] = port["containerPort"]
        if rng.random() < 0.3:
            port["hostIP"] = rng.choice(["127.0.0.1", "10.0.0.1", "0.0.0.0"])
        ports.append(port)
    image = rng.choice(["i", "i", "registry.example.com:5000/web", "web:2", "none"])
    return {"name": name, "image": image, "resources": _resources(rng), "ports": ports}


def make_pod(rng: Random, name: str, nodes: list[str], volumes: list[Object] | None = None) -> Object:
    app = rng.choice(APPS)
    labels = {"app": app, "rev": rng.choice(["1", "2"])}
    spec: Object = {"containers": [_container(rng, f"c{index}") for index in range(rng.choice([1, 1, 1, 2]))]}
    inits = [_container(rng, f"i{index}") for index in range(rng.choice([0, 0, 0, 1, 2]))]
    for one in inits:
        if rng.random() < 0.5:
            one["restartPolicy"] = "Always"
    spec["initContainers"] = inits
    if rng.random() < 0.1:
        spec["overhead"] = {"cpu": "50m", "memory": "32Mi"}
    if rng.random() < 0.12:
        spec["resources"] = (
            {"requests": {rng.choice(["cpu", "memory"]): "1"}}
            if rng.random() < 0.5
            else {"limits": {"cpu": "9", "memory": "9Gi"}}
        )
    if rng.random() < 0.05:
        spec["hostNetwork"] = True
    spec["tolerations"] = _tolerations(rng)
    metadata: Object = {
        "name": name,
        "namespace": storage.maybe(rng, 0.85, "default", "other"),
        "uid": f"uid-{name}",
        "labels": labels,
    }
    status: Object = {}
    if nodes:
        spec["nodeName"] = rng.choice([*nodes, *nodes, "gone", ""])
        if rng.random() < 0.1:
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        status["phase"] = rng.choice(["Running", "Running", "Running", "Pending", "Succeeded", "Failed"])
        _resized(rng, spec, status)
    else:
        metadata["namespace"] = "default"
        _wishes(rng, spec)
        spec["volumes"] = volumes or []
    if rng.random() < 0.35:
        spec.setdefault("affinity", {}).update(_pod_affinity(rng, 0.15 if nodes else 0.35))
    return {"metadata": metadata, "spec": spec, "status": status}


def _resized(rng: Random, spec: Object, status: Object) -> None:
    """Now and then a pod that is being resized in place: what it was given differs from what it asks for."""
    if rng.random() < 0.15:
        first = spec["containers"][0]
        given = {"name": first["name"], "image": "i", "imageID": "i", "ready": True, "restartCount": 0}
        given["resources"] = {"requests": {"cpu": rng.choice(["250m", "3"])}}
        given["allocatedResources"] = {"cpu": "500m"}
        status["containerStatuses"] = [given]
        if rng.random() < 0.4:
            status["conditions"] = [
                {"type": "PodResizePending", "status": "True", "reason": rng.choice(["Infeasible", "Deferred"])}
            ]


def _tolerations(rng: Random) -> list[Object]:
    found = []
    for _number in range(rng.choice([0, 0, 1, 1, 2])):
        one: Object = {"operator": rng.choice(["Exists", "Equal", "Equal"])}
        if one["operator"] == "Equal" or rng.random() < 0.8:
            one["key"] = rng.choice(["k", "l", "node.kubernetes.io/unschedulable"])
        if one["operator"] == "Equal":
            one["value"] = rng.choice(["", "v"])
        if rng.random() < 0.5:
            one["effect"] = rng.choice(["NoSchedule", "PreferNoSchedule", "NoExecute"])
        found.append(one)
    return found


def _expression(rng: Random, names: bool = False) -> Object:
    if names:
        return {
            "key": "metadata.name",
            "operator": rng.choice(["In", "In", "NotIn"]),
            "values": [f"n{rng.randint(0, 5)}"],
        }
    operator = rng.choice(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
    if operator in ("Gt", "Lt"):
        return {"key": "cores", "operator": operator, "values": [rng.choice(["3", "4", "7"])]}
    key = rng.choice(["zone", "disk", "none"])
    values = rng.sample(["a", "b", "ssd", ""], rng.randint(1, 3)) if operator in ("In", "NotIn") else []
    return {"key": key, "operator": operator, "values": values}


def _term(rng: Random) -> Object:
    term: Object = {}
    if rng.random() < 0.9:
        term["matchExpressions"] = [_expression(rng) for _number in range(rng.choice([1, 1, 2]))]
    if rng.random() < 0.2:
        term["matchFields"] = [_expression(rng, names=True) for _number in range(rng.choice([1, 1, 2]))]
    return term


def _affinity(rng: Random, required: float) -> Object:
    found: Object = {}
    if rng.random() < required:
        terms = [_term(rng) for _number in range(rng.choice([1, 1, 2, 2]))]
        found["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if rng.random() < 0.4:
        found["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": rng.randint(1, 100), "preference": _term(rng)} for _number in range(rng.choice([1, 2, 3]))
        ]
    return found


def _pod_affinity(rng: Random, required: float) -> Object:
    found: Object = {}
    for kind in ("podAffinity", "podAntiAffinity"):
        listed: Object = {}
        if rng.random() < required:
            terms = [_pod_term(rng) for _number in range(rng.choice([1, 1, 1, 2]))]
            listed["requiredDuringSchedulingIgnoredDuringExecution"] = terms
        if rng.random() < 0.5:
            listed["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": rng.randint(1, 100), "podAffinityTerm": _pod_term(rng)}
                for _number in range(rng.choice([1, 1, 2]))
            ]
        if listed:
            found[kind] = listed
    return found


def _pod_term(rng: Random) -> Object:
    found: Object = {"topologyKey": rng.choice(["zone", "zone", HOST, "disk", "none"])}
    kind = rng.random()
    if kind < 0.75:
        found["labelSelector"] = {"matchLabels": {"app": rng.choice(APPS)}}
    elif kind < 0.9:
        operator = rng.choice(["In", "NotIn", "Exists", "DoesNotExist"])
        values = {"values": rng.sample(["1", "2"], rng.randint(1, 2))} if operator in ("In", "NotIn") else {}
        found["labelSelector"] = {"matchExpressions": [{"key": "rev", "operator": operator, **values}]}
    elif kind < 0.97:
        found["labelSelector"] = {}
    if rng.random() < 0.3:
        found["namespaces"] = rng.sample(NAMESPACES, rng.randint(1, 2))
    if rng.random() < 0.3:
        found["namespaceSelector"] = rng.choice(_NAMESPACE_SELECTORS)
    if "labelSelector" in found and rng.random() < 0.2:
        found[rng.choice(["matchLabelKeys", "mismatchLabelKeys"])] = [rng.choice(["rev", "none"])]
    return found


_NAMESPACE_SELECTORS: list[Object] = [
    {},
    {"matchLabels": {"team": "blue"}},
    {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["red"]}]},
    {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
]


def _wishes(rng: Random, spec: Object) -> None:
    if rng.random() < 0.1:
        spec["nodeSelector"] = {rng.choice(["zone", "disk"]): rng.choice(["a", "ssd"])}
    if rng.random() < 0.5:
        spec["affinity"] = {"nodeAffinity": _affinity(rng, 0.35)}
    if rng.random() < 0.5:
        spec["topologySpreadConstraints"] = [_spread(rng) for _number in range(rng.choice([1, 1, 2]))]


def _spread(rng: Random) -> Object:
    found: Object = {
        "maxSkew": rng.choice([1, 1, 2, 5]),
        "topologyKey": rng.choice(["zone", "zone", HOST, "disk"]),
        "whenUnsatisfiable": rng.choice(["DoNotSchedule", "ScheduleAnyway", "ScheduleAnyway", "ScheduleAnyway"]),
    }
    kind = rng.random()
    if kind < 0.8:
        found["labelSelector"] = {"matchLabels": {"app": rng.choice(APPS)}}
    elif kind < 0.9:
        found["labelSelector"] = {}
    if "labelSelector" in found and rng.random() < 0.2:
        found["labelSelector"]["matchExpressions"] = [
            {"key": "rev", "operator": rng.choice(["In", "NotIn"]), "values": ["1"]}
        ]
    if found["whenUnsatisfiable"] == "DoNotSchedule" and rng.random() < 0.3:
        found["minDomains"] = rng.randint(1, 4)
    if rng.random() < 0.3:
        found["nodeAffinityPolicy"] = rng.choice(["Honor", "Ignore"])
    if rng.random() < 0.3:
        found["nodeTaintsPolicy"] = rng.choice(["Honor", "Ignore"])
    if "labelSelector" in found and rng.random() < 0.2:
        found["matchLabelKeys"] = rng.choice([["rev"], ["none"], ["rev", "none"]])
    return found


_DEFAULT_SPREADS: list[Object] = [
    {"defaultingType": "List"},
    {"defaultingType": "System"},
    {"defaultingType": "System"},
    {
        "defaultingType": "List",
        "defaultConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
            {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"},
            {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "ScheduleAnyway"},
        ],
    },
]


def _plugin_config(rng: Random) -> list[Object]:
    """Return arguments. Those of PodTopologySpread always, as berth's default profile has no default constraints."""
    config: list[Object] = [{"name": "PodTopologySpread", "args": rng.choice(_DEFAULT_SPREADS)}]
    resources = [{"name": "cpu", "weight": rng.randint(1, 5)}, {"name": "memory", "weight": 1}]
    if rng.random() < 0.5:
        resources.append({"name": "example.com/gpu", "weight": 3})
    kind = rng.choice(["", "", "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"])
    if kind:
        strategy: Object = {"type": kind, "resources": resources}
        if kind == "RequestedToCapacityRatio":
            shapes = [[(0, 0), (100, 10)], [(0, 10), (100, 0)], [(10, 3), (40, 8), (70, 1)]]
            points = [{"utilization": at, "score": score} for at, score in rng.choice(shapes)]
            strategy["requestedToCapacityRatio"] = {"shape": points}
        config.append(
            {"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy, "ignoredResources": ["other.org/x"]}}
        )
    if rng.random() < 0.3:
        listed = [{"name": one["name"], "weight": 1} for one in resources] + [
            {"name": "ephemeral-storage", "weight": 1}
        ]
        config.append({"name": "NodeResourcesBalancedAllocation", "args": {"resources": listed}})
    if rng.random() < 0.1:
        required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}
        preferred = [{"weight": 7, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}]
        added = {
            "requiredDuringSchedulingIgnoredDuringExecution": required,
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        }
        config.append({"name": "NodeAffinity", "args": {"addedAffinity": added}})
    if rng.random() < 0.5:
        pods = {
            "hardPodAffinityWeight": rng.choice([0, 1, 50]),
            "ignorePreferredTermsOfExistingPods": rng.random() < 0.3,
        }
        config.append({"name": "InterPodAffinity", "args": pods})
    return config
