"""Whatever wakes a parked pod, end to end: each case parks one, makes the one change that helps it, and sees it bound.

A wake-up that is lost costs a pod the 300 s until the queue tries everybody again, which is far more than is waited
here. All are parked at once on one control plane, then cured one after the other. Which changes count is held against
kube-scheduler's in tests/oracle/test_waking.py; that they arrive, and that the table has them, is proved here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.controller.prepared import started
from tests.daemons.scheduler.parking import CASE, Own, asks, near, port, required, settled, until, where
from tests.daemons.scheduler.test_devices import Devices
from tests.daemons.scheduler.world import Process, World, kubeconfig
from tests.support.kube import client_for, install_crds

pytestmark = pytest.mark.slow

#: Makes everything, says with which words the pod is refused, and makes the change when it is asked to go on.
Case = Callable[[Own], Iterator[str]]
CASES: dict[str, Case] = {}
EVERYTHING = [{"operator": "Exists"}]
#: What is said of a pod that a plugin keeps out of the queue.
NOTHING = "nothing"
TAINT = {"key": "it/taint", "effect": "NoSchedule"}
ZONE = "topology.kubernetes.io/zone"


def case(one: Case) -> Case:
    CASES[one.__name__] = one
    return one


# -- nodes -------------------------------------------------------------------------------------------------------------


@case
def node_that_is_selected_comes(own):
    own.park()
    yield "didn't match Pod's node affinity/selector"
    own.node()


@case
def node_with_room_comes(own):
    """No other plugin than NodeResourcesFit refuses it anywhere."""
    own.park(nodeSelector={}, tolerations=EVERYTHING, containers=asks(f"{own.unique}.it/x"))
    yield f"Insufficient {own.unique}.it/x"
    own.node(more={f"{own.unique}.it/x": "1"})


@case
def node_grows(own):
    node = own.node(cpu="1")
    own.park(cpu="3")
    yield "Insufficient cpu"
    own.patch(kinds.NODE, node, {"status": {"allocatable": {"cpu": "4"}}}, "status")


@case
def taint_goes(own):
    node = own.node(taints=[TAINT])
    own.park()
    yield "untolerated taint"
    own.patch(kinds.NODE, node, {"spec": {"taints": []}})


@case
def node_is_uncordoned(own):
    node = own.node(unschedulable=True)
    own.park()
    yield "were unschedulable"
    own.patch(kinds.NODE, node, {"spec": {"unschedulable": False}})


@case
def node_gets_the_label_of_a_selector(own):
    node = own.node()
    own.park(nodeSelector={CASE: own.unique, "it/disk": "ssd"})
    yield "didn't match Pod's node affinity/selector"
    own.relabel(kinds.NODE, node, **{"it/disk": "ssd"})


@case
def node_gets_the_label_of_an_affinity(own):
    node = own.node()
    terms = where("it/disk", "ssd")["required"]
    own.park(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})
    yield "didn't match Pod's node affinity/selector"
    own.relabel(kinds.NODE, node, **{"it/disk": "ssd"})


# -- the pod itself ----------------------------------------------------------------------------------------------------


@case
def pod_tolerates_more(own):
    own.node(taints=[TAINT])
    own.park()
    yield "untolerated taint"
    given = own.world.get_pod(own.name)["spec"].get("tolerations") or []
    own.patch(kinds.POD, own.name, {"spec": {"tolerations": [*given, *EVERYTHING]}})


@case
def last_gate_goes(own):
    own.node()
    own.park(schedulingGates=[{"name": "it/gate"}])
    yield ""
    own.patch(kinds.POD, own.name, {"spec": {"schedulingGates": []}})


@case
def pod_asks_for_less(own):
    own.node(cpu="1")
    own.park(cpu="3")
    yield "Insufficient cpu"
    own.resize(own.name, "500m")


# -- other pods --------------------------------------------------------------------------------------------------------


@case
def pod_that_holds_room_goes(own):
    other = own.beside(own.node(), cpu="1500m")
    own.park(cpu="1")
    yield "Insufficient cpu"
    own.delete(kinds.POD, other)


@case
def pod_that_holds_room_takes_less(own):
    other = own.beside(own.node(), cpu="1500m")
    own.park(cpu="1")
    yield "Insufficient cpu"
    own.given(other, "1500m")
    own.resize(other, "500m")
    own.given(other, "500m")


@case
def pod_that_holds_a_port_goes(own):
    other = own.beside(own.node(), containers=port())
    own.park(containers=port())
    yield "didn't have free ports"
    own.delete(kinds.POD, other)


@case
def pod_to_be_near_comes(own):
    node = own.node()
    own.park(affinity=required("podAffinity", near(own.name)))
    yield "didn't match pod affinity rules"
    own.beside(node, labels={"app": own.name})


@case
def pod_to_be_near_gets_its_label(own):
    other = own.beside(own.node())
    own.park(affinity=required("podAffinity", near(own.name)))
    yield "didn't match pod affinity rules"
    own.relabel(kinds.POD, other, app=own.name)


@case
def pod_to_be_far_from_goes(own):
    other = own.beside(own.node(), labels={"app": own.name})
    own.park(affinity=required("podAntiAffinity", near(own.name)))
    yield "didn't match pod anti-affinity rules"
    own.delete(kinds.POD, other)


@case
def namespace_is_relabelled(own):
    """The pod to be near is there, in a namespace that is not meant."""
    own.beside(own.node(), labels={"app": own.name})
    meant = {"matchLabels": {"it/case": own.name}}
    own.park(affinity=required("podAffinity", near(own.name, namespaceSelector=meant)))
    yield "didn't match pod affinity rules"
    own.relabel(kinds.NAMESPACE, own.world.name, **{"it/case": own.name})


def _spreading(own):
    """A pod that is one too many on the one node, and is not tolerated by the other."""
    first, second = own.node("0"), own.node("1", taints=[TAINT])
    crowd = own.beside(first, labels={"app": own.name}, suffix="crowd")
    selector = {"matchLabels": {"app": own.name}}
    rule = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
    own.park(labels={"app": own.name}, topologySpreadConstraints=[{**rule, "labelSelector": selector}])
    return crowd, second


@case
def crowd_goes(own):
    crowd, _second = _spreading(own)
    yield "didn't match pod topology spread constraints"
    own.delete(kinds.POD, crowd)


@case
def crowd_is_relabelled(own):
    crowd, _second = _spreading(own)
    yield "didn't match pod topology spread constraints"
    own.relabel(kinds.POD, crowd, app=None)


@case
def there_is_a_crowd_elsewhere_too(own):
    _crowd, second = _spreading(own)
    yield "didn't match pod topology spread constraints"
    own.beside(second, labels={"app": own.name}, suffix="more")


@case
def node_gets_the_label_to_spread_over(own):
    node = own.node()
    rule = {"maxSkew": 1, "topologyKey": "it/rack", "whenUnsatisfiable": "DoNotSchedule"}
    own.park(topologySpreadConstraints=[{**rule, "labelSelector": {"matchLabels": {"app": own.name}}}])
    yield "missing required label"
    own.relabel(kinds.NODE, node, **{"it/rack": "a"})


# -- claims and volumes ------------------------------------------------------------------------------------------------


@case
def claim_comes(own):
    own.node()
    own.storage_class()
    own.local()
    own.park(own.name)
    yield f'persistentvolumeclaim "{own.name}" not found'
    own.claim()


@case
def claim_is_bound(own):
    """Kubernetes' controller binds it."""
    own.node()
    own.storage_class(mode="Immediate")
    own.park(own.claim())
    yield "unbound immediate PersistentVolumeClaims"
    own.local(claimRef=own.reference())


