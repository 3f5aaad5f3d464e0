# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disks that the module local_disk is given, checked as a whole, and what is there under their names.

Called by local_disk.py, before anything is decided. Never writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..berth_core.app.disk_bounds import check_different
from ..berth_core.app.disk_change import check_settings, read_identity, wanted_name
from ..berth_core.app.disk_record import check_record
from ..berth_core.app.identity import Identity, disk_name
from ..berth_core.errors import InputError
from ..berth_core.model.resources import LOCAL_DISK
from .base import Context
from .disk_options import DISK
from .local_disk_list import list_disks


def read_items(params: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The wanted disks by name, from either form of the options. Raises InputError."""
    disks = params.get("disks")
    rows = [params] if disks is None else disks
    items: dict[str, Mapping[str, Any]] = {}
    for index, row in enumerate(rows):
        item = {option: row.get(option) for option in DISK}
        item["node_name"] = item["node_name"] or params.get("node_name")
        where = "local_disk" if disks is None else f"disks[{index}]"
        name = wanted_name(item, where)
        if name in items:
            raise InputError(f"{where}: LocalDisk {name} is declared twice; give each disk its own name")
        check_settings(item, f"LocalDisk {name}")
        if item["observed"]:
            check_record(item["observed"], f"LocalDisk {name}: observed")
        items[name] = item
    check_different([(name, str(item["node_name"] or ""), _identity(name, item)) for name, item in items.items()])
    return items


def _identity(name: str, item: Mapping[str, Any]) -> Identity:
    return read_identity(item["identity"] or {}, f"LocalDisk {name}")


def refuse_contradiction(state: str, items: Mapping[str, Mapping[str, Any]]) -> None:
    """``state`` says whether the disk is reserved, or ``reserved`` does."""
    against = {"reserved": False, "released": True}.get(state)
    for name, item in items.items():
        if against is not None and item["reserved"] is against:
            raise InputError(
                f"LocalDisk {name}: reserved is {str(against).lower()}, and state is {state}: "
                "expected one of them alone; leave reserved out"
            )


def read_elsewhere(
    context: Context, items: Mapping[str, Mapping[str, Any]], live: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """LocalDisks of the wanted names on another node than the one that was read: none of them can be made.

    A name that was made of node and identity is no other node's. One disk alone is looked for where it cannot be made
    anyway; else the API server refuses it, and nothing was written before.
    """
    missing = [name for name, item in items.items() if name not in live and item["node_name"]]
    if len(items) == 1:
        found = [context.client.find(LOCAL_DISK, name) for name in missing if not _can_be_made(name, items[name])]
    elif any(_is_given(name, items[name]) for name in missing):
        found = [disk for disk in list_disks(context) if disk["metadata"]["name"] in missing]
    else:
        found = []
    return {str(disk["metadata"]["name"]): disk for disk in found if disk is not None}


def _can_be_made(name: str, item: Mapping[str, Any]) -> bool:
    identity = _identity(name, item)
    return identity.is_strong() and bool(identity.size)


def _is_given(name: str, item: Mapping[str, Any]) -> bool:
    """Whether the name is a person's, and not made by `disk_name`."""
    identity = _identity(name, item)
    return not identity.is_strong() or name != disk_name(str(item["node_name"]), identity)


def read_live(context: Context, items: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """One LIST, as narrow as the items allow."""
    if not items:
        return {}
    nodes = {item["node_name"] for item in items.values()}
    node = nodes.pop() if len(nodes) == 1 else None
    if node:
        fields = f"spec.nodeName={node}"
    else:
        fields = f"metadata.name={next(iter(items))}" if len(items) == 1 else ""
    found = list_disks(context, fields=fields or None)
    return {disk["metadata"]["name"]: disk for disk in found}
