"""Claims on the real control plane: bound at once, or when the stock scheduler has chosen; given up as the policy says.

The controller runs with its own service account's token; the volume controller, the scheduler and the API server are
Kubernetes' own. Nodes are fake, disks are LocalDisks whose status the test writes where an agent would.
"""

from __future__ import annotations

import socket
import urllib.request
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.base import Context, execute
from ansible_collections.berth.stateful.plugins.module_utils._glue.resource_list import OPERATION as RESOURCE_LIST
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.controller.world import GI, until


def test_a_static_claim_is_bound_to_the_smallest_disk_that_fits(world, start, nodes):
    world.storage_class()
    small = world.disk(nodes[0], 0, size=1 * GI)
    right = world.disk(nodes[1], 1, size=3 * GI)
    world.disk(nodes[0], 2, size=9 * GI)
    start("--no-leader-elect")
    world.claim("data", "2Gi")
    claim = world.wait_bound("data")[0]
    berth = world.berths()[f"pvc-{claim['metadata']['uid']}"]
    volume = world.volumes()[claim["spec"]["volumeName"]]
    assert world.locks()[right]["uid"] == berth["metadata"]["uid"]
    assert small not in world.locks()
    assert volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"] == [
        nodes[1]
    ]
    assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
    until(lambda: world.berths()[berth["metadata"]["name"]]["status"]["phase"] == "Bound", "its Berth does not say so")
    assert volume["metadata"]["annotations"]["berth.dev/local-disk"] == right
    world.check()