@case
def volume_comes(own):
    own.node()
    own.storage_class()
    own.park(own.claim())
    yield "didn't find available persistent volumes to bind"
    own.local()


@case
def class_comes(own):
    own.node()
    own.park(own.claim())
    yield "unbound immediate PersistentVolumeClaims"
    own.storage_class(own.unique)
    own.provision()


@case
def node_gets_the_label_of_a_volume(own):
    node = own.node()
    own.park(own.bound(nodeAffinity=where("it/rack", own.unique)))
    yield "didn't match PersistentVolume's node affinity"
    own.relabel(kinds.NODE, node, **{"it/rack": own.unique})


@case
def node_gets_the_zone_of_a_volume(own):
    node = own.node(labels={ZONE: "a"})
    own.park(own.bound(labels={ZONE: "b"}))
    yield "had no available volume zone"
    own.relabel(kinds.NODE, node, **{ZONE: "b"})


@case
def volume_gets_another_zone(own):
    own.node(labels={ZONE: "a"})
    own.park(own.bound(labels={ZONE: "b"}))
    yield "had no available volume zone"
    own.relabel(kinds.PV, f"{own.unique}-{own.name}", **{ZONE: "a"})


@case
def pod_that_has_a_claim_alone_goes(own):
    claim = own.bound(modes=["ReadWriteOncePod"])
    other = own.beside(own.node(), claim)
    own.park(claim)
    yield "ReadWriteOncePod access mode"
    own.delete(kinds.POD, other)


