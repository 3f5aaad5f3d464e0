"""LocalDevices, their status and ResourceSlices, as the agent wants them to be."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth_agent.devices import publish
from berth_agent.devices.device import Device, Node
from berth_agent.devices.slices import PER_SLICE, plan_slices, slice_device

NODE = {"metadata": {"name": "h1", "uid": "node-uid"}}
DEVICE = Device("gpu", "GPU-1", (Node("/dev/nvidia0", "/dev/nvidia0"),), memory=1 << 34, model="Test")


def declared(device=DEVICE, **spec):
    body = publish.declaration("h1", device)
    return {**body, "spec": {**body["spec"], **spec}}


def written(plan, there=()):
    """What the API server has after the plan, quantities in its own words, with what it adds."""
    gone = {each["metadata"]["name"] for each in plan.delete}
    kept = {each["metadata"]["name"]: each for each in there if each["metadata"]["name"] not in gone}
    for each in (*plan.create, *plan.replace):
        one = copy.deepcopy(each)
        for device in one["spec"]["devices"]:
            shares = device["capacity"]["shares"]
            if shares["value"] == "1000":
                shares["value"] = shares["requestPolicy"]["default"] = "1k"
            device["taints"][0]["timeAdded"] = "2026-01-01T00:00:00Z"
        kept[one["metadata"]["name"]] = one
    return list(kept.values())


def many(count):
    return [slice_device(Device("gpu", f"GPU-{n}"), declared(Device("gpu", f"GPU-{n}"))) for n in range(count)]


def test_a_new_device_is_declared_once_under_a_name_of_its_own():
    (body,) = publish.undeclared("h1", [DEVICE], [])
    assert body["spec"] == {
        "nodeName": "h1",
        "deviceClass": "gpu",
        "uuid": "GPU-1",
        "capacity": {"shares": 1000, "memory": str(1 << 34)},
    }
    assert publish.undeclared("h1", [DEVICE], [body]) == []
    other = publish.declaration("h1", Device("gpu", "GPU-2"))
    assert other["metadata"]["name"] != body["metadata"]["name"]


def test_a_device_that_somebody_declared_under_another_name_is_that_one():
    own = {**declared(), "metadata": {"name": "the-big-one"}}
    assert publish.undeclared("h1", [DEVICE], [own]) == []


PHASES = {
    "Available": (DEVICE, {}, ""),
    "InUse": (DEVICE, {"claimRefs": [{"name": "ml-0", "shares": 10}]}, ""),
    "Faulted": (
        Device("gpu", "GPU-1", problem="it smokes"),
        {"claimRefs": [{"name": "ml-0", "shares": 10}]},
        "it smokes",
    ),
    "Missing": (None, {"claimRefs": [{"name": "ml-0", "shares": 10}]}, "no source of this node finds the device"),
}


@pytest.mark.parametrize("phase", PHASES)
def test_the_phase_and_why(phase):
    device, spec, why = PHASES[phase]
    (seen,) = publish.see([device] if device else [], [declared(**spec)])
    status = publish.status(seen, True, "now")
    conditions = {each["type"]: each for each in status["conditions"]}
    assert status["phase"] == phase
    assert conditions["Healthy"].get("message", "") == why
    assert conditions["Published"]["status"] == ("False" if why else "True")
    assert ("driver" in status["observed"]) == (not why)


def test_nothing_is_written_again_and_times_tell_of_changes():
    local = declared()
    (seen,) = publish.see([DEVICE], [local])
    status = publish.status(seen, True, "first")
    local["status"] = {**status, "conditions": [*status["conditions"], {"type": "Theirs", "status": "True"}]}
    (again,) = publish.see([DEVICE], [local])
    assert publish.says(local, publish.status(again, True, "later"))
    changed = publish.status(again, False, "later")
    assert not publish.says(local, changed)
    times = {each["type"]: each["lastTransitionTime"] for each in changed["conditions"]}
    assert times == {"Matched": "first", "Healthy": "first", "Published": "later"}


def test_more_declared_than_there_is_drift():
    (seen,) = publish.see([DEVICE], [declared(capacity={"shares": 2000})])
    matched = publish.status(seen, True, "now")["conditions"][0]
    assert (matched["status"], matched["reason"]) == ("False", "Drift")
    assert matched["message"] == "2000 shares are declared, the device has 1000"


def test_of_two_declarations_of_one_device_the_older_is_published():
    old = declared()
    old["metadata"] = {"name": "b", "creationTimestamp": "2026-01-01T00:00:00Z"}
    new = copy.deepcopy(old)
    new["metadata"] = {"name": "a", "creationTimestamp": "2026-01-02T00:00:00Z"}
    problems = {seen.local["metadata"]["name"]: seen.problem for seen in publish.see([DEVICE], [new, old])}
    assert problems["b"] == ""
    assert "LocalDevice b declares this device too" in problems["a"]


def test_what_may_be_given_out_is_what_is_declared():
    published = slice_device(DEVICE, declared(capacity={"shares": 500, "memory": "8Gi"}))
    assert published["capacity"]["shares"]["value"] == "500"
    assert published["capacity"]["memory"]["value"] == "8Gi"
    assert published["attributes"]["uuid"] == {"string": "GPU-1"}
    long = Device("gpu", "x" * 200, attributes={f"a{index}": index for index in range(40)})
    assert "uuid" not in slice_device(long, declared(long))["attributes"], "an attribute has 64 characters at most"
    assert len(slice_device(long, declared(long))["attributes"]) <= 24


@given(st.integers(0, 3 * PER_SLICE), st.integers(0, 3 * PER_SLICE))
def test_slices_say_what_is_there_and_are_then_left_alone(before, after):
    there = written(plan_slices(NODE, many(before), []))
    plan = plan_slices(NODE, many(after), there)
    now = written(plan, there)
    names = [device["name"] for each in now for device in each["spec"]["devices"]]
    assert sorted(names) == sorted(device["name"] for device in many(after))
    pools = [each["spec"]["pool"] for each in now]
    assert all(pool == {**pools[0], "resourceSliceCount": len(now)} for pool in pools)
    assert plan_slices(NODE, many(after), now).empty
    assert plan.empty == (before == after)


def test_a_change_of_one_device_makes_a_new_generation_of_the_pool():
    there = written(plan_slices(NODE, many(PER_SLICE + 1), []))
    devices = many(PER_SLICE + 1)
    devices[0]["attributes"]["model"] = {"string": "other"}
    plan = plan_slices(NODE, devices, there)
    assert [each["spec"]["pool"]["generation"] for each in plan.replace] == [2, 2]
    assert plan.replace[0]["metadata"]["ownerReferences"][0]["uid"] == "node-uid"


def test_a_slice_that_somebody_deleted_comes_back():
    there = written(plan_slices(NODE, many(PER_SLICE + 1), []))
    plan = plan_slices(NODE, many(PER_SLICE + 1), there[1:])
    assert [each["metadata"]["name"] for each in plan.create] == [there[0]["metadata"]["name"]]
