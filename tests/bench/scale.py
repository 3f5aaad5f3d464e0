"""Figures without a peer: a large application, and the development cluster itself."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import BERTH, LOCAL_DISK
from berth_dev.cluster import Cluster

from .figures import Figure, median
from .ground import OURS, Ground, say, stateful_app

REPLICAS, NODES, DISKS = 100, 1000, 4
BOUND = ("Bound", "Created", "Running")


def app100(_ground: Ground) -> list[Figure]:
    """app/100: 100 replicas over 1,000 fake nodes with 4 disks each, from the play's start to the last berth Bound."""
    with Ground(NODES, DISKS) as ground:
        ground.cluster  # noqa: B018 - the time to build it is not the application's
        say(f"{REPLICAS} replicas over {NODES} nodes")
        seconds, run = ground.play(OURS, [stateful_app("large", REPLICAS)], timeout=900)
        berths = ground.api.list(BERTH)
        assert len(berths) == REPLICAS
        assert all(berth["status"]["phase"] in BOUND for berth in berths)
        held = [disk["spec"]["claimRef"]["uid"] for disk in ground.api.list(LOCAL_DISK) if disk["spec"].get("claimRef")]
        assert sorted(held) == sorted(berth["metadata"]["uid"] for berth in berths), "each holds one disk"
        requests = run.last["requests"]
        notes = (
            f"{sum(requests.values()) / REPLICAS:.1f} requests a replica: "
            + ", ".join(f"{verb} {count}" for verb, count in sorted(requests.items())),
        )
        return [Figure("app/100", seconds, None, "s", None, notes)]


def cluster_up(_ground: Ground) -> list[Figure]:
    """cluster/up: the development cluster with a warm cache; as root with three real hosts Ready."""
    hosts, times = (3, []) if os.geteuid() == 0 else (0, [])
    for _round in range(3):
        with tempfile.TemporaryDirectory(prefix="berth-") as folder:
            cluster = Cluster(Path(folder) / f"u{Path(folder).name[-6:]}")
            started = time.perf_counter()
            try:
                cluster.up(hosts=hosts)
                times.append(time.perf_counter() - started)
            finally:
                cluster.down()
    return [Figure("cluster/up", median(times), None, "s", None, (f"{hosts} real hosts Ready, binaries in the cache",))]
