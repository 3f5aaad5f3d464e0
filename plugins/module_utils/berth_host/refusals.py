# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a block device is not free for the taking: sentences for people, from the facts of the records alone.

Called by block_devices. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Record = Mapping[str, Any]


def refusals(record: Record, records: Mapping[str, Record]) -> list[str]:
    """Everything that speaks against taking this device, the gravest first; empty for a blank disk that nobody uses."""
    return list(dict.fromkeys(_reasons(record, records)))


def _reasons(record: Record, records: Mapping[str, Record]) -> Iterator[str]:
    if record["is_system"]:
        yield "it carries the running system"
    if record["type"] == "part":
        yield f"it is a partition of {record['parent']}, not a whole disk"
    if record["slaves"]:
        yield f"it is a device that the kernel builds on {', '.join(record['slaves'])} (type {record['type']})"
    yield from _uses(record)
    for name in record["partitions"]:
        part = records.get(name)
        yield from (f"its partition {name}: {reason}" for reason in (_uses(part) if part else ()))
    if record["pttype"] or record["partitions"]:
        parts = f" with {', '.join(record['partitions'])}" if record["partitions"] else ""
        yield f"it carries a partition table ({record['pttype'] or 'type unknown'}){parts}"
    if record["fstype"]:
        yield f"it carries a signature ({record['fstype']}{' ' + record['fsuuid'] if record['fsuuid'] else ''})"
    yield from _unfit(record)


def _uses(record: Record) -> Iterator[str]:
    if record["mounts"]:
        yield f"it is mounted at {', '.join(record['mounts'])}"
    if record["swap"]:
        yield "it is used as swap"
    if record["holders"]:
        yield f"it is held by {', '.join(record['holders'])}"


def _unfit(record: Record) -> Iterator[str]:
    if record["health"] == "Faulted":
        yield f"it is faulted: {record['problem']}"
    elif record["problem"]:
        yield f"it could not be looked into: {record['problem']}"
    if record["read_only"]:
        yield "it is read-only"
    if record["removable"]:
        yield "it is removable"
