# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""DynamicResources: a pod with resource claims goes where their devices can be had, and which ones is decided here.

Stands in profiles that are read from a configuration, as kube-scheduler's plugin of this name does: the daemon's, which
writes the choice into the claims (src/berth_scheduler/devices.py). The pods of stateful_app, whose claims name the
locked devices, are chosen a node without it.

Verdicts, words and allocations are kube-scheduler's v1.36. What of the API is not covered is refused by name, never
guessed at: docs/guides/scheduling.md has the list.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from ..cluster.columns import IntColumn, ints, np
from ..cluster.snapshot import Snapshot
from ..framework.contract import (
    ALL_NODES,
    MUCH_MORE,
    NOTHING_TO_FILTER,
    ROWS_ALONE,
    SUCCESS,
    Choice,
    Dirt,
    Narrowing,
    Source,
    Status,
    Verdict,
    unresolvable,
)
from ..framework.diagnosis import Diagnosis
from ..framework.state import Cycle
from ..model.labels import NodeSelector
from ..model.pod import PodClaim, PodInfo
from ..model.resource_claim import Allocation, ResourceClaimInfo, results
from ..model.resource_slice import SliceInfo
from .args import known_only
from .device_pools import pools_of
from .device_result import allocation
from .device_search import Refused, Search
from .rows import default_normalize, selector_matches

NO_DEVICES = "cannot allocate all claims"
ELSEWHERE = "resourceclaim not available on the node"
MOST_OPTIONS = 8
"""Alternatives of one request: the API's limit. The first one scores as much."""
MOST_TRIES = 200_000
"""Devices looked at for one pod, on all nodes together: nobody else is scheduled meanwhile."""


@dataclass(frozen=True)
class _Found:
    """What the search says of one node. `refused` "": the claims can be had there."""

    refused: str = ""
    search: Search | None = None


class _Asked:
    """One pod's claims: those that have their devices, and those that wait for them."""

    def __init__(self, cycle: Cycle, claims: list[ResourceClaimInfo]) -> None:
        self.table, self.nodes = cycle.snapshot.dynamic, cycle.snapshot.nodes
        self.allocated = [one for one in claims if one.allocation is not None]
        self.waiting = [one for one in claims if one.allocation is None]
        self._snapshot = cycle.snapshot
        self._found: dict[int, _Found] = {}
        self._shared: dict[tuple[str, ...], _Found] = {}
        self._tries = 0
        everywhere = np.arange(len(self.nodes))
        self._reach = [
            (one, None if one.selector is None else selector_matches(self._snapshot, one.selector, everywhere))
            for _name, one in sorted(self.table.elsewhere.items())
        ]

    def available(self, rows: IntColumn) -> Any:
        """Return from which rows all claims that have their devices can be used."""
        found = np.ones(len(rows), dtype=np.bool_)
        for one in self.allocated:
            where = (one.allocation or {}).get("nodeSelector")
            if where is not None:
                found &= selector_matches(self._snapshot, NodeSelector.parse(where), rows)
        return found

    def on(self, row: int) -> _Found:
        """Return what the search says of a node. Nodes that reach the same slices get one answer."""
        if row not in self._found:
            own = self.table.on_node.get(self.nodes.names[row], {})
            shared = [one for one, reach in self._reach if reach is None or reach[row]]
            if own:
                self._found[row] = self._search([*own.values(), *shared])
            else:
                key = tuple(one.name for one in shared)
                if key not in self._shared:
                    self._shared[key] = self._search(shared)
                self._found[row] = self._shared[key]
        return self._found[row]

    def _search(self, slices: list[SliceInfo]) -> _Found:
        if self._tries > MOST_TRIES:
            return _Found(f"more than {MOST_TRIES} ways to allocate the claims were tried")
        search = Search(self.table, pools_of(self.table, slices), self.waiting)
        try:
            found = _Found("" if search.run() else NO_DEVICES, search)
        except Refused as why:
            found = _Found(str(why))
        self._tries += search.tries
        return found

    def allocations(self, row: int) -> dict[str, Allocation]:
        """Return the allocations on a node by the claim's uid. Raises SelectorError."""
        search = self.on(row).search
        if search is None:
            return {}
        found = {}
        for number, claim in enumerate(self.waiting):
            selected = {request: which for (of, request), which in search.selected.items() if of == number}
            node = self.nodes.names[row]
            found[claim.uid] = allocation(self.table, claim, search.chosen[number], selected, node)
        return found


