"""Configurations of a scheduler, good and bad, made from a seed."""

from __future__ import annotations

from random import Random
from typing import Any

Object = dict[str, Any]
NAMES = [
    *("NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "VolumeBinding", "ImageLocality"),
    *("PodTopologySpread", "InterPodAffinity", "NodeResourcesBalancedAllocation", "VolumeZone", "DefaultPreemption"),
    *("SchedulingGates", "DynamicResources"),
]


def configuration(seed: int) -> Object:
    """Return one file; about a third of them are wrong somewhere."""
    rng = Random(seed)
    found: Object = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    for key, values in (
        ("parallelism", [1, 16, 16, 0]),
        ("percentageOfNodesToScore", [0, 30, 100, 101]),
        ("podInitialBackoffSeconds", [1, 2, 0]),
        ("podMaxBackoffSeconds", [10, 5, 1]),
        ("enableProfiling", [True, False]),
    ):
        if rng.random() < 0.1:
            found[key] = rng.choice(values)
    if rng.random() < 0.2:
        found["leaderElection"] = _leader_election(rng)
    if rng.random() < 0.9:
        found["profiles"] = [_profile(rng) for _number in range(rng.choice([1, 1, 1, 2]))]
    if rng.random() < 0.15:
        found["extenders"] = [_extender(rng) for _number in range(rng.choice([1, 2]))]
    if rng.random() < 0.03:
        found[rng.choice(["profile", "healthz"])] = 1
    return found


def _leader_election(rng: Random) -> Object:
    values: list[tuple[str, list[Any]]] = [
        ("leaderElect", [True, False]),
        ("leaseDuration", ["15s", "1m30s", "5s", "0s"]),
        ("renewDeadline", ["10s", "2.5s", "20s"]),
        ("retryPeriod", ["2s", "1500ms"]),
        ("resourceName", ["other", ""]),
        ("resourceLock", ["leases", "leases", "endpoints"]),
    ]
    return {key: rng.choice(listed) for key, listed in values if rng.random() < 0.4}


def _extender(rng: Random) -> Object:
    found: Object = {"urlPrefix": "https://extender.example.com"}
    values: list[tuple[str, list[Any]]] = [
        ("filterVerb", ["filter"]),
        ("prioritizeVerb", ["prioritize"]),
        ("weight", [1, 5, 5, 0]),
        ("bindVerb", ["bind"]),
        ("nodeCacheCapable", [True]),
        ("httpTimeout", ["30s"]),
        ("managedResources", [[{"name": "example.com/gpu", "ignoredByScheduler": True}], [{"name": "cpu"}]]),
    ]
    return {**found, **{key: rng.choice(listed) for key, listed in values if rng.random() < 0.4}}


def _profile(rng: Random) -> Object:
    found: Object = {}
    if rng.random() < 0.8:
        found["schedulerName"] = rng.choice(["one", "two", "three"])
    if rng.random() < 0.1:
        found["percentageOfNodesToScore"] = rng.choice([5, -1])
    if rng.random() < 0.8:
        found["plugins"] = _plugins(rng)
    names = rng.sample(sorted(_ARGS), rng.choice([0, 0, 1, 2]))
    found["pluginConfig"] = [{"name": name, "args": rng.choice(_ARGS[name])} for name in names]
    return found


def _plugins(rng: Random) -> Object:
    found: Object = {}
    for point in ("multiPoint", "filter", "preFilter", "preScore", "score", "reserve", "queueSort", "bind"):
        if rng.random() < (0.6 if point == "multiPoint" else 0.2):
            found[point] = _plugin_set(rng, point)
    return found


_EXTENDS = {
    "filter": ["NodeName", "NodePorts", "NodeAffinity", "TaintToleration", "VolumeZone"],
    "preFilter": ["NodePorts", "NodeAffinity", "VolumeZone"],
    "preScore": ["NodeAffinity", "TaintToleration", "VolumeBinding"],
    "score": ["NodeAffinity", "TaintToleration", "ImageLocality", "NodeResourcesFit"],
    "reserve": ["VolumeBinding", "DynamicResources"],
    "queueSort": ["PrioritySort"],
    "bind": ["DefaultBinder"],
    "multiPoint": NAMES,
}


def _plugin_set(rng: Random, point: str) -> Object:
    found: Object = {}
    listed = NAMES if rng.random() < 0.03 else _EXTENDS[point]
    if rng.random() < 0.7:
        names = rng.sample(listed, rng.randint(0, min(3, len(listed))))
        found["enabled"] = [
            {"name": name, **({"weight": rng.randint(0, 9)} if rng.random() < 0.5 else {})} for name in names
        ]
    if rng.random() < 0.6:
        chosen = rng.sample(listed, rng.randint(0, min(2, len(listed))))
        found["disabled"] = [{"name": name} for name in (["*"] if rng.random() < 0.2 else chosen)]
    if rng.random() < 0.03:
        found["enabled"] = [{"name": rng.choice(["NoSuchPlugin", "EBSLimits"])}]
    return found


_ARGS: dict[str, list[Object]] = {
    "DefaultPreemption": [
        {},
        {"minCandidateNodesPercentage": 0},
        {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
        {"minCandidateNodesPercentage": 101},
    ],
    "InterPodAffinity": [{}, {"hardPodAffinityWeight": 0}, {"hardPodAffinityWeight": 101}, {"weight": 1}],
    "NodeAffinity": [
        {},
        {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
    ],
    "NodeResourcesBalancedAllocation": [
        {},
        {"resources": [{"name": "cpu"}, {"name": "example.com/gpu", "weight": 1}]},
        {"resources": [{"name": "cpu", "weight": 2}]},
        {"resources": [{"name": "cpu"}, {"name": "cpu"}]},
    ],
    "NodeResourcesFit": [
        {},
        {"ignoredResources": ["example.com/a"], "ignoredResourceGroups": ["example.com"]},
        {"ignoredResourceGroups": ["example.com/a"]},
        {"ignoredResources": ["a b"]},
        {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 3}, {"name": "memory"}]}},
        {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 101}]}},
        {"scoringStrategy": {"type": "Most"}},
        {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
        {
            "scoringStrategy": {
                "type": "RequestedToCapacityRatio",
                "requestedToCapacityRatio": {
                    "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
                },
            }
        },
        {
            "scoringStrategy": {
                "type": "RequestedToCapacityRatio",
                "requestedToCapacityRatio": {
                    "shape": [{"utilization": 50, "score": 0}, {"utilization": 50, "score": 11}]
                },
            }
        },
        {
            "scoringStrategy": {
                "type": "LeastAllocated",
                "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}]},
            }
        },
    ],
    "PodTopologySpread": [
        {},
        {"defaultingType": "List"},
        {"defaultingType": "List", "defaultConstraints": [{"maxSkew": 1, "topologyKey": "zone"}]},
        {
            "defaultingType": "List",
            "defaultConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}] * 2,
        },
        {
            "defaultingType": "List",
            "defaultConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
        },
        {"defaultConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]},
        {"defaultingType": "Other"},
    ],
    "VolumeBinding": [{}, {"bindTimeoutSeconds": 0}, {"bindTimeoutSeconds": -1}, {"shape": []}],
}
