# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What may make a pod fit that a plugin has refused: for each built-in plugin the changes it listens to.

One table, read by who builds the queue's rules. Kinds and hints follow EventsToRegister of kube-scheduler v1.36; where
a hint here knows less than the real one it says yes, which costs an attempt and never a pod. tests/oracle holds both
side by side. What kube-scheduler does not have is here, too: Berths, which take room as pods do; labels of namespaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..framework.contract import Plugin, Requeues
from ..framework.events import ANY, NODE, POD, Action, Change, ClusterEvent, Fact, Wish, Wishes
from ..model.csi_capacity import volume_limit
from ..model.node import NodeInfo
from ..model.over_disk import disk_below
from ..model.pod import PodInfo
from ..model.requests import PODS
from ..model.taint import Taint, untolerated
from .node_affinity import NodeAffinity
from .node_resources_fit import NodeResourcesFit

CLAIM, VOLUME, CLASS, NAMESPACE = "PersistentVolumeClaim", "PersistentVolume", "StorageClass", "Namespace"
DRIVER, CAPACITY = "CSIDriver", "CSIStorageCapacity"
DEVICE_CLAIM, DEVICE_CLASS, SLICE = "ResourceClaim", "DeviceClass", "ResourceSlice"
CSI_NODE, ATTACHMENT, DISK, DEVICE, BERTH = "CSINode", "VolumeAttachment", "LocalDisk", "LocalDevice", "Berth"
CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
_ADD, _DELETE, _CHANGED = Action.ADD, Action.DELETE, Action.ADD | Action.UPDATE
_ANY = _CHANGED | _DELETE


def _same(pod: PodInfo, change: Change) -> bool:
    """The pod itself changed."""
    return isinstance(change.new, PodInfo) and change.new.uid == pod.uid


def _settled(pod: PodInfo) -> bool:
    """The pod counts on a node: it is there, or room is kept for it there."""
    return bool(pod.node_name or pod.preemption.nominated)


def _node(change: Change) -> NodeInfo | None:
    return change.new if isinstance(change.new, NodeInfo) else None


def _before(change: Change) -> NodeInfo | None:
    return change.old if isinstance(change.old, NodeInfo) else None


def _has_room(pod: PodInfo, node: NodeInfo) -> bool:
    """Whether the pod would fit there if nothing else ran on it."""
    offered = dict(node.allocatable)
    return offered.get(PODS, 0) >= 1 and all(amount <= offered.get(name, 0) for name, amount in pod.requests if amount)


def _room(pod: PodInfo, change: Change) -> bool:
    """Fit: a node came or grew; with more of something that the pod asks for, and enough of everything."""
    node, before = _node(change), _before(change)
    if node is None or not _has_room(pod, node):
        return False
    if before is None:
        return True
    old, new = dict(before.allocatable), dict(node.allocatable)
    asked = [name for name, amount in pod.requests if amount]
    return any(new.get(name, 0) > old.get(name, 0) for name in (*asked, PODS))


def _left(pod: PodInfo, change: Change) -> bool:
    """Fit: a pod has left a node, or the one that was nominated to it; one takes less; or the pod itself does."""
    if change.new is None:
        return isinstance(change.old, PodInfo) and _settled(change.old)
    return bool(isinstance(change.new, PodInfo) and change.new.node_name) or _same(pod, change)


def _tolerable(pod: PodInfo, change: Change) -> bool:
    node, before = _node(change), _before(change)
    if node is None or untolerated(node.taints, pod.tolerations):
        return False
    return before is None or untolerated(before.taints, pod.tolerations)


def _uncordoned(pod: PodInfo, change: Change) -> bool:
    node, before = _node(change), _before(change)
    if node is None or _cordoned(pod, node):
        return False
    return before is None or before.unschedulable


def _cordoned(pod: PodInfo, node: NodeInfo) -> bool:
    return node.unschedulable and untolerated((CORDON,), pod.tolerations)


def _wanted(pod: PodInfo, change: Change) -> bool:
    node, before = _node(change), _before(change)
    if node is None or not _matches(pod, node):
        return False
    return before is None or not _matches(pod, before)


def _matches(pod: PodInfo, node: NodeInfo) -> bool:
    labels = dict(node.labels)
    if pod.node_selector is not None and not pod.node_selector.matches(labels):
        return False
    return pod.required_affinity is None or pod.required_affinity.matches(labels, node.name)


def _freed_port(pod: PodInfo, change: Change) -> bool:
    gone = change.old
    if not isinstance(gone, PodInfo) or not _settled(gone):
        return False
    return any(one.conflicts(other) for one in pod.host_ports for other in gone.host_ports)


def _own_claim(pod: PodInfo, change: Change) -> bool:
    """A claim of this pod."""
    source = change.new if isinstance(change.new, Mapping) else None
    meta: Mapping[str, Any] = (source or {}).get("metadata") or {}
    mine = {one.claim for one in pod.volumes}
    return meta.get("namespace") == pod.namespace and meta.get("name") in mine


