# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The volumeClaimTemplates of a StatefulSet as the option ``disks`` has them, and the two together.

Called by given_set.py and wanted.py. A claim template that a local disk cannot answer is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InputError, QuantityError
from ..model.names import is_label, shown
from ..model.quantity import bytes_
from .template_shape import mapping, mappings

_ONCE = "ReadWriteOnce"
_SPEC = ("accessModes", "resources", "storageClassName", "volumeMode")
#: What can be asked for in another way.
_INSTEAD = {
    "selector": "select the disk by disks (selector, over the labels of LocalDisks)",
    "volumeName": "pin the disk by disks (disk_names)",
    "dataSource": "restore the data into the running app",
    "dataSourceRef": "restore the data into the running app",
}


def disks_of(templates: Any, where: str) -> tuple[dict[str, Any], ...]:
    """One entry for each claim template. Raises InputError."""
    found = tuple(_disk(one, f"{where}[{index}]") for index, one in enumerate(mappings(templates, where)))
    names = [one["name"] for one in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{where} names {', '.join(twice)} twice: every name may stand there once")
    return found


def merged(asked: Sequence[Mapping[str, Any]], given: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The option's disks, then those that the manifest alone has. Raises InputError.

    An entry of the option may say more of a disk than the manifest can (a selector, pins, a filesystem).
    """
    claims = {claim["name"]: claim for claim in given}
    found: list[Mapping[str, Any]] = []
    for disk in asked:
        claim = claims.get(str(disk.get("name")))
        if claim is None:
            found.append(disk)
            continue
        _agree(disk, claim)
        found.append({**disk, "storage_class": _either(disk.get("storage_class"), claim["storage_class"])})
    names = {disk.get("name") for disk in asked}
    return [*found, *(claim for name, claim in claims.items() if name not in names)]


def _either(asked: str | None, told: str | None) -> str | None:
    return told if asked is None else asked


def _agree(disk: Mapping[str, Any], claim: Mapping[str, Any]) -> None:
    for key, field in (
        ("size", "resources.requests.storage"),
        ("storage_class", "storageClassName"),
        ("volume_mode", "volumeMode"),
    ):
        asked, told = disk.get(key), claim[key]
        if asked is None or told is None:
            continue
        if _bytes(asked) != _bytes(told) if key == "size" else asked != told:
            raise InputError(
                f"disks ({disk['name']}): {key} is {asked}, and {field} of that volumeClaimTemplate is {told}: make "
                "them agree, or leave one of them out"
            )


def _bytes(size: Any) -> Any:
    try:
        return bytes_(size)
    except QuantityError:
        return size  # refused with the other sizes


def _disk(claim: Mapping[str, Any], where: str) -> dict[str, Any]:
    name = _name(claim, where)
    where = f"{where} ({name})"
    spec = mapping(claim.get("spec"), f"{where}.spec")
    for key, value in spec.items():
        if key not in _SPEC and value is not None:
            instead = _INSTEAD.get(key)
            raise InputError(
                f"{where}.spec.{key} cannot be taken: leave it out{f', and {instead}' if instead else ''}; what is "
                f"taken: {', '.join(_SPEC)}"
            )
    modes = spec.get("accessModes")
    if modes not in (None, [_ONCE]):
        raise InputError(f"{where}.spec.accessModes is {shown(modes)}: a local disk is [{_ONCE}]")
    mode = spec.get("volumeMode") or "Filesystem"
    if mode not in ("Filesystem", "Block"):
        raise InputError(f"{where}.spec.volumeMode is {shown(mode)}: expected Filesystem or Block")
    return {
        "name": name,
        "size": _size(spec, where),
        "storage_class": _class(spec, where),
        "volume_mode": mode,
    }


def _name(claim: Mapping[str, Any], where: str) -> str:
    metadata = mapping(claim.get("metadata"), f"{where}.metadata")
    more = [key for key, value in metadata.items() if key != "name" and value]
    if more:
        raise InputError(f"{where}.metadata: {', '.join(more)} cannot be taken: leave it out; what is taken: name")
    name = metadata.get("name")
    if not is_label(name):
        raise InputError(f"{where}.metadata.name {shown(name)} cannot name a volume: expected a DNS-1123 label")
    return str(name)


def _size(spec: Mapping[str, Any], where: str) -> str:
    resources = mapping(spec.get("resources"), f"{where}.spec.resources")
    requests = mapping(resources.get("requests"), f"{where}.spec.resources.requests")
    if resources.get("limits"):
        raise InputError(f"{where}.spec.resources.limits cannot be taken: a disk is given as a whole; leave it out")
    size = requests.get("storage")
    if size is None:
        raise InputError(f"{where}.spec.resources.requests has no storage: expected the least size, as 10Gi")
    return str(size)


def _class(spec: Mapping[str, Any], where: str) -> str | None:
    found = spec.get("storageClassName")
    if found is not None and not isinstance(found, str):
        raise InputError(f"{where}.spec.storageClassName is {shown(found)}: expected the name of a StorageClass")
    return found
