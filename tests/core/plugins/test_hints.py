"""Which change wakes a pod that a plugin has refused: for each hint one that does, and one beside it that does not.

tests/oracle/test_waking.py holds them against kube-scheduler's; what that does not have is here alone.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from berth_core.framework.events import POD, Action, ClusterEvent, Wish
from berth_core.model.pod import PodInfo
from berth_core.plugins.hints import BUILT_IN, wishes_of
from berth_core.plugins.table import make_profile
from tests.core.cluster.objects import berth, capacity, claim, container, csi_driver, device, disk, node, pod, taint
from tests.support.waking import changes

ZONE = "zone"
TAINTED = [taint("k")]
EVERYTHING = [{"operator": "Exists"}]
NEAR_DB = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": ZONE}
SPREAD = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
WITH_CLAIM = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
RULE = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}


def wakes(plugin: str, waiting: dict[str, Any], kind: str, old: Any, new: Any, args: Any = None) -> bool:
    """Whether the pod, refused by the plugin, is tried again."""
    wishes = wishes_of(make_profile("it", args or {}, [(plugin, 1)]).plugins)[plugin]
    info = PodInfo.from_manifest(waiting)
    return any(
        wish.event.covers(change.event) and (wish.hint is None or wish.hint(info, change))
        for wish in wishes
        for change in changes(kind, old, new)
    )


def me(name: str = "me", cpu: str = "2", ports: tuple[int, ...] = (), **more: Any) -> dict[str, Any]:
    return pod(name, [container(cpu, ports=[{"containerPort": one, "hostPort": one} for one in ports])], **more)


def other(nominated: str = "", **more: Any) -> dict[str, Any]:
    made = me("other", node_name="" if nominated else "a", **more)
    made["status"]["nominatedNodeName"] = nominated
    return made


def there(**more: Any) -> dict[str, Any]:
    return node("a", **more)


def spreading(**more: Any) -> dict[str, Any]:
    return me(topologySpreadConstraints=[{**SPREAD, "labelSelector": {"matchLabels": {"app": "db"}}}], **more)


def needing() -> dict[str, Any]:
    made = me()
    made["spec"]["containers"][0]["restartPolicyRules"] = [RULE]
    return made


def allocated(name: str, uid: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", "uid": uid}, "status": {"allocation": {}}}


def namespace(**labels: str) -> dict[str, Any]:
    return {"metadata": {"name": "default", "labels": labels, "annotations": {"seen": labels.get("seen", "")}}}


def moved(made: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {**deepcopy(made), "status": status}


def going(made: dict[str, Any]) -> dict[str, Any]:
    found = deepcopy(made)
    found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return found


SELECTING = me(nodeSelector={ZONE: "a"})
CLAIMING = me(resourceClaims=[{"name": "c", "resourceClaimName": "mine"}])
THEIRS = berth("db", 0, "a", {"cpu": "2"}, {"app": "db"}, ({"protocol": "TCP", "port": 80},))
MINE = berth("me", 0, "a")

#: Plugin, the pod, kind, before, after, whether it is tried again.
ANY_VOLUME = {"metadata": {"name": "d-01234567"}}
BERTHS_VOLUME = {"metadata": {**ANY_VOLUME["metadata"], "annotations": {"berth.dev/berth-uid": "0123456789"}}}
CASES: dict[str, tuple[str, dict[str, Any], str, Any, Any, bool]] = {
    "room, a node came": ("NodeResourcesFit", me(), "Node", None, there(), True),
    "room, one too small": ("NodeResourcesFit", me(), "Node", None, there(cpu="1"), False),
    "room, a node grew": ("NodeResourcesFit", me(), "Node", there(cpu="1"), there(cpu="4"), True),
    "room, still too small": ("NodeResourcesFit", me(), "Node", there(cpu="1"), there(cpu="1500m"), False),
    "room, places": ("NodeResourcesFit", me(), "Node", there(pods="1"), there(pods="2"), True),
    "room, no place": ("NodeResourcesFit", me(), "Node", there(pods="1"), there(pods="0"), False),
    "room, less": ("NodeResourcesFit", me(), "Node", there(cpu="9"), there(cpu="8"), False),
    "room, of what it does not ask for": (
        *("NodeResourcesFit", me(), "Node", there(gpu__x="1"), there(gpu__x="2"), False),
    ),
    "left, a pod": ("NodeResourcesFit", me(), "Pod", other(), None, True),
    "left, one that was nominated": ("NodeResourcesFit", me(), "Pod", other("a"), None, True),
    "left, one that waited": ("NodeResourcesFit", me(), "Pod", me("x"), None, False),
    "left, one takes less": ("NodeResourcesFit", me(), "Pod", other(cpu="2"), other(cpu="1"), True),
    "left, one takes more": ("NodeResourcesFit", me(), "Pod", other(cpu="1"), other(cpu="2"), False),
    "left, itself takes less": ("NodeResourcesFit", me(), "Pod", me(cpu="3"), me(), True),
    "left, another that waits": ("NodeResourcesFit", me(), "Pod", me("x", cpu="3"), me("x"), False),
    "kept, a berth went": ("NodeResourcesFit", me(), "Berth", THEIRS, None, True),
    "kept, its status": ("NodeResourcesFit", me(), "Berth", THEIRS, moved(THEIRS, phase="Bound"), False),
    "kept, its port": ("NodePorts", me(ports=(80,)), "Berth", THEIRS, None, True),
    "kept, no port, its status": ("NodePorts", me(), "Berth", THEIRS, moved(THEIRS, phase="Bound"), False),
    "kept, its labels": ("PodTopologySpread", spreading(), "Berth", THEIRS, going(THEIRS), True),
    "kept, its labels go": ("InterPodAffinity", me(), "Berth", THEIRS, None, True),
    "kept, its labels come": ("InterPodAffinity", me(), "Berth", None, THEIRS, True),
    "tolerable, a node came": ("TaintToleration", me(), "Node", None, there(), True),
    "tolerable, one with a taint": ("TaintToleration", me(), "Node", None, there(taints=TAINTED), False),
    "tolerable, no taint more": ("TaintToleration", me(), "Node", there(taints=TAINTED), there(), True),
    "tolerable, another taint": (
        *("TaintToleration", me(), "Node", there(taints=TAINTED), there(taints=[taint("l")]), False),
    ),
    "uncordoned": ("NodeUnschedulable", me(), "Node", there(unschedulable=True), there(), True),
    "uncordoned, a node came": ("NodeUnschedulable", me(), "Node", None, there(), True),
    "cordoned": ("NodeUnschedulable", me(), "Node", there(), there(unschedulable=True), False),
    "came cordoned": ("NodeUnschedulable", me(), "Node", None, there(unschedulable=True), False),
    "wanted, a node came": ("NodeAffinity", SELECTING, "Node", None, there(labels={ZONE: "a"}), True),
    "wanted, a label came": ("NodeAffinity", SELECTING, "Node", there(), there(labels={ZONE: "a"}), True),
    "wanted, another label": ("NodeAffinity", SELECTING, "Node", there(), there(labels={ZONE: "b"}), False),
    "wanted before": (
        *("NodeAffinity", SELECTING, "Node", there(labels={ZONE: "a"}), there(labels={ZONE: "a", "x": ""}), False),
    ),
    "name, a node came": ("NodeName", me(), "Node", None, there(), True),
    "freed port": ("NodePorts", me(ports=(80,)), "Pod", other(ports=(80,)), None, True),
    "freed port, of a nominated one": ("NodePorts", me(ports=(80,)), "Pod", other("a", ports=(80,)), None, True),
    "freed port, another": ("NodePorts", me(ports=(80,)), "Pod", other(ports=(81,)), None, False),
    "own claim": ("VolumeBinding", me(volumes=WITH_CLAIM), "PersistentVolumeClaim", None, claim("data"), True),
    "another claim": ("VolumeBinding", me(volumes=WITH_CLAIM), "PersistentVolumeClaim", None, claim("x"), False),
    "a claim of another namespace": (
        "VolumeBinding", me(volumes=WITH_CLAIM), "PersistentVolumeClaim", None, claim("data", namespace="x"), False,
    ),
    "more capacity": (
        "VolumeBinding", me(), "CSIStorageCapacity", capacity("c", size="1Gi"), capacity("c", size="2Gi"), True,
    ),
    "less capacity": (
        "VolumeBinding", me(), "CSIStorageCapacity", capacity("c", size="2Gi"), capacity("c", size="1Gi"), False,
    ),
    "unlimited": ("VolumeBinding", me(), "CSIDriver", csi_driver(), csi_driver(reports=False), True),
    "limited": ("VolumeBinding", me(), "CSIDriver", csi_driver(reports=False), csi_driver(), False),
    "device claim, of another, given back": (
        "DynamicResources", CLAIMING, "ResourceClaim", allocated("x"), moved(allocated("x")), True,
    ),
    "device claim, its own came": ("DynamicResources", CLAIMING, "ResourceClaim", None, allocated("mine"), True),
    "device claim, another came": ("DynamicResources", CLAIMING, "ResourceClaim", None, allocated("x"), False),
    "spread, one that counts": ("PodTopologySpread", spreading(), "Pod", None, other(labels={"app": "db"}), True),
    "spread, one that was nominated": (
        "PodTopologySpread", spreading(), "Pod", other("a", labels={"app": "db"}), None, True,
    ),
    "spread, one that does not count": (
        "PodTopologySpread", spreading(), "Pod", None, other(labels={"app": "web"}), False,
    ),
    "spread, it changed itself": (
        "PodTopologySpread", spreading(), "Pod", spreading(labels={"x": ""}), spreading(), True,
    ),
    "spread, by the profile": ("PodTopologySpread", me(), "Pod", other(labels={"app": "web"}), None, True),
    "spread, elsewhere": (
        "PodTopologySpread", spreading(), "Pod", None, other(labels={"app": "db"}, namespace="x"), False,
    ),
    "assigned": ("InterPodAffinity", me(), "Pod", None, other(), True),
    "assigned, it goes": ("InterPodAffinity", me(), "Pod", other(), None, True),
    "assigned, a nominated one goes": ("InterPodAffinity", me(), "Pod", other("a"), None, True),
    "one that waits": ("InterPodAffinity", me(), "Pod", None, me("x"), False),
    "relabelled": ("InterPodAffinity", me(), "Namespace", namespace(), namespace(team="blue"), True),
    "a namespace came": ("InterPodAffinity", me(), "Namespace", None, namespace(), True),
    "relabelled, something else": (
        "InterPodAffinity", me(), "Namespace", namespace(), {"metadata": {"name": "default", "labels": {}}}, False,
    ),
    "itself, tolerations": ("TaintToleration", me(), "Pod", me(), me(tolerations=EVERYTHING), True),
    "another, tolerations": ("TaintToleration", me(), "Pod", other(), other(tolerations=EVERYTHING), False),
    "itself, gates": ("SchedulingGates", me(), "Pod", me(schedulingGates=[{"name": "x"}]), me(), True),
    "another, gates": ("SchedulingGates", me(), "Pod", me("x", schedulingGates=[{"name": "x"}]), me("x"), False),
    "own requirements": ("NodeDeclaredFeatures", me(), "Pod", needing(), me(), True),
    "own labels": ("NodeDeclaredFeatures", me(), "Pod", me(labels={"x": ""}), me(), False),
    "preemption, a pod went": ("DefaultPreemption", me(), "Pod", other(), None, False),
    "a disk came": ("LocalDiskFit", me(), "LocalDisk", None, disk("d", "a"), True),
    "a disk with its data is gone": ("LocalDiskFit", me(), "LocalDisk", disk("d", "a"), None, True),
    "a volume is over its disk no more": ("LocalDiskFit", me(), "PersistentVolume", BERTHS_VOLUME, None, True),
    "a volume is berth's no more": ("LocalDiskFit", me(), "PersistentVolume", BERTHS_VOLUME, ANY_VOLUME, True),
    "a volume is bound": ("LocalDiskFit", me(), "PersistentVolume", BERTHS_VOLUME, BERTHS_VOLUME, False),
    "a volume of others went": ("LocalDiskFit", me(), "PersistentVolume", ANY_VOLUME, None, False),
    "a device came": ("LocalDeviceFit", me(), "LocalDevice", None, device("d", "a"), True),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_change_wakes_a_pod_or_does_not(name):
    plugin, waiting, kind, old, new, again = CASES[name]
    assert wakes(plugin, waiting, kind, old, new) is again


@pytest.mark.parametrize("plugin", BUILT_IN)
def test_whoever_refused_a_pod_its_own_berth_wakes_it(plugin):
    """Its node was the only one that was looked at: without the Berth, or with another, there may be a better one."""
    waiting = me("me-0")
    for old, new in ((MINE, None), (None, MINE), (MINE, berth("me", 0, "b")), (MINE, going(MINE))):
        assert wakes(plugin, waiting, "Berth", old, new)
    assert not wakes("NodeUnschedulable", waiting, "Berth", THEIRS, None)


def test_a_plugin_from_outside_hears_of_the_own_berth_too():
    class Outside:
        name = "Outside"

        def requeue_on(self) -> tuple[Wish, ...]:
            return (Wish(ClusterEvent(POD, Action.DELETE)),)

    heard = wishes_of([Outside()])["Outside"]
    assert [wish.event.resource for wish in heard] == [POD, "Berth"]


def test_a_profile_that_adds_affinity_hears_of_labels_that_the_pod_does_not_ask_for():
    """Its term decides, too: kube-scheduler's own hint misses it."""
    term = {"matchExpressions": [{"key": ZONE, "operator": "Exists"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    args = {"NodeAffinity": {"addedAffinity": required}}
    changed = (me(), "Node", there(), there(labels={ZONE: "a"}))
    assert wakes("NodeAffinity", *changed, args)
    assert not wakes("NodeAffinity", *changed)


def test_a_profile_that_ignores_resources_hears_of_nodes_without_them():
    """A pod that asks for one of them fits there: kube-scheduler's own hint misses it."""
    asking = pod("me", [container("2", example__x="1")])
    args = {"NodeResourcesFit": {"ignoredResources": ["example/x"]}}
    assert wakes("NodeResourcesFit", asking, "Node", None, there(), args)
    assert not wakes("NodeResourcesFit", asking, "Node", None, there())
