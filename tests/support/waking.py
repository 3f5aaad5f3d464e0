"""What the scheduler makes of one object that comes, goes or changes, for tests of what wakes a waiting pod.

As berth_scheduler/cluster.py and news.py tell it to the queue.
"""

from __future__ import annotations

from typing import Any

from berth_core.framework.events import (
    ASSIGNED_POD,
    UNSCHEDULED_POD,
    Action,
    Change,
    ClusterEvent,
    Fact,
    node_changes,
    pod_changes,
)
from berth_core.model.node import NodeInfo
from berth_core.model.pod import PodInfo


def changes(kind: str, old: Any, new: Any) -> list[Change]:
    """Return the changes. ``old``, ``new``: the object as the API gives it; None: it was, is not there."""
    before, after = _read(kind, old), _read(kind, new)
    if isinstance(before, PodInfo) and isinstance(after, PodInfo):
        return pod_changes(before, after)
    if isinstance(before, NodeInfo) and isinstance(after, NodeInfo):
        return node_changes(before, after)
    action = Action.ADD if before is None else Action.DELETE if after is None else Action.OTHER_UPDATE
    either = after if after is not None else before
    if isinstance(either, PodInfo):
        kind = ASSIGNED_POD if either.node_name else UNSCHEDULED_POD
    return [Change(ClusterEvent(kind, action), before, after)]


def _read(kind: str, found: Any) -> Fact:
    if found is None:
        return None
    return {"Pod": PodInfo.from_manifest, "Node": NodeInfo.from_object}.get(kind, lambda one: one)(found)