@dataclass(frozen=True)
class DynamicResources:
    """Filter on resource claims, and allocate them."""

    name: str = "DynamicResources"
    filter_dirt: Dirt = Dirt.ALL
    score_dirt: Dirt = Dirt.NODE

    @classmethod
    def from_args(cls, args: Mapping[str, Any], path: str) -> DynamicResources:
        """Take kube-scheduler's arguments. Raises InputError with the path of another.

        Neither limit is needed: a search ends after so many devices, and binding conditions are not waited for.
        """
        known_only(args, ("filterTimeout", "bindingTimeout"), path)
        return cls()

    def gate(self, snapshot: Snapshot, pod: PodInfo) -> Status:
        """Say at PreEnqueue whether the pod's claims are there. For who has the snapshot then: src/berth_scheduler."""
        _claims, problem = _claims_of(snapshot, pod)
        return unresolvable(problem) if problem else SUCCESS

    def pre_filter(self, cycle: Cycle) -> Narrowing:
        """Skip a pod without claims; refuse one whose claims are missing, not its own, or cannot be allocated."""
        if not cycle.request.pod.resource_claims:
            return NOTHING_TO_FILTER
        claims, problem = _claims_of(cycle.snapshot, cycle.request.pod)
        if not claims and not problem:
            return NOTHING_TO_FILTER
        for claim in claims:
            problem = problem or _problem(cycle, claim)
        return Narrowing(unresolvable(problem)) if problem else ALL_NODES

    def reads(self, cycle: Cycle) -> frozenset[Source]:
        """Return nothing more for a pod without resource claims."""
        return MUCH_MORE if cycle.request.pod.resource_claims else ROWS_ALONE

    def filter_key(self, cycle: Cycle) -> Hashable:
        """Return what is asked for and the state of all that there is."""
        return (cycle.request.pod.resource_claims, cycle.snapshot.dynamic.generation)

    def filter(self, cycle: Cycle, rows: IntColumn) -> Verdict:
        """Refuse rows that a claim's devices cannot be used from, or on which there are none for it."""
        asked = _asked(cycle)
        table: list[Status] = [SUCCESS]
        codes = ints(len(rows))
        available = asked.available(rows)
        for position, row in enumerate(rows.tolist()):
            refused = asked.on(row).refused if asked.waiting else ""
            if not refused and not available[position]:
                refused = ELSEWHERE
            if refused:
                status = unresolvable(refused)
                if status not in table:
                    table.append(status)
                codes[position] = table.index(status)
        return Verdict(codes, tuple(table))

    def score_key(self, cycle: Cycle) -> Hashable:
        """Return the same as for the filter where there are alternatives to prefer; else nothing is scored."""
        if not cycle.request.pod.resource_claims:
            return ()
        asked = _asked(cycle)
        claims = (*asked.allocated, *asked.waiting)
        return self.filter_key(cycle) if any(one.prioritized for claim in claims for one in claim.requests) else ()

    def score(self, cycle: Cycle, rows: IntColumn) -> IntColumn:
        """Rate nodes by how early the alternatives stand that they offer."""
        scores = ints(len(rows))
        if self.score_key(cycle) == ():
            return scores
        asked = _asked(cycle)
        fixed = sum(
            _rank(claim, {str(one.get("request")) for one in results(claim.allocation or {})})
            for claim in asked.allocated
        )
        for position, row in enumerate(rows.tolist()):
            search = asked.on(row).search if asked.waiting else None
            chosen = zip(asked.waiting, search.chosen) if search is not None else ()
            scores[position] = fixed + sum(_rank(claim, {one.request.name for one in made}) for claim, made in chosen)
        return scores

    def normalize(self, cycle: Cycle, rows: IntColumn, scores: IntColumn) -> IntColumn:
        """Bring the highest to 100."""
        return default_normalize(scores)

    def reserve(self, cycle: Cycle, row: int) -> Choice:
        """Choose the devices. Raises SelectorError where a slice says more of its nodes than an allocation can."""
        if not cycle.request.pod.resource_claims or not _asked(cycle).waiting:
            return Choice()
        return Choice(allocations=_asked(cycle).allocations(row))


def out_of_reach(diagnosis: Diagnosis) -> bool:
    """Tell whether a pod fits nowhere while a claim of its has devices that some node cannot use."""
    return any(one.plugin == "DynamicResources" and ELSEWHERE in one.status.reasons for one in diagnosis.refusals)


def _asked(cycle: Cycle) -> _Asked:
    """Return the cycle's question. Filters are asked without PreFilter where pods are thought to be elsewhere."""
    return cycle.once("DynamicResources", lambda: _Asked(cycle, _claims_of(cycle.snapshot, cycle.request.pod)[0]))


def _claims_of(snapshot: Snapshot, pod: PodInfo) -> tuple[list[ResourceClaimInfo], str]:
    """Return the pod's claims, and why one is not there, "" where all are."""
    found: list[ResourceClaimInfo] = []
    for one in pod.resource_claims:
        if one.claim is None and one.made:
            continue  # who makes them found that none is needed
        claim = snapshot.dynamic.claims.get((pod.namespace, one.claim or ""))
        problem = _missing(pod, one, claim)
        if problem or claim is None:
            return found, problem
        found.append(claim)
    return found, ""


def _missing(pod: PodInfo, asked: PodClaim, claim: ResourceClaimInfo | None) -> str:
    where = f"{pod.namespace}/{pod.name}"
    if asked.claim is None:
        return f'pod "{where}": ResourceClaim not created yet'
    if claim is None:
        return f'could not find ResourceClaim "{pod.namespace}/{asked.claim}"'
    if claim.terminating:
        return f'resourceclaim "{claim.name}" is being deleted'
    if asked.template and claim.owner_uid != pod.uid:
        return f"ResourceClaim {claim} was not created for Pod {where} (Pod is not owner)"
    return ""


def _problem(cycle: Cycle, claim: ResourceClaimInfo) -> str:
    """Say why a claim cannot be looked at, "" where it can."""
    table = cycle.snapshot.dynamic
    if claim.allocation is not None:
        waits = any(one.get("bindingConditions") for one in results(claim.allocation))
        mine = cycle.request.pod.uid in claim.reserved_for
        if waits and not mine:
            return f"resource claim {claim} has binding conditions, which this scheduler does not wait for"
        return ""
    if claim.uid in table.pending:
        return f"resource claim {claim} is in the process of being allocated"
    for request in claim.requests:
        for option in request.options:
            known = table.classes.get(option.device_class)
            if known is None:
                return f"request {option.name}: device class {option.device_class} does not exist"
            if known.problem:
                return f"device class {known.name} has {known.problem}"
    return f"resource claim {claim}, {claim.problem}: not covered by this scheduler" if claim.problem else ""


def _rank(claim: ResourceClaimInfo, filled: set[str]) -> int:
    return sum(
        MOST_OPTIONS - number
        for request in claim.requests
        if request.prioritized
        for number, option in enumerate(request.options)
        if option.name in filled
    )
