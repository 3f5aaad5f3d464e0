# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""DefaultPreemption: when a pod fits nowhere, find the node on which it would fit without pods of lower priority.

It chooses; who called ends the victims and nominates the node. A pod that has a berth is never a victim: its end would
free nothing, for the berth keeps the node, the disks and the devices until it is deleted by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..cluster.columns import bools, np
from ..errors import InputError
from ..framework.contract import Code, Nomination, unresolvable
from ..framework.diagnosis import Diagnosis, Refusal, RowNames
from ..framework.dry_run import DryRun
from ..framework.nominated import Refused
from ..model.fields import integer
from ..model.preemption import Candidate
from .args import known_only
from .victims import best, find_victims

NOT_HELPFUL = unresolvable("Preemption is not helpful for scheduling")

MOST_ROUNDS = 8
"""As many nodes are tried at a time as are missing, but no less than this part of those wanted."""


@dataclass(frozen=True)
class DefaultPreemption:
    """Find victims. The search stops when enough candidates are found: a share of the nodes, at least a number."""

    min_percentage: int = 10
    min_absolute: int = 100
    name: str = "DefaultPreemption"

    @classmethod
    def from_args(cls, args: Mapping[str, Any], path: str) -> DefaultPreemption:
        """Read minCandidateNodesPercentage and minCandidateNodesAbsolute. Raises InputError with the path."""
        known_only(args, ("minCandidateNodesPercentage", "minCandidateNodesAbsolute"), path)
        where = f"{path}.minCandidateNodesPercentage"
        share = integer(args, "minCandidateNodesPercentage", where, 10)
        if not 0 <= share <= 100:
            raise InputError(f"{where}: expected 0 to 100, got {share}", field=where)
        where = f"{path}.minCandidateNodesAbsolute"
        least = integer(args, "minCandidateNodesAbsolute", where, 100)
        if least < 0 or share == least == 0:
            raise InputError(
                f"{where}: expected at least 0, and more than 0 where minCandidateNodesPercentage is 0; got {least}",
                field=where,
            )
        return cls(share, least)

    def post_filter(self, run: DryRun, offset: int) -> Nomination:
        """Choose the node that is disturbed least; of equal ones the one with the smallest name."""
        problem = ineligible(run)
        if problem:
            return Nomination(message=f"preemption: {problem}")
        found, refused = self.candidates(run, offset)
        if not found:
            return Nomination("", message=f"preemption: {_diagnosis(run, refused).summary()}")
        return choose(found)

    def wanted(self, nodes: int) -> int:
        """Return how many candidates are enough."""
        return min(max(nodes * self.min_percentage // 100, self.min_absolute), nodes)

    def candidates(self, run: DryRun, offset: int) -> tuple[list[Candidate], Refused]:
        """Return the candidates, those that violate no budget first, and what is said of the other nodes.

        Enough means: as many as wanted, one of which violates no budget.
        """
        rows = run.resolvable_rows()
        wanted = self.wanted(len(rows))
        rows = np.roll(rows, -(offset % len(rows))) if len(rows) else rows
        harmless: list[Candidate] = []
        violating: list[Candidate] = []
        refused: Refused = []
        while len(rows):
            missing = max(wanted - len(harmless) - len(violating), wanted // MOST_ROUNDS, 1)
            chunk, rows = np.split(rows, [1 if run.alone else missing])
            found, out = find_victims(run, chunk)
            refused += out
            for row in chunk.tolist():
                if row in found:
                    one = found[row]
                    (violating if one.violations else harmless).append(one)
                    if harmless and len(harmless) + len(violating) >= wanted:
                        return harmless + violating, refused
        return harmless + violating, refused


def choose(candidates: Sequence[Candidate]) -> Nomination:
    """Return the candidate that disturbs least; of equal ones the one whose node's name is the smallest."""
    if not candidates:
        return Nomination(message="preemption: no candidate node for preemption")
    chosen = min(best(candidates), key=lambda one: one.node)
    return Nomination(chosen.node, chosen.victims, candidates=tuple(candidates))


def ineligible(run: DryRun) -> str:
    """Return what keeps the pod from preempting; "" for nothing."""
    pod, nodes = run.request.pod, run.snapshot.nodes
    if pod.preemption.never:
        return "not eligible due to preemptionPolicy=Never."
    nominated = pod.preemption.nominated
    if nominated not in nodes.row_of or run.status_of(nominated) == Code.UNRESOLVABLE:
        return ""
    # Room is being made for it there already: more victims would be too many.
    if any(one.preempted and one.priority < pod.priority for one in run.snapshot.evictable_on(nominated)):
        return "not eligible due to a terminating pod on the nominated node."
    return ""


def _diagnosis(run: DryRun, refused: Refused) -> Diagnosis:
    """Return what is said of all nodes: of those that were not tried that it would not help."""
    names = run.snapshot.nodes.names
    said = [Refusal(plugin, status, RowNames(rows, names)) for plugin, status, rows in refused]
    others = bools(len(names), True)
    for one in said:
        others[one.nodes.rows] = False
    if others.any():
        said.append(Refusal("DefaultPreemption", NOT_HELPFUL, RowNames(others.nonzero()[0], names)))
    return Diagnosis(len(names), tuple(said))
