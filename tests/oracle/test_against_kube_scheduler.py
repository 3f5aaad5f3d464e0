"""The engine beside kube-scheduler's own code (v1.36.4): every verdict, reason, score and message, exactly.

Each case is a cluster made from a seed. Every plugin is compared by itself over all nodes, and all of them together.
BERTH_ORACLE_SEEDS=FIRST-LAST compares other clusters than the fixed ones.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest

from berth_core.cluster.columns import every_row
from berth_core.cluster.snapshot import Snapshot
from berth_core.framework.contract import Code
from berth_core.framework.cycle import place
from berth_core.framework.profile import normalized
from berth_core.framework.state import Cycle
from berth_core.model.placement import PlacementRequest
from berth_core.model.pod import PodInfo
from berth_core.plugins.table import DEFAULT_WEIGHTS, make_profile
from berth_core.plugins.volume_binding import BIND_CONFLICT, NO_VOLUME, NODE_CONFLICT, NOT_ENOUGH_SPACE
from tests.oracle.clusters import case
from tests.oracle.conftest import ask

OURS = ("LocalDiskFit", "LocalDeviceFit")
THEIRS = [(name, weight) for name, weight in DEFAULT_WEIGHTS if name not in (*OURS, "DefaultPreemption")]
VOLUMES = ("VolumeRestrictions", "NodeVolumeLimits")
SKIP = {"code": 3, "reasons": []}
FIRST, LAST = (int(part) for part in os.environ.get("BERTH_ORACLE_SEEDS", "0-599").split("-"))


def read(found: dict[str, Any], listed: list[tuple[str, int]] = THEIRS):
    """Return the case as the engine sees it: profile, snapshot, request."""
    snapshot = Snapshot.from_objects(
        nodes=found["nodes"],
        pods=found["pods"],
        pvs=found["pvs"],
        pvcs=found["pvcs"],
        storage_classes=found["storageClasses"],
        namespaces=found["namespaces"],
        csi_nodes=found["csiNodes"],
        csi_drivers=found["csiDrivers"],
        capacities=found["csiStorageCapacities"],
        attachments=found["volumeAttachments"],
        services=found["services"],
        replication_controllers=found["replicationControllers"],
        replica_sets=found["replicaSets"],
        stateful_sets=found["statefulSets"],
    )
    args = {one["name"]: one["args"] for one in found["pluginConfig"]}
    return make_profile("oracle", args, listed), snapshot, PlacementRequest(PodInfo.from_manifest(found["pod"]))


def status(code: int, reasons: Any) -> dict[str, Any]:
    return {"code": int(code), "reasons": list(reasons)}


def opinion(plugin: Any, snapshot: Snapshot, request: PlacementRequest, feasible: list[str]) -> dict[str, Any]:
    """Return all that one of berth's plugins says by itself, in the oracle's form."""
    cycle, rows = Cycle(snapshot, request), every_row(len(snapshot.nodes))
    said: dict[str, Any] = {}
    if hasattr(plugin, "pre_filter"):
        narrowing = plugin.pre_filter(cycle)
        said["preFilter"] = status(narrowing.status.code, narrowing.status.reasons)
        if narrowing.nodes is not None:
            said["nodes"] = sorted(narrowing.nodes)
        if not narrowing.status.ok:
            return said
    if hasattr(plugin, "filter") and said.get("preFilter", {"code": 0})["code"] == Code.SUCCESS:
        verdict = plugin.filter(cycle, rows)
        statuses = [verdict.table[int(code)] for code in verdict.codes]
        said["filter"] = {
            name: status(one.code, one.reasons) for name, one in zip(snapshot.nodes.names, statuses, strict=True)
        }
    if hasattr(plugin, "score") and feasible:
        said.update(scores(plugin, cycle, feasible))
    return said


def scores(plugin: Any, cycle: Cycle, feasible: list[str]) -> dict[str, Any]:
    rows = every_row(len(cycle.snapshot.nodes))[[cycle.snapshot.nodes.row_of[name] for name in feasible]]
    said: dict[str, Any] = {}
    if hasattr(plugin, "pre_score"):
        found = plugin.pre_score(cycle, rows)
        said["preScore"] = status(found.code, found.reasons)
        if found.code != Code.SUCCESS:
            return said
    column = plugin.score(cycle, rows)
    said["raw"] = {name: int(value) for name, value in zip(feasible, column, strict=True)}
    if normalized(plugin) is not None:
        column = plugin.normalize(cycle, rows, column)
    said["score"] = {name: int(value) for name, value in zip(feasible, column, strict=True)}
    return said


def in_order(said: dict[str, Any]) -> dict[str, Any]:
    """Return an opinion with sorted reasons."""
    for key in ("preFilter", "preScore"):
        if key in said:
            said[key]["reasons"] = sorted(said[key]["reasons"])
    for one in said.get("filter", {}).values():
        one["reasons"] = sorted(one["reasons"])
    return said


@pytest.fixture(scope="module")
def cases(oracle) -> list[tuple[int, Any, dict[str, Any]]]:
    """(seed, the case as the engine sees it, the oracle's answer); read once: nothing that is asked changes it."""
    listed = [{"name": name, "weight": weight} for name, weight in THEIRS]
    made = [{**case(seed), "plugins": listed} for seed in range(FIRST, LAST + 1)]
    return list(zip(range(FIRST, LAST + 1), map(read, made), ask(oracle, made), strict=True))


@pytest.mark.parametrize("name", [name for name, _weight in THEIRS])
def test_each_plugin(cases, name):
    for seed, (profile, snapshot, request), answer in cases:
        plugin = next(one for one in profile.plugins if one.name == name)
        # A point that berth's plugin does not have is one at which kube-scheduler's only prepares.
        expected = answer["plugins"][name]
        got = opinion(plugin, snapshot, request, sorted(answer["totals"]))
        if name == "NodeResourcesFit":  # scalar resources come in no order from kube-scheduler's map
            expected, got = in_order(expected), in_order(got)
        if "preFilter" not in got:
            expected.pop("preFilter", None)
        if "preScore" not in got:
            expected.pop("preScore", None)
        if got.get("preScore") == SKIP and not any(expected.get("score", {"": 1}).values()):
            continue  # preferences that are all empty: to skip is to score nothing
        assert got == expected, f"seed {seed}"


def test_all_together(cases):
    for seed, (profile, snapshot, request), answer in cases:
        outcome = place(profile, snapshot, request, explain=True)
        assert {name: score.total for name, score in outcome.scores.items()} == answer["totals"], f"seed {seed}"
        kept = place(profile, snapshot, request)  # the way that pods are placed, from what earlier requests left
        assert kept.placement == outcome.placement, f"seed {seed}"
        if len(kept.feasible) > 1:
            assert dict(zip(kept.feasible, map(int, kept.totals), strict=True)) == answer["totals"], f"seed {seed}"
        if outcome.placement is None:
            assert outcome.diagnosis.summary() == answer["message"], f"seed {seed}"
        else:
            best = max(answer["totals"].values())
            assert outcome.placement.node == min(name for name, total in answer["totals"].items() if total == best)


def test_the_clusters_meet_every_rule(cases):
    """Generated clusters prove nothing about a rule that none of them meets."""
    seen: Counter[tuple[str, str]] = Counter()
    storage: Counter[str] = Counter()
    for _seed, _found, answer in cases:
        refused = answer["plugins"]["VolumeBinding"].get("filter", {}).values()
        storage.update({reason for one in refused for reason in one["reasons"]})
        storage["some have room"] += len({NOT_ENOUGH_SPACE in one["reasons"] for one in refused}) > 1
        both = [one for one in refused if NOT_ENOUGH_SPACE in one["reasons"] and len(one["reasons"]) > 1]
        storage["another reason too"] += bool(both)
        for name, said in answer["plugins"].items():
            seen.update((name, f"filter {one['code']}") for one in said.get("filter", {}).values())
            values = list(said.get("score", {}).values())
            seen[name, "score"] += len(set(values)) > 1
            seen[name, "pre filter"] += said.get("preFilter", {}).get("code") == Code.UNRESOLVABLE
    few = len(cases) // 100
    for name in ("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "VolumeBinding"):
        assert seen[name, "filter 2"] > few, name
    for name in ("InterPodAffinity", "VolumeZone", "NodeDeclaredFeatures"):
        assert seen[name, "filter 2"] > few, name
    for name in ("NodePorts", "NodeResourcesFit", "PodTopologySpread", "InterPodAffinity", *VOLUMES):
        assert seen[name, "filter 1"] > few, name
    for name in (
        "TaintToleration",
        "NodeAffinity",
        "NodeResourcesFit",
        "NodeResourcesBalancedAllocation",
        "PodTopologySpread",
        "InterPodAffinity",
        "ImageLocality",
    ):
        assert seen[name, "score"] > few, name
    assert seen["VolumeBinding", "pre filter"] > few
    for reason in (NODE_CONFLICT, BIND_CONFLICT, NOT_ENOUGH_SPACE, NO_VOLUME, "some have room"):
        assert storage[reason] > few, reason
    assert storage["another reason too"]
