# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which volumes the replicas use. Owned by the tally, for the plugin VolumeRestrictions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import TypeVar

from ..model.attachable import InlineVolume
from .occupants import Occupant

Key = TypeVar("Key", bound=Hashable)


class VolumeUses:
    """Users per claim, and the volumes that pods name themselves by what they are."""

    def __init__(self) -> None:
        self._claims: Counter[tuple[str, str]] = Counter()
        self._inline: dict[tuple[str, tuple[str, ...]], Counter[tuple[str, InlineVolume]]] = {}

    def add(self, occupant: Occupant, sign: int) -> None:
        """Add (sign 1) or take off (sign -1) one occupant of a known node."""
        for one in occupant.volumes:
            if not one.ephemeral:
                _count(self._claims, (occupant.namespace, one.claim), sign)
        for volume in occupant.inline:
            if volume.kind:
                key = (volume.kind, volume.identity)
                used = self._inline.setdefault(key, Counter())
                _count(used, (occupant.node_name, volume), sign)
                if not used:
                    del self._inline[key]

    def claim_used(self, namespace: str, name: str) -> bool:
        """Tell whether a replica on some node uses a claim."""
        return (namespace, name) in self._claims

    def nodes_in_conflict(self, wanted: InlineVolume) -> set[str]:
        """Return the nodes on which a replica has the volume in a way that excludes this one."""
        used = self._inline.get((wanted.kind, wanted.identity))
        return {node for node, volume in used or () if wanted.conflicts(volume)}


def _count(counter: Counter[Key], key: Key, sign: int) -> None:
    counter[key] += sign
    if not counter[key]:
        del counter[key]
