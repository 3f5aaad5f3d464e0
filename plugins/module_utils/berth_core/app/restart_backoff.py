# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a bare pod that has ended is made anew: as the kubelet's CrashLoopBackOff has it for containers. Pure.

The first end costs no time, the next ones 10 s, 20 s and so on, to 300 s; a pod that ran for ten minutes begins anew.
The ends in a row are counted in the Berth, before the pod that ended is deleted, so that whoever makes the next one,
and whichever of them dies, goes by the same number. A pod that its node refused (OutOfcpu) counts like any other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from ..lifecycle.history import Actor, remarked
from ..model.times import age
from .observed import Object, ended

#: On a Berth, JSON: how many of its pods have ended in a row (``count``), and the last one that counts (``uid``).
ANNOTATION = "berth.dev/ended-pods"
#: Seconds from the second end in a row to the next pod, doubled by each further one up to MOST.
FIRST, MOST = 10, 300
#: A pod that ran for so many seconds does not count with those before it.
SETTLED = 600
#: In the history of a berth.
ANEW = "pod made anew"
_LARGEST_COUNT = 2**31 - 1
#: Conditions whose last change may be the end of a pod that never had a container, or whose containers tell nothing.
_ENDING = ("Ready", "ContainersReady", "DisruptionTarget")


@dataclass(frozen=True)
class Backoff:
    """A pod that has ended and waits for its time.

    ``ended``: how, in the cluster's words. ``count``: ends in a row, this one included. ``seconds``: until then, from
    the moment of asking. ``until``: that time, RFC 3339.
    """

    ended: str
    count: int
    seconds: float
    until: str


def seconds_after(count: int) -> int:
    """Seconds between the ``count``-th end in a row (from 1) and the pod that follows it."""
    return 0 if count < 2 else int(min(MOST, FIRST * 2 ** min(count - 2, 30)))


def count_of(pod: Object, record: Object) -> int:
    """Ends in a row of the berth's pods, the one of ``pod``, which has ended, included."""
    count, _uid = _counted(record)
    if is_counted(pod, record):
        return count
    return 1 if _ran(pod) >= SETTLED else min(count + 1, _LARGEST_COUNT)


def is_counted(pod: Object, record: Object) -> bool:
    """Whether this pod's end stands in the Berth: its time was over then, and somebody has begun to make it anew."""
    _count, uid = _counted(record)
    return bool(uid) and uid == pod["metadata"].get("uid")


def held(pod: Object, record: Object, now: datetime) -> Backoff | None:
    """What the pod, which has ended, waits for; None where it is made anew at once.

    No wait is longer than its whole: a node whose clock is ahead holds nobody up for longer.
    """
    if is_counted(pod, record):
        return None
    count = count_of(pod, record)
    since = _since_end(pod, now)
    left = 0.0 if since is None else seconds_after(count) - max(0.0, since)
    if left <= 0:
        return None
    until = now.replace(tzinfo=None) + timedelta(seconds=left, milliseconds=1)  # no second is lost to rounding
    return Backoff(ended(pod), count, left, until.isoformat(timespec="seconds") + "Z")


def counted(pod: Object, record: Object, actor: Actor, time: str) -> dict[str, Any]:
    """The Berth with this pod's end counted and told in its history. ``time``: RFC 3339."""
    body = remarked(record, ANEW, ended(pod), actor, time)
    text = json.dumps({"count": count_of(pod, record), "uid": pod["metadata"]["uid"]}, separators=(",", ":"))
    body["metadata"]["annotations"] = {**(body["metadata"].get("annotations") or {}), ANNOTATION: text}
    return body


def _counted(record: Object) -> tuple[int, str]:
    """(count, uid of the last pod) as the Berth says; nothing where it says what berth does not write."""
    text = (record["metadata"].get("annotations") or {}).get(ANNOTATION)
    try:
        said = json.loads(text) if isinstance(text, str) and len(text) < 1024 else None
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, Mapping):
        return 0, ""
    count, uid = said.get("count"), said.get("uid")
    if not isinstance(count, int) or isinstance(count, bool) or not 0 < count <= _LARGEST_COUNT:
        return 0, ""
    return (count, uid) if isinstance(uid, str) and uid else (0, "")


def _since_end(pod: Object, now: datetime) -> float | None:
    """Seconds since the pod has ended; None where its status has no time."""
    ages = [found for told in _end_times(pod) for found in (age(str(told), now),) if found is not None]
    return min(ages) if ages else None


def _ran(pod: Object) -> float:
    """Seconds from the kubelet's first look at the pod to its end."""
    anchor = datetime(1970, 1, 1, tzinfo=timezone.utc)
    began = age(str((pod.get("status") or {}).get("startTime") or ""), anchor)
    ends = _since_end(pod, anchor)
    return began - ends if began is not None and ends is not None else 0.0


def _end_times(pod: Object) -> Iterator[Any]:
    """The latest of them is the end: no status has a field for it."""
    status = pod.get("status") or {}
    for key in ("initContainerStatuses", "containerStatuses"):
        for one in status.get(key) or ():
            yield ((one.get("state") or {}).get("terminated") or {}).get("finishedAt")
    for one in status.get("conditions") or ():
        if one.get("type") in _ENDING:
            yield one.get("lastTransitionTime")
    yield status.get("startTime")
    yield pod["metadata"].get("creationTimestamp")