def test_the_resource_list_shows_a_claim_as_it_shows_an_app_and_metrics_count_it(world, start, nodes, plane):
    world.storage_class()
    held, free = world.disk(nodes[0], 0), world.disk(nodes[0], 1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    start("--no-leader-elect", "--port", str(port))
    world.claim("data")
    claim = world.wait_bound("data")[0]
    until(lambda: _metrics(port)["berth_controller_claim_bound_seconds_count"] == 1, lambda: str(_metrics(port)))
    assert _metrics(port)["berth_leading"] == 1
    assert _metrics(port)["berth_controller_resync_rescues_total"] == 0
    assert _metrics(port)['berth_controller_writes_total{kind="PersistentVolume",verb="create"}'] == 1
    defaults = {name: spec.get("default") for name, spec in RESOURCE_LIST.argument_spec().items()}
    params = {**defaults, "kubeconfig": str(plane.kubeconfig)}
    answer = execute(RESOURCE_LIST, Context(params, False, lambda _text: None, environ={}))
    disks = {one["name"]: one for one in answer["resources"]["disks"]}
    assert disks[held]["why_not_free"] == "held"
    assert disks[held]["holder"]["berth"] == f"pvc-{claim['metadata']['uid']}"
    assert disks[free]["free"]


def _metrics(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


def test_a_dynamic_claim_goes_where_the_stock_scheduler_finds_capacity(world, start, nodes):
    """One node alone has a disk of that size: the scheduler knows it from CSIStorageCapacity."""
    world.storage_class(waits=True)
    for node in nodes:
        world.disk(node, 0, size=2 * GI)
    large = world.disk(nodes[2], 1, size=6 * GI)
    start("--no-leader-elect")
    until(lambda: _capacity(world, nodes[2]) == "6Gi", "no capacity")
    world.claim("data", "5Gi")
    until(lambda: world.told("data", "WaitForFirstConsumer"), lambda: world.story("data"))
    assert world.locks() == {}
    world.pod("app", "data")
    world.wait_bound("data")
    assert set(world.locks()) == {large}
    until(
        lambda: world.api.get(kinds.POD, "app", world.name)["spec"].get("nodeName") == nodes[2], "the pod is not there"
    )
    until(lambda: _capacity(world, nodes[2]) == "2Gi", "the capacity is not what is left")


def _capacity(world: Any, node: str) -> str | None:
    for one in world.api.list(kinds.CSI_STORAGE_CAPACITY, "berth-system"):
        if one["storageClassName"] == world.name and one["metadata"]["annotations"]["berth.dev/node"] == node:
            return str(one["maximumVolumeSize"])
    return None


def test_a_pod_for_which_no_node_has_a_disk_stays_pending_and_gets_the_next_free_one(world, start, nodes):
    world.storage_class(waits=True)
    world.disk(nodes[0], 0, size=1 * GI)
    start("--no-leader-elect")
    world.claim("data", "2Gi")
    world.pod("app", "data")
    words = "enough free storage"
    until(lambda: any(words in note for _reason, note in world.events("app")), lambda: str(world.events("app")))
    world.disk(nodes[3], 1, size=2 * GI)
    world.wait_bound("data")


def test_the_node_is_given_back_when_its_disk_is_lost_meanwhile(world, start, nodes):
    """A claim that was sent to a node without disks (old capacity, another scheduler): the annotation is taken off."""
    world.storage_class(waits=True)
    start("--no-leader-elect")
    world.disk(nodes[1], 0)
    world.claim("data")
    sent = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": nodes[0]}}}
    world.api.patch(kinds.PVC, "data", world.name, sent)
    key = "volume.kubernetes.io/selected-node"
    until(lambda: key not in (world.get_claim("data")["metadata"].get("annotations") or {}), "the node is kept")
    until(lambda: world.told("data", "NoDisk", f"node {nodes[0]} has no LocalDisk"), lambda: world.story("data"))
    world.pod("app", "data")
    world.wait_bound("data")


def test_the_claims_of_one_pod_are_bound_on_one_node_or_not_at_all(world, start, nodes):
    world.storage_class(waits=True)
    world.disk(nodes[0], 0, size=2 * GI)
    for index in range(2):
        world.disk(nodes[1], index, size=(2 + index) * GI)
    start("--no-leader-elect")
    for name in ("data", "log"):
        world.claim(name, "2Gi")
    world.pod("app", "data", "log")
    world.wait_bound("data", "log")
    assert {world.disks()[name]["spec"]["nodeName"] for name in world.locks()} == {nodes[1]}


def test_a_claim_whose_class_is_gone_says_what_it_waits_for_and_is_bound_when_the_class_is_back(world, start, nodes):
    """Kubernetes hands the claim over to berth-controller, then the class goes before a disk is there."""
    world.storage_class()
    start("--no-leader-elect")
    world.claim("data")
    until(lambda: world.told("data", "NoDisk"), lambda: world.story("data"))
    key = "volume.kubernetes.io/storage-provisioner"
    until(lambda: key in (world.get_claim("data")["metadata"].get("annotations") or {}), lambda: world.story("data"))
    world.delete(kinds.STORAGE_CLASS, world.name)
    until(lambda: world.told("data", "ClassGone", f"StorageClass {world.name} is gone"), lambda: world.story("data"))
    world.disk(nodes[0], 0)
    world.storage_class()
    world.wait_bound("data")


@pytest.mark.parametrize("mode", ["Immediate", "WaitForFirstConsumer"])
def test_retain_keeps_the_data_for_a_claim_of_the_same_name(world, start, nodes, mode):
    world.storage_class(waits=mode != "Immediate")
    for node in nodes[:2]:
        world.disk(node, 0)
    start("--no-leader-elect")
    world.claim("data")
    world.pod("app", "data")
    world.wait_bound("data")
    ((disk, lock),) = world.locks().items()
    world.delete(kinds.POD, "app")
    world.delete(kinds.PVC, "data")
    until(lambda: not world.berths() and not world.volumes(), lambda: str(world.berths()))
    spec = world.disks()[disk]["spec"]
    assert spec["retainedFor"]["dataUID"] == lock["dataUID"]
    assert "claimRef" not in spec
    assert "wipe" not in spec
    world.claim("data")  # waits for no scheduler: its data is where it is
    world.wait_bound("data")
    assert world.locks()[disk]["dataUID"] == lock["dataUID"]
    world.claim("other")
    if mode == "Immediate":
        world.wait_bound("other")
        assert len(world.locks()) == 2
    world.check()


@pytest.mark.promise
def test_a_namespace_made_anew_does_not_get_the_data_of_the_earlier_one(world, start, nodes):
    world.storage_class()
    disk = world.disk(nodes[0], 0)
    start("--no-leader-elect")
    world.claim("data")
    world.wait_bound("data")
    lock = world.locks()[disk]
    world.delete(kinds.PVC, "data")  # a namespace that waits for finalizers looks again after many seconds
    until(lambda: not world.berths() and not world.api.list(kinds.PVC, world.name), lambda: str(world.berths()))
    world.delete(kinds.NAMESPACE, world.name)
    until(lambda: world.api.find(kinds.NAMESPACE, world.name) is None, lambda: str(world.berths()))
    kept = world.disks()[disk]["spec"]["retainedFor"]
    assert (kept["namespaceUID"], kept["dataUID"]) == (lock["namespaceUID"], lock["uid"])
    made = world.api.create(kinds.NAMESPACE, {"metadata": {"name": world.name}})["metadata"]
    world.claim("data")
    told = f"(uid {lock['namespaceUID']}; the one of today, uid {made['uid']}, was made {made['creationTimestamp']})"
    until(lambda: world.told("data", "NoDisk", told), lambda: world.story("data"))
    assert world.told("data", "NoDisk", f"-a 'name={disk} state=released force_retained=true'")
    other = world.disk(nodes[1], 0)
    world.wait_bound("data")
    assert world.locks()[other]["namespaceUID"] == made["uid"]
    assert world.disks()[disk]["spec"]["retainedFor"] == kept
    world.check()


@pytest.mark.promise
def test_the_ephemeral_volume_of_the_next_pod_is_on_another_disk(world, start, nodes):
    """A class that says Retain keeps it as it keeps all data; no pod of that name gets it again."""
    world.storage_class()
    first = world.disk(nodes[0], 0)
    start("--no-leader-elect")
    wanted = {"storageClassName": world.name, "accessModes": ["ReadWriteOnce"],
              "resources": {"requests": {"storage": "1Gi"}}}  # fmt: skip
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": wanted}}}]
    pod = world.pod("app", volumes=volumes)["metadata"]
    until(lambda: first in world.locks(), lambda: str(world.disks()))
    assert world.locks()[first]["podUID"] == pod["uid"]
    world.delete(kinds.POD, "app")
    until(lambda: not world.berths(), lambda: str(world.berths()))
    kept = world.disks()[first]["spec"]["retainedFor"]
    assert kept["podUID"] == pod["uid"]
    again = world.pod("app", volumes=volumes)["metadata"]
    told = f"for the ephemeral volume of an earlier pod (uid {pod['uid']})"
    until(lambda: world.told("app-scratch", "NoDisk", told), lambda: str(world.events("app-scratch")))
    second = world.disk(nodes[0], 1)
    world.wait_bound("app-scratch")
    assert world.locks()[second]["podUID"] == again["uid"]
    assert world.disks()[first]["spec"]["retainedFor"] == kept


def test_delete_asks_the_agent_for_a_wipe_and_gives_the_disk_to_nobody_before(world, start, nodes):
    world.storage_class(policy="Delete")
    wiped, kept = world.disk(nodes[0], 0, reclaimPolicy="Delete"), world.disk(nodes[0], 1, size=4 * GI)
    start("--no-leader-elect")
    world.claim("data")
    world.claim("careful", "3Gi")
    world.wait_bound("data", "careful")
    uid = world.locks()[wiped]["uid"]
    for name in ("data", "careful"):
        world.delete(kinds.PVC, name)
    until(lambda: not world.berths() and not world.volumes(), lambda: str(world.berths()))
    disks = world.disks()
    assert disks[wiped]["spec"]["wipe"]["requestID"] == uid
    assert disks[wiped]["spec"]["wipe"]["identity"] == disks[wiped]["spec"]["identity"]
    assert disks[wiped]["spec"]["wipe"]["requestedBy"] == f"PersistentVolumeClaim {world.name}/data"
    assert "wipe" not in disks[kept]["spec"], "the disk's own policy is Retain"
    world.claim("next")
    until(lambda: world.told("next", "NoDisk", "1 to be wiped, 1 with retained data"), lambda: world.story("next"))
    done = {key: value for key, value in disks[wiped]["spec"].items() if key not in ("wipe", "retainedFor")}
    world.api.replace(kinds.LOCAL_DISK, {**world.disks()[wiped], "spec": done})  # what the agent does after a wipe
    world.wait_bound("next")


def test_a_broken_disk_is_never_chosen_and_a_healed_one_is(world, start, nodes):
    world.storage_class()
    broken = world.disk(nodes[0], 0, phase="Faulted")
    world.disk(nodes[0], 1, phase="Missing")
    world.disk(nodes[1], 0, reserved=True)
    start("--no-leader-elect")
    world.claim("data")
    words = "1 Faulted, 1 Missing, 1 reserved"
    until(lambda: world.told("data", "NoDisk", words), lambda: world.story("data"))
    world.observe(broken, "Available")
    world.wait_bound("data")
    assert set(world.locks()) == {broken}


def test_what_is_not_ours_is_left_alone(world, start, nodes):
    world.storage_class()
    other = {"metadata": {"name": f"{world.name}-other"}, "provisioner": "kubernetes.io/no-provisioner",
             "volumeBindingMode": "Immediate"}  # fmt: skip
    world.api.create(kinds.STORAGE_CLASS, other)
    world.disk(nodes[0], 0)
    world.disk(nodes[0], 1, storageClassName=f"{world.name}-other")
    start("--no-leader-elect")
    world.claim("foreign", storage_class=f"{world.name}-other")
    world.claim("named", volumeName="some-volume")
    world.claim("shared", accessModes=["ReadWriteMany"])
    world.claim("data")
    world.wait_bound("data")
    until(lambda: world.told("shared", "Unsupported", "ReadWriteMany"), lambda: world.story("shared"))
    assert len(world.berths()) == 1
    assert {reason for reason, _note in world.events("foreign")} <= {"ProvisioningFailed"}, "Kubernetes' own word"
