# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much a node can still give to a class, as CSIStorageCapacity objects: what the stock scheduler looks at.

One object for each node and each of berth's classes that waits for its first consumer and has disks there. A claim gets
one whole disk, so ``maximumVolumeSize`` is the largest free disk; ``capacity`` is all that is free. Written by
the controller.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from ..model.disk import LocalDisk
from ..model.resources import CSI_STORAGE_CAPACITY
from .claim_disks import Place, not_free
from .claims import Asked
from .manifests import HOSTNAME_LABEL
from .wanted import MANAGED_LABEL

Object = Mapping[str, Any]
#: On the objects that are the controller's to change and to remove.
SELECTOR = f"{MANAGED_LABEL}=berth-controller"
#: All others: the controller's own are for other schedulers, and tell berth-scheduler less than the disks themselves.
OF_OTHERS = f"{MANAGED_LABEL}!=berth-controller"


class Changes(NamedTuple):
    """What to write. ``delete``: the objects that are meant."""

    create: list[dict[str, Any]]
    replace: list[dict[str, Any]]
    delete: list[Object]


def wanted(
    namespace: str,
    classes: Collection[str],
    disks: Iterable[LocalDisk],
    places: Mapping[str, Place],
    taken: Collection[str] = (),
    held_back: Collection[tuple[str, str]] = (),
) -> dict[str, dict[str, Any]]:
    """name -> CSIStorageCapacity. ``taken``: disks that a berth has written down and not locked yet.

    ``held_back``: (node, class) that give nothing for now. Capacity does not tell how many claims a node can serve, of
    which mode or with which labels; a node that was chosen in vain would be chosen again and again.
    """
    free: dict[tuple[str, str], list[int]] = {}
    for disk in disks:
        if disk.storage_class in classes and disk.node_name in places:
            sizes = free.setdefault((disk.node_name, disk.storage_class), [])
            if not not_free(disk) and disk.name not in taken and (disk.node_name, disk.storage_class) not in held_back:
                sizes.append(disk.size)
    made = [_capacity(namespace, places[node].hostname, node, name, sizes) for (node, name), sizes in free.items()]
    return {one["metadata"]["name"]: one for one in made}


def seems_to_fit(asked: Asked, disks: Iterable[LocalDisk], taken: Collection[str]) -> bool:
    """Whether the capacity of the claim's node would have a scheduler choose that node for it (once more)."""
    claim = asked.claim
    return any(
        disk.size >= claim.request and not not_free(disk) and disk.name not in taken
        for disk in disks
        if disk.node_name == asked.node and disk.storage_class == claim.storage_class
    )


def changes(desired: Mapping[str, Mapping[str, Any]], live: Iterable[Object]) -> Changes:
    """From what is there to what should be: nothing is written where nothing has changed."""
    there = {item["metadata"]["name"]: item for item in live}
    create = [dict(body) for name, body in sorted(desired.items()) if name not in there]
    replace = []
    for name in sorted(set(desired) & set(there)):
        if any(desired[name][key] != there[name].get(key) for key in _FIELDS):
            version = {"resourceVersion": there[name]["metadata"]["resourceVersion"]}
            replace.append({**desired[name], "metadata": {**desired[name]["metadata"], **version}})
    return Changes(create, replace, [item for name, item in sorted(there.items()) if name not in desired])


_FIELDS = ("storageClassName", "nodeTopology", "capacity", "maximumVolumeSize")


def _capacity(namespace: str, hostname: str, node: str, storage_class: str, sizes: list[int]) -> dict[str, Any]:
    digest = hashlib.sha256(f"{node}/{storage_class}".encode()).hexdigest()[:16]
    return {
        "apiVersion": CSI_STORAGE_CAPACITY.api_version,
        "kind": CSI_STORAGE_CAPACITY.kind,
        "metadata": {
            "name": f"berth-{digest}",
            "namespace": namespace,
            "labels": {MANAGED_LABEL: "berth-controller"},
            "annotations": {"berth.dev/node": node},
        },
        "storageClassName": storage_class,
        "nodeTopology": {"matchLabels": {HOSTNAME_LABEL: hostname}},
        "capacity": canonical(sum(sizes)),
        "maximumVolumeSize": canonical(max(sizes, default=0)),
    }


def canonical(size: int) -> str:
    """Bytes as the API server writes them back, so that what was written is found again unchanged."""
    for suffix, unit in (
        ("Ei", 1 << 60),
        ("Pi", 1 << 50),
        ("Ti", 1 << 40),
        ("Gi", 1 << 30),
        ("Mi", 1 << 20),
        ("Ki", 1 << 10),
    ):
        if size and size % unit == 0:
            return f"{size // unit}{suffix}"
    return str(size)
