# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of a LocalDisk when somebody declares it: made, changed, or refused. Never the lock, never the status.

Called by the module local_disk with what its options say (`wanted`: name, node_name, identity, and the settings below;
None means: not mentioned, leave it as it is) and the object of the API that is there.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import DataError, IdentityError, InputError, LockError
from ..lifecycle.locks import disk_holder
from ..model.names import check_subdomain, shown
from .disk_bounds import IDENTITY, check_place, check_texts, disk_size
from .identity import Identity, agrees, declared, disk_name, from_spec

#: option -> field of spec
SETTINGS = {
    "storage_class": "storageClassName",
    "volume_mode": "volumeMode",
    "fs_type": "fsType",
    "mount_options": "mountOptions",
    "reclaim_policy": "reclaimPolicy",
    "wipe_method": "wipeMethod",
    "reserved": "reserved",
}
_ENOUGH = "expected size and at least one of wwn, serial, by_path"


def read_identity(keys: Mapping[str, Any], where: str) -> Identity:
    """The Identity of options (wwn, serial, model, size as a quantity, by_path). Raises QuantityError, InputError."""
    check_texts(keys, IDENTITY, f"{where}: identity")
    try:
        return declared(keys, disk_size(keys.get("size")))
    except InputError as exc:
        raise type(exc)(f"{where}: identity: {exc.message}", **exc.details) from exc


def wanted_name(wanted: Mapping[str, Any], where: str) -> str:
    """The LocalDisk's name: as given, else made from node and identity. Raises InputError."""
    given = str(wanted.get("name") or "")
    if not given:
        if not wanted.get("node_name"):
            raise InputError(
                f"{where}: neither name nor node_name is given, so there is no telling which LocalDisk is meant"
            )
        return disk_name(str(wanted["node_name"]), read_identity(wanted.get("identity") or {}, where))
    check_subdomain(given, f"{where}: name")
    return given


def check_declared(disks: Sequence[Any], option: str) -> list[dict[str, Any]]:
    """The disks of an option with their names, each checked as one that is to be made. Raises InputError."""
    named = []
    for index, each in enumerate(disks):
        where = f"{option}[{index}]"
        if not isinstance(each, Mapping) or not isinstance(each.get("identity") or {}, Mapping):
            raise InputError(f"{where} is {shown(each)}: expected a disk as berth.stateful.local_disk takes it")
        name = wanted_name(each, where)
        check_settings(each, where)
        read_identity(each.get("identity") or {}, where)
        named.append({**each, "name": name})
    return named


def check_settings(wanted: Mapping[str, Any], where: str) -> None:
    """Refuse what the API server would refuse, before anything is written. Raises InputError."""
    if wanted.get("volume_mode") == "Block":
        for option in ("fs_type", "mount_options"):
            if wanted.get(option):
                raise InputError(f"{where}: {option} is for volume_mode Filesystem: a Block volume has none")
    check_place(wanted, where)


