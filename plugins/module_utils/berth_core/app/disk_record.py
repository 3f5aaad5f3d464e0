# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shape of a record of block_device_info, and of a LocalDisk, as far as anybody reads it, where one is an option.

Called by the modules that take records (local_disk, local_disk_info, local_disk_plan) or a LocalDisk (disk_filesystem);
behind them the shape is relied on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InputError
from ..model import fields
from ..model.disk import LocalDisk
from ..model.names import check_subdomain, shown

_TEXTS = (
    "type", "parent", "number", "wwn", "serial", "model", "vendor", "transport", "fstype", "fsuuid", "label",
    "pttype", "health", "problem", "moved_from", "shared_with",
)  # fmt: skip
_LISTS = ("by_id", "by_path", "partitions", "mounts", "holders", "slaves", "refusals")
_FLAGS = ("rotational", "removable", "read_only", "swap", "is_system", "usable")
_LOCK = ("namespace", "name", "uid", "app", "claim", "dataUID")
_EXPECTED = "a record of berth.stateful.block_device_info"


def check_records(records: Any, where: str) -> None:
    """Refuse a list of records that cannot be one host's. Raises InputError."""
    seen: set[str] = set()
    for index, record in enumerate(records):
        check_record(record, f"{where}[{index}]", ("name", "path"))
        if record["name"] in seen:
            raise InputError(f"{where}[{index}]: name {record['name']!r} is there twice: expected one host's devices")
        seen.add(record["name"])


def check_record(record: Any, where: str, needed: tuple[str, ...] = ("path",)) -> None:
    """Refuse what is no record, or lacks what is ``needed`` of it. Raises InputError."""
    if not isinstance(record, Mapping):
        raise InputError(f"{where} is {shown(record)}: expected {_EXPECTED}")
    for key in needed:
        if not isinstance(record.get(key), str) or not record[key]:
            raise InputError(f"{where}: {key} is {shown(record.get(key, 'missing'))}: expected {_EXPECTED}")
    size = fields.integer(record, "size", f"{where}: size")
    if not 0 <= size < 1 << 63:
        raise InputError(f"{where}: size is {size}: expected a number of bytes, as {_EXPECTED} has it")
    for key in _TEXTS:
        fields.string(record, key, f"{where}: {key}")
    for key in _LISTS:
        fields.strings(record, key, f"{where}: {key}")
    for key in _FLAGS:
        fields.boolean(record, key, f"{where}: {key}")
    fields.mapping(record, "kernel", f"{where}: kernel")


def check_local_disk(disk: Any, option: str) -> None:
    """Refuse what is no LocalDisk as the API server has it. Raises InputError that names the option and the field."""
    expected = "expected a LocalDisk as berth.stateful.local_disk_info returns it, with metadata and spec"
    if not isinstance(disk, Mapping):
        raise InputError(f"{option} is {shown(disk)}: {expected}")
    for part in ("metadata", "spec"):
        if not isinstance(disk.get(part), Mapping):
            raise InputError(f"{option}: {part} is {shown(disk.get(part, 'missing'))}: {expected}")
    check_subdomain(disk["metadata"].get("name", ""), f"{option}: metadata.name")
    try:
        LocalDisk.from_object(disk)
        fields.strings(disk["spec"], "mountOptions", "spec.mountOptions")
        fields.mapping(fields.mapping(disk, "status"), "journal", "status.journal")
    except InputError as exc:
        raise InputError(f"{option}: {exc.message}; {expected}") from exc
    lock = disk["spec"].get("claimRef") or {}
    for key in _LOCK if lock else ():
        if not isinstance(lock.get(key), str) or not lock[key]:
            raise InputError(f"{option}: spec.claimRef.{key} is {shown(lock.get(key, 'missing'))}: {expected}")
