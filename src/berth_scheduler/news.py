"""What the watches tell: pods that come, change and go, and everything that may help a waiting one.

Made by scheduler.py. Brings the queue, the nominations and what was assumed up to date. Decides nothing.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from berth_core.framework.events import ASSIGNED_POD, UNSCHEDULED_POD, Action, Change, ClusterEvent, pod_changes
from berth_core.model.node import NodeInfo
from berth_core.model.pod import PodInfo
from berth_core.plugins.coscheduling import group_of

from .desk import Desk

Obj = dict[str, Any]
POD_ASSIGNED = ClusterEvent(ASSIGNED_POD, Action.ADD)


class News:
    """Made inside a running loop; listens from then on."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._loop = asyncio.get_running_loop()
        desk.cluster.tell = self.changed
        desk.cluster.pods.on(self.added, self._updated, self._deleted)

    def changed(self, change: Change, up_to: int | None = None) -> None:
        """Something changed that may help a pod; ``up_to``: only those of no higher priority."""
        if isinstance(change.old, NodeInfo) and change.new is None:
            self._node_gone(change.old.name)
        self._desk.queue.changed(change, self._loop.time(), up_to)
        self._desk.wake.set()

    def left(self, info: PodInfo, node: str) -> None:
        """A pod counts on a node no more."""
        self.changed(Change(ClusterEvent(ASSIGNED_POD, Action.DELETE), replace(info, node_name=node), None))

    def _node_gone(self, node: str) -> None:
        """Who waits for room there has none to wait for."""
        for one in self._desk.nominations.on(node):
            pod = self._desk.cluster.pods.get(one.name, one.namespace)
            if pod is None or pod["info"].uid != one.uid:
                self._desk.nominations.forget(one.uid)
            elif self._desk.nominations.decide(pod["info"], ""):
                self._desk.reports.nominated(pod, "")
            self._desk.try_again(one.uid)

    def _nomination_over(self, pod: PodInfo) -> None:
        """The room that a node kept for a pod is free: for pods that had to yield to it."""
        self.changed(Change(ClusterEvent(ASSIGNED_POD, Action.DELETE), pod, None), pod.priority)

    def added(self, pod: Obj) -> None:
        """There is a pod that was not known, or not one of this scheduler's."""
        info: PodInfo = pod["info"]
        if info.node_name:
            self._assigned(info)
        elif pod["scheduler"] in self._desk.profiles:
            if not self._desk.queue.knows(info.uid):  # else more may be decided than its object says
                self._desk.nominations.put(info)
            self._desk.queue.add(info, pod["scheduler"], self._loop.time())
            if group_of(info) is not None:
                self.changed(Change(ClusterEvent(UNSCHEDULED_POD, Action.ADD), None, info))
            self._desk.wake.set()

    def _updated(self, old: Obj, new: Obj) -> None:
        before, info = old["info"], new["info"]
        if before.node_name:
            self._was_assigned(old, new)
        elif info.node_name:
            if info.uid not in self._desk.assumed:  # who is assumed has left both
                self._desk.queue.remove(info.uid)
            self._desk.nominations.forget(info.uid)
            self._assigned(info)
        elif info.uid in self._desk.assumed:
            if info.terminating and not before.terminating:
                self._desk.room.reject(frozenset({info.uid}), "", "the pod is being deleted")
        elif new["scheduler"] in self._desk.profiles and before != info:
            self._desk.nominations.update(before, info)
            self._desk.queue.update(info, new["scheduler"], self._loop.time())
            if before.preemption.nominated and before.preemption.nominated != info.preemption.nominated:
                self._nomination_over(before)
            self._desk.wake.set()

    def _was_assigned(self, old: Obj, new: Obj) -> None:
        """A pod on a node changes. One that is on none any more waits again: etcd was restored from a backup."""
        before, info = old["info"], new["info"]
        if not info.node_name:
            self._deleted(old)
            self.added(new)
        elif before != info:
            self._desk.cluster.snapshot.put_pod(info)
            for change in pod_changes(before, info):
                self.changed(change)

    def _deleted(self, pod: Obj) -> None:
        info: PodInfo = pod["info"]
        self._desk.queue.remove(info.uid)
        self._desk.nominations.forget(info.uid)
        flight = self._desk.assumed.get(info.uid)
        if flight is not None:
            self._desk.room.reject(frozenset({info.uid}), "", "the pod is deleted")
            self._desk.assumed.end(flight)
            info = replace(info, node_name=flight.node)
        if info.node_name:
            self._desk.cluster.snapshot.remove_pod(info.namespace, info.name)
            self.changed(Change(ClusterEvent(ASSIGNED_POD, Action.DELETE), info, None))
        elif info.preemption.nominated and pod["scheduler"] in self._desk.profiles:
            self._nomination_over(info)

    def _assigned(self, info: PodInfo) -> None:
        """A pod is on a node: what was assumed of it is confirmed, or was wrong."""
        self._desk.cluster.snapshot.put_pod(info)
        flight = self._desk.assumed.get(info.uid)
        if flight is not None:
            self._desk.assumed.end(flight)
        self.changed(Change(POD_ASSIGNED, None, info))
