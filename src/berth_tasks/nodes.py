"""What nodes have, and what pods that are no task's, and berths, take of it: three informers, reduced to sums."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from berth_core.model import times
from berth_core.model.berth import CLAIM_APP, BerthRecord
from berth_core.model.fields import mapping, string_map
from berth_core.model.pod import PodInfo
from berth_core.model.requests import PODS, amount, resource_list
from berth_core.model.resources import BERTH, LIVING, NODE, POD
from berth_core.model.taint import Taint, parse_taints
from berth_core.tasks import taken
from berth_core.tasks.filler import may_run
from berth_core.tasks.filler_room import Node
from berth_core.tasks.offers import Free
from berth_core.tasks.taken import Taken, Takes
from berth_core.tasks.task import UID_LABEL
from berth_kube.client import KubeClient
from berth_kube.clocks import boot_clock, utc_now
from berth_kube.informer import Informer

Obj = dict[str, Any]
#: What a pod requests counts as used for so many seconds after its start: what it really uses is not measured before.
ARRIVES = 60.0


class Arrival(NamedTuple):
    """A pod that is too new to be measured. ``until``: on a clock that nobody can set."""

    until: float
    node: str
    uses: Free


class Nodes:
    """``changed`` is called when there may be more room than before; ``arrived`` when a pod has come to a node."""

    def __init__(self, client: KubeClient, changed: Callable[[], None]) -> None:
        self._nodes = Informer(client, NODE, transform=_node)
        self._pods = Informer(client, POD, labels=f"!{UID_LABEL}", fields=LIVING, transform=_pod)
        self._berths = Informer(client, BERTH, transform=_berth, optional=True)
        self._taken = Taken()
        self._arrivals: dict[str, Arrival] = {}
        self._changed = changed
        self.arrived: Callable[[], None] = lambda: None
        #: Called with the name of a node that is Ready now, or is so no more.
        self.readiness: Callable[[str], None] = lambda _node: None
        self._nodes.on(lambda _new: changed(), self._node, lambda _old: changed())
        self._pods.on(self._pod_is, self._pod_changed, self._pod_went)
        self._berths.on(self._berth_is, self._berth_changed, self._berth_went)

    async def run(self) -> None:
        """Until cancelled."""
        await asyncio.gather(self._nodes.run(), self._pods.run(), self._berths.run())

    async def wait_synced(self) -> None:
        """Until all kinds were listed."""
        await asyncio.gather(*(each.wait_synced() for each in (self._nodes, self._pods, self._berths)))

    def silent(self, name: str) -> bool:
        """Whether the Node is there, and is not Ready: nobody knows then what runs on it."""
        node = self._nodes.get(name)
        return node is not None and not node["ready"]

    def whole(self) -> dict[str, Free]:
        """What each node has in all, those that take no pods left out."""
        return {node["metadata"]["name"]: node["has"] for node in self._nodes.all() if node["takes"]}

    def free(self) -> dict[str, Free]:
        """The same, less what pods that are no task's, and berths, take."""
        found = {name: dict(has) for name, has in self.whole().items()}
        for name, free in found.items():
            for resource, value in self._taken.on(name).items():
                free[resource] = free.get(resource, 0) - value
        return found

    def filled(self) -> dict[str, Node]:
        """What filler tasks have to know of each node, those that take no pods among them."""
        now = boot_clock()
        arrivals = {uid: one for uid, one in self._arrivals.items() if now < one.until}
        self._arrivals = arrivals
        arriving: dict[str, Free] = {}
        for one in arrivals.values():
            sums = arriving.setdefault(one.node, {})
            for name, value in one.uses.items():
                sums[name] = sums.get(name, 0) + value
        found = {}
        for node in self._nodes.all():
            name = node["metadata"]["name"]
            pods = self._taken.on(name).get(PODS, 0)
            found[name] = Node(node["has"], pods, arriving.get(name, {}), node["takes"])
        return found

    def ways(self, pod: PodInfo) -> frozenset[str]:
        """The nodes whose labels and taints let a pod in that is sent there."""
        listed = ((node["metadata"]["name"], node) for node in self._nodes.all() if node["takes"])
        return frozenset(name for name, node in listed if may_run(pod, name, node["labels"], node["taints"]))

    def _node(self, old: Obj, new: Obj) -> None:
        if any(old[each] != new[each] for each in ("has", "takes", "labels", "taints")):
            self._changed()
        if old["ready"] != new["ready"]:
            self.readiness(new["metadata"]["name"])

    # -- pods and berths ---------------------------------------------------------------------------------------------

    def _pod_changed(self, old: Obj, new: Obj) -> None:
        if any(old[each] != new[each] for each in ("node", "nominated", "uses")):
            self._pod_is(new)

    def _pod_is(self, pod: Obj) -> None:
        node, uid = pod["node"], pod["metadata"]["uid"]
        self._put(pod, taken.POD, node, pod["uses"])
        self._put(pod, taken.NOMINATED, pod["nominated"], pod["uses"])
        age = times.age(pod["since"], utc_now()) or 0.0
        if not node:
            self._arrivals.pop(uid, None)
        elif age < ARRIVES:
            self._arrivals[uid] = Arrival(boot_clock() + ARRIVES - max(0.0, age), node, pod["uses"])
            self.arrived()

    def _pod_went(self, pod: Obj) -> None:
        self._arrivals.pop(pod["metadata"]["uid"], None)
        for source in (taken.POD, taken.NOMINATED):
            self._put(pod, source, "", {})

    def _berth_changed(self, old: Obj, new: Obj) -> None:
        if old["replica"] != new["replica"]:
            self._berth_went(old)
        self._berth_is(new)

    def _berth_is(self, berth: Obj) -> None:
        self._put(berth, taken.BERTH, berth["node"], berth["uses"])

    def _berth_went(self, berth: Obj) -> None:
        self._put(berth, taken.BERTH, "", {})

    def _put(self, whose: Obj, source: int, node: str, uses: Free) -> None:
        if self._taken.put(whose["replica"], source, Takes(node, uses) if node else None):
            self._changed()


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
        "ready": ready,
        "takes": takes,
        "labels": string_map(meta, "labels"),
        "taints": taints,
    }


def _pod(pod: Obj) -> Obj:
    info = PodInfo.from_manifest(pod)
    return {
        "metadata": _bare(pod),
        "replica": (info.namespace, info.name),
        "node": info.node_name,
        "nominated": info.preemption.nominated,
        "uses": {**dict(info.requests), PODS: 1},
        "since": str(mapping(pod, "status").get("startTime") or ""),
    }


def _berth(berth: Obj) -> Obj:
    """The room that is kept for its pod until that has a node; a claim's keeps none for a pod."""
    record = BerthRecord.from_object(berth)
    uses = {**dict(record.requests), PODS: int(not record.app.startswith(CLAIM_APP))}
    return {"metadata": _bare(berth), "replica": record.replica, "node": record.node_name, "uses": uses}
