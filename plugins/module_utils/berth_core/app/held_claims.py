# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What replicas hold, against what is asked for of their claims. Pure; called by the plan, so before any write.

A held disk is never exchanged by a changed request, for the data is on it: a claim keeps its size, StorageClass and
volumeMode, and a berth its claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ..errors import StateError
from ..lifecycle.view import disks_of
from ..model.quantity import exact_bytes
from .manifests import volume_over
from .observed import Object, Observed
from .wanted import STATEFUL_SET, AppWanted, DiskWanted

#: Replicas that one refusal names: what is wrong with one is mostly wrong with all.
_TOLD = 3
#: What is other than what is held, and so which way out there is.
CLAIMS, KIND, SIZE = "claims", "kind", "size"

#: The first that fits is told.
_WAYS_OUT = {
    CLAIMS: "The claims of an app never change. Ask for those that it has; or give the app up (state: absent, or "
    "delete its StatefulApp) and make it anew: the disks keep what is on them, and a claim of another name begins "
    "empty",
    KIND: "A held disk is never exchanged by a changed request, for its data is there. Ask for what is held; or make "
    "another app with what is asked for, and let it bring the data over; or give the app up, then the data that its "
    "disks keep (docs/guides/replace_disk.md), and make it anew",
    SIZE: "A held disk is never exchanged by a changed request, for its data is there. Ask for less; or exchange the "
    "disk for a larger one first (disk_replace)",
}


class Refused(NamedTuple):
    """``what``: the claims themselves, the kind of one (StorageClass, volumeMode), or its size alone."""

    words: str
    what: str


def check_held(app: AppWanted, observed: Observed, ordinals: Iterable[int]) -> None:
    """``ordinals``: whose berths are more than a choice. Raises StateError with what is held, and the way out."""
    found = {ordinal: _of_berth(app, observed, observed.berths[ordinal]) for ordinal in ordinals}
    wrong = {ordinal: lines for ordinal, lines in found.items() if lines}
    if wrong:
        raise _refusal(app, wrong)
    _check_set(app, observed)


def _of_berth(app: AppWanted, observed: Observed, record: Object) -> list[Refused]:
    have = {str(entry["claim"]): str(entry["name"]) for entry in disks_of(record)}
    lines = [
        Refused(f"claim {claim} is on LocalDisk {name}, and is not asked for any more", CLAIMS)
        for claim, name in sorted(have.items())
        if claim not in {disk.name for disk in app.disks}
    ]
    for wanted in app.disks:
        if wanted.name not in have:
            lines.append(Refused(f"claim {wanted.name} is asked for, and its berth has no disk for it", CLAIMS))
            continue
        disk = observed.disks.get(have[wanted.name])
        if disk is not None:  # else its lock is lost: the lock step finds out
            lines += _of_disk(wanted, disk, _volume(observed, record, disk))
    return lines


def _volume(observed: Observed, record: Object, disk: Object) -> Object | None:
    return observed.volumes.get(volume_over(record, disk["metadata"]["name"]))


def _of_disk(wanted: DiskWanted, disk: Object, volume: Object | None) -> list[Refused]:
    """A disk's StorageClass may be declared anew while it is held, and that of its volume is not: either will do."""
    spec = disk["spec"]
    size, mode = spec["identity"]["size"], spec.get("volumeMode", "Filesystem")
    classes = [str((thing or disk)["spec"].get("storageClassName") or "") for thing in (volume, disk)]
    held, asked = [], []
    if wanted.storage_class is not None and wanted.storage_class not in classes:
        held.append(f"StorageClass {classes[0] or 'none'}")
        asked.append(f"StorageClass {wanted.storage_class or 'none'}")
    if wanted.volume_mode != mode:
        held.append(f"volumeMode {mode}")
        asked.append(f"volumeMode {wanted.volume_mode}")
    if wanted.size > size:
        held.append(exact_bytes(size))
        asked.append(exact_bytes(wanted.size))
    if not held:
        return []
    what = SIZE if wanted.size > size and len(held) == 1 else KIND
    where = f"claim {wanted.name} is on LocalDisk {disk['metadata']['name']} ({', '.join(held)})"
    return [Refused(f"{where}, and {', '.join(asked)} {'is' if len(asked) == 1 else 'are'} asked for", what)]


def _check_set(app: AppWanted, observed: Observed) -> None:
    """Also where no replica is there: the pods of a StatefulSet have the claims that it was made with."""
    live = observed.stateful_set
    if app.workload != STATEFUL_SET or live is None:
        return
    have = sorted(one["metadata"]["name"] for one in live["spec"].get("volumeClaimTemplates") or ())
    want = sorted(disk.name for disk in app.disks)
    if have != want:
        told = f"its StatefulSet was made with the claims {_names(have)}, and {_names(want)} are asked for"
        raise StateError(f"{app.namespace}/{app.name}: {told}. {_WAYS_OUT[CLAIMS]}. Nothing was changed")


def _refusal(app: AppWanted, wrong: Mapping[int, Sequence[Refused]]) -> StateError:
    told = [
        f"replica {app.berth_name(ordinal)}: {', '.join(one.words for one in lines)}"
        for ordinal, lines in wrong.items()
    ]
    more = f" (and {len(told) - _TOLD} replicas more)" if len(told) > _TOLD else ""
    found = {one.what for lines in wrong.values() for one in lines}
    worst = next(what for what in _WAYS_OUT if what in found)
    return StateError(
        f"{app.namespace}/{app.name}: {'; '.join(told[:_TOLD])}{more}. {_WAYS_OUT[worst]}. Nothing was changed",
        ordinals=sorted(wrong),
    )


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
