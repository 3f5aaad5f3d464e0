# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A LocalDisk that keeps somebody's data without a holder: whose it is, since when, and the commands to be rid of it.

kubectl-berth and the report show it, of the entries that resource_list makes; overview adds since when.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..model.berth import CLAIM_APP
from ..model.names import is_plain
from . import next_commands

KEEP = "nothing is to be done to keep it: the same replica or claim gets the disk back, and nobody else"
_OWNER = "f:retainedFor"


class Way(NamedTuple):
    """What happens, and the command; no command where the disk has no key that may stand in one."""

    what: str
    command: str


def since(disk: Mapping[str, Any]) -> str | None:
    """When whoever gave its lock up wrote to the LocalDisk last: the API server's own record (managedFields).

    None where that was left out, as in the caches of daemons.
    """
    written = [
        str(entry.get("time"))
        for entry in disk["metadata"].get("managedFields") or ()
        if entry.get("time") and _OWNER in ((entry.get("fieldsV1") or {}).get("f:spec") or {})
    ]
    return max(written, default=None)


def kept(disks: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The entries of disks that keep data without a holder."""
    return [disk for disk in disks if disk["retained_for"] and not disk["holder"]]


def whose(data: Mapping[str, Any]) -> str:
    """Whose data, by names and by the uids that tell one from who has the same names later."""
    who = f"claim {data['claim']}"
    if not str(data["app"]).startswith(CLAIM_APP):
        who = f"app {data['app']}, ordinal {data['ordinal']}, {who}"
    if data["pod_uid"]:
        who = f"{who} (of the pod with uid {data['pod_uid']})"
    uid = f" (uid {data['namespace_uid']})" if data["namespace_uid"] else ""
    return f"{who}, in namespace {data['namespace']}{uid}"


def ways(disk: Mapping[str, Any]) -> list[Way]:
    """How the data goes; none while a wipe is asked for already."""
    if disk["why_not_free"] == "wiping":
        return []
    give_up = "give it up; the disk is Pending until it is wiped"
    return [Way(give_up, next_commands.give_data_up(disk["name"])), Way("destroy it, by the node's agent", _wipe(disk))]


def _wipe(disk: Mapping[str, Any]) -> str:
    named = {key: value for key, value in disk["identity"].items() if is_plain(value)}
    return next_commands.destroy_data(disk["name"], named) if named else ""
