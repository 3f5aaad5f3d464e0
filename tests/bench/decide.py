"""sched/decide: what one decision costs the engine alone. ``python -m tests.bench.decide NODES PODS`` runs one size.

Each size runs in a process of its own, so that its memory is its own. CPU time of filter, score and reserve, and of
counting the choice from then on (assume); all nodes are looked at for each pod. Pods of one shape, as a Deployment's.
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


def pod(index: int) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}
    meta = {"name": f"pod-{index}", "namespace": "default", "uid": f"uid-{index}", "labels": {"app": "web"}}
    return {"metadata": meta, "spec": {"containers": [container]}}


def measure(nodes: int, pods: int) -> dict[str, Any]:
    """Place so many pods on so many nodes; check that all count, and that asking everybody anew gives the same."""
    from berth_core.cluster.snapshot import Snapshot
    from berth_core.framework.cycle import place
    from berth_core.model.placement import PlacementRequest
    from berth_core.model.pod import PodInfo
    from berth_core.plugins.table import DEFAULT_PROFILE

    snapshot = Snapshot.from_objects(nodes=(node(index) for index in range(nodes)))
    requests = [PlacementRequest(PodInfo.from_manifest(pod(index))) for index in range(pods + WARM)]
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
    one = PlacementRequest(PodInfo.from_manifest(pod(len(requests))))
    asked_anew = place(DEFAULT_PROFILE, snapshot, one, explain=True)
    assert place(DEFAULT_PROFILE, snapshot, one).placement == asked_anew.placement
    return {"ms": seconds / pods * 1e3, "pods": pods, "memory": memory, "rows": asked / pods}


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]))))
