"""Locked devices handed to containers: the stock scheduler and admission give each pod its own berth's devices.

Kubelets are not here (nodes are fake): what an agent publishes is written as the agent writes it, and what the kubelet
does with it is tests/daemons/agent/test_devices_hosts.py.
"""

from __future__ import annotations

import copy
from functools import partial
from pathlib import Path

import pytest

from berth_agent.devices.device import Device
from berth_agent.devices.slices import plan_slices, slice_device
from berth_core.app.device_claim import DRIVER, slice_device_name
from tests.apiserver.app.runner import calm, deaths, run
from tests.apiserver.app.test_stateful_app_devices import device
from tests.apiserver.app.world import MI, local_disk, params
from tests.dev.hosts_help import eventually

pytestmark = pytest.mark.promise

MANIFESTS = Path(__file__).parents[3] / "deploy/agent/devices.yaml"
POLICY = "mutatingadmissionpolicy/berth-device-claims"
NODE = "fake-0"


@pytest.fixture(scope="module", autouse=True)
def manifests(control_plane, kubeconfig):
    control_plane.kubectl("apply", "-f", str(MANIFESTS))
    eventually(lambda: admitted(control_plane), 30, "the policy in force")
    yield
    control_plane.kubectl("delete", "-f", str(MANIFESTS))


def admitted(control_plane):
    """The API server takes up a policy a moment after it was written."""
    text = """
apiVersion: v1
kind: Pod
metadata: {name: probe-7, namespace: default, labels: {berth.dev/app: probe}}
spec:
  resourceClaims: [{name: gpu, resourceClaimName: gpu-probe}]
  containers: [{name: main, image: none, resources: {claims: [{name: gpu}]}}]
"""
    got = control_plane.kubectl("create", "--dry-run=server", "-o", "yaml", "-f", "-", stdin=text)
    return "resourceClaimName: gpu-probe-7" in got


@pytest.fixture
def world(app_world):
    """Two devices and four disks on one node; the devices are published."""
    for index in range(4):
        app_world.add_disk(local_disk(NODE, index, 128 * MI))
    made = [app_world.client.create(app_world.kinds.LOCAL_DEVICE, device(NODE, index)) for index in range(2)]
    publish(app_world, made)
    yield app_world
    app_world.clear()
    publish(app_world, [])


def publish(world, devices):
    """What the agent of the node writes for its devices."""
    for one in devices:
        status = {"status": {"phase": "Available", "observed": {"health": "Healthy", "driver": DRIVER}}}
        world.client.patch(world.kinds.LOCAL_DEVICE, one["metadata"]["name"], None, status, "status")
    listed = [slice_device(Device("gpu", one["spec"]["uuid"]), one) for one in devices]
    fields = f"spec.nodeName={NODE},spec.driver={DRIVER}"
    there = world.client.list(world.kinds.RESOURCE_SLICE, fields=fields)
    plan = plan_slices(world.client.get(world.kinds.NODE, NODE), listed, there)
    for body in plan.create:
        world.client.create(world.kinds.RESOURCE_SLICE, body)
    for body in plan.replace:
        world.client.replace(world.kinds.RESOURCE_SLICE, body)
    for body in plan.delete:
        world.client.delete(world.kinds.RESOURCE_SLICE, body["metadata"]["name"])


