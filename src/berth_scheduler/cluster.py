"""The API server's objects, by list-watch: as a snapshot for the engine, and as news for whoever keeps the queue.

Read by scheduler and binding. What this process has written counts at once, and an older word of the watch does not
undo it. An object that cannot be read is left out and told once; it hides no other. Writes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, NamedTuple

from berth_core.app import capacity
from berth_core.cluster.snapshot import Snapshot
from berth_core.cluster.workloads import REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET
from berth_core.errors import BerthError, TimeoutExpired
from berth_core.framework.events import Action, Change, ClusterEvent, node_changes
from berth_core.model import resources as kinds
from berth_core.model.node import NodeInfo
from berth_core.model.over_disk import disks_below
from berth_core.model.resources import Resource
from berth_kube import json_fast
from berth_kube.client import KubeClient
from berth_kube.informer import Informer
from berth_kube.store import Key, key_of
from berth_kube.written import Written, is_last

from . import pods
from .slim import SLIM, nodes

_log = logging.getLogger(__name__)

#: Between two looks at what is told of pods. Of a burst many events are there then, and cost one turn of the loop.
LOOK_SECONDS = 0.005

Obj = dict[str, Any]
Tell = Callable[[Change], None]


class Table(NamedTuple):
    """How one kind gets into the snapshot. ``remove`` takes namespace and name; of a kind of the cluster, the name."""

    put: Callable[[Obj], None]
    remove: Callable[..., None]


def _tables(snapshot: Snapshot) -> dict[Resource, Table]:
    work = snapshot.workloads
    tables = {
        kinds.NAMESPACE: Table(snapshot.upsert_namespace, snapshot.remove_namespace),
        kinds.PV: Table(snapshot.upsert_volume, snapshot.remove_volume),
        kinds.PVC: Table(snapshot.upsert_claim, snapshot.remove_claim),
        kinds.STORAGE_CLASS: Table(snapshot.upsert_class, snapshot.remove_class),
        kinds.CSI_NODE: Table(snapshot.upsert_csi_node, snapshot.remove_csi_node),
        kinds.VOLUME_ATTACHMENT: Table(snapshot.upsert_attachment, snapshot.remove_attachment),
        kinds.CSI_DRIVER: Table(snapshot.upsert_csi_driver, snapshot.remove_csi_driver),
        kinds.CSI_STORAGE_CAPACITY: Table(snapshot.upsert_capacity, snapshot.remove_capacity),
        kinds.LOCAL_DISK: Table(snapshot.upsert_disk, snapshot.remove_disk),
        kinds.LOCAL_DEVICE: Table(snapshot.upsert_device, snapshot.remove_device),
        kinds.BERTH: Table(snapshot.upsert_berth, snapshot.remove_berth),
        kinds.POD_DISRUPTION_BUDGET: Table(snapshot.upsert_budget, snapshot.remove_budget),
        kinds.SERVICE: Table(work.upsert_service, work.remove_service),
        kinds.RESOURCE_SLICE: Table(snapshot.upsert_slice, snapshot.dynamic.remove_slice),
        kinds.DEVICE_CLASS: Table(snapshot.upsert_device_class, snapshot.dynamic.remove_class),
        kinds.RESOURCE_CLAIM: Table(snapshot.upsert_resource_claim, snapshot.dynamic.remove_claim),
    }
    for resource, kind in (
        (kinds.REPLICATION_CONTROLLER, REPLICATION_CONTROLLER),
        (kinds.REPLICA_SET, REPLICA_SET),
        (kinds.STATEFUL_SET, STATEFUL_SET),
    ):
        tables[resource] = Table(partial(work.upsert_controller, kind), partial(work.remove_controller, kind))
    return tables


def _nobody(_change: Change) -> None:
    """Before somebody listens."""


#: One for each node and class, which changes with every disk that is locked, and which nobody here would look at.
_LABELS = {kinds.CSI_STORAGE_CAPACITY: capacity.OF_OTHERS}
#: Not served by Kubernetes before 1.34: there are no such claims then.
_OPTIONAL = (kinds.RESOURCE_SLICE, kinds.DEVICE_CLASS, kinds.RESOURCE_CLAIM)


_INDEXERS = {kinds.PV: {"disk": disks_below}}


class Cluster:
    """Made inside a running loop. ``tell`` is called with each change, after the snapshot has it.

    ``only``: the kinds that somebody asks for beside the nodes; None: all, and the pods.
    """

    def __init__(self, client: KubeClient, only: Collection[Resource] | None = None) -> None:
        self.snapshot = Snapshot()
        self.tell: Tell = _nobody
        self._has_pods = only is None or kinds.POD in only
        self._tables = {kind: table for kind, table in _tables(self.snapshot).items() if only is None or kind in only}
        self._informers = {
            kind: Informer(
                client,
                kind,
                labels=_LABELS.get(kind),
                transform=SLIM.get(kind),
                optional=kind in _OPTIONAL,
                indexers=_INDEXERS.get(kind),
            )
            for kind in self._tables
        }
        self.nodes = Informer(client, kinds.NODE, transform=nodes())
        self.pods = Informer(
            client,
            kinds.POD,
            fields=pods.ALIVE,
            transform=pods.reducer(self._known_pod),
            decode=json_fast.decoder(pods.PodEvent),
            decode_list=json_fast.decoder(pods.PodList),
            look_after=LOOK_SECONDS,
            indexers={"group": pods.group_index},
        )
        self._written = Written()
        self._overlays: dict[tuple[Resource, Key], Callable[[Obj], Obj]] = {}
        self._waiters: dict[tuple[Resource, Key], set[asyncio.Event]] = {}
        for kind, informer in self._informers.items():
            self._listen(kind, informer)
        self.nodes.on(lambda node: self._node(None, node), self._node, self._gone, self._fill)

    def _listen(self, kind: Resource, informer: Informer) -> None:
        informer.on(
            lambda item: self._seen(kind, None, item),
            lambda old, new: self._seen(kind, old, new),
            lambda item: self._seen(kind, item, None),
            listed=lambda: self._listed(kind, informer),
            rewound=lambda: self._rewound(kind, informer),
        )

    def _known_pod(self, name: str, namespace: str) -> Obj | None:
        return self.pods.get(name, namespace)

    # -- the life --------------------------------------------------------------------------------------------------

    @property
    def informers(self) -> list[Informer]:
        """Pods last: who is placed is known before who waits."""
        return [self.nodes, *self._informers.values(), *([self.pods] if self._has_pods else ())]

    @property
    def synced(self) -> bool:
        """True once every kind was listed."""
        return all(informer.synced for informer in self.informers)

    async def run(self) -> None:
        """Until cancelled."""
        others = [informer.run() for informer in self.informers if informer is not self.pods]
        await asyncio.gather(*others, *([self._run_pods()] if self._has_pods else ()))

    async def _run_pods(self) -> None:
        """Pods that wait are looked at when everything that decides about them has been listed."""
        await asyncio.gather(*(one.wait_synced() for one in self.informers if one is not self.pods))
        await self.pods.run()

    async def wait_synced(self) -> None:
        """Until `synced`."""
        await asyncio.gather(*(informer.wait_synced() for informer in self.informers))

    # -- what is there ---------------------------------------------------------------------------------------------

    def get(self, kind: Resource, name: str, namespace: str | None = None) -> Obj | None:
        """The object as the watch told it last, or as the API server answered since. Never to be changed."""
        if kind == kinds.NODE:
            return self.nodes.get(name)
        return self._newest(kind, Key(namespace or "", name))

    def _newest(self, kind: Resource, key: Key) -> Obj | None:
        return self._written.newest(kind, key, self._informers[kind].store.get(key))

    def volumes_over(self, disk: str) -> list[Obj]:
        """The volumes of berth's that stand for that LocalDisk, whoever they were made for."""
        told = self._informers[kinds.PV].by_index("disk", disk)
        found = (self._newest(kinds.PV, key_of(one)) for one in told)
        return [one for one in found if one is not None]

    def all(self, kind: Resource) -> list[Obj]:
        """Every object of a kind, as `get` gives it; of pods, what is kept of them."""
        kept = {kinds.NODE: self.nodes, kinds.POD: self.pods}
        return (kept.get(kind) or self._informers[kind]).store.all()

    def hostname(self, node: str) -> str | None:
        """The label kubernetes.io/hostname of a node, or its name; None for one that is not there."""
        found = self.nodes.get(node)
        if found is None:
            return None
        return str((found["metadata"].get("labels") or {}).get("kubernetes.io/hostname") or node)

    def group(self, group: tuple[str, str]) -> list[Obj]:
        """The pods of a group that have not been asked to go, as they were kept."""
        return self.pods.by_index("group", "/".join(group))

    def members(self, group: tuple[str, str]) -> int:
        """How many they are."""
        return len(self.group(group))

    async def until_claim(self, namespace: str, name: str, ready: Callable[[Obj | None], bool], seconds: float) -> None:
        """Until the claim, as `get` gives it, is ``ready``. Raises TimeoutExpired."""
        key = Key(namespace, name)
        await self.until(kinds.PVC, key, lambda _told: ready(self._newest(kinds.PVC, key)), seconds, "was not bound")

    async def until(
        self, kind: Resource, key: Key, ready: Callable[[Obj | None], bool], seconds: float, otherwise: str
    ) -> None:
        """Until an object as the watch told it last is ``ready``. Raises TimeoutExpired, which says ``otherwise``."""
        place, event = (kind, key), asyncio.Event()
        self._waiters.setdefault(place, set()).add(event)
        try:
            async with asyncio.timeout(seconds):
                while not ready(self._informers[kind].store.get(key)):
                    event.clear()
                    await event.wait()
        except TimeoutError:
            raise TimeoutExpired(f"{kind.kind} {key} {otherwise} within {seconds:g} s") from None
        finally:
            self._waiters[place].discard(event)
            if not self._waiters[place]:
                del self._waiters[place]

    # -- the scheduler's own writes --------------------------------------------------------------------------------

    def wrote(self, kind: Resource, item: Obj) -> None:
        """An answer of the API server to an own write: it counts before the watch tells it."""
        informer = self._informers[kind]
        if informer.version.isdigit() and int(informer.version) >= int(item["metadata"]["resourceVersion"]):
            return  # the watch has told as much already, perhaps that it is gone since
        if is_last(item):
            self._over(kind, item)
        elif self._written.put(kind, item):
            self._put(kind, item)

    def heard(self, kind: Resource, before: Obj | None, found: Obj | None) -> None:
        """What the API server says when it is asked. ``before``: what `get` gave before it was."""
        if found is not None:
            self.wrote(kind, found)
        elif before is not None:  # what is there now may be a new one, of which the watch has told since
            self._over(kind, before)

    def _over(self, kind: Resource, item: Obj) -> None:
        """That object is gone, whatever the watch has told."""
        key = key_of(item)
        newest = self._newest(kind, key)
        if newest is None or newest["metadata"]["uid"] == item["metadata"]["uid"]:
            self._written.gone(kind, item)
            self._remove(kind, key_of(item))

    def assume(self, kind: Resource, key: Key, changed: Callable[[Obj], Obj]) -> None:
        """Count an object as if it were written so already, whatever the watch tells of it, until `believe`."""
        self._overlays[kind, key] = changed
        self._put_again(kind, key)

    def believe(self, kind: Resource, key: Key) -> None:
        """What the API server says of the object counts again."""
        if self._overlays.pop((kind, key), None) is not None:
            self._put_again(kind, key)

    def _put_again(self, kind: Resource, key: Key) -> None:
        item = self._newest(kind, key)
        if item is not None:
            self._put(kind, item)

    # -- news ------------------------------------------------------------------------------------------------------

    def _seen(self, kind: Resource, old: Obj | None, new: Obj | None) -> None:
        item = new if new is not None else old
        assert item is not None  # noqa: S101 - an informer tells of something
        place = (kind, key_of(item))
        if new is None:
            self._written.bury(kind, item, self._informers[kind].version)
            if self._informers[kind].store.get(place[1]) is None:  # else that of another of its name, told already
                self._remove(kind, place[1])
        elif self._written.newest(kind, place[1], new) is new:
            self._put(kind, new)
        for event in self._waiters.get(place, ()):
            event.set()
        action = Action.ADD if old is None else Action.DELETE if new is None else Action.OTHER_UPDATE
        self.tell(Change(ClusterEvent(kind.kind, action), old, new))

    def _listed(self, kind: Resource, informer: Informer) -> None:
        """Of what this process wrote, or asked for, the list counts: also for pods that wait."""
        for answer in self._written.listed(kind, informer.store.marks(), informer.version):
            informer.settle(answer)

    def _rewound(self, kind: Resource, informer: Informer) -> None:
        """Answers of a history that is over count no more: what the watch has told does, until the list is told."""
        for key in self._written.rewound(kind):
            self._remove(kind, key)
        for item in informer.all():
            self._put(kind, item)

    def _put(self, kind: Resource, item: Obj) -> None:
        place = (kind, key_of(item))
        known = self.snapshot.unreadable.get((kind.kind, *place[1]))
        try:
            overlay = self._overlays.get(place)
            self._tables[kind].put(item if overlay is None else overlay(item))
            self.snapshot.read_again(kind.kind, *place[1])
        except BerthError as exc:
            self._remove(kind, key_of(item))
            self._leave_out(kind, item, exc, known)

    def _leave_out(self, kind: Resource, item: Obj, problem: BerthError, known: str | None) -> None:
        """``known``: why it was left out before; said once, not with each change of the object."""
        self.snapshot.leave_out(kind.kind, item, problem.message)
        if known != problem.message:
            _log.warning("left out: %s", problem.message)

    def _remove(self, kind: Resource, key: Key) -> None:
        self.snapshot.read_again(kind.kind, *key)
        self._tables[kind].remove(*(key if kind.namespaced else (key.name,)))

    def _node(self, old: Obj | None, new: Obj) -> None:
        known = self.snapshot.unreadable.get((kinds.NODE.kind, *key_of(new)))
        try:
            info = NodeInfo.from_object(new)
        except BerthError as exc:
            self._gone(new)
            self._leave_out(kinds.NODE, new, exc, known)
            return
        self.snapshot.read_again(kinds.NODE.kind, *key_of(new))
        row = self.snapshot.nodes.find(info.name)
        before = None if old is None or row is None else self.snapshot.nodes.infos[row]
        self.snapshot.put_node(info)
        if before is None:
            self.tell(Change(ClusterEvent("Node", Action.ADD), None, info))
            return
        for change in node_changes(before, info):
            self.tell(change)

    def _fill(self, nodes: list[Obj]) -> None:
        """The first list of nodes: the rows of one that is inserted alone move all that stand behind it."""
        infos = []
        for node in nodes:
            try:
                infos.append(NodeInfo.from_object(node))
            except BerthError as exc:
                self._leave_out(kinds.NODE, node, exc, None)
        self.snapshot.fill_nodes(infos)
        for info in infos:
            self.tell(Change(ClusterEvent("Node", Action.ADD), None, info))

    def _gone(self, node: Obj) -> None:
        self.snapshot.remove_node(node["metadata"]["name"])
        self.snapshot.read_again(kinds.NODE.kind, *key_of(node))
        self.tell(Change(ClusterEvent("Node", Action.DELETE), _read_node(node), None))


def _read_node(node: Obj) -> NodeInfo | None:
    try:
        return NodeInfo.from_object(node)
    except BerthError:
        return None