@case
def limit_of_volumes_is_raised(own):
    node = own.node()
    own.limit(node, 1)
    own.beside(node, own.bound(f"{own.name}-other"))
    own.park(own.bound())
    yield "exceed max volume count"
    own.patch(kinds.CSI_NODE, node, {"spec": {"drivers": [own.limited(node, 2)]}})


@case
def pod_with_a_volume_goes(own):
    node = own.node()
    own.limit(node, 1)
    other = own.beside(node, own.bound(f"{own.name}-other"))
    own.park(own.bound())
    yield "exceed max volume count"
    own.delete(kinds.POD, other)


@case
def volume_is_detached(own):
    """No pod is there any more that it is attached for."""
    node = own.node()
    own.limit(node, 1)
    source = {"persistentVolumeName": own.volume("gone", "")}
    attached = {"attacher": own.unique, "nodeName": node, "source": source}
    own.make(kinds.VOLUME_ATTACHMENT, own.unique, spec=attached)
    own.park(own.bound())
    yield "exceed max volume count"
    own.delete(kinds.VOLUME_ATTACHMENT, own.unique)


def _reporting(own):
    own.node()
    own.make(kinds.CSI_DRIVER, own.unique, spec={"storageCapacity": True})
    own.storage_class(own.unique)
    own.park(own.claim())


@case
def driver_reports_room(own):
    _reporting(own)
    yield "did not have enough free storage"
    own.report("1Gi")
    own.provision()


@case
def driver_reports_more_room(own):
    _reporting(own)
    own.report("1Mi")
    yield "did not have enough free storage"
    own.patch(kinds.CSI_STORAGE_CAPACITY, own.name, {"capacity": "1Gi"})
    own.provision()


@case
def driver_reports_no_more(own):
    _reporting(own)
    yield "did not have enough free storage"
    own.patch(kinds.CSI_DRIVER, own.unique, {"spec": {"storageCapacity": False}})
    own.provision()


# -- berth's own -------------------------------------------------------------------------------------------------------


def _disk_claim(own):
    own.park(own.claim(storage_class=own.world.name))
    return "didn't have a free local disk"


@case
def disk_comes(own):
    node = own.node()
    yield _disk_claim(own)
    own.world.disk(node, 0)


@case
def disk_is_repaired(own):
    disk = own.world.disk(own.node(), 0, phase="Faulted")
    yield _disk_claim(own)
    own.world.observe(disk, "Available")


@case
def disk_is_given_back(own):
    owner = {"namespace": own.world.name, "name": "other-0", "app": "other", "ordinal": 0, "claim": "data"}
    lock = {**owner, "uid": str(uuid4()), "dataUID": str(uuid4())}
    disk = own.world.disk(own.node(), 0, claimRef=lock)
    yield _disk_claim(own)
    own.patch(kinds.LOCAL_DISK, disk, {"spec": {"claimRef": None}})


@case
def volume_over_a_disk_goes(own):
    """Its lock was taken off by hand, and the volume has stayed."""
    disk = own.world.disk(own.node(), 0)
    left = own.volume(storage_class="none")
    notes = {"berth.dev/berth-uid": "0123456789", "berth.dev/local-disk": disk}
    own.patch(kinds.PV, left, {"metadata": {"annotations": notes}})
    yield _disk_claim(own)
    own.delete(kinds.PV, left)


@case
def berth_that_keeps_room_goes(own):
    own.berth(f"{own.name}-other", own.node(), requests={"cpu": "1500m"})
    own.park(cpu="1")
    yield "Insufficient cpu"
    own.delete(kinds.BERTH, f"{own.name}-other")


@case
def berth_that_keeps_room_keeps_less(own):
    own.berth(f"{own.name}-other", own.node(), requests={"cpu": "1500m"})
    own.park(cpu="1")
    yield "Insufficient cpu"
    own.patch(kinds.BERTH, f"{own.name}-other", {"spec": {"requests": {"cpu": "500m"}}})


