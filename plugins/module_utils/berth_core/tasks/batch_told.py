# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What people are told of a TaskBatch: a row of it, with what its shards know, and how fast it goes. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from ..model import times
from ..model.fields import Object
from . import indexes, states
from .batch import MOST_TASKS

_WORDS = ("pod", "node", "message", "log")


def told(live: Object, now: datetime, shards: Iterable[Object] = ()) -> dict[str, Any]:
    """What a result says of a TaskBatch. `shards`: of this name; those of an earlier one do not count."""
    status, meta = live.get("status") or {}, live["metadata"]
    mine = [one for one in shards if _of(one, meta.get("uid"))]
    return {
        "name": meta["name"],
        "namespace": meta["namespace"],
        "queue": live["spec"].get("queue"),
        "state": status.get("state"),
        "reason": status.get("reason"),
        "message": status.get("message"),
        "counts": dict(status.get("counts") or {}),
        "progress": _progress(pace_of(live, now)),
        "reasons": [_reason(row) for row in status.get("reasons") or ()],
        "indexes": _indexes(mine),
        "failures": [_failure(row) for one in mine for row in one.get("told") or ()],
        "started_at": status.get("startedAt"),
        "finished_at": status.get("finishedAt"),
    }


class Pace(NamedTuple):
    """How far a batch is, and how fast: `per_second` tasks that ended by themselves, and the seconds left at that rate.

    Both None where nothing is known of it. `running` None: a daemon of an earlier release does not tell.
    """

    ended: int
    total: int
    running: int | None
    failed: int
    killed: int
    per_second: float | None
    seconds_left: float | None


def worked(counts: Object) -> int:
    """How many have ended by themselves: those that were killed say nothing of the rate."""
    return _count(counts, "succeeded") + _count(counts, "failed")


def pace(counts: Object, earlier: int, seconds: float | None) -> Pace:
    """`earlier`: so many had ended by themselves `seconds` ago; None: nobody knows when it began."""
    left, more = _count(counts, "left"), worked(counts) - earlier
    per_second = more / seconds if seconds and seconds > 0 and more > 0 else None
    failed, killed = _count(counts, "failed"), _count(counts, "killed")
    ended = worked(counts) + killed
    running = None if counts.get("running") is None else _count(counts, "running")
    to_come = left / per_second if per_second and left else None
    return Pace(ended, ended + left, running, failed, killed, per_second, to_come)


def pace_of(live: Object, now: datetime) -> Pace:
    """From its first task until now, or until its end. By its status alone: anybody who reads it may say so."""
    status = live.get("status") or {}
    seconds = times.age(str(status.get("startedAt")), now)
    since = times.age(str(status.get("finishedAt")), now)
    if seconds is not None and since is not None:
        seconds = max(seconds - since, 1.0)  # times are told in whole seconds
    return pace(status.get("counts") or {}, 0, seconds)


def words(how: Pace) -> str:
    """As ``3210 of 10000 tasks have ended (10 failed), 100 run, 412/s, 17 s left``."""
    parts = [f"{how.ended} of {how.total} tasks have ended{f' ({how.failed} failed)' if how.failed else ''}"]
    parts += [f"{how.running} run"] if how.running else []
    parts += [f"{how.per_second:.3g}/s"] if how.per_second is not None else []
    parts += [f"{how.seconds_left:.0f} s left"] if how.seconds_left is not None else []
    return ", ".join(parts)


def _count(counts: Object, which: str) -> int:
    return int(counts.get(which) or 0)


def _progress(how: Pace) -> dict[str, Any]:
    rate, left = how.per_second, how.seconds_left
    return {
        "ended": how.ended,
        "total": how.total,
        "per_second": None if rate is None else float(f"{rate:.3g}"),
        "seconds_left": None if left is None else round(left),
    }


def _of(shard: Object, uid: Any) -> bool:
    owners = shard["metadata"].get("ownerReferences") or [{}]
    return bool(owners[0].get("uid") == uid)


def _indexes(shards: Iterable[Object]) -> dict[str, str]:
    found: dict[str, list[int]] = {}
    for shard in shards:
        for row in shard.get("records") or ():
            if row["state"] in states.FINAL:
                found.setdefault(row["state"], []).extend(indexes.from_text(row["indexes"], "indexes", MOST_TASKS))
    return {state: indexes.to_text(which) for state, which in sorted(found.items())}


def _reason(row: Object) -> dict[str, Any]:
    return {
        "reason": row.get("reason"),
        "exit_code": row.get("exitCode"),
        "count": row.get("count"),
        "example": row.get("example"),
    }


def _failure(row: Object) -> dict[str, Any]:
    return {"index": row.get("element"), **{key: row.get(key) for key in _WORDS}}
