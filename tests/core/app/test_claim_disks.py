"""Which disk a claim gets, and what is said when there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from berth_core.app.capacity import canonical, changes, seems_to_fit, wanted
from berth_core.app.claim_disks import choose
from berth_core.errors import UnschedulableError
from berth_core.model.tenant import Tenant
from tests.core.app.claim_world import GI, TENANT, asked, disk, node, parsed, places

LOCK = {"namespace": "x", "name": "db-0", "uid": "u", "app": "db", "ordinal": 0, "claim": "d", "dataUID": "u"}
KEPT = {"namespace": "default", "app": "pvc.data", "ordinal": 0, "claim": "data", "dataUID": "u-7"}


def test_the_smallest_that_fits_and_then_the_first_name():
    disks = parsed(disk("n1-d9", size=9 * GI), disk("n2-d0", "n2"), disk("n1-d1"), disk("n1-d0", size=GI // 2))
    assert choose(asked(), disks, places()).name == "n1-d1"
    assert choose(asked(), disks, places(), taken={"n1-d1"}).name == "n2-d0"


@pytest.mark.parametrize("bad", [node("n1", ready=False), node("n1", unschedulable=True),
                                 node("n1", taints=[{"key": "k", "effect": "NoSchedule"}])])  # fmt: skip
def test_a_node_that_takes_no_pods_gives_no_disk_unless_a_scheduler_chose_it(bad):
    disks = parsed(disk("n1-d0"), disk("n2-d0", "n2", size=9 * GI))
    assert choose(asked(), disks, places(bad, node("n2"))).name == "n2-d0"
    assert choose(asked(waits=True, node="n1"), disks, places(bad, node("n2"))).name == "n1-d0"


def test_everything_that_speaks_against_the_disks_is_counted():
    disks = parsed(
        disk("a", claimRef=LOCK), disk("b", size=1), disk("c", phase="Faulted"), disk("d", reserved=True),
        disk("e", storageClassName="slow"), disk("f", retainedFor={**KEPT, "app": "other"}),
        disk("g", volumeMode="Block"), disk("h", wipe={"requestID": "r"}), disk("i"),
    )  # fmt: skip
    with pytest.raises(UnschedulableError) as caught:
        choose(asked(), disks, places(), taken={"i"})
    for words in ("none of the 8", "1 held", "1 too small", "1 Faulted", "1 reserved", "1 with retained data",
                  "1 of another volumeMode", "1 chosen for another claim", "1 to be wiped"):  # fmt: skip
        assert words in caught.value.message


def test_a_class_without_disks_is_told_so():
    with pytest.raises(UnschedulableError, match="the cluster has no LocalDisk of class fast"):
        choose(asked(), parsed(disk(storageClassName="slow")), places())


def test_labels_select_disks():
    disks = parsed(disk("a"), disk("b", labels={"tier": "log"}))
    picky = asked(selector={"matchLabels": {"tier": "log"}})
    assert choose(picky, disks, places()).name == "b"


def test_own_data_comes_first_and_excludes_every_other_disk():
    mine = disk("n2-d0", "n2", size=9 * GI, phase="Released", retainedFor=KEPT)
    assert choose(asked(), parsed(disk(), mine), places()).name == "n2-d0"
    broken = {**mine, "status": {**mine["status"], "phase": "Faulted"}}
    with pytest.raises(UnschedulableError, match="n2-d0 on node n2: Faulted") as caught:
        choose(asked(), parsed(disk(), broken), places())
    assert "local_disk -a 'name=n2-d0 state=released force_retained=true'" in caught.value.message
    assert 'disk_replace -a \'{"name": "n2-d0", "new": {"identity"' in caught.value.message
    assert len(caught.value.message) < 1024, "an Event takes no more"


@pytest.mark.promise
def test_data_of_an_earlier_namespace_is_nobodys_to_take_and_is_told_with_the_way_out():
    left = disk("n2-d0", "n2", phase="Released", retainedFor={**KEPT, "namespaceUID": "ns-0"})
    assert choose(asked(), parsed(disk(), left), places(), tenant=TENANT).name == "n1-d0"
    with pytest.raises(UnschedulableError) as caught:
        choose(asked(), parsed(left), places(), tenant=TENANT)
    for words in ("1 with retained data", "n2-d0 keeps the data of default/pvc.data-0 of an earlier namespace",
                  "uid ns-0; the one of today, uid ns-1, was made 2026-11-24T20:00:00Z",
                  "-a 'name=n2-d0 state=released force_retained=true'"):  # fmt: skip
        assert words in caught.value.message
    assert choose(asked(), parsed(disk(), left), places(), tenant=Tenant("ns-0")).name == "n2-d0"
    before = disk("n2-d0", "n2", phase="Released", retainedFor=KEPT)
    assert choose(asked(), parsed(disk(), before), places(), tenant=TENANT).name == "n2-d0", "of an older release"


@pytest.mark.promise
def test_the_ephemeral_volume_of_the_next_pod_begins_empty():
    def of_pod(uid):
        claim = asked(name="web-0-tmp", uid=f"c-{uid}")
        return replace(claim, claim=replace(claim.claim, pod_uid=uid))

    kept = {**KEPT, "app": "pvc.web-0-tmp", "claim": "web-0-tmp", "namespaceUID": "ns-1", "podUID": "p-1"}
    left = disk("n2-d0", "n2", phase="Released", retainedFor=kept)
    assert choose(of_pod("p-1"), parsed(disk(), left), places(), tenant=TENANT).name == "n2-d0"
    for other in (of_pod("p-2"), of_pod("")):
        assert choose(other, parsed(disk(), left), places(), tenant=TENANT).name == "n1-d0"
    with pytest.raises(UnschedulableError, match=r"for the ephemeral volume of an earlier pod \(uid p-1\); where"):
        choose(of_pod("p-2"), parsed(left), places(), tenant=TENANT)


def test_the_claims_of_a_pod_are_decided_together():
    small = asked(waits=True, node="n1", name="log", uid="c-1", size="1Gi")
    large = asked(waits=True, node="n1", name="data", uid="c-2", size="2Gi")
    disks = parsed(disk("a", size=2 * GI), disk("b", size=1 * GI))
    assert choose(small, disks, places(), siblings=[large]).name == "b"
    assert choose(large, disks, places(), siblings=[small]).name == "a"
    with pytest.raises(UnschedulableError, match="for all claims of the pod together \\(data, log\\)"):
        choose(small, parsed(disk("a", size=2 * GI)), places(), siblings=[large])


def test_the_capacity_of_a_node_is_its_largest_free_disk():
    disks = parsed(disk("a", size=2 * GI), disk("b", size=5 * GI), disk("c", size=9 * GI, claimRef=LOCK),
                   disk("d", "n2", claimRef=LOCK), disk("e", "gone"), disk("f", storageClassName="other"))  # fmt: skip
    found = wanted("berth-system", ["fast"], disks, places())
    by_node = {one["metadata"]["annotations"]["berth.dev/node"]: one for one in found.values()}
    assert set(by_node) == {"n1", "n2"}
    assert (by_node["n1"]["maximumVolumeSize"], by_node["n1"]["capacity"]) == ("5Gi", "7Gi")
    assert (by_node["n2"]["maximumVolumeSize"], by_node["n2"]["capacity"]) == ("0", "0")
    assert by_node["n1"]["nodeTopology"] == {"matchLabels": {"kubernetes.io/hostname": "n1"}}


def test_a_node_that_is_held_back_gives_nothing():
    disks = parsed(disk("a"), disk("b", "n2"))
    found = wanted("s", ["fast"], disks, places(), held_back={("n1", "fast")})
    assert {one["metadata"]["annotations"]["berth.dev/node"]: one["maximumVolumeSize"] for one in found.values()} == {
        "n1": "0",
        "n2": "2Gi",
    }


def test_a_node_seems_to_fit_while_its_largest_free_disk_does():
    """What a scheduler that reads the capacity alone would think of the node that it chose in vain."""
    here = asked(waits=True, node="n1", size="2Gi")
    assert seems_to_fit(here, parsed(disk("a"), disk("b", size=1 * GI)), set())
    assert not seems_to_fit(here, parsed(disk("a")), {"a"})
    assert not seems_to_fit(here, parsed(disk("a", claimRef=LOCK), disk("b", "n2"), disk("c", size=1 * GI)), set())
    assert not seems_to_fit(here, parsed(disk("a", storageClassName="slow")), set())


def test_nothing_is_written_where_nothing_has_changed():
    desired = wanted("s", ["fast"], parsed(disk()), places())
    live = [{**one, "metadata": {**one["metadata"], "resourceVersion": "7"}} for one in desired.values()]
    assert changes(desired, live) == ([], [], [])
    later = wanted("s", ["fast"], parsed(disk(claimRef=LOCK)), places())
    assert [one["metadata"]["resourceVersion"] for one in changes(later, live).replace] == ["7"]
    assert [one["metadata"]["name"] for one in changes({}, live).delete] == list(desired)
    assert changes(desired, []).create == list(desired.values())


@pytest.mark.parametrize(("size", "text"), [(0, "0"), (1, "1"), (1024, "1Ki"), (3 << 30, "3Gi"), (10**9, "1000000000")])
def test_sizes_are_written_as_the_api_server_writes_them(size, text):
    assert canonical(size) == text
