# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ServiceAntiAffinity: keep the pods of a service apart over the values of a node label, such as racks.

The priority of that name in old policy files, with its formula: 100 * (pods of the service - those in the node's
domain) / pods of the service, counted over the nodes that may still be chosen. A node without the label gets nothing.
PodTopologySpread does the same for pods that say so themselves.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from ..cluster.columns import IntColumn, ints, np
from ..cluster.labels import ABSENT
from ..errors import InputError
from ..framework.contract import MAX_SCORE, Dirt
from ..framework.state import Cycle
from ..model.fields import string
from ..model.labels import is_label_key
from .args import known_only


@dataclass(frozen=True)
class ServiceAntiAffinity:
    """Score on the pods of the first service, by name, that selects the pod."""

    label: str
    name: str = "ServiceAntiAffinity"
    score_dirt: Dirt = Dirt.ALL

    @classmethod
    def from_args(cls, args: Mapping[str, Any], path: str) -> ServiceAntiAffinity:
        """Read `label`. Raises InputError with the path."""
        known_only(args, ("label",), path)
        label = string(args, "label", f"{path}.label")
        if not is_label_key(label):
            raise InputError(f"{path}.label: expected the key of a node label, got {label!r}", field=f"{path}.label")
        return cls(label)

    def score_key(self, cycle: Cycle) -> Hashable:
        """Return nothing: scores depend on which rows passed, and are never kept."""
        return None

    def score(self, cycle: Cycle, rows: IntColumn) -> IntColumn:
        """Count the pods of the service on each row; those that are going away do not count."""
        pod, snapshot = cycle.request.pod, cycle.snapshot
        services = snapshot.workloads.services_of(pod.namespace, dict(pod.labels))
        if not services:
            return ints(len(rows))
        counts: IntColumn = snapshot.count_pods(pod.namespace, services[0]).column[rows]
        return counts

    def normalize(self, cycle: Cycle, rows: IntColumn, scores: IntColumn) -> IntColumn:
        """Give the emptiest domains the most."""
        ids, total = cycle.snapshot.labels.ids(self.label)[rows], int(scores.sum())
        labelled = ids != ABSENT
        if total == 0:
            return np.where(labelled, MAX_SCORE, 0).astype(np.int64)
        counts = ints(cycle.snapshot.labels.size(self.label) + 1)
        np.add.at(counts, ids[labelled], scores[labelled])
        share = float(MAX_SCORE) * ((total - counts[ids]) / float(total))
        spread: IntColumn = np.where(labelled, share, 0.0).astype(np.int64)
        return spread
