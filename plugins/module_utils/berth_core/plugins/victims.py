# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods of a node would have to go, and which node is disturbed least: kube-scheduler's rules (v1.36).

Called by DefaultPreemption. Many nodes are tried at once, in rounds: first every pod of lower priority is off, then the
first of each node is put back, then the second, and so on; each round is one question to the filters, over all nodes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from ..cluster.columns import IntColumn, np
from ..cluster.trial import Trial
from ..framework.contract import unresolvable
from ..framework.dry_run import DryRun
from ..framework.nominated import Refused, gathered, said_of
from ..framework.tried import yields_to
from ..model.preemption import Candidate, DisruptionBudget, VictimFacts, importance

NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")


@dataclass
class _Node:
    """A node while its pods are put back. `waiting`: in the order in which they get their chance."""

    name: str
    waiting: list[VictimFacts]
    protected: int
    """That many of `waiting`, the first, would violate a budget."""
    victims: list[VictimFacts] = field(default_factory=list)
    violations: int = 0


def split_by_budget(
    pods: Iterable[VictimFacts], budgets: Iterable[DisruptionBudget]
) -> tuple[list[VictimFacts], list[VictimFacts]]:
    """Return the pods that would violate a budget, and the others, each in the order given.

    Every pod uses up one disruption of each budget that covers it, also of those after the first that has none left.
    """
    listed = list(budgets)
    left = [one.allowed for one in listed]
    violating: list[VictimFacts] = []
    harmless: list[VictimFacts] = []
    for pod in pods:
        violates = False
        for index, budget in enumerate(listed):
            if budget.covers(pod):
                left[index] -= 1
                violates |= left[index] < 0
        (violating if violates else harmless).append(pod)
    return violating, harmless


def find_victims(run: DryRun, rows: IntColumn) -> tuple[dict[int, Candidate], Refused]:
    """Return per row the pods that have to go, and what is said of rows where that does not help.

    What was found for a pod like this one holds while nothing comes to the row's node or leaves it.
    """
    snapshot, pod = run.snapshot, run.request.pod
    tried = run.tried(("victims", pod.priority))
    if tried is None:
        return select_victims(run, rows)

    def stamp(row: int) -> Hashable:
        node = snapshot.nodes.names[row]
        changes = (snapshot.nodes.generation.item(row), snapshot.victim_changes[node], snapshot.budget_generation)
        return (*changes, *yields_to(pod, run.nominated, node))

    def find(stale: list[int]) -> dict[int, object]:
        found, refused = select_victims(run, np.array(stale, dtype=np.int64))
        return {**dict.fromkeys(stale), **said_of(refused), **found}

    answers = tried.ask(rows.tolist(), stamp, find)
    found = {row: one for row, one in answers.items() if isinstance(one, Candidate)}
    return found, gathered({row: one for row, one in answers.items() if isinstance(one, tuple)})


def select_victims(run: DryRun, rows: IntColumn) -> tuple[dict[int, Candidate], Refused]:
    """Return the same, found anew."""
    refused: Refused = []
    nodes: dict[int, _Node] = {}
    budgets = sorted(run.snapshot.budgets.values(), key=lambda one: (one.namespace, one.name))
    for row in rows:
        name = run.snapshot.nodes.names[int(row)]
        lower = [one for one in run.snapshot.evictable_on(name) if one.priority < run.request.pod.priority]
        if lower:
            violating, harmless = split_by_budget(sorted(lower, key=importance), budgets)
            nodes[int(row)] = _Node(name, violating + harmless, len(violating))
    idle = np.array([row for row in rows if int(row) not in nodes], dtype=np.int64)
    if len(idle):
        refused.append(("DefaultPreemption", NO_VICTIMS, idle))
    with run.snapshot.trial() as trial:
        refused += _empty(run, trial, nodes)
        _reprieve(run, trial, nodes)
    found = {}
    for row, node in nodes.items():
        if node.victims:
            found[row] = Candidate(node.name, tuple(sorted(node.victims, key=importance)), node.violations)
    return found, refused


def _empty(run: DryRun, trial: Trial, nodes: dict[int, _Node]) -> Refused:
    """Take all pods of lower priority off. Nodes where even that does not help are out."""
    for node in nodes.values():
        for pod in node.waiting:
            trial.take_off((pod.namespace, pod.name), node.name)
    rows = np.array(list(nodes), dtype=np.int64)
    passed, refused = run.fits(trial, rows)
    for row in rows[~passed]:
        del nodes[int(row)]
    return refused


def _reprieve(run: DryRun, trial: Trial, nodes: dict[int, _Node]) -> None:
    """Put pods back as long as the request still fits, those that a budget protects first."""
    for turn in range(max((len(node.waiting) for node in nodes.values()), default=0)):
        active = [row for row, node in nodes.items() if turn < len(node.waiting)]
        for row in active:
            pod = nodes[row].waiting[turn]
            trial.put_back((pod.namespace, pod.name))
        passed, _refused = run.fits(trial, np.array(active, dtype=np.int64))
        for row, fits in zip(active, passed):
            if not fits:
                node = nodes[row]
                pod = node.waiting[turn]
                trial.take_off((pod.namespace, pod.name), node.name)
                node.victims.append(pod)
                node.violations += turn < node.protected


def best(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates among which there is nothing to choose.

    In this order: fewest violated budgets, lowest priority of the most important victim, smallest sum of priorities,
    fewest victims, and the latest start of the oldest among the most important victims.
    """
    least = min(one.rank for one in candidates)
    equal = [one for one in candidates if one.rank == least]
    latest = max(one.oldest for one in equal)
    return [one for one in equal if one.oldest == latest]
