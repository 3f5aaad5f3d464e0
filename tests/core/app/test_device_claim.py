"""Which device a claim may have: the lock decides, whatever the claim's allocation says."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth_core.app.device_claim import consumers, device_id, granted, resource_claim, slice_device_name
from berth_core.errors import LockError, StateError

NODE = "h1"
BERTH = {"metadata": {"name": "ml-0", "namespace": "default", "uid": "b0"}}


def local(name, holders=(), node=NODE, shares=1000):
    refs = [
        {"namespace": "default", "name": berth, "uid": uid, "claim": claim, "shares": given}
        for berth, uid, claim, given in holders
    ]
    spec = {"nodeName": node, "deviceClass": "gpu", "uuid": name, "capacity": {"shares": shares}, "claimRefs": refs}
    return {"metadata": {"name": name}, "spec": spec}


def claim(*devices, pods=("ml-0",), uid="b0", label="gpu", pool=NODE, consumed="1k"):
    """A claim as the scheduler leaves it, on these LocalDevices."""
    body = resource_claim({"name": "gpu-ml-0"}, BERTH, "gpu", [(each, 1000) for each in devices], "default")
    body["metadata"]["annotations"]["berth.dev/berth-uid"] = uid
    body["metadata"]["labels"]["berth.dev/claim"] = label
    results = [
        {
            "driver": "berth.dev",
            "request": f"device-{index}",
            "pool": pool,
            "device": slice_device_name(each["spec"]),
            "shareID": f"share-{index}",
            **({"consumedCapacity": {"shares": consumed}} if consumed else {}),
        }
        for index, each in enumerate(devices)
    ]
    other = {"driver": "somebody.else", "request": "x", "pool": "p", "device": "d"}
    body["status"] = {
        "allocation": {"devices": {"results": [*results, other]}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": name} for name in pods],
    }
    return body


MINE = local("mine", [("ml-0", "b0", "gpu", 1000)])


def test_the_locked_device_is_given_with_everything_that_its_container_needs():
    (grant,) = granted(claim(MINE), NODE, [MINE, local("free")], BERTH)
    assert (grant.local_device, grant.uuid, grant.shares, grant.total) == ("mine", "mine", 1000, 1000)
    assert (grant.request, grant.pool, grant.share_id) == ("device-0", NODE, "share-0")
    assert grant.device == slice_device_name(MINE["spec"])


def test_a_scheduler_without_shared_capacity_gives_whole_devices():
    assert granted(claim(MINE, consumed=None), NODE, [MINE], BERTH)[0].shares == 1000
    half = local("mine", [("ml-0", "b0", "gpu", 500)])
    with pytest.raises(LockError, match=r"1000 of 1000 shares of LocalDevice mine are allocated, the lock .* for 500"):
        granted(claim(half, consumed=None), NODE, [half], BERTH)


OTHERS = local("theirs", [("ml-1", "b1", "gpu", 1000)])
REFUSED = {
    "held by another berth": (claim(OTHERS), [OTHERS, MINE], BERTH, LockError, "held by default/ml-1 .*holds mine"),
    "held by nobody": (claim(local("free")), [local("free")], BERTH, LockError, "held by nobody, .*none of this node"),
    "held for another claim": (claim(MINE, label="second"), [MINE], BERTH, LockError, "for its claim second"),
    "no berth": (claim(MINE), [MINE], None, LockError, "has no Berth of its name"),
    "an earlier berth": (claim(MINE, uid="old"), [MINE], BERTH, LockError, "with uid old"),
    "no annotation": (claim(MINE, uid=""), [MINE], BERTH, LockError, r"\(none\)"),
    "more than locked": (claim(MINE, consumed="1001"), [MINE], BERTH, LockError, "1001 of 1000"),
    "less than locked": (claim(MINE, consumed="1"), [MINE], BERTH, LockError, "1 of 1000 shares"),
    "two pods": (claim(MINE, pods=("ml-0", "ml-1")), [MINE], BERTH, StateError, "reserved for ml-0, ml-1"),
    "no pod": (claim(MINE, pods=()), [MINE], BERTH, StateError, "reserved for no pod"),
    "another node's": (claim(MINE, pool="h2"), [MINE], BERTH, StateError, "of node h2, this is h1"),
    "a LocalDevice that is gone": (claim(MINE), [], BERTH, StateError, "no LocalDevice for device gpu-"),
    "nothing allocated": ({**claim(MINE), "status": {}}, [MINE], BERTH, StateError, "no device of berth.dev"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    asked, devices, berth, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        granted(asked, NODE, devices, berth)


def test_one_bad_device_refuses_the_whole_claim():
    two = local("second", [("ml-0", "b0", "gpu", 1000)])
    assert len(granted(claim(MINE, two), NODE, [MINE, two], BERTH)) == 2
    with pytest.raises(LockError, match="theirs"):
        granted(claim(MINE, OTHERS), NODE, [MINE, OTHERS], BERTH)


def test_a_pod_and_its_successor_of_one_name_are_one_consumer():
    body = claim(MINE)
    body["status"]["reservedFor"].append({"resource": "pods", "name": "ml-0", "uid": "next"})
    assert consumers(body) == ["ml-0"]


def test_each_request_pins_one_device_and_asks_for_its_shares():
    body = resource_claim({"name": "n", "labels": {"a": "b"}}, BERTH, "gpu", [(OTHERS, 300), (MINE, 200)], "default")
    asked = [each["exactly"] for each in body["spec"]["devices"]["requests"]]
    assert [each["capacity"]["requests"]["shares"] for each in asked] == ["200", "300"], "in the order of their names"
    assert device_id(MINE["spec"]) in asked[0]["selectors"][0]["cel"]["expression"]
    assert body["metadata"]["labels"] == {"a": "b", "berth.dev/claim": "gpu"}


@given(st.text(min_size=1, max_size=63), st.text(min_size=1, max_size=256))
def test_names_in_slices_are_labels_and_ids_tell_devices_apart(device_class, uuid):
    spec = {"nodeName": NODE, "deviceClass": device_class, "uuid": uuid}
    name = slice_device_name(spec)
    assert 1 <= len(name) <= 63
    assert all(each in "abcdefghijklmnopqrstuvwxyz0123456789-" for each in name)
    assert name[0] != "-" != name[-1]
    other = copy.deepcopy(spec)
    other["nodeName"] = "h2"
    assert device_id(other) != device_id(spec)
    assert len(device_id(spec)) == 32
