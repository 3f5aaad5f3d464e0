"""The arithmetic of ResourceQuota; tests/apiserver/app/test_admission.py holds it against the API server's."""

from __future__ import annotations

import pytest

from berth_core.app.quota import Demand, of_claim, of_object, of_pod, refusals

GI = 2**30


def quota(hard, used=None, name="few", **spec):
    return {"metadata": {"name": name}, "spec": {"hard": hard, **spec}, "status": {"hard": hard, "used": used or {}}}


def spec(requests=None, limits=None, **values):
    resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value}
    return {"containers": [{"name": "main", "resources": resources}], **values}


def pods(count, **values):
    found = spec(**values)
    return Demand(count, of_pod(found), found)


def claims(count, size=GI, storage_class="fast"):
    return Demand(count, of_claim(size, storage_class))


FAST = "fast.storageclass.storage.k8s.io"
SOME = {"requests": {"cpu": "300m", "memory": "1Gi"}, "limits": {"cpu": "1"}}


@pytest.mark.parametrize(
    ("hard", "used", "demand", "told"),
    [
        ({"pods": "5"}, {"pods": "2"}, pods(3), None),
        ({"pods": "5"}, {"pods": "3"}, pods(3), "pods: hard 5, used 3, requested 3"),
        ({"count/pods": "2"}, {}, Demand(3, of_object("pods")), "count/pods: hard 2, used 0, requested 3"),
        ({"requests.cpu": "1"}, {"requests.cpu": "100m"}, pods(3, **SOME), None),
        (
            {"requests.cpu": "1"},
            {"requests.cpu": "101m"},
            pods(3, **SOME),
            "requests.cpu: hard 1, used 101m, requested 900m",
        ),
        ({"cpu": "1"}, {"cpu": "200m"}, pods(3, **SOME), "cpu: hard 1, used 200m, requested 900m"),
        ({"limits.cpu": "2500m"}, {}, pods(3, **SOME), "limits.cpu: hard 2500m, used 0, requested 3"),
        ({"requests.memory": "2Gi"}, {}, pods(3, **SOME), "requests.memory: hard 2Gi, used 0, requested 3Gi"),
        ({"requests.cpu": "1"}, {"requests.cpu": "5"}, pods(3), None),
        ({"requests.example.com/gpu": "1"}, {}, pods(2, limits={"example.com/gpu": "1"}), "requested 2"),
        ({"persistentvolumeclaims": "2"}, {"persistentvolumeclaims": "1"}, claims(2), "used 1, requested 2"),
        ({"count/persistentvolumeclaims": "1"}, {}, claims(2), "hard 1, used 0, requested 2"),
        ({"requests.storage": "2Gi"}, {}, claims(3), "requests.storage: hard 2Gi, used 0, requested 3Gi"),
        (
            {f"{FAST}/requests.storage": "1Gi"},
            {},
            claims(2),
            f"{FAST}/requests.storage: hard 1Gi, used 0, requested 2Gi",
        ),
        ({f"{FAST}/persistentvolumeclaims": "0"}, {}, claims(1), "hard 0, used 0, requested 1"),
        ({f"{FAST}/persistentvolumeclaims": "0"}, {}, claims(1, storage_class="slow"), None),
        ({f"{FAST}/persistentvolumeclaims": "0"}, {}, claims(1, storage_class=None), None),
        ({"services": "0"}, {}, Demand(1, of_object("services")), "services: hard 0, used 0, requested 1"),
        (
            {"count/statefulsets.apps": "0"},
            {},
            Demand(1, of_object("statefulsets", "apps")),
            "hard 0, used 0, requested 1",
        ),
        ({"pods": "0"}, {"pods": "4"}, pods(-2), None),
    ],
)
def test_what_is_asked_in_all_beside_what_is_used(hard, used, demand, told):
    lines = refusals([quota(hard, used)], [demand])
    assert len(lines) == int(told is not None), lines
    if told is not None:
        assert lines[0].startswith("ResourceQuota few: ")
        assert lines[0].endswith(told)


