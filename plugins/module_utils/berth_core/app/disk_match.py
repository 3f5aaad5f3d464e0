# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of these LocalDisks a claim could have, by the engine's own columns. Called by the filter matching_disks.

No rule is added: `plugins/disk_candidates.py` judges, as it does for a placement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..cluster.snapshot import Snapshot
from ..errors import InputError
from ..model.labels import LabelSelector
from ..model.names import shown
from ..model.placement import DiskClaim
from ..model.quantity import bytes_
from ..plugins.disk_candidates import disk_verdicts

_MODES = ("Filesystem", "Block")


def matching_disks(
    disks: Sequence[Mapping[str, Any]],
    selector: Mapping[str, Any] | None = None,
    size: str | int = 0,
    storage_class: str | None = None,
    volume_mode: str = "Filesystem",
    fs_type: str | None = None,
    explain: bool = False,
) -> list[dict[str, Any]]:
    """The disks that match, as they were given; with ``explain`` ``{name, node, fits, reason, detail}`` for each.

    Both are sorted by node and name. Raises InputError, QuantityError, SelectorError.
    """
    if volume_mode not in _MODES:
        raise InputError(f"volume_mode is {volume_mode!r}: expected {' or '.join(_MODES)}")
    for option, text in (("storage_class", storage_class), ("fs_type", fs_type)):
        if text is not None and not isinstance(text, str):
            raise InputError(f"{option} is {shown(text)}: expected text")
    if not isinstance(explain, bool):
        raise InputError(f"explain is {shown(explain)}: expected true or false")
    wanted = LabelSelector.parse(selector) if selector else None
    claim = DiskClaim("disk", _size(size), storage_class, volume_mode, fs_type, wanted)
    snapshot = Snapshot.from_objects(nodes=(), pods=(), disks=disks, devices=(), berths=())
    snapshot.refuse_unreadable()
    verdicts = disk_verdicts(snapshot, None, claim)
    if explain:
        return [
            {"name": one.name, "node": one.node, "fits": one.fits, "reason": one.reason, "detail": one.detail}
            for one in verdicts
        ]
    named = {str(disk["metadata"]["name"]): disk for disk in disks}
    return [dict(named[one.name]) for one in verdicts if one.fits]


def _size(given: str | int) -> int:
    size = bytes_(given, "size")
    if size < 0:
        raise InputError(f"size is {shown(given)}: expected a quantity of 0 or more")
    return size
