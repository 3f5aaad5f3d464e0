"""Every reader of the core over lists of objects: what modules, kubectl-berth and daemons make of a cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app import what_if
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.cluster_drift import (
    KINDS,
    cluster_drift,
    living,
)
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.history import history
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.html_report import render
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.inventory import (
    ADDRESS_TYPES,
    HOST_KINDS,
    hosts,
)
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.overview import overview
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.cluster.snapshot import PARTS, Snapshot
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.plugins.table import DEFAULT_PROFILE

Lists = Mapping[str, Sequence[Mapping[str, Any]]]
NODE = {
    "metadata": {"name": "n1", "uid": "node-1", "labels": {"kubernetes.io/hostname": "n1"}},
    "spec": {},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
}
_CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"memory": "1Mi"}}}
POD = {"metadata": {"name": "asks", "namespace": "default", "uid": "p"}, "spec": {"containers": [_CONTAINER]}}


def read(lists: Lists) -> dict[str, list[str]]:
    """Let every reader read them; what none may do is raise. Returns why objects are left out, by their kind."""
    every = {kind.kind: list(lists.get(kind.kind, ())) for kind in (*what_if.KINDS, *KINDS)}
    every["Node"] = every["Node"] or [NODE]
    snapshot = Snapshot.from_objects(**{PARTS[kind]: items for kind, items in every.items() if kind in PARTS})
    found = overview(living(every))
    findings = cluster_drift(every)
    render(found, findings, history(every, 10), "title", "now")
    hosts(found, HOST_KINDS, ADDRESS_TYPES)
    what_if.judge_pod(
        DEFAULT_PROFILE, what_if.beside({kind.kind: every[kind.kind] for kind in what_if.KINDS}, POD), POD
    )
    json.dumps([found, findings], allow_nan=False)
    left: dict[str, list[str]] = {}
    for (kind, _namespace, _name), why in snapshot.unreadable.items():
        left.setdefault(kind, []).append(why)
        assert any(finding["kind"] == "unreadable" and why in finding["what"] for finding in findings)
    return left
