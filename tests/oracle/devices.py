"""Clusters with devices for dynamic resource allocation: slices, classes, claims, and a pod that has some of them.

Small on purpose: few nodes with few devices, so that requests compete, searches go back, and every case is a corner.
"""

from __future__ import annotations

from random import Random
from typing import Any

Object = dict[str, Any]
DRIVERS = ("gpu.example.com", "nic.example.com")
CLASSES = ("any", "gpu", "large", "broken")
MODELS = ("a", "b")
VERSIONS = ("1.0.0", "1.2.0", "2.0.0-rc.1", "2.0.0")
#: Selectors that this scheduler understands; some of them are errors for devices that lack the attribute.
SELECTORS = (
    'device.driver == "gpu.example.com"',
    'device.attributes["gpu.example.com"].model == "a"',
    'has(device.attributes["gpu.example.com"].model) && device.attributes["gpu.example.com"].model in ["a", "c"]',
    'device.attributes["gpu.example.com"].?model.orValue("b") != "a"',
    '"numa" in device.attributes[device.driver] && device.attributes[device.driver].numa < 1',
    'cel.bind(d, device.attributes["gpu.example.com"], has(d.driver) && d.driver.isGreaterThan(semver("1.1.0")))',
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("16Gi")) >= 0',
    (
        'has(device.capacity["gpu.example.com"].memory) ? '
        'device.capacity["gpu.example.com"].memory.isLessThan(quantity("30G")) : device.attributes["other"].x == 1'
    ),
    'device.attributes["gpu.example.com"].shiny || device.attributes["gpu.example.com"].numa >= 1',
    '!device.allowMultipleAllocations && !("shiny" in device.attributes["nic.example.com"])',
    'device.attributes["gpu.example.com"].model.lowerAscii().matches("^[a-b]$") || false',
    'device.attributes["gpu.example.com"].numa == 0 || device.attributes["gpu.example.com"].none == 1',
    "true",
)
MEMORY = ("8Gi", "16Gi", "32Gi")


def case(seed: int) -> Object:
    rng = Random(seed)
    names = [f"n{number}" for number in range(rng.randint(1, 3))]
    slices = _slices(rng, names)
    devices = [
        (one["spec"]["driver"], one["spec"]["pool"]["name"], device)
        for one in slices
        for device in one["spec"].get("devices", ())
    ]
    claims = [_claim(rng, f"claim{number}", devices, names) for number in range(rng.randint(1, 4))]
    pod = _pod(rng, claims)
    return {
        "nodes": [_node(rng, name) for name in names],
        "resourceSlices": slices,
        "deviceClasses": [_class(name) for name in CLASSES if name != "broken"],
        "resourceClaims": claims,
        "pod": pod,
    }


def _node(rng: Random, name: str) -> Object:
    labels = {"kubernetes.io/hostname": name, "zone": rng.choice("ab")}
    return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": {"cpu": "4", "pods": "9"}}}


def _slices(rng: Random, names: list[str]) -> list[Object]:
    """Pools of one or more slices; now and then one that is not whole, or has an older generation beside it."""
    found: list[Object] = []
    pools: dict[tuple[str, str, int], list[Object]] = {}
    for number in range(rng.randint(1, 4)):
        driver, generation = rng.choice(DRIVERS), rng.choice([1, 1, 2])
        name = rng.choice(["p", f"q{number}"])
        for part in range(rng.choice([1, 1, 1, 2])):
            pool = {"name": name, "generation": generation}
            spec: Object = {"driver": driver, "pool": pool, **_where(rng, names)}
            prefix = rng.choice(["d", f"x{number}{part}", f"y{number}{part}"])
            spec["devices"] = [_device(rng, f"{prefix}{index}{part}") for index in range(rng.randint(1, 3))]
            found.append({"metadata": {"name": f"s{rng.randint(0, 9)}-{number}-{part}"}, "spec": spec})
            pools.setdefault((driver, name, generation), []).append(pool)
    for listed in pools.values():
        missing = rng.choice([0] * 9 + [1])
        for pool in listed:
            pool["resourceSliceCount"] = len(listed) + missing
    return found


def _where(rng: Random, names: list[str]) -> Object:
    kind = rng.random()
    if kind < 0.7:
        return {"nodeName": rng.choice(names)}
    if kind < 0.85:
        return {"allNodes": True}
    expressions = [{"key": "zone", "operator": "In", "values": [rng.choice("ab")]}]
    return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}


def _device(rng: Random, name: str) -> Object:
    attributes: Object = {}
    if rng.random() < 0.8:
        attributes["model"] = {"string": rng.choice(MODELS)}
    if rng.random() < 0.7:
        attributes[rng.choice(["numa", "gpu.example.com/numa", "example.org/numa"])] = {"int": rng.randint(0, 1)}
    if rng.random() < 0.5:
        attributes["driver"] = {"version": rng.choice(VERSIONS)}
    if rng.random() < 0.4:
        attributes["shiny"] = {"bool": rng.random() < 0.5}
    device: Object = {"name": name, "attributes": attributes}
    if rng.random() < 0.7:
        device["capacity"] = {"memory": {"value": rng.choice(MEMORY)}}
        if rng.random() < 0.3:
            device["allowMultipleAllocations"] = True
            if rng.random() < 0.6:
                device["capacity"]["memory"]["requestPolicy"] = _policy(rng)
    if rng.random() < 0.2:
        device["taints"] = [
            {"key": "k", "value": rng.choice("vw"), "effect": rng.choice(["NoSchedule", "NoExecute", "None"])}
        ]
    if rng.random() < 0.1:
        device["bindsToNode"] = True
    return device


