# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images on nodes: one column of set numbers, as nodes of one kind have the same images.

Owned by the node table. A set that no node has any more gives its number back, so that pulls over months leave
nothing behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Callable

from ..model.image import Images
from .columns import IntColumn, ints


class ImageSets:
    """The images of every row. `on_nodes`: how many nodes have an image."""

    def __init__(self) -> None:
        self.set_of: IntColumn = ints(0)
        self.sets: list[Mapping[str, int]] = []
        self.on_nodes: Counter[str] = Counter()
        self.generation = 1
        self._ids: dict[Images, int] = {}
        self._users: Counter[Images] = Counter()
        self._free: list[int] = []

    @classmethod
    def of(cls, rows: list[Images]) -> ImageSets:
        """Take all rows at once."""
        made = cls()
        made.set_of = ints(len(rows))
        for row, images in enumerate(rows):
            made.set_of[row] = made._take(images)
        return made

    def relayout(self, change: Callable[[Any], Any]) -> None:
        """Move rows."""
        self.set_of = change(self.set_of)

    def insert(self, row: int, images: Images) -> None:
        """Write a row that is new."""
        self.set_of[row] = self._take(images)

    def replace(self, row: int, old: Images, new: Images) -> None:
        """Write a row anew."""
        if old != new:
            self.give_back(old)
            self.set_of[row] = self._take(new)

    def _take(self, images: Images) -> int:
        self._users[images] += 1
        self._count(images, 1)
        if images not in self._ids:
            number = self._free.pop() if self._free else len(self.sets)
            self.sets[number : number + 1] = [dict(images)]
            self._ids[images] = number
        return self._ids[images]

    def give_back(self, images: Images) -> None:
        """Take a row's images off; its number is written anew or goes with the row."""
        self._users[images] -= 1
        self._count(images, -1)
        if not self._users[images]:
            del self._users[images]
            self._free.append(self._ids.pop(images))

    def _count(self, images: Images, sign: int) -> None:
        if images:
            self.generation += 1
        for name, _size in images:
            self.on_nodes[name] += sign
            if not self.on_nodes[name]:
                del self.on_nodes[name]
