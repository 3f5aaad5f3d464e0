# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting for objects by watching them: as fast as the cluster, and with the cause when the time is over.

Called by the flow; the conditions are pure functions from what was last seen to what is still missing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ...berth_core.app.not_ready import why_not_ready
from ...berth_core.app.observed import ended, ready
from ...berth_core.errors import TimeoutExpired
from ...berth_core.model.resources import Resource
from ..client import ApiClient

Objects = dict[str, dict[str, Any]]
#: From what is seen (by name) to what is still missing, a line each.
Missing = Callable[[Objects], Sequence[str]]


def until(
    client: ApiClient,
    resource: Resource,
    namespace: str | None,
    labels: str | None,
    seconds: float,
    missing: Missing,
    goal: str,
    progress: Callable[[str], None],
    again: Callable[[], float | None] = lambda: None,
) -> Objects:
    """Watch the objects until nothing is missing. Raises TimeoutExpired with what was still missing.

    ``progress`` is told what is missing when the wait begins, and each other reason as soon as it is seen. ``again``:
    the seconds after which time alone may have brought it, asked for after each look.
    """
    deadline = time.monotonic() + seconds
    told: Sequence[str] = ()
    while True:
        items, version = client.list_with_version(resource, namespace, labels=labels)
        seen = {item["metadata"]["name"]: item for item in items}
        left = missing(seen)
        if not left:
            return seen
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            break
        told = _tell(progress, goal, left, told)
        pause = min(remaining, again() or remaining)
        look = time.monotonic() + pause
        for event in client.watch(resource, version, pause, namespace, labels):
            if event.get("type") not in ("ADDED", "MODIFIED", "DELETED"):
                break  # an ERROR event (410 Gone) or a bookmark that nobody asked for: list again
            _take(seen, event)
            left = missing(seen)
            if not left:
                return seen
            told = _tell(progress, goal, left, told)
            sooner = again()
            if time.monotonic() >= deadline or (sooner is not None and time.monotonic() + sooner < look):
                break  # no event may come when that time is over: the stream would sleep through it
        else:
            time.sleep(min(0.2, max(0.0, deadline - time.monotonic())))  # the stream ended by itself: no busy loop
    raise TimeoutExpired(
        f"waited {seconds:g} s for {goal}; still missing: {'; '.join(left)}", missing=list(left), changed=True
    )


def _tell(progress: Callable[[str], None], goal: str, left: Sequence[str], told: Sequence[str]) -> Sequence[str]:
    """What was not missing before, or not for that reason; what is told now."""
    new = [line for line in left if line not in told]
    if new:
        progress(f"waiting for {goal}: {'; '.join(new)}")
    return left


def _take(seen: Objects, event: Mapping[str, Any]) -> None:
    name = event["object"]["metadata"]["name"]
    if event["type"] == "DELETED":
        seen.pop(name, None)
    else:
        seen[name] = event["object"]


def pods_ready(names: Sequence[str]) -> Missing:
    """Missing: every named pod that is not Ready, with the reason that the cluster gives. Where one of that name has
    ended meanwhile, that too: a workload makes it anew at once, as often as a node refuses it."""
    ends: dict[str, str] = {}

    def missing(seen: Objects) -> list[str]:
        ends.update({name: ended(seen.get(name)) for name in names if ended(seen.get(name))})
        waits = [name for name in names if not ready(seen.get(name))]
        return [f"pod {name} {why_not_ready(seen.get(name))}{_before(ends.get(name))}" for name in waits]

    return missing


def _before(end: str | None) -> str:
    return f" (one of that name has ended: {end})" if end else ""


def pods_gone(names: Sequence[str]) -> Missing:
    def missing(seen: Objects) -> list[str]:
        return [
            f"pod {name} is still there ({_where(seen[name])}); its locks are kept" for name in names if name in seen
        ]

    return missing


def objects_gone(kind: str, names: Sequence[str]) -> Missing:
    def missing(seen: Objects) -> list[str]:
        return [
            f"{kind} {name} is still there (finalizers "
            f"{', '.join(seen[name]['metadata'].get('finalizers') or ['none'])})"
            for name in names
            if name in seen
        ]

    return missing


def _where(pod: Mapping[str, Any]) -> str:
    status = (
        "terminating" if pod["metadata"].get("deletionTimestamp") else (pod.get("status") or {}).get("phase", "Unknown")
    )
    return f"{status} on node {pod['spec'].get('nodeName') or 'none'}"