def _policy(rng: Random) -> Object:
    if rng.random() < 0.5:
        return {"default": "2Gi", "validRange": {"min": "1Gi", "max": "8Gi", "step": "1Gi"}}
    return {"default": "4Gi", "validValues": ["1Gi", "4Gi", "8Gi"]}


def _class(name: str) -> Object:
    selectors = {
        "any": [],
        "gpu": ['device.driver == "gpu.example.com"'],
        "large": [
            'has(device.capacity["gpu.example.com"].memory)',
            'device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("8Gi"))',
        ],
    }[name]
    spec: Object = {"selectors": [{"cel": {"expression": one}} for one in selectors]}
    if name != "any":
        spec["config"] = [{"opaque": {"driver": "gpu.example.com", "parameters": {"of": name}}}]
    return {"metadata": {"name": name}, "spec": spec}


def _claim(rng: Random, name: str, devices: list[tuple[str, str, Object]], nodes: list[str]) -> Object:
    requested = [_request(rng, f"r{number}") for number in range(rng.choice([1, 1, 2, 3]))]
    spec: Object = {"devices": {"requests": requested}}
    if rng.random() < 0.3:
        constraint: Object = {"matchAttribute": rng.choice(["gpu.example.com/numa", "gpu.example.com/model"])}
        if rng.random() < 0.4:
            constraint["requests"] = rng.sample([one["name"] for one in requested], 1)
        spec["devices"]["constraints"] = [constraint]
    if rng.random() < 0.3:
        opaque = {"opaque": {"driver": "gpu.example.com", "parameters": {"of": name}}}
        requests = rng.choice([[], ["r0"], ["r0/o1", "r1"]])
        spec["devices"]["config"] = [{**opaque, "requests": requests} if requests else opaque]
    meta: Object = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    claim: Object = {"metadata": meta, "spec": spec, "status": {}}
    if rng.random() < 0.35 and devices:
        claim["status"] = _given(rng, devices, nodes)
    return claim


def _given(rng: Random, devices: list[tuple[str, str, Object]], nodes: list[str]) -> Object:
    results = []
    for driver, pool, device in rng.sample(devices, min(len(devices), rng.randint(1, 2))):
        result: Object = {"request": "r0", "driver": driver, "pool": pool, "device": device["name"]}
        if device.get("allowMultipleAllocations"):
            result["shareID"] = f"00000000-0000-4000-8000-{rng.randint(0, 999):012}"
            result["consumedCapacity"] = {"memory": rng.choice(["1Gi", "8Gi", "16Gi"])}
        elif rng.random() < 0.2:
            result["adminAccess"] = True
        results.append(result)
    allocation: Object = {"devices": {"results": results}}
    if rng.random() < 0.7:
        fields = [{"key": "metadata.name", "operator": "In", "values": [rng.choice(nodes)]}]
        allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {"allocation": allocation, "reservedFor": [{"resource": "pods", "name": "other", "uid": "uid-other"}]}


def _request(rng: Random, name: str) -> Object:
    if rng.random() < 0.2:
        options = [{"name": f"o{number}", **_exactly(rng)} for number in range(rng.randint(1, 3))]
        return {"name": name, "firstAvailable": options}
    exactly = _exactly(rng)
    if rng.random() < 0.08:
        exactly["adminAccess"] = True
    return {"name": name, "exactly": exactly}


def _exactly(rng: Random) -> Object:
    found: Object = {
        "deviceClassName": rng.choice(["any", "gpu", "gpu", "large", *(["broken"] if rng.random() < 0.1 else [])])
    }
    if rng.random() < 0.15:
        found["allocationMode"] = "All"
    else:
        found.update(
            allocationMode="ExactCount", count=rng.choice([1, 1, 1, 2, 3, *([40] if rng.random() < 0.05 else [])])
        )
    if rng.random() < 0.45:
        found["selectors"] = [{"cel": {"expression": one}} for one in rng.sample(SELECTORS, rng.randint(1, 2))]
    if rng.random() < 0.25:
        toleration = {"key": "k", "operator": rng.choice(["Exists", "Equal"])}
        if rng.random() < 0.5:
            toleration["effect"] = "NoSchedule"
        if toleration["operator"] == "Equal":
            toleration["value"] = "v"
        found["tolerations"] = [toleration]
    if rng.random() < 0.15:
        found["capacity"] = {
            "requests": {rng.choice(["memory", "memory", "cores"]): rng.choice(["512Mi", "3Gi", "1500Mi", "20Gi"])}
        }
    return found


def _pod(rng: Random, claims: list[Object]) -> Object:
    listed, statuses = [], []
    for number, claim in enumerate(rng.sample(claims, rng.randint(1, min(2, len(claims))))):
        kind = rng.random()
        if kind < 0.75:
            listed.append({"name": f"c{number}", "resourceClaimName": claim["metadata"]["name"]})
            continue
        listed.append({"name": f"c{number}", "resourceClaimTemplateName": "template"})
        if kind < 0.97:
            statuses.append({"name": f"c{number}", "resourceClaimName": claim["metadata"]["name"]})
        if rng.random() < 0.8:
            owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}
            claim["metadata"]["ownerReferences"] = [owner]
    if rng.random() < 0.05:
        listed.append({"name": "gone", "resourceClaimName": "gone"})
    return {
        "metadata": {"name": "p", "namespace": "default", "uid": "uid-p"},
        "spec": {"containers": [{"name": "main", "image": "x"}], "resourceClaims": listed},
        "status": {"resourceClaimStatuses": statuses},
    }