def test_demands_of_one_resource_are_added_and_every_quota_is_named():
    demands = [claims(1), claims(1, size=2 * GI, storage_class=None), pods(1)]
    two = [quota({"requests.storage": "2Gi"}, name="a"), quota({"persistentvolumeclaims": "1", "pods": "0"}, name="b")]
    assert refusals(two, demands) == [
        "ResourceQuota a: requests.storage: hard 2Gi, used 0, requested 3Gi",
        "ResourceQuota b: persistentvolumeclaims: hard 1, used 0, requested 2",
        "ResourceQuota b: pods: hard 0, used 0, requested 1",
    ]


def test_a_quota_whose_status_is_not_there_yet_counts_as_it_is_asked_for():
    fresh = {"metadata": {"name": "new"}, "spec": {"hard": {"pods": "1"}}}
    assert refusals([fresh], [pods(2)]) == ["ResourceQuota new: pods: hard 1, used 0, requested 2"]


def selector(operator, *values):
    term = {"scopeName": "PriorityClass", "operator": operator, **({"values": list(values)} if values else {})}
    return {"scopeSelector": {"matchExpressions": [term]}}


ELSEWHERE = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"namespaces": ["x"]}]}}
PREFERRED = [{"weight": 1, "podAffinityTerm": {"namespaceSelector": {}}}]
AFFINE = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": PREFERRED}}


@pytest.mark.parametrize(
    ("scopes", "pod", "counts"),
    [
        ({"scopes": ["BestEffort"]}, {}, True),
        ({"scopes": ["BestEffort"]}, {"limits": {"memory": "1Gi"}}, False),
        ({"scopes": ["BestEffort"]}, {"requests": {"example.com/gpu": "1"}}, True),
        ({"scopes": ["NotBestEffort"]}, {"requests": {"cpu": "1m"}}, True),
        ({"scopes": ["NotBestEffort"]}, {}, False),
        ({"scopes": ["Terminating"]}, {"activeDeadlineSeconds": 5}, True),
        ({"scopes": ["Terminating"]}, {}, False),
        ({"scopes": ["NotTerminating"]}, {}, True),
        ({"scopes": ["NotTerminating", "NotBestEffort"]}, {}, False),
        ({"scopes": ["PriorityClass"]}, {"priorityClassName": "high"}, True),
        ({"scopes": ["PriorityClass"]}, {}, False),
        (selector("In", "high"), {"priorityClassName": "high"}, True),
        (selector("In", "high"), {}, False),
        (selector("NotIn", "high"), {"priorityClassName": "low"}, True),
        (selector("Exists"), {}, False),
        (selector("DoesNotExist"), {}, True),
        ({"scopes": ["CrossNamespacePodAffinity"]}, {"affinity": ELSEWHERE}, True),
        ({"scopes": ["CrossNamespacePodAffinity"]}, {"affinity": AFFINE}, True),
        ({"scopes": ["CrossNamespacePodAffinity"]}, {}, False),
        ({"scopes": ["SomethingNew"]}, {}, False),
    ],
)
def test_scopes(scopes, pod, counts):
    limited = quota({"pods": "0", "persistentvolumeclaims": "0"}, **scopes)
    assert refusals([limited], [pods(1, **pod)]) == (["ResourceQuota few: pods: hard 0, used 0, requested 1"] * counts)
    assert refusals([limited], [claims(1)]) == [], "a quota with scopes counts pods alone"


def test_limits_are_summed_as_requests_are():
    """Containers side by side, init containers one after the other, overhead where there is a limit at all."""
    limited = {"resources": {"limits": {"cpu": "1"}}}
    found = of_pod(
        {
            "containers": [{"name": "a", **limited}, {"name": "b", **limited}, {"name": "c"}],
            "initContainers": [{"name": "i", "resources": {"limits": {"cpu": "3"}, "requests": {"cpu": "1"}}}],
            "overhead": {"cpu": "100m", "memory": "1Gi"},
        }
    )
    assert {name: str(value) for name, value in found.items() if name.startswith("limits.")} == {"limits.cpu": "31/10"}
    assert str(found["requests.cpu"]) == "21/10"
    assert found["requests.memory"] == GI