def options(app, kubeconfig, *, handed=True, **values):
    made = copy.deepcopy(params(app, kubeconfig, devices=[{"name": "gpu", "device_class": "gpu"}], **values))
    if handed:
        made["template"]["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    if values.get("workload") == "Pod":
        made["template"]["spec"]["containers"][0].pop("volumeMounts")
        made["disks"] = []
    return made


def locked(world):
    """berth -> (LocalDevice, its name in slices)"""
    return {
        ref["name"]: (item["metadata"]["name"], slice_device_name(item["spec"]))
        for item in world.client.list(world.kinds.LOCAL_DEVICE)
        for ref in item["spec"].get("claimRefs") or ()
    }


def allocated(world, pod):
    """The devices that the claims of a pod have, by the pod's own reading."""
    found = world.client.get(world.kinds.POD, pod, "default")
    names = [each["resourceClaimName"] for each in found["spec"]["resourceClaims"]]
    claims = [world.client.get(world.kinds.RESOURCE_CLAIM, name, "default") for name in names]
    return [
        (result["device"], result["consumedCapacity"]["shares"])
        for claim in claims
        for result in claim["status"]["allocation"]["devices"]["results"]
    ]


@pytest.mark.parametrize("workload", ["StatefulSet", "Pod"])
def test_every_pod_gets_the_device_that_its_berth_locked(world, kubeconfig, workload):
    wanted = options("ml", kubeconfig, workload=workload, wait=True)
    result = run(wanted)
    assert not result.get("failed"), result
    held = locked(world)
    assert sorted(held) == ["ml-0", "ml-1"]
    for name, (_device, published) in held.items():
        assert allocated(world, name) == [(published, "1k")]
    assert run(wanted)["changed"] is False
    gone = run({**wanted, "state": "absent"})
    assert not gone.get("failed"), gone
    assert world.ours(world.kinds.RESOURCE_CLAIM) == []
    assert locked(world) == {}


def test_two_shares_of_one_device_are_two_claims_on_it(world, kubeconfig):
    wanted = options("half", kubeconfig, workload="Pod", wait=True)
    wanted["devices"] = [{"name": "gpu", "device_class": "gpu", "share": 500}]
    result = run(wanted)
    assert not result.get("failed"), result
    assert len(set(locked(world).values())) == 1, "both are on one device"
    assert allocated(world, "half-0") == allocated(world, "half-1")
    assert allocated(world, "half-0")[0][1] == "500"


def test_a_template_that_begins_to_name_its_device_gets_a_claim(world, kubeconfig):
    first = run(options("late", kubeconfig, handed=False, workload="Pod", replicas=1, wait=True))
    assert not first.get("failed"), first
    assert world.ours(world.kinds.RESOURCE_CLAIM) == []
    then = run(options("late", kubeconfig, workload="Pod", replicas=1, wait=True))
    assert not then.get("failed"), then
    assert allocated(world, "late-0") == [(locked(world)["late-0"][1], "1k")]


def test_without_the_policy_nothing_is_written(world, control_plane, kubeconfig):
    control_plane.kubectl("delete", POLICY)
    try:
        refused = run(options("ml", kubeconfig))
    finally:
        control_plane.kubectl("apply", "-f", str(MANIFESTS))
        eventually(lambda: admitted(control_plane), 30, "the policy in force")
    assert refused["failed"]
    assert "berth-device-claims is not there" in refused["msg"]
    assert "deploy/agent/devices.yaml" in refused["msg"]
    assert refused["writes"] == 0
    assert world.berths() == {}


def test_a_device_that_no_agent_publishes_is_refused_by_name(world, kubeconfig):
    for name in (f"{NODE}-gpu0", f"{NODE}-gpu1"):
        status = {"status": {"observed": {"health": "Healthy", "driver": None}}}
        world.client.patch(world.kinds.LOCAL_DEVICE, name, None, status, "status")
    refused = run(options("ml", kubeconfig, workload="Pod"))
    assert refused["failed"]
    assert "does not publish it to the kubelet" in refused["msg"]
    assert world.ours(world.kinds.POD) == []


def test_the_claim_of_an_earlier_berth_is_made_anew(world, kubeconfig):
    wanted = options("ml", kubeconfig, workload="Pod", replicas=1)
    left = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": "gpu-ml-0",
            "namespace": "default",
            "labels": {"berth.dev/app": "ml", "app.kubernetes.io/managed-by": "berth"},
            "annotations": {"berth.dev/berth-uid": "of-long-ago"},
        },
        "spec": {"devices": {"requests": [{"name": "d", "exactly": {"deviceClassName": "berth.dev"}}]}},
    }
    world.client.create(world.kinds.RESOURCE_CLAIM, left)
    result = run({**wanted, "wait": True})
    assert not result.get("failed"), result
    assert allocated(world, "ml-0") == [(locked(world)["ml-0"][1], "1k")]


@pytest.mark.slow
def test_killed_at_every_write_with_a_device_in_hand(world, kubeconfig):
    wanted = options("ml", kubeconfig, workload="Pod", replicas=1, wait=True)
    gone = {**wanted, "state": "absent"}
    trace, back = run(wanted)["trace"], run(gone)["trace"]
    assert "create ResourceClaim" in trace
    assert "delete ResourceClaim" in back
    assert sum(1 for _death in deaths(partial(run, wanted))) >= len(trace)
    assert allocated(world, "ml-0") == [(locked(world)["ml-0"][1], "1k")]
    assert sum(1 for _death in deaths(partial(run, gone))) >= len(back)
    assert (locked(world), world.ours(world.kinds.RESOURCE_CLAIM)) == ({}, [])
    for write, before in ((2, True), (len(trace) // 2, False)):  # one run does all the rest
        assert run(wanted, kill_at=write) is None
        calm(run(wanted))
        assert allocated(world, "ml-0") == [(locked(world)["ml-0"][1], "1k")], write
        assert run(gone, kill_at=1 + write % len(back), before=before) is None
        calm(run(gone))
        assert (locked(world), world.ours(world.kinds.RESOURCE_CLAIM)) == ({}, []), write


def test_a_claim_of_the_template_with_a_devices_name_is_refused(world, kubeconfig):
    wanted = options("ml", kubeconfig, workload="Pod")
    wanted["template"]["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "mine"}]
    refused = run(wanted)
    assert refused["failed"]
    assert "template.spec.resourceClaims" in refused["msg"]
