"""report/page: the report of a cluster, in megabytes, and in seconds until a browser lets one search it.

Half of the disks are held, each by a berth; Chromium says by its own clock when the page's script had run to its end.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

from berth_core.app.cluster_drift import cluster_drift, living
from berth_core.app.history import history
from berth_core.app.html_report import render
from berth_core.app.overview import overview
from tests.support.chromium import chromium

from .figures import Figure, median
from .ground import Ground

SIZES, DISKS, ROUNDS = (100, 5000), 4, 3
_READY = re.compile(r'data-ready="(\d+)"')
_TIME = "2026-01-02T03:04:05Z"


def page(_ground: Ground) -> list[Figure]:
    """Both, for clusters of 100 and of 5,000 nodes."""
    return [figure for nodes in SIZES for figure in _one(nodes)]


def _one(nodes: int) -> list[Figure]:
    text = made(nodes)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "berth.html")
        file.write_text(text)
        seconds = [_ready(file, Path(folder, f"profile-{each}")) for each in range(ROUNDS)]
    notes = (f"{nodes} nodes, {DISKS} disks each, every second of them held",)
    return [
        Figure(f"report/page/weight/{nodes}", len(text.encode()) / 1e6, None, "MB", None, notes),
        Figure(f"report/page/ready/{nodes}", median(seconds), None, "s", None, (f"median of {ROUNDS} loads", *notes)),
    ]


def made(nodes: int) -> str:
    """The page."""
    lists = cluster(nodes)
    return render(overview(living(lists)), cluster_drift(lists), history(lists), "berth", "now")


def _ready(file: Path, profile: Path) -> float:
    shown = chromium("--dump-dom", file.as_uri(), profile=profile)
    found = _READY.search(shown.stdout[:2000])
    assert found, f"the page's script has not run to its end: {shown.stderr[-2000:]}"
    return int(found.group(1)) / 1000


def cluster(nodes: int) -> dict[str, list[dict[str, Any]]]:
    """Lists of a cluster of that many nodes."""
    found: dict[str, list[dict[str, Any]]] = {
        kind: [] for kind in ("LocalDevice", "Pod", "PersistentVolume", "StatefulSet", "Node", "LocalDisk", "Berth")
    }
    status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "16"}, "addresses": []}
    found["StatefulSet"].append({"metadata": {"name": "db", "namespace": "shop"}})
    for number in range(nodes):
        node = f"node-{number:05}"
        found["Node"].append({"metadata": {"name": node, "labels": {}}, "spec": {}, "status": status})
        for slot in range(DISKS):
            ordinal = number * DISKS + slot
            found["LocalDisk"].append(_disk(f"{node}-nvme{slot}", node, ordinal))
            if ordinal % 2:
                found["Berth"].append(_berth(f"{node}-nvme{slot}", node, ordinal))
    return found


def _disk(name: str, node: str, ordinal: int) -> dict[str, Any]:
    spec: dict[str, Any] = {"nodeName": node, "identity": {"serial": name, "size": 1 << 40}, "storageClassName": "fast"}
    if ordinal % 2:
        lock = {"namespace": "shop", "name": f"db-{ordinal}", "uid": f"b{ordinal}", "app": "db", "ordinal": ordinal}
        spec["claimRef"] = {**lock, "claim": "data", "dataUID": f"b{ordinal}"}
    turned = {"type": "Ready", "status": "True", "reason": "Seen", "message": "", "lastTransitionTime": _TIME}
    return {
        "metadata": {"name": name, "uid": name, "resourceVersion": "1", "creationTimestamp": _TIME},
        "spec": spec,
        "status": {
            "phase": "Locked" if ordinal % 2 else "Available",
            "observed": {"devicePath": "/dev/sda", "health": "Healthy", "holders": []},
            "conditions": [turned],
        },
    }


def _berth(disk: str, node: str, ordinal: int) -> dict[str, Any]:
    meta = {"name": f"db-{ordinal}", "namespace": "shop", "uid": f"b{ordinal}", "creationTimestamp": _TIME}
    disks = [{"claim": "data", "name": disk, "size": 1 << 40}]
    spec = {"app": "db", "ordinal": ordinal, "nodeName": node, "disks": disks}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running", "podName": f"db-{ordinal}"}}