@case
def own_berth_goes(own):
    """The Berth's node does not take the pod, and no other is looked at until the Berth is gone."""
    kept, _free = own.node("0", taints=[TAINT]), own.node("1")
    own.berth(own.name, kept, requests={"cpu": "100m"})
    own.park()
    yield "untolerated taint"
    own.delete(kinds.BERTH, own.name)


# -- devices of ResourceSlices -----------------------------------------------------------------------------------------


def _device_pod(own):
    own.park(resourceClaims=[{"name": "c", "resourceClaimName": own.name}])


@case
def slice_comes(own):
    node = own.node()
    own.devices.claim(own.name)
    _device_pod(own)
    yield "cannot allocate all claims"
    own.devices.publish(node, "g0")


@case
def device_claim_comes(own):
    """The plugin's gate holds the pod until then, of which nothing is told."""
    own.devices.publish(own.node(), "g0")
    _device_pod(own)
    yield NOTHING
    own.devices.claim(own.name)


@case
def device_class_comes(own):
    own.devices.publish(own.node(), "g0")
    own.devices.claim(own.name, deviceClassName=own.unique)
    _device_pod(own)
    yield f"device class {own.unique} does not exist"
    own.make(kinds.DEVICE_CLASS, own.unique, spec={})


@case
def device_is_given_back(own):
    node, other = own.node(), f"{own.name}-other"
    own.devices.publish(node, "g0")
    own.devices.claim(other)
    held = own.api.get(kinds.RESOURCE_CLAIM, other, own.world.name)
    result = {"request": "r", "driver": own.devices.driver, "pool": node, "device": "g0"}
    held["status"] = {"allocation": {"devices": {"results": [result]}}}
    own.api.replace(kinds.RESOURCE_CLAIM, held, subresource="status")
    own.devices.claim(own.name)
    _device_pod(own)
    yield "cannot allocate all claims"
    own.patch(kinds.RESOURCE_CLAIM, other, {"status": {"allocation": None}}, "status")


# -- the ground of all -------------------------------------------------------------------------------------------------


def _says(condition: tuple[str, str, str], words: str) -> bool:
    if words == NOTHING:
        return condition == ("", "", "")
    return condition[0] == "False" and words in condition[2]


class Parked:
    """All cases, each with its pod refused and nothing on the way."""

    def __init__(self, world: World, devices: Devices) -> None:
        self.world = world
        self.owns = {name: Own(world, devices, name) for name in CASES}
        self._stories = {name: CASES[name](own) for name, own in self.owns.items()}
        self._words: dict[str, str] = {}

    def park(self) -> None:
        self.world.storage_class(waits=True)
        self._words = {name: next(story) for name, story in self._stories.items()}

    def wrong(self) -> dict[str, Any]:
        """Who is not refused yet, or in other words."""
        said = {name: own.condition() for name, own in self.owns.items()}
        return {name: one for name, one in said.items() if not _says(one, self._words[name])}

    def cure(self, name: str) -> None:
        assert next(self._stories[name], None) is None, "a case says one thing"

    def clear(self) -> None:
        for own in self.owns.values():
            own.clear()


@pytest.fixture(scope="module")
def parked(plane: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parked]:
    install_crds(plane.kubeconfig)
    world = World(client_for(plane.kubeconfig, warn=lambda _text: None), f"s{uuid4().hex[:8]}", plane)
    folder = tmp_path_factory.mktemp("waking")
    devices = Devices(world)
    parked, process = Parked(world, devices), None
    try:
        parked.park()
        until(lambda: settled(world), "the nodes and claims do not settle")
        who = kubeconfig(plane, world.api, folder / "kubeconfig")
        config = world.configuration(folder / "config.yaml")
        process = Process(who, folder / "log", "--config", str(config), "--no-leader-elect", start=started).works()
        until(lambda: not parked.wrong(), lambda: str(parked.wrong()))
        yield parked
    finally:
        if process is not None:
            process.stop()
            print(process.text())
        devices.clear()
        parked.clear()
        world.clear()


@pytest.mark.parametrize("name", CASES)
def test_a_parked_pod_is_woken(parked: Parked, name: str) -> None:
    own = parked.owns[name]
    assert own.world.where(own.name) == "", "something else has cured it"
    parked.cure(name)
    until(lambda: own.world.where(own.name), lambda: own.world.story_of(own.name))