def _more_capacity(_pod: PodInfo, change: Change) -> bool:
    """VolumeBinding: there may be a larger volume than before. Its class and its nodes are never changed."""
    old, new = (volume_limit(one) if isinstance(one, Mapping) else None for one in (change.old, change.new))
    return change.old is None or (new is not None and (old is None or new > old))


def _unlimited(_pod: PodInfo, change: Change) -> bool:
    """VolumeBinding: a driver reports its capacity no more, so it is taken to have room everywhere.

    The real hint asks only whether the pod names the driver itself, in a volume without a claim. That is not kept of
    pods; and one that waits with a claim of the driver's class would sit on until something else happens.
    """
    old, new = (one if isinstance(one, Mapping) else {} for one in (change.old, change.new))
    reported, reports = ((one.get("spec") or {}).get("storageCapacity") is True for one in (old, new))
    return reported and not reports


def _device_claim(pod: PodInfo, change: Change) -> bool:
    """A claim gave its devices back, which others may have had; or one of the pod's own changed what it says."""
    old, new = (one if isinstance(one, Mapping) else {} for one in (change.old, change.new))
    was, status = old.get("status") or {}, new.get("status") or {}
    if was.get("allocation") is not None and status.get("allocation") is None:
        return True
    meta = new.get("metadata") or {}
    mine = {one.claim for one in pod.resource_claims}
    return bool(meta.get("namespace") == pod.namespace and meta.get("name") in mine and (not old or was != status))


def _spread(pod: PodInfo, change: Change) -> bool:
    """PodTopologySpread: a pod that one of its constraints counts came, went, or changed; or it changed itself."""
    if _same(pod, change):
        return True
    facts = [one for one in (change.old, change.new) if isinstance(one, PodInfo)]
    if any(one.namespace != pod.namespace or not _settled(one) for one in facts):
        return False
    if not pod.spread:
        return True  # by constraints of the profile, whose selector is that of the pod's services and controller
    selectors = [one.selector for one in pod.spread if one.hard and one.selector is not None]
    return any(selector.matches(dict(one.labels)) for selector in selectors for one in facts)


def _assigned(pod: PodInfo, change: Change) -> bool:
    other = change.new if isinstance(change.new, PodInfo) else change.old
    return _same(pod, change) or (isinstance(other, PodInfo) and _settled(other))


def _own_requirements(pod: PodInfo, change: Change) -> bool:
    """NodeDeclaredFeatures: the pod itself needs something else of its node than before."""
    return _same(pod, change) and getattr(change.old, "features", None) != getattr(change.new, "features", None)


def _object(fact: Fact) -> Mapping[str, Any]:
    return fact if isinstance(fact, Mapping) else {}


def _kept(_pod: PodInfo, change: Change) -> bool:
    """A Berth takes something else off its node than before. What its status says takes nothing."""
    old, new = _object(change.old), _object(change.new)
    ends = [(one.get("metadata") or {}).get("deletionTimestamp") for one in (old, new)]
    return old.get("spec") != new.get("spec") or ends[0] != ends[1]


def _own_berth(pod: PodInfo, change: Change) -> bool:
    """The Berth of this very pod. While there is one, no other node is looked at."""
    meta = _object(change.new or change.old).get("metadata") or {}
    return (meta.get("namespace"), meta.get("name")) == (pod.namespace, pod.name)


def _off_disk(_pod: PodInfo, change: Change) -> bool:
    """LocalDiskFit: a volume of berth's stands for its disk no more, which may be free with it."""
    old, new = (disk_below(one) if isinstance(one, Mapping) else "" for one in (change.old, change.new))
    return bool(old) and old != new


def _relabelled(_pod: PodInfo, change: Change) -> bool:
    """InterPodAffinity: a namespace is meant by other namespaceSelectors than before."""
    old, new = ((_object(one).get("metadata") or {}).get("labels") or {} for one in (change.old, change.new))
    return change.old is None or old != new


def _by_others(_pod: PodInfo, _change: Change) -> bool:
    """DefaultPreemption: its gate is asked again, and who refused the pod says whether the room is enough."""
    return False


def _wish(resource: str, action: Action, hint: Any = None) -> Wish:
    return Wish(ClusterEvent(resource, action), hint)


