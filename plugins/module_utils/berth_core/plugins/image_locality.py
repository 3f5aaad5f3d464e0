# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ImageLocality: prefer nodes that have the pod's large images, the more so the more nodes have them.

The second half keeps a new version's pods from gathering on the one node that pulled it first.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from ..cluster.columns import IntColumn, ints, np
from ..framework.contract import MAX_SCORE, ROWS_ALONE, Dirt, Source
from ..framework.state import Cycle

MIN_SIZE = 23 << 20
"""Bytes below which pulling is not worth a thought."""
MAX_SIZE = 1000 << 20
"""Bytes per container from which on every node with the images is as good as any."""


@dataclass(frozen=True)
class ImageLocality:
    """Score on status.images."""

    name: str = "ImageLocality"
    score_dirt: Dirt = Dirt.NODE

    def reads(self, cycle: Cycle) -> frozenset[Source]:
        """Return nothing beside the rows."""
        return ROWS_ALONE

    def score_key(self, cycle: Cycle) -> Hashable:
        """Return the images, and the state of all nodes' images: how many have an image counts everywhere."""
        pod, nodes = cycle.request.pod, cycle.snapshot.nodes
        present = any(name in nodes.images.on_nodes for name in pod.images)
        return (pod.images, pod.containers, len(nodes), nodes.images.generation) if present else ()

    def score(self, cycle: Cycle, rows: IntColumn) -> IntColumn:
        """Rate each distinct set of images once."""
        pod, nodes = cycle.request.pod, cycle.snapshot.nodes
        if self.score_key(cycle) == ():
            return ints(len(rows))
        spread = {name: nodes.images.on_nodes[name] / len(nodes) for name in pod.images}
        rated = [_rate(images, pod.images, spread, pod.containers) for images in nodes.images.sets]
        column: IntColumn = np.array(rated, dtype=np.int64)[nodes.images.set_of[rows]]
        return column


def _rate(have: Mapping[str, int], wanted: tuple[str, ...], spread: Mapping[str, float], containers: int) -> int:
    total = sum(int(have[name] * spread[name]) for name in wanted if name in have)
    highest = MAX_SIZE * containers
    clamped = MIN_SIZE if total < MIN_SIZE else min(total, highest)
    return MAX_SCORE * (clamped - MIN_SIZE) // (highest - MIN_SIZE)
