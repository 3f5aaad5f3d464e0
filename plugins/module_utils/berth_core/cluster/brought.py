# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a bind brings a pod: since v1.35 the API server gives it the labels for region and zone of its node.

Owned by the snapshot, which counts an assumed pod with the labels that it is going to have. So nothing is counted
again, and no row is looked at again, when the watch tells of the bind. Whether the API server does so is learned from
what it says of bound pods; an older one, or one that is told otherwise, brings nothing, and nothing is added.
"""

from __future__ import annotations

from collections.abc import Mapping

from .occupants import Occupant

LABELS = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")


class Brought:
    """The labels among LABELS that the last bound pod had of its node."""

    def __init__(self) -> None:
        self._keys: tuple[str, ...] = ()

    def learn(self, expected: Occupant, found: Occupant, node_labels: Mapping[str, str]) -> None:
        """Take note of a pod that turned out to be another than was expected."""
        if expected.labels != found.labels:
            shared = [key for key in LABELS if key in node_labels and found.labels.get(key) == node_labels[key]]
            self._keys = tuple(shared)

    def add(self, occupant: Occupant, node_labels: Mapping[str, str]) -> None:
        """Give an assumed pod the labels that are expected."""
        for key in self._keys:
            if key in node_labels:
                occupant.labels[key] = node_labels[key]