BUILT_IN: Mapping[str, Sequence[Wish]] = {
    "DefaultPreemption": (_wish(POD, _DELETE, _by_others),),
    "DynamicResources": (
        _wish(NODE, _ADD | Action.NODE_LABEL | Action.NODE_ALLOCATABLE),
        _wish(DEVICE_CLAIM, Action.ADD | Action.UPDATE | _DELETE, _device_claim),
        _wish(POD, Action.POD_CLAIMS_GENERATED, _same),
        _wish(DEVICE_CLASS, _CHANGED),
        _wish(SLICE, _CHANGED | _DELETE),
    ),
    "InterPodAffinity": (
        _wish(POD, _ADD | _DELETE | Action.POD_LABEL, _assigned),
        _wish(NODE, _ADD | Action.NODE_LABEL),
        _wish(BERTH, _ANY, _kept),
        _wish(NAMESPACE, _CHANGED, _relabelled),
    ),
    "LocalDeviceFit": (_wish(DEVICE, _CHANGED), _wish(NODE, _ADD), _wish(BERTH, _DELETE)),
    "LocalDiskFit": (
        _wish(DISK, _ANY),
        _wish(NODE, _ADD),
        _wish(BERTH, _DELETE),
        _wish(CLAIM, _CHANGED, _own_claim),
        _wish(CLASS, _ADD),
        _wish(VOLUME, Action.UPDATE | _DELETE, _off_disk),
    ),
    "NodeAffinity": (_wish(NODE, _ADD | Action.NODE_LABEL, _wanted),),
    "NodeDeclaredFeatures": (
        _wish(NODE, _ADD | Action.NODE_DECLARED_FEATURE),
        _wish(POD, Action.UPDATE, _own_requirements),
    ),
    "NodeName": (_wish(NODE, _ADD),),
    "NodePorts": (_wish(POD, _DELETE, _freed_port), _wish(NODE, _ADD), _wish(BERTH, _ANY, _kept)),
    "NodeResourcesFit": (
        _wish(POD, _DELETE | Action.POD_SCALE_DOWN, _left),
        _wish(NODE, _ADD | Action.NODE_ALLOCATABLE, _room),
        _wish(BERTH, _ANY, _kept),
    ),
    "NodeUnschedulable": (
        _wish(NODE, _ADD | Action.NODE_TAINT, _uncordoned),
        _wish(POD, Action.POD_TOLERATION, _same),
    ),
    "NodeVolumeLimits": (
        _wish(CSI_NODE, _CHANGED),
        _wish(POD, _DELETE),
        _wish(CLAIM, _ADD, _own_claim),
        _wish(ATTACHMENT, _DELETE),
    ),
    "PodTopologySpread": (
        _wish(POD, _ADD | _DELETE | Action.POD_LABEL | Action.POD_TOLERATION, _spread),
        _wish(NODE, _ADD | _DELETE | Action.NODE_LABEL | Action.NODE_TAINT),
        _wish(BERTH, _ANY, _kept),
    ),
    "SchedulingGates": (_wish(POD, Action.POD_GATES_ELIMINATED, _same),),
    "TaintToleration": (
        _wish(NODE, _ADD | Action.NODE_TAINT, _tolerable),
        _wish(POD, Action.POD_TOLERATION, _same),
    ),
    "VolumeBinding": (
        _wish(CLASS, _CHANGED),
        _wish(CLAIM, _CHANGED, _own_claim),
        _wish(VOLUME, _CHANGED),
        _wish(NODE, _ADD | Action.NODE_LABEL),
        _wish(CSI_NODE, _CHANGED),
        _wish(DRIVER, Action.UPDATE, _unlimited),
        _wish(CAPACITY, _CHANGED, _more_capacity),
    ),
    "VolumeRestrictions": (
        _wish(POD, _DELETE),
        _wish(NODE, _ADD),
        _wish(CLAIM, _ADD, _own_claim),
    ),
    "VolumeZone": (
        _wish(CLASS, _ADD),
        _wish(NODE, _ADD | Action.NODE_LABEL),
        _wish(CLAIM, _CHANGED, _own_claim),
        _wish(VOLUME, _CHANGED),
    ),
}

_UNKNOWN = (_wish(ANY, Action.ALL), *(_wish(kind, Action.ALL) for kind in (POD, NODE, CLAIM, VOLUME, CLASS)))
#: Whoever refused a pod that has a Berth was asked about the Berth's node alone.
_OF_ALL = (_wish(BERTH, _ANY, _own_berth),)


def wishes_of(plugins: Iterable[Plugin]) -> Wishes:
    """Return what each plugin listens to: its own word, else the table's; who says nothing is told everything."""
    found: dict[str, Sequence[Wish]] = {}
    for plugin in plugins:
        if isinstance(plugin, Requeues):
            found[plugin.name] = (*plugin.requeue_on(), *_OF_ALL)
        else:
            found[plugin.name] = (*_built_in(plugin), *_OF_ALL)
    return found


def _built_in(plugin: Plugin) -> Sequence[Wish]:
    """Return the table's word. A hint looks at the pod: where arguments of the profile decide, too, it cannot tell."""
    wishes = BUILT_IN.get(plugin.name, _UNKNOWN)
    argued = (isinstance(plugin, NodeAffinity) and plugin.added_required is not None) or (
        isinstance(plugin, NodeResourcesFit) and bool(plugin.ignored or plugin.ignored_groups)
    )
    return tuple(one._replace(hint=None) for one in wishes) if argued else wishes
