# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A volume over a disk goes before the disk's lock does. Where one has stayed, somebody has taken the lock away by
hand, and its pod may go on to use the disk: as long as it is there, the disk is neither locked for another berth nor
covered by another volume.

Called by the way forward and by the exchange of a disk; drivers put volumes over a view's disks into it, whoever they
were made for.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..model.over_disk import berth_uid, disk_below
from ..model.resources import LOCAL_DISK, PV
from .step import Ref, Wait
from .view import Object, View, disks_of


def with_volumes(view: View, volumes: Iterable[Object]) -> View:
    """The view with those of the volumes that stand for its berth's disks."""
    record = view.berth
    names = {each["name"] for each in disks_of(record)} if record is not None else set()
    for volume in volumes:
        if disk_below(volume) in names and volume["metadata"]["name"] not in view.volumes:
            view = view.having(PV, volume)
    return view


def anew(view: View, disk: str, volumes: Iterable[Object]) -> View:
    """The view with the volumes over one disk as they are now."""
    for name in [name for name, one in view.volumes.items() if disk_below(one) == disk]:
        view = view.lacking(PV, name)
    for volume in volumes:
        if disk_below(volume) == disk:
            view = view.having(PV, volume)
    return view


def asks_anew(ref: Ref) -> bool:
    """Whether a write that was refused leaves open which volumes are over its disk: its lock may have come and gone."""
    return ref.resource == LOCAL_DISK


def over(view: View, uid: str, disk: Object) -> str:
    """Why the disk cannot be the berth's of that uid while another one's volume stands for it; empty where none does.

    A disk that keeps this replica's data of an earlier berth is its own, with what was made over it then.
    """
    name = disk["metadata"]["name"]
    ref = disk["spec"].get("claimRef") or {}
    if disk["spec"].get("retainedFor") or ref.get("dataUID") not in (None, uid):
        return ""
    left = [one for one in view.volumes.values() if disk_below(one) == name and berth_uid(one) != uid]
    if not left:
        return ""
    volume = min(left, key=lambda one: str(one["metadata"]["name"]))
    claim = volume["spec"].get("claimRef") or {}
    whose = f" of claim {claim['namespace']}/{claim['name']}" if claim else ""
    return (
        f"below PersistentVolume {volume['metadata']['name']}{whose}, whose lock is gone: its pod may use the disk; "
        "delete that claim and that volume, or give the disk back to their berth"
    )


def waits(view: View, uid: str, disk: Object) -> Wait | None:
    """Before a volume is made over a disk that is locked already, and before a disk is exchanged for this one."""
    why = over(view, uid, disk)
    return Wait("VolumeLeft", f"LocalDisk {disk['metadata']['name']} is {why}", True) if why else None