def new_disk(wanted: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The LocalDisk to create. Raises InputError, IdentityError."""
    identity = read_identity(wanted.get("identity") or {}, where)
    if not wanted.get("node_name"):
        raise InputError(f"{where}: there is no such LocalDisk yet, and node_name is not given")
    if not identity.is_strong() or not identity.size:
        raise IdentityError(
            f"{where}: there is no such LocalDisk yet, and its identity ({identity.describe()}) cannot name one disk: "
            f"{_ENOUGH}"
        )
    spec: dict[str, Any] = {"nodeName": wanted["node_name"], "identity": identity.to_spec()}
    spec.update(
        {field: wanted[option] for option, field in SETTINGS.items() if wanted.get(option) not in (None, "", [])}
    )
    metadata: dict[str, Any] = {"name": wanted_name(wanted, where)}
    if wanted.get("labels"):
        metadata["labels"] = {str(key): str(value) for key, value in wanted["labels"].items()}
    return {"apiVersion": "berth.dev/v1alpha1", "kind": "LocalDisk", "metadata": metadata, "spec": spec}


def changed_disk(live: Mapping[str, Any], wanted: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The live LocalDisk as declared now (equal to it when nothing changes).

    Raises IdentityError, InputError, LockError.
    """
    _check_same_disk(live, wanted, where)
    changed = copy.deepcopy(dict(live))
    spec = changed["spec"]
    for option, field in SETTINGS.items():
        value = wanted.get(option)
        if value is None:
            continue
        if value in ("", []) and field != "storageClassName":
            spec.pop(field, None)
        else:
            spec[field] = value
    if wanted.get("volume_mode") == "Block":
        spec.pop("fsType", None)
        spec.pop("mountOptions", None)
    _check_not_held(live, spec, where)
    if wanted.get("labels"):
        labels = changed["metadata"].setdefault("labels", {})
        labels.update({str(key): str(value) for key, value in wanted["labels"].items()})
    return changed


def check_wanted(wanted: Mapping[str, Any], where: str) -> None:
    """What can be known to be wrong with a disk to be made before the cluster is read. Raises InputError."""
    if wanted.get("name"):
        wanted_name(wanted, where)
    check_settings(wanted, where)
    identity = read_identity(wanted.get("identity") or {}, where)
    if not identity.is_strong() or not identity.size:
        raise IdentityError(f"{where}: its identity ({identity.describe()}) cannot name one disk: {_ENOUGH}")


def check_delete(live: Mapping[str, Any], force_retained: bool) -> None:
    """Raises LockError while somebody holds the disk, DataError while it keeps data that nobody said to forget."""
    name, kept = live["metadata"]["name"], live["spec"].get("retainedFor")
    holder = disk_holder(live)
    if holder:
        raise LockError(
            f"LocalDisk {name} is held by berth {holder} and is not deleted; remove that replica first "
            "(stateful_app: scale down, or state absent)",
            disk=name,
            holder=holder,
        )
    if kept and not force_retained:
        replica = f"{kept['namespace']}/{kept['app']}-{kept['ordinal']}"
        raise DataError(
            f"LocalDisk {name} keeps the data of {replica} (claim {kept['claim']}) and is not deleted; the replica "
            "finds it again when the app returns. Set force_retained: true to forget whose it is (it is not wiped)",
            disk=name,
            retained_for=replica,
        )


def merge_refusals(refused: Sequence[Exception]) -> str:
    """Several refusals as one line."""
    return "; ".join(str(each) for each in refused)


def _check_same_disk(live: Mapping[str, Any], wanted: Mapping[str, Any], where: str) -> None:
    node = live["spec"]["nodeName"]
    if wanted.get("node_name") and wanted["node_name"] != node:
        raise InputError(
            f"{where}: it is a disk of node {node}, and a disk does not change its node "
            f"(asked for: {wanted['node_name']}); declare it under another name; delete this one when it is free"
        )
    there, asked = from_spec(live["spec"]["identity"]), read_identity(wanted.get("identity") or {}, where)
    if not agrees(asked, there):
        raise IdentityError(
            f"{where}: its identity is {there.describe()}, and an identity never changes "
            f"(asked for: {asked.describe()}); "
            "another disk is another LocalDisk: leave name out or choose another; delete this one when it is free"
        )


def _check_not_held(live: Mapping[str, Any], spec: Mapping[str, Any], where: str) -> None:
    """What the data on the disk was written with cannot change under it; a disk that keeps data counts as well."""
    before = live["spec"]
    kept = before.get("retainedFor")
    holder = disk_holder(live) or (f"{kept['namespace']}/{kept['app']}-{kept['ordinal']} (data kept)" if kept else None)
    if not holder:
        return
    mode = "Filesystem"
    moved = [
        option
        for option, field, default in (("volume_mode", "volumeMode", mode), ("fs_type", "fsType", None))
        if before.get(field, default) != spec.get(field, default)
    ]
    if moved:
        raise LockError(
            f"{where}: {' and '.join(moved)} cannot change while the disk is held (by {holder}); give it up first",
            holder=holder,
        )
