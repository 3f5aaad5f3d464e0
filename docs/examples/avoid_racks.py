"""A scheduling plugin from outside: keeps pods off the nodes of some racks, and prefers the emptiest of the others.

    # pyproject.toml of the package that it is installed with
    [project.entry-points."berth.scheduler.plugins"]
    AvoidRacks = "avoid_racks:AvoidRacks"

    # configuration of berth-scheduler
    profiles:
      - schedulerName: berth-scheduler
        plugins: {multiPoint: {enabled: [{name: AvoidRacks, weight: 2}]}}
        pluginConfig: [{name: AvoidRacks, args: {racks: [r7, r8]}}]

The fields are the arguments: a wrong one stops the start with its path and what was expected.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from berth_core.cluster.columns import IntColumn, ints
from berth_core.framework.contract import ROWS_ALONE, SUCCESS, Dirt, Source, Verdict, unresolvable
from berth_core.framework.events import NODE, Action, ClusterEvent, Wish
from berth_core.framework.state import Cycle


@dataclass(frozen=True)
class AvoidRacks:
    """`racks`: values of the label that nothing is placed on."""

    racks: tuple[str, ...]
    label: str = "example.com/rack"

    name: ClassVar[str] = "AvoidRacks"
    # A verdict or score stays until its node changes; a score also when a pod comes to the node or leaves it.
    filter_dirt: ClassVar[Dirt] = Dirt.ROW
    score_dirt: ClassVar[Dirt] = Dirt.ROW

    def reads(self, _cycle: Cycle) -> frozenset[Source]:
        """Look at the node and what is on it, and at nothing else: a pod like one before costs one row."""
        return ROWS_ALONE

    def filter_key(self, _cycle: Cycle) -> Hashable:
        """All pods share the verdicts."""
        return ()

    def filter(self, cycle: Cycle, rows: IntColumn) -> Verdict:
        """Judge these nodes: 0 is the first entry of the table, 1 the second."""
        codes = ints(len(rows))
        for position, row in enumerate(rows):
            labels = dict(cycle.snapshot.nodes.infos[int(row)].labels)
            codes[position] = int(labels.get(self.label) in self.racks)
        return Verdict(codes, (SUCCESS, unresolvable("node(s) were in an avoided rack")))

    def score_key(self, _cycle: Cycle) -> Hashable:
        """All pods share the scores."""
        return ()

    def score(self, cycle: Cycle, rows: IntColumn) -> IntColumn:
        """Rate these nodes from 0 to 100: fewer pods, better."""
        names, scores = cycle.snapshot.nodes.names, ints(len(rows))
        for position, row in enumerate(rows):
            scores[position] = max(0, 100 - len(cycle.snapshot.occupants_of(names[int(row)])))
        return scores

    def requeue_on(self) -> Sequence[Wish]:
        """A refused pod is tried again when a node comes or gets other labels."""
        return (Wish(ClusterEvent(NODE, Action.ADD | Action.NODE_LABEL)),)
