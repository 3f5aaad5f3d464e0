"""DefaultPreemption beside kube-scheduler's own (v1.36.4): who would have to go on which node, and which node is taken.

BERTH_ORACLE_SEEDS=FIRST-LAST compares other clusters than the fixed ones.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from berth_core.framework.cycle import place
from berth_core.framework.dry_run import DryRun, post_filter
from berth_core.model.pod import PodInfo
from berth_core.plugins.default_preemption import DefaultPreemption, ineligible
from berth_core.plugins.victims import best
from tests.oracle.conftest import ask
from tests.oracle.crowded import crowded
from tests.oracle.test_against_kube_scheduler import FIRST, LAST, THEIRS, read

LAST = LAST if LAST != 599 else 249
LISTED = [*THEIRS, ("DefaultPreemption", 0)]


def ours(found: dict[str, Any]) -> tuple[DryRun, Any, Any]:
    """Return the dry run of a case, the decision, and what PostFilter says; None for it where the pod fits."""
    profile, snapshot, request = read(found, LISTED)
    for one in found["podDisruptionBudgets"]:
        snapshot.upsert_budget(one)
    nominated: dict[str, list[PodInfo]] = {}
    for pod in found["nominated"]:
        nominated.setdefault(pod["status"]["nominatedNodeName"], []).append(PodInfo.from_manifest(pod))
    before = state(snapshot)
    outcome = place(profile, snapshot, request, explain=True, nominated=nominated)
    run = DryRun(profile, snapshot, request, outcome.diagnosis, nominated)
    if outcome.placement is not None:
        assert state(snapshot) == before, "nominated pods count for a moment only"
        return run, outcome, None
    answer = post_filter(profile, snapshot, request, outcome.diagnosis, nominated=nominated)
    assert state(snapshot) == before, "a dry run leaves the tables as they were"
    return run, outcome, answer


def state(snapshot: Any) -> Any:
    nodes = snapshot.nodes
    columns = {name: column.tolist() for name, column in nodes.requested.items() if column.any()}
    everywhere = sorted(str(one) for name in nodes.names for one in snapshot.occupants_of(name))
    return columns, nodes.nonzero["cpu"].tolist(), nodes.generation.tolist(), everywhere


@pytest.fixture(scope="module")
def everything(oracle) -> list[tuple[int, Any, dict[str, Any]]]:
    listed = [{"name": name, "weight": weight} for name, weight in LISTED]
    made = [{**crowded(seed), "plugins": listed} for seed in range(FIRST, LAST + 1)]
    return list(zip(range(FIRST, LAST + 1), map(ours, made), ask(oracle, made), strict=True))


@pytest.fixture(scope="module")
def pairs(everything) -> list[tuple[int, Any, dict[str, Any]]]:
    """(seed, berth's, kube-scheduler's) for all pods that fit nowhere, by both."""
    found = [(seed, mine, answer.get("preemption")) for seed, mine, answer in everything]
    return [(seed, (run, answer), theirs) for seed, (run, _outcome, answer), theirs in found if answer and theirs]


def test_nominated_pods_count_on_their_nodes(everything):
    """RunFilterPluginsWithNominatedPods: who passes, with which score, and what is said where nobody does."""
    crowded_out = 0
    for seed, (run, outcome, _answer), theirs in everything:
        totals = {name: score.total for name, score in outcome.scores.items()}
        assert totals == theirs["totals"], f"seed {seed}"
        if outcome.placement is None:
            assert outcome.diagnosis.summary() == theirs["message"], f"seed {seed}"
        profile, snapshot, request = run.profile, run.snapshot, run.request
        without = place(profile, snapshot, request, explain=True)
        crowded_out += set(without.feasible) != set(outcome.feasible)
        if request.pod.preemption.nominated not in snapshot.nodes.row_of:
            kept = place(profile, snapshot, request, hints=False, nominated=run.nominated)
            assert kept.feasible == outcome.feasible, f"seed {seed}"
            if outcome.placement is None:
                assert kept.diagnosis.summary() == theirs["message"], f"seed {seed}"
            else:
                assert kept.placement == outcome.placement, f"seed {seed}"
    assert crowded_out > 2, "generated clusters prove nothing about a rule that none of them meets"


def test_eligibility_victims_and_messages(pairs):
    for seed, (run, answer), theirs in pairs:
        if ineligible(run) or theirs["message"]:
            assert answer.message == theirs["message"], f"seed {seed}"
            assert not answer.victims
            continue
        candidates, _refused = DefaultPreemption().candidates(run, 0)
        got = {
            one.node: {"pods": [f"{pod.namespace}/{pod.name}" for pod in one.victims], "violations": one.violations}
            for one in candidates
        }
        assert got == theirs["candidates"], f"seed {seed}"
        assert sorted(one.node for one in best(candidates)) == theirs["best"], f"seed {seed}"
        assert answer.node == theirs["best"][0], f"seed {seed}"


def test_one_node_at_a_time_is_the_same_as_all_at_once(pairs):
    for seed, (run, _answer), _theirs in pairs:
        together, _refused = DefaultPreemption().candidates(run, 0)
        if run.alone or ineligible(run):
            continue
        run.alone = True
        assert DefaultPreemption().candidates(run, 0)[0] == together, f"seed {seed}"
        run.alone = False


def test_the_clusters_meet_every_rule(pairs):
    """Generated clusters prove nothing about a rule that none of them meets."""
    seen: Counter[str] = Counter()
    for _seed, (run, _answer), theirs in pairs:
        seen["candidates"] += len(theirs["candidates"]) > 1
        seen["violations"] += any(one["violations"] for one in theirs["candidates"].values())
        seen["several victims"] += any(len(one["pods"]) > 1 for one in theirs["candidates"].values())
        seen["ties"] += len(theirs["best"]) > 1
        seen["one at a time"] += run.alone and bool(theirs["candidates"])
        seen["nominated"] += bool(run.nominated) and bool(theirs["candidates"])
        seen["not helpful"] += "not helpful" in theirs["message"]
        seen["no victims"] += "No preemption victims" in theirs["message"]
        seen["not eligible"] += "not eligible" in theirs["message"]
    few = (LAST - FIRST + 1) // 100
    rare = ("ties", "not eligible")
    assert {name for name in seen if seen[name] <= (0 if name in rare else few)} == set(), seen
