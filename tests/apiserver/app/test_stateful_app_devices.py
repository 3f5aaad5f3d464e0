"""Devices under the same lock and flow as disks: whole ones, shares of one, and nothing given twice."""

from __future__ import annotations

import pytest

from tests.apiserver.app.runner import run, start
from tests.apiserver.app.world import MI, local_disk, params

pytestmark = pytest.mark.promise


def device(node, index, device_class="gpu"):
    name = f"{node}-{device_class}{index}"
    spec = {"nodeName": node, "deviceClass": device_class, "uuid": f"UUID-{name}"}
    return {"apiVersion": "berth.dev/v1alpha1", "kind": "LocalDevice", "metadata": {"name": name}, "spec": spec}


def with_devices(name, kubeconfig, *devices, **values):
    return params(name, kubeconfig, devices=list(devices), **{"replicas": 1, **values})


GPU = {"name": "gpu", "device_class": "gpu"}


@pytest.fixture
def world(app_world):
    """Two devices on fake-0, one on fake-1, and disks everywhere."""
    for node, count in (("fake-0", 2), ("fake-1", 1), ("fake-2", 0)):
        app_world.add_disk(local_disk(node, 0, 128 * MI))
        app_world.add_disk(local_disk(node, 1, 128 * MI))
        for index in range(count):
            made = app_world.client.create(app_world.kinds.LOCAL_DEVICE, device(node, index))
            status = {"status": {"phase": "Available", "observed": {"health": "Healthy"}}}
            app_world.client.patch(app_world.kinds.LOCAL_DEVICE, made["metadata"]["name"], None, status, "status")
    yield app_world
    app_world.clear()


def given(world):
    """device -> {berth: shares}"""
    devices = world.client.list(world.kinds.LOCAL_DEVICE)
    return {
        item["metadata"]["name"]: {ref["name"]: ref["shares"] for ref in item["spec"].get("claimRefs") or ()}
        for item in devices
    }


def test_two_whole_devices_and_a_disk_are_found_on_the_one_node_that_has_them(world, kubeconfig):
    result = run(with_devices("ml", kubeconfig, {**GPU, "count": 2}, wait=True))
    assert not result.get("failed"), result
    row = result["berths"][0]
    assert row["node"] == "fake-0"
    assert [entry["name"] for entry in row["devices"]] == ["fake-0-gpu0", "fake-0-gpu1"]
    assert given(world)["fake-0-gpu0"] == {"ml-0": 1000}
    assert run(with_devices("ml", kubeconfig, {**GPU, "count": 2}, wait=True))["changed"] is False
    run(with_devices("ml", kubeconfig, {**GPU, "count": 2}, state="absent"))
    assert not any(given(world).values())


def test_shares_of_one_device_are_packed_and_never_more_than_it_has(world, kubeconfig):
    for name, share in (("one", 600), ("two", 400)):
        result = run(with_devices(name, kubeconfig, {**GPU, "share": share}))
        assert not result.get("failed"), result
    shared = [refs for refs in given(world).values() if refs]
    assert shared == [{"one-0": 600, "two-0": 400}], "the second share fills the device that the first has begun"


def test_the_refusal_says_who_has_the_devices(world, kubeconfig):
    assert not run(with_devices("ml", kubeconfig, GPU, replicas=3, workload="Pod", disks=[], **no_disk())).get("failed")
    result = run(with_devices("more", kubeconfig, GPU))
    assert result["failed"] is True
    assert "more-0 does not fit" in result["msg"]
    assert "ml-" in result["msg"], result["msg"]
    assert "more-0" not in world.berths()


def no_disk():
    return {"template": {"spec": {"containers": [{"name": "main", "image": "x"}]}}}


def test_ten_at_once_over_three_devices(world, kubeconfig, tmp_path):
    hold = tmp_path / "go"
    racers = [
        start(with_devices(f"app{index}", kubeconfig, GPU, workload="Pod", disks=[], **no_disk()), hold=hold)
        for index in range(10)
    ]
    hold.touch()
    results = [racer.finish() for racer in racers]
    assert sum(not result.get("failed") for result in results) == 3, [result.get("msg") for result in results]
    assert sorted(sum(refs.values()) for refs in given(world).values()) == [1000, 1000, 1000]
    assert len(world.berths()) == 3


def test_a_returning_replica_asks_no_other_node(world, kubeconfig):
    first = run(params("db", kubeconfig, replicas=1))
    run(params("db", kubeconfig, replicas=1, state="absent"))
    back = run(params("db", kubeconfig, replicas=1, explain=True))
    assert back["berths"][0]["node"] == first["berths"][0]["node"]
    counts = back["explanation"]["db-0"]["counts"]
    assert set(counts["nodes"]) <= {first["berths"][0]["node"]}
