"""Clusters in which pods have priorities and there is little room left: for preemption beside the real thing."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from tests.oracle.clusters import APPS, NAMESPACES, case

Object = dict[str, Any]


def crowded(seed: int) -> Object:
    """Return the documents of one case: a general cluster, made narrow."""
    rng = Random(f"crowded {seed}")
    found = case(seed)
    plain = rng.random() < 0.5
    # Half of the cases have nothing but resources to look at; in the others every other rule gets in the way.
    alike = plain and rng.random() < 0.3
    for node in found["nodes"]:
        cpu = rng.choice(["2"] if alike else ["2", "3", "4"])
        node["status"]["allocatable"].update({"cpu": cpu, "memory": "16Gi", "pods": "6"})
        if plain or rng.random() < 0.7:
            node["spec"] = {}
    there: Counter[str] = Counter()
    for index, pod in enumerate(found["pods"]):
        if pod["spec"].get("nodeName") in ("gone", "") and rng.random() < 0.8:
            pod["spec"]["nodeName"] = rng.choice(found["nodes"])["metadata"]["name"]
        # No two of a node alike: kube-scheduler leaves open which of such it would rather keep.
        _ranked(rng, pod, 10 + (index if index % 2 else 20 + index))
        _plain(rng, pod, plain, ["1"] if alike else ["500m", "1", "1500m"])
        if alike:
            there[pod["spec"]["nodeName"]] += 1
            pod["spec"]["priority"] = 0
            pod["status"]["startTime"] = f"2026-01-01T00:{10 + there[pod['spec']['nodeName']]}:00Z"
    _one_port_each(found["pods"])
    _one_user_each(found["pods"])
    pod = found["pod"]
    pod["spec"]["priority"] = rng.choice([0, 10, 50, 1000, 1000])
    if rng.random() < 0.05:
        pod["spec"]["preemptionPolicy"] = rng.choice(["Never", "PreemptLowerPriority"])
    _plain(rng, pod, plain, ["1", "2", "3"])
    if rng.random() < 0.2:
        pod["status"] = {"nominatedNodeName": rng.choice([*(f"n{index}" for index in range(4)), "gone"])}
    found["nominated"] = [_nominated(rng, index, found["nodes"]) for index in range(rng.choice([0, 0, 0, 1, 2]))]
    found["podDisruptionBudgets"] = [_budget(rng, index, found["pods"]) for index in range(rng.choice([0, 1, 2, 3]))]
    return found


def _one_port_each(pods: list[Object]) -> None:
    """No two pods of a node take one port, which no kubelet would let in: kube-scheduler knows no counts of them."""
    taken = set()
    for pod in pods:
        for container in pod["spec"]["initContainers"] + pod["spec"]["containers"]:
            for port in container["ports"]:
                key = (pod["spec"]["nodeName"], port["containerPort"], port["protocol"])
                if key in taken:
                    port.pop("hostPort", None)
                taken.add(key)
        if pod["spec"].get("hostNetwork"):
            del pod["spec"]["hostNetwork"]


def _one_user_each(pods: list[Object]) -> None:
    """Let each claim have one user, and claims of another namespace another name.

    When a victim goes, kube-scheduler counts claims with ReadWriteOncePod by name alone (conflictingPVCRefCountForPod):
    a pod of another namespace, or a second user that cannot be, would free what is still used.
    """
    used = set()
    for pod in pods:
        for volume in list(pod["spec"]["volumes"]):
            claim = volume.get("persistentVolumeClaim")
            if claim is None:
                continue
            if claim["claimName"] in used or pod["metadata"]["namespace"] != "default":
                pod["spec"]["volumes"].remove(volume)
            used.add(claim["claimName"])


def _ranked(rng: Random, pod: Object, minute: int) -> None:
    pod["spec"]["priority"] = rng.choice([-10, 0, 0, 0, 5, 10, 100])
    pod["status"]["startTime"] = f"2026-01-01T00:{minute}:00Z"
    if pod["metadata"].get("deletionTimestamp") and rng.random() < 0.7:
        reason = rng.choice(["PreemptionByScheduler", "PreemptionByScheduler", "DeletionByTaintManager"])
        condition = {"type": "DisruptionTarget", "status": rng.choice(["True", "True", "False"]), "reason": reason}
        pod["status"]["conditions"] = [*pod["status"].get("conditions", []), condition]


def _plain(rng: Random, pod: Object, plain: bool, cpu: list[str]) -> None:
    spec = pod["spec"]
    spec["containers"][0]["resources"] = {"requests": {"cpu": rng.choice(cpu)}}
    if plain:
        spec.pop("resources", None)
        spec["initContainers"], spec["tolerations"], spec["volumes"] = [], [], []
        for key in ("affinity", "nodeSelector", "topologySpreadConstraints"):
            spec.pop(key, None)


def _nominated(rng: Random, index: int, nodes: list[Object]) -> Object:
    spec = {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": rng.choice(["500m", "1"])}}}],
        "priority": rng.choice([0, 50, 1000, 2000]),
    }
    return {
        "metadata": {"name": f"waits{index}", "namespace": "default", "uid": f"waits{index}", "labels": {"app": "web"}},
        "spec": spec,
        "status": {"nominatedNodeName": rng.choice(nodes)["metadata"]["name"]},
    }


def _budget(rng: Random, index: int, pods: list[Object]) -> Object:
    selector: Object | None = rng.choice(
        [
            {"matchLabels": {"app": rng.choice(APPS)}},
            {"matchLabels": {"app": rng.choice(APPS)}},
            {"matchExpressions": [{"key": "rev", "operator": "In", "values": ["1"]}]},
            {},
            None,
        ]
    )
    disrupted = {pod["metadata"]["name"]: "2026-01-01T00:00:00Z" for pod in pods if rng.random() < 0.1}
    return {
        "metadata": {"name": f"b{index}", "namespace": rng.choice(["default", "default", *NAMESPACES])},
        "spec": {"selector": selector} if selector is not None else {},
        "status": {"disruptionsAllowed": rng.choice([0, 0, 1, 2]), "disruptedPods": disrupted},
    }
