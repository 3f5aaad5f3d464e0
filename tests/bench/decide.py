"""sched/decide: what one decision costs the engine alone. ``python -m tests.bench.decide NODES PODS [KIND]`` runs one.

Each size runs in a process of its own, so that its memory is its own. CPU time of filter, score and reserve, and of
counting the choice from then on (assume); all nodes are looked at for each pod. Pods of one shape, as a Deployment's;
or of another KIND: shapes (2,000 different ones), spread, interpod, localdisk.
"""

from __future__ import annotations

import gc
import json
import resource
import subprocess
import sys
import time
from typing import Any

from .figures import Figure

SIZES = (1_000, 10_000, 100_000)
PODS = 2_000
WARM = 20
CPU, MEMORY = 32_000, 256 << 30
SHAPES = 2_000
WEB = {"labelSelector": {"matchLabels": {"app": "web"}}}
OF_KIND: dict[str, dict[str, Any]] = {
    "spread": {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule", **WEB},
            {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway", **WEB},
        ]
    },
    "interpod": {
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 100, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", **WEB}}
                ]
            }
        }
    },
}
"""What pods of a kind say of others."""


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


def pod(index: int, kind: str = "plain") -> dict[str, Any]:
    milli = 100 + index % SHAPES if kind == "shapes" else 100
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": f"{milli}m", "memory": "128Mi"}}}
    meta = {"name": f"pod-{index}", "namespace": "default", "uid": f"uid-{index}", "labels": {"app": "web"}}
    return {"metadata": meta, "spec": {"containers": [container], **OF_KIND.get(kind, {})}}


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
    from berth_core.cluster.snapshot import Snapshot
    from berth_core.framework.cycle import place
    from berth_core.model.placement import DiskClaim, Holder, PlacementRequest
    from berth_core.model.pod import PodInfo
    from berth_core.plugins.table import DEFAULT_PROFILE

    def wanted(index: int) -> PlacementRequest:
        info = PodInfo.from_manifest(pod(index, kind))
        if kind != "localdisk":
            return PlacementRequest(info)
        return PlacementRequest(info, (DiskClaim("data", 10 << 30, "fast"),), holder=Holder("default", "pod", index))

    disks = [disk(index) for index in range(nodes)] if kind == "localdisk" else []
    snapshot = Snapshot.from_objects(nodes=(node(index) for index in range(nodes)), disks=disks)
    requests = [wanted(index) for index in range(pods + WARM)]
    gc.collect()
    gc.freeze()  # as the daemon does once its caches are filled
    asked = 0
    for index, request in enumerate(requests):
        if index == WARM:
            started = time.process_time()
        outcome = place(DEFAULT_PROFILE, snapshot, request)
        snapshot.assume(request, outcome.require(request.pod.name))
        if index >= WARM:
            asked += sum(outcome.counts.computed.values())
    seconds = time.process_time() - started
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    assert int(snapshot.nodes.requested["pods"].sum()) == len(requests)
    one = wanted(len(requests))
    asked_anew = place(DEFAULT_PROFILE, snapshot, one, explain=True)
    assert place(DEFAULT_PROFILE, snapshot, one).placement == asked_anew.placement
    return {"ms": seconds / pods * 1e3, "pods": pods, "memory": memory, "rows": asked / pods}


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])))
