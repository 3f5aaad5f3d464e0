# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The history of replicas for readers: what their Berths and disks tell of it, as rows and as words. Pure.

Shown by stateful_app_info, kubectl-berth and the report. What is written, and by whom, lifecycle/history.py decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..lifecycle import states
from ..lifecycle.history import LENGTHS, WHO, Entry, merged, of_berth, of_disk
from ..lifecycle.view import Object
from ..model.resources import BERTH, LOCAL_DISK

#: What has to be listed: disks before Berths, so that what goes over from one to the other is seen.
KINDS = (LOCAL_DISK, BERTH)
#: The columns of `cells`.
HEAD = ("time", "replica", "change", "by", "why")
Row = dict[str, Any]


class Replica(NamedTuple):
    namespace: str
    app: str
    ordinal: int

    @classmethod
    def of(cls, namespace: Any, told: Mapping[str, Any]) -> Replica | None:
        """``told``: a Berth's spec, a lock, or whose data a disk keeps. None where it names no replica."""
        app, ordinal = told.get("app"), told.get("ordinal")
        if not (isinstance(namespace, str) and isinstance(app, str) and isinstance(ordinal, int)):
            return None
        return cls(namespace, app, ordinal)


def rows(berths: Iterable[Object], disks: Iterable[Object]) -> list[Row]:
    """One row for each entry, by replica and then by time; every key is there, what is not known is empty.

    A replica without a Berth has the history that its disks keep with its data.
    """
    found: dict[Replica, list[list[Entry]]] = {}
    for disk in disks:
        whose = disk["spec"].get("claimRef") or disk["spec"].get("retainedFor") or {}
        replica = Replica.of(whose.get("namespace"), whose)
        if replica is not None:
            found.setdefault(replica, []).append(of_disk(disk))
    for record in berths:
        replica = Replica.of(record["metadata"].get("namespace"), record["spec"])
        if replica is not None:
            found.setdefault(replica, []).append(of_berth(record))
    return [_row(replica, entry) for replica, lists in sorted(found.items()) for entry in merged(lists)]


def _row(replica: Replica, entry: Entry) -> Row:
    by = entry.get("by") or {}
    return {
        **replica._asdict(),
        **{key: entry.get(key, "") for key in LENGTHS},
        "count": entry.get("count", 1),
        "by": {key: by.get(key, "") for key in WHO},
    }


class News(NamedTuple):
    """An Event about a Berth: ``reason`` is the phase that it is in now, or that something else of it has changed."""

    reason: str
    note: str


def news(entry: Entry) -> News:
    """An entry as an Event."""
    to, why = entry.get("to", ""), entry.get("why")
    change = f"{entry['from']} -> {to}" if entry.get("from") else to
    by = who({key: (entry.get("by") or {}).get(key, "") for key in WHO})
    return News(to if to in states.RECORDED else "Changed", f"{change}, by {by}" + (f": {why}" if why else ""))


def latest(history: Sequence[Row], most: int) -> list[Row]:
    """The latest so many rows, in the order in which they came."""
    times = sorted((row["time"] for row in history), reverse=True)
    if len(times) <= most:
        return list(history)
    return [row for row in history if most and row["time"] >= times[most - 1]]


def cells(row: Row) -> tuple[str, str, str, str, str]:
    """A row as text, in the columns of HEAD."""
    times = f" ({row['count']} times)" if row["count"] > 1 else ""
    change = f"{row['from']} -> {row['to']}" if row["from"] else row["to"]
    replica = f"{row['namespace']}/{row['app']}-{row['ordinal']}"
    return (row["time"].partition(".")[0].rstrip("Z") + "Z", replica, f"{change}{times}", who(row["by"]), row["why"])


def who(by: Mapping[str, str]) -> str:
    """The module or daemon, and in brackets what else is known of who acted."""
    words = {"user": "as", "playbook": "in", "task": "task", "host": "on", "commit": "at"}
    told = [f"{word} {by[key][:12] if key == 'commit' else by[key]}" for key, word in words.items() if by[key]]
    return f"{by['component']} ({', '.join(told)})" if told else by["component"]
