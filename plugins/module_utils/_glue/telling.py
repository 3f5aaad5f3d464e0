# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is done to the pod of a berth, told to the berth's history (berth_core.lifecycle.history).

Called by maintenance.py. Where the account may not write berths the work goes on, and a warning says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..berth_core.errors import ConflictError, ForbiddenError, NotFoundError
from ..berth_core.lifecycle.history import remarked, tells
from ..berth_core.model.resources import BERTH
from .acting import now
from .base import Context

#: Tries of one entry, of which somebody else's changes of the Berth are in the way.
_SWAPS = 20


class History:
    """Of one run."""

    def __init__(self, context: Context) -> None:
        self._context, self._refused = context, False

    def tell(self, berths: Iterable[Mapping[str, Any]], to: str, why: str) -> None:
        """An entry in each, where it does not say so already."""
        if self._refused:
            return
        try:
            for record in berths:
                self._one(record, to, why)
        except ForbiddenError as exc:
            self._refused = True
            self._context.warn(f"the histories of berths do not tell of it: {exc.message}")

    def _one(self, record: Mapping[str, Any], to: str, why: str) -> None:
        meta = record["metadata"]
        for _number in range(_SWAPS):
            if tells(record, to, why):
                return
            try:
                self._context.client.replace(BERTH, remarked(record, to, why, self._context.actor, now()))
                return
            except (ConflictError, NotFoundError):
                found = self._context.client.find(BERTH, meta["name"], meta["namespace"])
                if found is None:
                    return
                record = found
        raise ConflictError(
            f"Berth {meta['namespace']}/{meta['name']} changed before the write {_SWAPS} times in a row",
            409,
            "Conflict",
        )
