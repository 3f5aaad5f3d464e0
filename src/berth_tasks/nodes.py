"""What nodes have, and what pods that are no task's use of it: two informers, reduced to sums."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable
from typing import Any, NamedTuple

from berth_core.app.overview import LIVING
from berth_core.model import times
from berth_core.model.fields import mapping, string_map
from berth_core.model.pod import PodInfo
from berth_core.model.requests import PODS, amount, resource_list
from berth_core.model.resources import NODE, POD
from berth_core.model.taint import Taint, parse_taints
from berth_core.tasks.filler import may_run
from berth_core.tasks.filler_room import Node
from berth_core.tasks.offers import Free
from berth_core.tasks.task import UID_LABEL
from berth_kube.client import KubeClient
from berth_kube.clocks import utc_now
from berth_kube.informer import Informer

Obj = dict[str, Any]
#: What a pod requests counts as used for so many seconds after its start: what it really uses is not measured before.
ARRIVES = 60.0


class Arrival(NamedTuple):
    """A pod that is too new to be measured."""

    at: dt.datetime
    node: str
    uses: Free


class Nodes:
    """``changed`` is called when there may be more room than before; ``arrived`` when a pod has come to a node."""

    def __init__(self, client: KubeClient, changed: Callable[[], None]) -> None:
        self._nodes = Informer(client, NODE, transform=_node)
        self._pods = Informer(client, POD, labels=f"!{UID_LABEL}", fields=LIVING, transform=_pod)
        self._used: dict[str, Free] = {}
        self._arrivals: dict[str, Arrival] = {}
        self._changed = changed
        self.arrived: Callable[[], None] = lambda: None
        self._nodes.on(lambda _new: changed(), self._node, lambda _old: changed())
        self._pods.on(
            lambda new: self._count(new, 1), self._pod_changed, lambda old: self._count(old, -1),
        )  # fmt: skip

    async def run(self) -> None:
        """Until cancelled."""
        await asyncio.gather(self._nodes.run(), self._pods.run())

    async def wait_synced(self) -> None:
        """Until both kinds were listed."""
        await asyncio.gather(self._nodes.wait_synced(), self._pods.wait_synced())

    def whole(self) -> dict[str, Free]:
        """What each node has in all, those that take no pods left out."""
        return {node["metadata"]["name"]: node["has"] for node in self._nodes.all() if node["takes"]}

    def free(self) -> dict[str, Free]:
        """The same, less what pods that are no task's use."""
        found = {name: dict(has) for name, has in self.whole().items()}
        for name, free in found.items():
            for resource, value in self._used.get(name, {}).items():
                free[resource] = free.get(resource, 0) - value
        return found

    def filled(self) -> dict[str, Node]:
        """What filler tasks have to know of each node, those that take no pods among them."""
        now = utc_now()
        arrivals = {uid: one for uid, one in self._arrivals.items() if (now - one.at).total_seconds() < ARRIVES}
        self._arrivals = arrivals
        arriving: dict[str, Free] = {}
        for one in arrivals.values():
            sums = arriving.setdefault(one.node, {})
            for name, value in one.uses.items():
                sums[name] = sums.get(name, 0) + value
        found = {}
        for node in self._nodes.all():
            name = node["metadata"]["name"]
            pods = self._used.get(name, {}).get(PODS, 0)
            found[name] = Node(node["has"], pods, arriving.get(name, {}), node["takes"])
        return found

    def ways(self, pod: PodInfo) -> frozenset[str]:
        """The nodes whose labels and taints let a pod in that is sent there."""
        listed = ((node["metadata"]["name"], node) for node in self._nodes.all() if node["takes"])
        return frozenset(name for name, node in listed if may_run(pod, name, node["labels"], node["taints"]))

    def _node(self, old: Obj, new: Obj) -> None:
        if any(old[each] != new[each] for each in ("has", "takes", "labels", "taints")):
            self._changed()

    def _pod_changed(self, old: Obj, new: Obj) -> None:
        if (old["node"], old["uses"]) != (new["node"], new["uses"]):
            self._count(old, -1)
            self._count(new, 1)

    def _count(self, pod: Obj, sign: int) -> None:
        if pod["node"]:
            sums = self._used.setdefault(pod["node"], {})
            for name, value in pod["uses"].items():
                sums[name] = sums.get(name, 0) + sign * value
            if sign < 0:
                self._arrivals.pop(pod["metadata"]["uid"], None)
                self._changed()
            elif (times.age(pod["since"], utc_now()) or 0.0) < ARRIVES:
                self._arrivals[pod["metadata"]["uid"]] = Arrival(utc_now(), pod["node"], pod["uses"])
                self.arrived()


def _bare(item: Obj) -> Obj:
    return {key: item["metadata"].get(key) for key in ("name", "namespace", "uid", "resourceVersion")}


def _node(node: Obj) -> Obj:
    status = mapping(node, "status")
    has = resource_list(status, "allocatable" if status.get("allocatable") else "capacity", "status.allocatable")
    ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in status.get("conditions") or ())
    takes = ready and not mapping(node, "spec").get("unschedulable")
    spec, meta = mapping(node, "spec"), mapping(node, "metadata")
    taints: tuple[Taint, ...] = parse_taints(spec, "spec.taints")
    return {
        "metadata": _bare(node),
        "has": {key: amount(key, value) for key, value in has.items()},
        "takes": takes,
        "labels": string_map(meta, "labels"),
        "taints": taints,
    }


def _pod(pod: Obj) -> Obj:
    info = PodInfo.from_manifest(pod)
    since = str(mapping(pod, "status").get("startTime") or "")
    return {"metadata": _bare(pod), "node": info.node_name, "uses": {**dict(info.requests), PODS: 1}, "since": since}
