# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster as tables, at one moment, and the changes that carry it to the next.

Built by front ends from API objects (`Snapshot.from_objects`), kept up to date by the daemon's watches, read by the
framework and its plugins. Never talks to anybody. Each change stamps the rows it touches with a new `generation`, so
that verdicts on all other rows can be kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from functools import partial
from typing import Any, Callable

from ..errors import BerthError, InputError
from ..model.attachable import Attachment, CsiNode
from ..model.berth import BerthRecord, replica_of
from ..model.csi_capacity import CapacityInfo, DriverInfo
from ..model.device import LocalDevice
from ..model.disk import LocalDisk
from ..model.fields import Object, metadata
from ..model.labels import LabelSelector
from ..model.node import NodeInfo
from ..model.placement import Holder, Placement, PlacementRequest
from ..model.pod import PodInfo
from ..model.pod_affinity import PodMatch
from ..model.preemption import DisruptionBudget, VictimFacts
from ..model.resource_claim import DeviceClassInfo, ResourceClaimInfo
from ..model.resource_slice import SliceInfo
from ..model.tenant import UNKNOWN, Tenant
from ..model.volume import ClaimInfo, ClassInfo, VolumeInfo
from .brought import Brought
from .columns import IntColumn, np, require_numpy
from .counts import Counts
from .devices import DeviceTable
from .disks import DiskTable, owner_of
from .dynamic import DynamicTable
from .journal import Journal
from .labels import LabelColumns
from .nodes import NodeTable
from .occupants import ASSUMED, BERTH, POD, Key, Occupant, Occupants, of_berth, of_pod, of_unreadable
from .pod_terms import PodTerms
from .tally import Tally
from .trial import Trial
from .volume_uses import VolumeUses
from .volumes import VolumeTable
from .workloads import REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET, WorkloadTable

A_FEW = 64
"""Changes of rows that are looked up one by one: with more, comparing the generations of all rows is quicker."""
Objects = Iterable[Object]
Place = tuple[str, str, str]
"""Kind, namespace ("" for those of the cluster) and name of an object."""
#: The arguments of Snapshot.from_objects, by the kinds that decide about a pod.
PARTS: Mapping[str, str] = {
    "Node": "nodes",
    "Pod": "pods",
    "LocalDisk": "disks",
    "LocalDevice": "devices",
    "Berth": "berths",
    "PersistentVolume": "pvs",
    "PersistentVolumeClaim": "pvcs",
    "StorageClass": "storage_classes",
    "Namespace": "namespaces",
    "CSINode": "csi_nodes",
    "VolumeAttachment": "attachments",
    "CSIDriver": "csi_drivers",
    "CSIStorageCapacity": "capacities",
    "Service": "services",
    "ReplicationController": "replication_controllers",
    "ReplicaSet": "replica_sets",
    "StatefulSet": "stateful_sets",
    "PodDisruptionBudget": "budgets",
    "ResourceSlice": "slices",
    "DeviceClass": "device_classes",
    "ResourceClaim": "resource_claims",
}


