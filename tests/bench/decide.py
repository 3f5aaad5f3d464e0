"""sched/decide: what one decision costs the engine alone. ``python -m tests.bench.decide NODES PODS [KIND]`` runs one.

Each size runs in a process of its own, so that its memory is its own. CPU time of filter, score and reserve, and of
counting the choice from then on (assume); all nodes are looked at for each pod. Pods of one shape, as a Deployment's;
or of another KIND: those of sched/shapes, sched/spread, sched/interpod, sched/preempt (which ends the victims, too),
of a service (service), with a claim on a local disk (localdisk).
"""

from __future__ import annotations

import gc
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from . import sched_pods
from .figures import Figure

if TYPE_CHECKING:
    from berth_core.cluster.snapshot import Snapshot
    from berth_core.framework.profile import Profile
    from berth_core.model.placement import PlacementRequest

SIZES = (1_000, 10_000, 100_000)
PODS = 2_000
WARM = 20
CPU, MEMORY = 32_000, 256 << 30
FILL = 4
"""Pods that fill a node, where each pod that comes ends one of them."""


def _urgent(number: int) -> dict[str, Any]:
    return sched_pods.pod(number, "urgent", f"{CPU // FILL}m", priority=1000)


OF_KIND: dict[str, Callable[[int], dict[str, Any]]] = {
    "plain": sched_pods.pod,
    "shapes": sched_pods.shaped,
    "spread": sched_pods.spread,
    "interpod": sched_pods.apart,
    "preempt": _urgent,
    "service": sched_pods.pod,
    "localdisk": sched_pods.pod,
}


def decide(_ground: object) -> list[Figure]:
    """One figure per size: milliseconds of CPU a pod; the process's memory beside it."""
    figures = []
    for nodes in SIZES:
        command = [sys.executable, "-m", "tests.bench.decide", str(nodes), str(PODS)]
        found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        rows = f"{found['rows']:.1f} rows a pod asked of plugins, all {nodes:,} compared"
        notes = (f"{found['pods']:,} pods, {rows}", f"{found['memory']} MB resident, numpy and the pods among them")
        figures.append(Figure(f"sched/decide/{nodes}", found["ms"], None, "ms CPU", None, notes))
    return figures


def node(index: int) -> dict[str, Any]:
    name = f"node-{index:06}"
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{index % 10}"}
    allocatable = {"cpu": f"{CPU}m", "memory": str(MEMORY), "pods": "110"}
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {"allocatable": allocatable}}


def disk(index: int) -> dict[str, Any]:
    """Return a free disk, the only one of its node."""
    name = f"disk-{index:06}"
    spec = {"nodeName": f"node-{index:06}", "identity": {"serial": name, "size": 100 << 30}, "storageClassName": "fast"}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {**spec, "volumeMode": "Filesystem"},
        "status": {"phase": "Available", "observed": {"sizeBytes": 100 << 30}},
    }


def measure(nodes: int, pods: int, kind: str = "plain") -> dict[str, Any]:
    """Place so many pods on so many nodes; check that all count, and that asking everybody anew gives the same."""
    from berth_core.config.configuration import SchedulerConfiguration
    from berth_core.config.plugin_args import API_VERSION
    from berth_core.config.stock import KIND
    from berth_core.framework.cycle import place

    profile = SchedulerConfiguration.parse({"apiVersion": API_VERSION, "kind": KIND}).profiles[0].build()
    snapshot = laid_out(nodes, kind)
    requests = [wanted(index, kind) for index in range(pods + WARM)]
    gc.collect()
    gc.freeze()  # as the daemon does once its caches are filled
    asked = 0
    before = int(snapshot.nodes.requested["pods"].sum())
    for index, request in enumerate(requests):
        if index == WARM:
            started, asked = time.process_time(), 0
        asked += _one(profile, snapshot, request)
    seconds = time.process_time() - started
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    assert int(snapshot.nodes.requested["pods"].sum()) == before + (0 if kind == "preempt" else len(requests))
    one = wanted(len(requests), kind)
    asked_anew = place(profile, snapshot, one, explain=True)
    assert place(profile, snapshot, one).placement == asked_anew.placement
    return {"ms": seconds / pods * 1e3, "pods": pods, "memory": memory, "rows": asked / pods}


def laid_out(nodes: int, kind: str) -> Snapshot:
    """Return the cluster that pods of a kind come to."""
    from berth_core.cluster.snapshot import Snapshot

    disks = [disk(index) for index in range(nodes)] if kind == "localdisk" else []
    selector = {"selector": {"app": "plain"}}
    services = [{"metadata": {"name": "plain", "namespace": "default"}, "spec": selector}] if kind == "service" else []
    there = FILL * nodes if kind == "preempt" else 0
    return Snapshot.from_objects(
        nodes=(node(index) for index in range(nodes)),
        pods=(_filler(index, nodes) for index in range(there)),
        disks=disks,
        services=services,
    )


def _filler(index: int, nodes: int) -> dict[str, Any]:
    body = sched_pods.pod(index, "filler", f"{CPU // FILL}m", nodeName=f"node-{index % nodes:06}")
    return _named(body, f"filler-{index}")


def _named(body: dict[str, Any], name: str) -> dict[str, Any]:
    return {**body, "metadata": {**body["metadata"], "name": name, "namespace": "default", "uid": f"uid-{name}"}}


def wanted(index: int, kind: str) -> PlacementRequest:
    """Return a pod of a kind, as it is asked for."""
    from berth_core.model.placement import DiskClaim, Holder, PlacementRequest
    from berth_core.model.pod import PodInfo

    info = PodInfo.from_manifest(_named(OF_KIND[kind](index), f"pod-{index}"))
    if kind != "localdisk":
        return PlacementRequest(info)
    return PlacementRequest(info, (DiskClaim("data", 10 << 30, "fast"),), holder=Holder("default", "pod", index))


def _one(profile: Profile, snapshot: Snapshot, request: PlacementRequest) -> int:
    """Place one pod, and count it; return the rows that plugins were asked about."""
    from berth_core.framework.cycle import place
    from berth_core.framework.dry_run import post_filter

    outcome = place(profile, snapshot, request, hints=False, nominated={})
    asked = sum(outcome.counts.computed.values())
    if outcome.placement is None:
        found = post_filter(profile, snapshot, request, outcome.diagnosis, len(snapshot.nodes) // 3, {})
        assert found.node, found.message
        for victim in found.victims:
            snapshot.remove_pod(victim.namespace, victim.name)
        pod = replace(request.pod, preemption=replace(request.pod.preemption, nominated=found.node))
        request = replace(request, pod=pod)
        outcome = place(profile, snapshot, request, hints=False, nominated={found.node: [pod]})
        asked += sum(outcome.counts.computed.values())
    snapshot.assume(request, outcome.require(request.pod.name))
    return asked


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])))
