# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What people are told of a TaskBatch: a row of it, with what its shards know, and how fast it goes. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..model.fields import Object
from . import indexes, states
from .batch import MOST_TASKS

_WORDS = ("pod", "node", "message", "log")


def told(live: Object, shards: Iterable[Object] = ()) -> dict[str, Any]:
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
        "reasons": [_reason(row) for row in status.get("reasons") or ()],
        "indexes": _indexes(mine),
        "failures": [_failure(row) for one in mine for row in one.get("told") or ()],
        "started_at": status.get("startedAt"),
        "finished_at": status.get("finishedAt"),
    }


def rate(counts: Object, earlier: tuple[float, int], now: float) -> str:
    """How far it is, as ``3210 of 10000 tasks have ended (10 failed), 412/s, 17 s left``.

    `earlier`: when so many had ended; `now`: on the same clock.
    """
    ended = sum(int(counts.get(state.lower()) or 0) for state in states.FINAL)
    left = int(counts.get("left") or 0)
    failed = counts.get("failed")
    words = f"{ended} of {ended + left} tasks have ended{f' ({failed} failed)' if failed else ''}"
    seconds, more = now - earlier[0], ended - earlier[1]
    if more <= 0 or seconds <= 0:
        return words
    per_second = more / seconds
    return f"{words}, {per_second:.3g}/s, {left / per_second:.0f} s left"


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