class Snapshot:
    """The tables. Everything public is for reading; change it through the methods only.

    `generation` grows with every change; `layout_generation` when rows move; `topology_generation` when something
    changes that may matter to other nodes' verdicts (replicas, labels, taints); `node_generation` with a change of a
    node object; `volume_generation` with every change of storage objects but capacity; `namespace_generation` with one
    of a namespace's labels; `budget_generation` with one of a PodDisruptionBudget.
    """

    def __init__(self) -> None:
        require_numpy()
        self.nodes = NodeTable()
        self.disks = DiskTable()
        self.devices = DeviceTable()
        self.volumes = VolumeTable()
        self.dynamic = DynamicTable()
        self.workloads = WorkloadTable()
        """Services and controllers: they move nothing, so they are written directly."""
        self.namespaces: dict[str, dict[str, str]] = {}
        self._tenants: dict[str, Tenant] = {}
        self.berths: dict[Key, BerthRecord] = {}
        self.budgets: dict[Key, DisruptionBudget] = {}
        self.unreadable: dict[Place, str] = {}
        """What could not be read and is left out, and why."""
        self.generation = 1
        self.layout_generation = 1
        self.topology_generation = 1
        self.node_generation = 1
        self.volume_generation = 1
        self.namespace_generation = 1
        self.budget_generation = 1
        self.victim_changes: Counter[str] = Counter()
        """By node: changes of pods there that matter to nobody but who looks for victims."""
        self.memo: dict[Hashable, Any] = {}
        """Verdicts that the framework keeps from one request to the next. The snapshot never looks inside."""
        self.journal = Journal()
        self._occupants = Occupants()
        self._tally = Tally(self.nodes)
        self._berth_pods: dict[Key, Key] = {}
        self._pods: dict[Key, PodInfo] = {}
        self._assumed: dict[Holder, tuple[Key, Placement]] = {}
        self._brought = Brought()

    @classmethod
    def from_objects(
        cls,
        nodes: Objects = (),
        pods: Objects = (),
        disks: Objects = (),
        devices: Objects = (),
        berths: Objects = (),
        pvs: Objects = (),
        pvcs: Objects = (),
        storage_classes: Objects = (),
        namespaces: Objects = (),
        csi_nodes: Objects = (),
        attachments: Objects = (),
        csi_drivers: Objects = (),
        capacities: Objects = (),
        services: Objects = (),
        replication_controllers: Objects = (),
        replica_sets: Objects = (),
        stateful_sets: Objects = (),
        budgets: Objects = (),
        slices: Objects = (),
        device_classes: Objects = (),
        resource_claims: Objects = (),
    ) -> Snapshot:
        """Build a snapshot from objects as the API gives them. What cannot be read is left out and named."""
        snapshot = cls()
        infos = (snapshot._read("Node", NodeInfo.from_object, one) for one in nodes)
        snapshot.nodes.fill(info for info in infos if info is not None)
        workloads = snapshot.workloads
        changes = (
            ("Pod", snapshot.upsert_pod, pods),
            ("LocalDisk", snapshot.upsert_disk, disks),
            ("LocalDevice", snapshot.upsert_device, devices),
            ("Berth", snapshot.upsert_berth, berths),
            ("PersistentVolume", snapshot.upsert_volume, pvs),
            ("PersistentVolumeClaim", snapshot.upsert_claim, pvcs),
            ("StorageClass", snapshot.upsert_class, storage_classes),
            ("Namespace", snapshot.upsert_namespace, namespaces),
            ("CSINode", snapshot.upsert_csi_node, csi_nodes),
            ("VolumeAttachment", snapshot.upsert_attachment, attachments),
            ("CSIDriver", snapshot.upsert_csi_driver, csi_drivers),
            ("CSIStorageCapacity", snapshot.upsert_capacity, capacities),
            ("Service", workloads.upsert_service, services),
            ("PodDisruptionBudget", snapshot.upsert_budget, budgets),
            ("ResourceSlice", snapshot.upsert_slice, slices),
            ("DeviceClass", snapshot.upsert_device_class, device_classes),
            ("ResourceClaim", snapshot.upsert_resource_claim, resource_claims),
            (
                "ReplicationController",
                partial(workloads.upsert_controller, REPLICATION_CONTROLLER),
                replication_controllers,
            ),
            ("ReplicaSet", partial(workloads.upsert_controller, REPLICA_SET), replica_sets),
            ("StatefulSet", partial(workloads.upsert_controller, STATEFUL_SET), stateful_sets),
        )
        for kind, upsert, listed in changes:
            for one in listed:
                snapshot._read(kind, upsert, one)
        return snapshot

    # -- what cannot be read

    def leave_out(self, kind: str, unreadable: Object, why: str) -> None:
        """Name an object that cannot be read. It offers nothing; a pod or berth takes all that its node has."""
        namespace, name = metadata(unreadable, kind)
        self.unreadable[kind, namespace, name] = why
        node, app = _text(unreadable, "spec", "nodeName"), _text(unreadable, "spec", "app")
        occupant = of_unreadable(namespace, node) if node else None
        if kind == "Pod":
            self._put((namespace, name), POD, occupant)
        if kind == "Berth":
            self.remove_berth(namespace, name)
            pod_key = replica_of(namespace, name, app, _text(unreadable, "status", "podName"))
            self._berth_pods[namespace, name] = pod_key
            self._put(pod_key, BERTH, occupant)

    def problems(self) -> list[str]:
        """Return why each object was left out, by kind and name: for people, and empty in a sound cluster."""
        return [self.unreadable[place] for place in sorted(self.unreadable)]

    def refuse_unreadable(self) -> None:
        """For objects that a user wrote: raise InputError with what is wrong with the first that was left out."""
        if self.unreadable:
            raise InputError(self.problems()[0])

    def read_again(self, kind: str, namespace: str, name: str) -> None:
        """Forget that an object could not be read: it was read since, or is gone."""
        if self.unreadable:
            self.unreadable.pop((kind, namespace, name), None)

    def _read(self, kind: str, read: Callable[[Object], Any], one: Object) -> Any:
        """Return what ``read`` does; None for an object that is left out."""
        try:
            return read(one)
        except BerthError as exc:
            self.leave_out(kind, one, exc.message)
            return None

    # -- nodes

    def upsert_node(self, node: Object) -> None:
        """Add a node, or write its new facts."""
        self.put_node(NodeInfo.from_object(node))

    def put_node(self, info: NodeInfo) -> None:
        """Add a node that was read already, or write its new facts."""
        row = self.nodes.find(info.name)
        if row is None:
            row = self.nodes.insert(info)
            self._moved()
            for occupant in self._occupants.on_node(info.name):
                self._tally.add(occupant, 1)
        else:
            old = self.nodes.infos[row]
            if old == info:
                return
            self.nodes.replace(row, info)
            if (old.labels, old.taints) != (info.labels, info.taints):
                self.topology_generation += 1
                self._tally.forget_domains()
        self._dirty_row(row)
        self.node_generation = self.generation
        self.nodes.described[row] = self.generation

    def fill_nodes(self, infos: Iterable[NodeInfo]) -> None:
        """Take all nodes at once that were read already. There are none yet."""
        self.nodes.fill(infos)
        self._moved()
        for name in self.nodes.names:
            for occupant in self._occupants.on_node(name):
                self._tally.add(occupant, 1)
        self.node_generation = self.generation
        self.nodes.generation[:] = self.nodes.described[:] = self.generation

    def remove_node(self, name: str) -> None:
        """Take a node out. What runs on it is remembered, in case the node comes back."""
        if name not in self.nodes.row_of:
            return
        for occupant in self._occupants.on_node(name):
            self._tally.add(occupant, -1)
        self.nodes.delete(name)
        self._moved()

    def _moved(self) -> None:
        self.generation += 1
        self.layout_generation += 1
        self.topology_generation += 1
        self.journal.forget(self.generation)
        self._tally.forget_layout()

    def _dirty(self, node_name: str) -> None:
        row = self.nodes.row_of.get(node_name)
        if row is not None:
            self._dirty_row(row)
        else:
            self.generation += 1

    def _dirty_row(self, row: int) -> None:
        self.generation += 1
        self.nodes.generation[row] = self.generation
        self.journal.note(self.generation, row)

    def changed_since(self, generation: int) -> IntColumn:
        """Return the rows that changed after a generation, ascending."""
        known = self.journal.since(generation, A_FEW)
        if known is not None:
            return np.array(known, dtype=np.int64)
        rows: IntColumn = (self.nodes.generation > generation).nonzero()[0]
        return rows

    # -- replicas

    def upsert_pod(self, pod: Object) -> None:
        """Add a pod, or write its new facts."""
        self.put_pod(PodInfo.from_manifest(pod))

    def put_pod(self, info: PodInfo) -> None:
        """Add a pod that was read already, or write its new facts."""
        key = (info.namespace, info.name)
        old = self._pods.get(key)
        self._pods[key] = info
        if old is None or old.victim_facts != info.victim_facts:
            self.victim_changes[info.node_name] += 1
        self._put(key, POD, of_pod(info))

    def remove_pod(self, namespace: str, name: str) -> None:
        """Take a pod out."""
        self._pods.pop((namespace, name), None)
        self._put((namespace, name), POD, None)

    def upsert_berth(self, berth: Object) -> None:
        """Add a berth, or write its new facts."""
        record = BerthRecord.from_object(berth)
        key, pod_key = (record.namespace, record.name), record.replica
        old = self.berths.get(key)
        self.berths[key] = record
        if old is not None and old.replica == pod_key and old.kept_facts == record.kept_facts:
            return  # its status has changed, which takes nothing
        self.remove_berth(*key)
        self.berths[key] = record
        self._berth_pods[key] = pod_key
        self._put(pod_key, BERTH, of_berth(record))

    def remove_berth(self, namespace: str, name: str) -> None:
        """Take a berth out."""
        self.berths.pop((namespace, name), None)
        pod_key = self._berth_pods.pop((namespace, name), None)
        if pod_key is not None:
            self._put(pod_key, BERTH, None)

    def _put(self, key: Key, source: int, occupant: Occupant | None) -> None:
        before, after = self._occupants.put(key, source, occupant)
        if before is after:
            if after is not None:  # perhaps another source: who has a berth is no victim
                self.victim_changes[after.node_name] += 1
            return
        if source == POD and before is not None and after is not None and before.node_name == after.node_name:
            self._brought.learn(before, after, self._labels_of(after.node_name))
        rows = self.nodes.row_of
        for one, sign in ((before, -1), (after, 1)):
            if one is not None and one.node_name in rows:
                self._tally.add(one, sign)
                self._dirty_row(rows[one.node_name])
        self.topology_generation += 1

    def _labels_of(self, node_name: str) -> Mapping[str, str]:
        row = self.nodes.row_of.get(node_name)
        return {} if row is None else self.labels.of(row)

    def upsert_budget(self, budget: Object) -> None:
        """Add a PodDisruptionBudget, or write its new facts."""
        found = DisruptionBudget.from_object(budget)
        self.budgets[found.namespace, found.name] = found
        self.budget_generation += 1

    def remove_budget(self, namespace: str, name: str) -> None:
        """Take a PodDisruptionBudget out."""
        self.budgets.pop((namespace, name), None)
        self.budget_generation += 1

    def set_aside(self, namespace: str, name: str) -> Occupant | None:
        """Let a berth not count, while its own pod is placed: what is kept for the pod is no obstacle to it."""
        pod_key = self._berth_pods.get((namespace, name))
        found = None if pod_key is None else self._occupants.get(pod_key, BERTH)
        if pod_key is not None and found is not None:
            self._put(pod_key, BERTH, None)
        return found

    def put_back(self, namespace: str, name: str, kept: Occupant | None) -> None:
        """Let a berth count again. `kept`: what `set_aside` returned."""
        pod_key = self._berth_pods.get((namespace, name))
        if pod_key is not None and kept is not None:
            self._put(pod_key, BERTH, kept)

    # -- disks and devices

    def upsert_disk(self, disk: Object) -> None:
        """Add a LocalDisk, or write its new facts."""
        record = LocalDisk.from_object(disk)
        slot = self.disks.slot_of.get(record.name)
        old = None if slot is None else self.disks.disks[slot]
        self.disks.upsert(record)
        if old is not None and old.node_name != record.node_name:
            self._dirty(old.node_name)
        self._dirty(record.node_name)

    def remove_disk(self, name: str) -> None:
        """Take a LocalDisk out."""
        old = self.disks.remove(name)
        if old is not None:
            self._dirty(old.node_name)

    def upsert_device(self, device: Object) -> None:
        """Add a LocalDevice, or write its new facts."""
        record = LocalDevice.from_object(device)
        old = self.devices.upsert(record)
        if old is not None and old.node_name != record.node_name:
            self._dirty(old.node_name)
        self._dirty(record.node_name)

    def remove_device(self, name: str) -> None:
        """Take a LocalDevice out."""
        old = self.devices.remove(name)
        if old is not None:
            self._dirty(old.node_name)

    # -- dynamic resource allocation: it moves nothing

    def upsert_slice(self, resource_slice: Object) -> None:
        """Add a ResourceSlice, or write its new facts."""
        self.dynamic.put_slice(SliceInfo.from_object(resource_slice))

    def upsert_device_class(self, device_class: Object) -> None:
        """Add a DeviceClass, or write its new facts."""
        self.dynamic.put_class(DeviceClassInfo.from_object(device_class))

    def upsert_resource_claim(self, claim: Object) -> None:
        """Add a ResourceClaim, or write its new facts."""
        self.dynamic.put_claim(ResourceClaimInfo.from_object(claim))

    # -- storage objects

    def upsert_volume(self, volume: Object) -> None:
        """Add a PersistentVolume, or write its new facts."""
        info = VolumeInfo.from_object(volume)
        self.volumes.volumes[info.name] = info
        self._covered(info.name, info.local_disk)
        self._storage_changed()

    def remove_volume(self, name: str) -> None:
        """Take a PersistentVolume out."""
        self.volumes.volumes.pop(name, None)
        self._covered(name, "")
        self._storage_changed()

    def _covered(self, volume: str, disk: str) -> None:
        for node in self.disks.cover(volume, disk):
            self._dirty(node)

    def upsert_claim(self, claim: Object) -> None:
        """Add a PersistentVolumeClaim, or write its new facts."""
        info = ClaimInfo.from_object(claim)
        self.volumes.claims[info.namespace, info.name] = info
        self._storage_changed()

    def remove_claim(self, namespace: str, name: str) -> None:
        """Take a PersistentVolumeClaim out."""
        self.volumes.claims.pop((namespace, name), None)
        self._storage_changed()

    def upsert_class(self, storage_class: Object) -> None:
        """Add a StorageClass, or write its new facts."""
        info = ClassInfo.from_object(storage_class)
        self.volumes.classes[info.name] = info
        self._storage_changed()

    def remove_class(self, name: str) -> None:
        """Take a StorageClass out."""
        self.volumes.classes.pop(name, None)
        self._storage_changed()

    def upsert_csi_node(self, csi_node: Object) -> None:
        """Add a CSINode, or write its new facts."""
        info = CsiNode.from_object(csi_node)
        self.volumes.limits[info.name] = dict(info.limits)
        self._dirty(info.name)

    def remove_csi_node(self, name: str) -> None:
        """Take a CSINode out."""
        self.volumes.limits.pop(name, None)
        self._dirty(name)

    def upsert_attachment(self, attachment: Object) -> None:
        """Add a VolumeAttachment, or write its new facts."""
        info = Attachment.from_object(attachment)
        self.remove_attachment(info.name)
        self.volumes.attach(info)
        self._dirty(info.node_name)

    def remove_attachment(self, name: str) -> None:
        """Take a VolumeAttachment out."""
        old = self.volumes.detach(name)
        if old is not None:
            self._dirty(old.node_name)

    def upsert_csi_driver(self, driver: Object) -> None:
        """Add a CSIDriver, or write its new facts."""
        if self.volumes.capacities.put_driver(DriverInfo.from_object(driver)):
            self._storage_changed()

    def remove_csi_driver(self, name: str) -> None:
        """Take a CSIDriver out."""
        if self.volumes.capacities.remove_driver(name):
            self._storage_changed()

    # Capacity has a count of changes of its own: storage as a whole would be judged anew with every volume made.

    def upsert_capacity(self, capacity: Object) -> None:
        """Add a CSIStorageCapacity, or write its new facts."""
        if self.volumes.capacities.put(CapacityInfo.from_object(capacity)):
            self.generation += 1

    def remove_capacity(self, namespace: str, name: str) -> None:
        """Take a CSIStorageCapacity out."""
        if self.volumes.capacities.remove(namespace, name):
            self.generation += 1

    def _storage_changed(self) -> None:
        self.generation += 1
        self.volume_generation += 1

    def upsert_namespace(self, namespace: Object) -> None:
        """Add a Namespace, or write its new labels."""
        meta = namespace.get("metadata") or {}
        name, tenant = str(meta.get("name")), Tenant.in_namespace(namespace)
        if self._tenants.get(name) != tenant:
            self._tenants[name] = tenant
            self.generation += 1
        self._set_namespace(name, dict(meta.get("labels") or {}))

    def remove_namespace(self, name: str) -> None:
        """Take a Namespace out."""
        self._tenants.pop(name, None)
        self._set_namespace(name, None)

    def tenant(self, namespace: str, pod_uid: str = "") -> Tenant:
        """Return who asks in a namespace as it is now, for a pod's ephemeral volume where a pod is named."""
        return self._tenants.get(namespace, UNKNOWN)._replace(pod_uid=pod_uid)

    def _set_namespace(self, name: str, labels: dict[str, str] | None) -> None:
        if self.namespaces.get(name) == labels:
            return
        if labels is None:
            del self.namespaces[name]
        else:
            self.namespaces[name] = labels
        self.generation += 1
        self.namespace_generation += 1
        self.topology_generation += 1

    # -- choices that are not written yet

    def assume(self, request: PlacementRequest, placement: Placement) -> None:
        """Count a placement from now on, as if its berth were written.

        Whatever the holder had assumed before is forgotten.
        """
        holder = request.owner
        self._forget(holder)
        key = (request.pod.namespace, holder.berth_name if request.holder else request.pod.name)
        self._assumed[holder] = (key, placement)
        owners = {claim.name: claim.owner for claim in request.disks}
        for claim, disk in placement.disks.items():
            self.disks.assume(disk, owners.get(claim) or owner_of(holder, claim))
        for claim, shares in placement.devices.items():
            for device, share in shares:
                self.devices.assume(device, (holder, claim, share))
        self.dynamic.assume(placement.allocations)
        occupant = of_pod(request.pod, placement.node)
        if occupant is not None:
            self._brought.add(occupant, self._labels_of(placement.node))
        self._put(key, ASSUMED, occupant)
        if not placement.chose_nothing:
            self._dirty(placement.node)

    def forget(self, request: PlacementRequest) -> None:
        """Take an assumption back. Forgetting what was not assumed does nothing."""
        self._forget(request.owner)

    def locked(self, request: PlacementRequest) -> None:
        """The locks of an assumed placement are in the objects now, perhaps on other disks: believe these alone."""
        _key, placement = self._assumed.get(request.owner, (None, None))
        if placement is not None and placement.disks:  # else nothing on the row is another than it was
            for disk in placement.disks.values():
                self.disks.assume(disk, None)
            self._dirty(placement.node)

    def _forget(self, holder: Holder) -> None:
        key, placement = self._assumed.pop(holder, (None, None))
        if key is None or placement is None:
            return
        for disk in placement.disks.values():
            self.disks.assume(disk, None)
        for claim, shares in placement.devices.items():
            for device, share in shares:
                self.devices.forget(device, (holder, claim, share))
        self.dynamic.forget(placement.allocations)
        self._put(key, ASSUMED, None)
        if placement.disks or placement.devices:  # a pod that is there by now has changed nothing else
            self._dirty(placement.node)

    # -- questions of plugins

    @property
    def labels(self) -> LabelColumns:
        """Return the nodes' labels."""
        return self.nodes.labels

    def nodes_with_port(self, wanted: Any) -> list[str]:
        """Return the nodes on which a host port cannot be had."""
        return self._tally.nodes_with_port(wanted)

    @property
    def volume_uses(self) -> VolumeUses:
        """Return which volumes the replicas use."""
        return self._tally.volume_uses

    def occupants_of(self, node_name: str) -> list[Occupant]:
        """Return all replicas that count on a node."""
        return self._occupants.on_node(node_name)

    def count_pods(self, namespace: str, selector: LabelSelector) -> Counts:
        """Return per node how many of a namespace's replicas match a selector.

        Those that are going away do not count.
        """
        return self._tally.count(namespace, selector, self._occupants.meant_by(selector))

    def count_matching(self, wanted: tuple[PodMatch, ...]) -> Counts:
        """Return per node how many pods all of `wanted` accept, those that are going away too."""
        return self._tally.count_matching(wanted, self._occupants.meant_by(wanted[0].selector))

    def evictable_on(self, node_name: str) -> list[VictimFacts]:
        """Return the pods on a node whose end would free room: those without a berth, which keeps what it holds.

        A placement that is not written yet has no pod to end: it is not among them.
        """
        found = (self._pods.get(key) for key in self._occupants.keys_on(node_name) if not self._held(key))
        return [one.victim_facts for one in found if one is not None]

    def _held(self, key: Key) -> bool:
        return self._occupants.get(key, BERTH) is not None or self._occupants.get(key, POD) is None

    def trial(self) -> Trial:
        """Return a way to ask what would be."""
        return Trial(self._occupants, self._tally)

    @property
    def pod_terms(self) -> PodTerms:
        """Return what the pods on the nodes say of other pods."""
        return self._tally.terms


def _text(source: Object, part: str, key: str) -> str:
    """A field of an object that cannot be read; empty where it is not there, or no text."""
    found = source.get(part)
    value = found.get(key) if isinstance(found, Mapping) else None
    return value if isinstance(value, str) else ""
