# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What if these pods were gone: pods are taken off the tables, a question is asked, and all is put back.

Called by framework/dry_run.py. While a trial is open the tables say what would be; generations stay as they are, so
columns that are kept from one request to the next must be neither read nor written: ask the plugins themselves.
Locks on disks and devices stay where they are: they are their berth's, not the pod's.
"""

from __future__ import annotations

from types import TracebackType

from .occupants import Key, Occupant, Occupants
from .tally import Tally


class Trial:
    """Changes that are taken back at the end of the `with` block, whatever happens in it."""

    def __init__(self, occupants: Occupants, tally: Tally) -> None:
        self._occupants, self._tally = occupants, tally
        self._gone: dict[Key, Occupant] = {}
        self._more: dict[Key, Occupant] = {}

    def __enter__(self) -> Trial:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for key in list(self._more):
            self.remove(key)
        for key in list(self._gone):
            self.put_back(key)

    def take_off(self, key: Key, node_name: str) -> None:
        """Take a pod off its node, which has a row."""
        occupant = self._occupants.hide(key, node_name)
        self._gone[key] = occupant
        self._tally.add(occupant, -1)

    def put_back(self, key: Key) -> None:
        """Put a pod back that was taken off."""
        occupant = self._gone.pop(key)
        self._occupants.show(key, occupant)
        self._tally.add(occupant, 1)

    def add(self, key: Key, occupant: Occupant) -> bool:
        """Put a pod on a node that is not there yet. One that counts already stays as it is: False."""
        if key in self._more or self._occupants.counts(key):
            return False
        self._more[key] = occupant
        self._occupants.show(key, occupant)
        self._tally.add(occupant, 1)
        return True

    def remove(self, key: Key) -> None:
        """Take a pod away that was added."""
        occupant = self._more.pop(key)
        self._occupants.hide(key, occupant.node_name)
        self._tally.add(occupant, -1)
