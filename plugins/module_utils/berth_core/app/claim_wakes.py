# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which waiting claims a change concerns: those that may be bound now, and those that would be told other words.

Called by the controller with each change of a LocalDisk, a Node or a StorageClass. The other half of claim_disks:
whatever `choose` looks at is compared here, so that no claim sleeps through the change that it waits for; what it does
not look at (an agent's latest measurement, a node's heartbeat) wakes nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..model.disk import LocalDisk
from . import claims
from .claim_disks import Place, not_free
from .claims import APP_PREFIX

Object = Mapping[str, Any]


class Concerned(NamedTuple):
    """Claims that wait for a disk of these classes: ``soon`` where one may be bound now, else for their words alone.

    ``data``: (namespace, app) of the claims that hold or held the disk, or whose data is or was on it, whatever they
    wait for.
    """

    classes: frozenset[str] = frozenset()
    data: frozenset[tuple[str, str]] = frozenset()
    soon: bool = False


NOBODY = Concerned()


def of_disk(old: LocalDisk | None, new: LocalDisk | None) -> Concerned:
    """Whom this change of a disk concerns; None: not there, or not to be read."""
    if _sight(old) == _sight(new):
        return NOBODY
    both = [disk for disk in (old, new) if disk is not None]
    kept = {(disk.retained_for.namespace, disk.retained_for.app) for disk in both if disk.retained_for is not None}
    # A claim that was made anew waits for the lock of the earlier one, whatever becomes of the data then.
    held = {(disk.claim_ref.namespace, disk.claim_ref.app) for disk in both if disk.claim_ref is not None}
    return Concerned(
        frozenset(disk.storage_class for disk in both),
        frozenset(kept | {one for one in held if one[1].startswith(APP_PREFIX)}),
        new is not None and not not_free(new),
    )


def of_node(old: Place | None, new: Place | None) -> bool | None:
    """Whether a waiting claim may be bound now that a node has changed; None: it looks the same to claims."""
    if old == new:
        return None
    return new is not None and (old is None or not new.problem)


def of_class(old: Object | None, new: Object | None) -> bool:
    """Whether the claims of a StorageClass are to be looked at again; None: not there.

    Also those of a class that was berth's and is another provisioner's now, or is gone: they are told so.
    """
    return (claims.ours(old) or claims.ours(new)) and _terms(old) != _terms(new)


def _terms(storage_class: Object | None) -> tuple[Any, ...]:
    """What claims see of their class."""
    if storage_class is None:
        return ()
    return (True, *(storage_class.get(key) for key in ("provisioner", "volumeBindingMode", "reclaimPolicy")))


def _sight(disk: LocalDisk | None) -> tuple[Any, ...]:
    """What claims see of a disk."""
    if disk is None:
        return ()
    wanted = (disk.storage_class, disk.volume_mode, disk.labels, disk.size, disk.node_name)
    return (*wanted, not_free(disk), disk.retained_for)
