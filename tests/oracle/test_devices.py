"""DynamicResources beside kube-scheduler's own (v1.36.4): who is refused and why, and which devices are given.

Where kube-scheduler ends the whole attempt with an error because of one node (a selector that cannot be evaluated for
one of its devices), berth refuses that node: the same words, as a refusal.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import Any

import pytest

from berth_core.cluster.columns import every_row
from berth_core.cluster.snapshot import Snapshot
from berth_core.framework.state import Cycle
from berth_core.model.placement import PlacementRequest
from berth_core.model.pod import PodInfo
from berth_core.model.quantity import parse_quantity
from berth_core.plugins.dynamic_resources import DynamicResources
from tests.oracle.conftest import ask
from tests.oracle.devices import case

FIRST, LAST = (int(part) for part in os.environ.get("BERTH_ORACLE_SEEDS", "0-299").split("-"))
REFUSED, ERROR = 2, 4
#: What goes on in CEL is told in other words here; which selector it was is the same.
IN_CEL = re.compile(r"CEL (runtime|compile) error: .*")


@pytest.fixture(scope="module")
def cases(oracle) -> list[tuple[int, dict[str, Any], dict[str, Any]]]:
    """(seed, the case, the oracle's opinion)."""
    made = [{**case(seed), "plugins": [{"name": "DynamicResources", "weight": 2}]} for seed in range(FIRST, LAST + 1)]
    answers = [one["plugins"]["DynamicResources"] for one in ask(oracle, made)]
    return list(zip(range(FIRST, LAST + 1), made, answers, strict=True))


def opinion(found: dict[str, Any]) -> dict[str, Any]:
    """Return what berth's plugin says of a case, in the oracle's form."""
    snapshot = Snapshot.from_objects(
        nodes=found["nodes"],
        slices=found["resourceSlices"],
        device_classes=found["deviceClasses"],
        resource_claims=found["resourceClaims"],
    )
    plugin, names = DynamicResources(), snapshot.nodes.names
    cycle, rows = Cycle(snapshot, PlacementRequest(PodInfo.from_manifest(found["pod"]))), every_row(len(names))
    narrowing = plugin.pre_filter(cycle)
    said: dict[str, Any] = {
        "preFilter": {"code": int(narrowing.status.code), "reasons": list(narrowing.status.reasons)}
    }
    if narrowing.status.code != 0:
        return said
    verdict = plugin.filter(cycle, rows)
    statuses = [verdict.table[int(code)] for code in verdict.codes]
    said["filter"] = {
        name: {"code": int(one.code), "reasons": list(one.reasons)} for name, one in zip(names, statuses, strict=True)
    }
    passed = rows[verdict.codes == 0]
    if len(passed):
        scores = plugin.score(cycle, passed)
        said["raw"] = {names[int(row)]: int(score) for row, score in zip(passed, scores, strict=True)}
        final = plugin.normalize(cycle, passed, scores)
        said["score"] = {names[int(row)]: int(score) for row, score in zip(passed, final, strict=True)}
    by_uid = {one.uid: one.name for one in snapshot.dynamic.claims.values()}
    chosen = {names[int(row)]: plugin.reserve(cycle, int(row)).allocations for row in passed}
    made = {node: {by_uid[uid]: one for uid, one in found.items()} for node, found in chosen.items()}
    if made:
        said["allocations"] = made
    return said


def as_ours(said: dict[str, Any]) -> dict[str, Any]:
    """Return the oracle's opinion with errors as refusals."""
    for one in (said["preFilter"], *said.get("filter", {}).values()):
        if one["code"] == ERROR:
            one["code"] = REFUSED
    return said


def alike(said: Any) -> Any:
    """Return it without what is random (shares) or berth's own (CEL's words); amounts as numbers."""
    if isinstance(said, dict):
        kept = {key: alike(value) for key, value in said.items() if key != "shareID"}
        if "consumedCapacity" in kept:
            kept["consumedCapacity"] = {name: parse_quantity(one) for name, one in kept["consumedCapacity"].items()}
        return kept
    if isinstance(said, list):
        return [alike(one) for one in said]
    return IN_CEL.sub(r"CEL \1 error", said) if isinstance(said, str) else said


def test_verdicts_scores_and_allocations(cases):
    for seed, found, answer in cases:
        assert alike(opinion(found)) == alike(as_ours(answer)), f"seed {seed}"


def test_the_cases_are_not_all_alike(cases):
    """What was compared: nodes that passed and were refused, for several reasons, and devices of each kind given."""
    reasons: Counter[str] = Counter()
    results = []
    for _seed, _case, answer in cases:
        for one in answer.get("filter", {}).values():
            reasons.update(one["reasons"] or ["passed"])
        for made in answer.get("allocations", {}).values():
            results += [one for claim in made.values() for one in claim["devices"]["results"]]
    assert reasons["passed"] > 100
    assert reasons["cannot allocate all claims"] > 50
    assert reasons["resourceclaim not available on the node"] > 10
    assert any("selector #" in reason for reason in reasons)
    for key in ("adminAccess", "consumedCapacity", "tolerations"):
        assert any(key in one for one in results), key
    assert any("/" in one["request"] for one in results)
