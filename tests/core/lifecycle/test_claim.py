"""A claim from nothing to Bound and back, one write at a time; each test is a life with a turn that it takes."""

from __future__ import annotations

import copy

import pytest

from berth_core.app import claims
from berth_core.app.claim_pods import ClaimPod
from berth_core.app.fsid import filesystem_uuid
from berth_core.lifecycle import states
from berth_core.lifecycle import step as steps
from berth_core.lifecycle.back import left_locks
from berth_core.lifecycle.locks import BERTH_ANNOTATION
from berth_core.lifecycle.next_step import next_step
from berth_core.lifecycle.view import View
from berth_core.model.resources import BERTH, LOCAL_DISK, PV
from berth_core.model.tenant import Tenant
from tests.core.app.claim_world import Cluster, claim, disk, node, storage_class

#: The last one says that it is Bound, and which pod has it.
BINDING = [
    ("create", "Berth"),
    ("replace", "LocalDisk"),
    ("status", "Berth"),
    ("create", "PersistentVolume"),
    ("status", "Berth"),
]

RUNS, STOPS = (ClaimPod("web-0", "StatefulSet web", ready=not going, going=going) for going in (False, True))


def test_the_way_back_says_first_what_becomes_of_the_data_and_forgets_the_berth_last():
    world = cluster([disk(reclaimPolicy="Delete")], policy="Delete")
    world.run()
    world.claim, world.log = None, []
    world.step()
    assert world.get(BERTH, "pvc-c-1")["status"] == {"phase": "Releasing", "release": "Wipe"}
    world.run()
    assert world.log == [
        ("status", "Berth"),
        ("delete", "PersistentVolume"),
        ("replace", "LocalDisk"),
        ("delete", "Berth"),
        ("replace", "Berth"),
    ]


@pytest.mark.promise
def test_a_namespace_that_was_made_anew_since_the_choice_gets_no_data_of_the_earlier_one():
    """Chosen by a cache that had the earlier namespace; the look before the lock tells the new one."""
    kept = {"namespace": "default", "app": "pvc.data", "ordinal": 0, "claim": "data", "dataUID": "u-0"}
    left = disk(phase="Released", retainedFor={**kept, "namespaceUID": "ns-1"})
    world = cluster([left, disk("n2-d0", "n2")])
    world.step()
    assert world.get(BERTH, "pvc-c-1")["spec"]["disks"][0]["name"] == "n1-d0"
    world.tenant = Tenant("ns-2")
    world.run()
    assert world.get(LOCAL_DISK, "n1-d0")["spec"]["retainedFor"] == left["spec"]["retainedFor"]
    assert world.get(LOCAL_DISK, "n2-d0")["spec"]["claimRef"]["namespaceUID"] == "ns-2"


def test_the_namespace_is_looked_at_when_the_berth_is_there_and_once():
    world = cluster()
    asked = next_step(world.view())
    assert isinstance(asked, steps.Choose)
    world.step()
    assert next_step(world.view()) == steps.Look("default")
    world.looked = Tenant()
    step = next_step(world.view())
    assert (step.body["status"]["phase"], step.why) == ("Releasing", "namespace default is gone, and the Berth with it")
    world.looked = None
    world.step()
    assert isinstance(next_step(world.view()), steps.Write), "what is locked needs no look"


def cluster(disks=None, **options):
    return Cluster(claim(), storage_class(**options), disks or [disk()], [node("n1"), node("n2")])


def test_a_claim_is_bound_by_writes_that_look_like_those_of_an_app():
    world = cluster()
    assert world.run() == steps.DONE
    assert world.log == BINDING
    record = world.get(BERTH, "pvc-c-1")
    held = world.get(LOCAL_DISK, "n1-d0")["spec"]["claimRef"]
    volume = next(one for (kind, _name), one in world.store.items() if kind == PV)
    uid = record["metadata"]["uid"]
    assert record["status"] == {"phase": "Bound"}
    assert held == {"namespace": "default", "name": "pvc-c-1", "uid": uid, "app": "pvc.data", "ordinal": 0,
                    "claim": "data", "dataUID": uid, "namespaceUID": "ns-1"}  # fmt: skip
    assert volume["metadata"]["annotations"][BERTH_ANNOTATION] == uid
    assert volume["spec"]["claimRef"]["uid"] == "c-1"
    assert volume["spec"]["capacity"] == {"storage": "2Gi"}, "as a person writes it"
    assert volume["spec"]["local"]["path"] == "/var/lib/berth/disks/.namespaces/n1-d0/default"


PG = ClaimPod("pg-1", "StatefulSet pg", ready=False, going=False)
NAMED = {"podName": "pg-1", "workload": "StatefulSet pg"}


def test_a_claim_whose_pod_is_known_when_it_is_bound_costs_one_more_write_and_one_when_the_pod_runs():
    world = cluster()
    world.pods = (PG,)
    assert world.run() == steps.DONE
    assert world.log == BINDING
    assert world.get(BERTH, "pvc-c-1")["status"] == {"phase": "Created", **NAMED}
    world.pods = (PG._replace(ready=True),)
    assert world.run() == steps.DONE
    assert world.get(BERTH, "pvc-c-1")["status"] == {"phase": "Running", **NAMED}
    assert world.log == [*BINDING, ("status", "Berth")]


@pytest.mark.parametrize(
    ("before", "pods", "after"),
    [
        ({"phase": "Reserved"}, [], {"phase": "Bound"}),  # as an earlier release left it
        ({"phase": "Reserved"}, [PG._replace(ready=True)], {"phase": "Running", **NAMED}),
        ({"phase": "Bound"}, [], None),
        ({"phase": "Bound"}, [PG], {"phase": "Created", **NAMED}),
        ({"phase": "Bound"}, [PG._replace(ready=True)], {"phase": "Running", **NAMED}),
        ({"phase": "Bound"}, [PG._replace(workload="")], {"phase": "Created", "podName": "pg-1"}),
        ({"phase": "Created", **NAMED}, [PG], None),
        ({"phase": "Created", **NAMED}, [], None),
        ({"phase": "Running", **NAMED}, [PG], None),  # not Ready for a while: no phase goes back
        ({"phase": "Running", **NAMED}, [PG._replace(going=True)], None),
        (
            {"phase": "Running", **NAMED},
            [PG._replace(going=True), ClaimPod("web-x", "Deployment web", False, False)],
            {"phase": "Running", "podName": "web-x", "workload": "Deployment web"},
        ),
        ({"phase": "Running", **NAMED}, [ClaimPod("a", "", True, False), PG], None),  # the one that it names stays
        ({"phase": "Replacing", "replacing": {"claim": "data", "from": "a", "to": "b"}}, [PG], None),
    ],
)
def test_the_berth_of_a_bound_claim_follows_its_pod(before, pods, after):
    world = cluster()
    world.run()
    world.store[BERTH, "pvc-c-1"]["status"] = dict(before)
    world.pods, world.log = tuple(pods), []
    world.run()
    assert world.get(BERTH, "pvc-c-1")["status"] == (before if after is None else after)
    assert world.log == ([] if after is None else [("status", "Berth")])
    assert after is None or states.may_follow(before["phase"], after["phase"]) or before["phase"] == after["phase"]


def test_who_does_not_know_the_pods_leaves_the_record_to_who_does():
    """Else a scheduler writes Bound, and the controller Created."""
    world = cluster()
    world.pods = None
    assert world.run() == steps.DONE
    assert world.log == BINDING[:-1]


@pytest.mark.parametrize("after", range(6))
@pytest.mark.parametrize("policy", ["Retain", "Delete"])
def test_a_claim_that_goes_at_any_step_leaves_no_berth_no_lock_and_no_volume(after, policy):
    world = cluster([disk(reclaimPolicy="Delete")], policy=policy)
    for _write in range(after):
        world.step()
        world.kubernetes()
    world.claim = None
    assert world.run() == steps.DONE
    assert {kind for kind, _name in world.store} == {LOCAL_DISK}
    spec = world.get(LOCAL_DISK, "n1-d0")["spec"]
    assert "claimRef" not in spec
    reserved = after >= 3
    assert ("retainedFor" in spec) == reserved, "data is on record from Reserved on, and not before"
    with_volume = after >= 4
    assert ("wipe" in spec) == (with_volume and policy == "Delete")


def test_delete_asks_for_the_wipe_in_the_very_write_that_gives_the_lock_up():
    world = cluster([disk(reclaimPolicy="Delete")], policy="Delete")
    world.run()
    uid = world.get(BERTH, "pvc-c-1")["metadata"]["uid"]
    world.claim = None
    while "claimRef" in world.get(LOCAL_DISK, "n1-d0")["spec"]:
        assert "wipe" not in world.get(LOCAL_DISK, "n1-d0")["spec"]
        world.step()
    spec = world.get(LOCAL_DISK, "n1-d0")["spec"]
    assert spec["wipe"] == {
        "requestID": uid,
        "identity": spec["identity"],
        "requestedBy": "PersistentVolumeClaim default/data",
        "filesystemUUID": filesystem_uuid(uid, "n1-d0"),
    }
    assert spec["retainedFor"]["dataUID"] == uid, "until it is wiped the data is somebody's"


@pytest.mark.parametrize(("of_class", "of_disk"), [("Delete", "Retain"), ("Retain", "Delete")])
def test_one_careful_word_keeps_the_data(of_class, of_disk):
    world = cluster([disk(reclaimPolicy=of_disk)], policy=of_class)
    world.run()
    world.claim = None
    world.run()
    assert "wipe" not in world.get(LOCAL_DISK, "n1-d0")["spec"]


def test_the_policy_that_counts_is_the_volumes_when_the_claim_goes():
    world = cluster([disk(reclaimPolicy="Delete")], policy="Delete")
    world.run()
    volume = next(one for (kind, _name), one in world.store.items() if kind == PV)
    volume["spec"]["persistentVolumeReclaimPolicy"] = "Retain"  # a person thought better of it
    world.claim = None
    world.run()
    assert "wipe" not in world.get(LOCAL_DISK, "n1-d0")["spec"]


def test_a_claim_of_the_same_name_gets_its_data_again_and_waits_for_no_scheduler():
    world = cluster([disk(), disk("n1-a", size=2 << 30), disk("n2-d0", "n2")], waits=True)
    world.claim["metadata"]["annotations"][claims.SELECTED_NODE] = "n2"
    world.run()
    first = world.get(LOCAL_DISK, "n2-d0")["spec"]["claimRef"]["dataUID"]
    world.claim = None
    world.run()
    world.claim = claim(uid="c-2")  # no node is chosen
    assert world.run() == steps.DONE
    again = world.get(LOCAL_DISK, "n2-d0")["spec"]["claimRef"]
    assert (again["name"], again["dataUID"]) == ("pvc-c-2", first)
    assert again["uid"] != first


def test_a_claim_that_waits_is_left_alone_until_a_node_is_chosen():
    world = cluster([disk("n1-d0", "n1"), disk("n2-d0", "n2")], waits=True)
    assert world.run().reason == "WaitForFirstConsumer"
    assert world.log == []
    world.claim["metadata"]["annotations"][claims.SELECTED_NODE] = "n2"
    assert world.run() == steps.DONE
    assert "claimRef" in world.get(LOCAL_DISK, "n2-d0")["spec"]


@pytest.mark.parametrize("after", [1, 2])
def test_a_scheduler_that_changes_its_mind_before_reserved_is_followed(after):
    world = cluster([disk("n1-d0", "n1"), disk("n2-d0", "n2")], waits=True)
    world.claim["metadata"]["annotations"][claims.SELECTED_NODE] = "n1"
    for _write in range(after):
        world.step()
    world.claim["metadata"]["annotations"][claims.SELECTED_NODE] = "n2"
    assert world.run() == steps.DONE
    assert world.get(LOCAL_DISK, "n1-d0")["spec"].keys() & {"claimRef", "retainedFor"} == set()
    assert world.get(LOCAL_DISK, "n2-d0")["spec"]["claimRef"]["name"] == "pvc-c-1"


def test_a_choice_is_given_up_berth_first_so_that_who_reserves_meanwhile_is_refused():
    """Controller and scheduler may both be at one claim: one changes its mind, the other one records Reserved."""
    world = cluster([disk("n1-d0", "n1"), disk("n2-d0", "n2")], waits=True)
    world.claim["metadata"]["annotations"][claims.SELECTED_NODE] = "n1"
    for _write in range(2):
        world.step()
    reserving = next_step(world.view())
    assert (reserving.do, reserving.resource) == ("status", BERTH)
    world.claim["metadata"]["annotations"][claims.SELECTED_NODE] = "n2"
    world.step()
    assert "claimRef" in world.get(LOCAL_DISK, "n1-d0")["spec"], "the lock goes after the fence is up"
    with pytest.raises(AssertionError, match="lost compare-and-swap"):
        world.write(reserving)
    assert world.run() == steps.DONE
    assert "claimRef" not in world.get(LOCAL_DISK, "n1-d0")["spec"]


def test_a_disk_that_somebody_else_has_taken_is_left_and_another_one_chosen():
    world = cluster([disk(), disk("n1-d1", size=3 << 30)])
    world.step()
    taken = {"namespace": "x", "name": "db-0", "uid": "u", "app": "db", "ordinal": 0, "claim": "d", "dataUID": "u"}
    world.store[LOCAL_DISK, "n1-d0"]["spec"]["claimRef"] = taken
    assert world.run() == steps.DONE
    assert world.get(LOCAL_DISK, "n1-d0")["spec"]["claimRef"] == taken
    assert world.get(LOCAL_DISK, "n1-d1")["spec"]["claimRef"]["name"] == "pvc-c-1"


def test_a_berth_that_names_a_disk_of_another_class_locks_nothing():
    world = cluster([disk(), disk("n1-d1", size=3 << 30)])
    world.step()
    world.store[LOCAL_DISK, "n1-d0"]["spec"]["storageClassName"] = "gold"
    assert world.run() == steps.DONE
    assert "claimRef" not in world.get(LOCAL_DISK, "n1-d0")["spec"]
    assert "claimRef" in world.get(LOCAL_DISK, "n1-d1")["spec"]


@pytest.mark.parametrize("phase", ["Faulted", "Missing"])
def test_a_disk_that_breaks_before_its_lock_is_exchanged_and_after_reserved_it_is_waited_for(phase):
    world = cluster([disk(), disk("n1-d1", size=3 << 30)])
    world.step()
    world.store[LOCAL_DISK, "n1-d0"]["status"]["phase"] = phase
    assert world.run() == steps.DONE
    assert "claimRef" in world.get(LOCAL_DISK, "n1-d1")["spec"]
    other = cluster()
    for _write in range(3):
        other.step()
    other.store[LOCAL_DISK, "n1-d0"]["status"]["phase"] = phase
    assert other.run().reason == "DiskNotUsable"
    other.store[LOCAL_DISK, "n1-d0"]["status"]["phase"] = "Locked"
    assert other.run() == steps.DONE


def test_a_lock_that_is_lost_after_reserved_is_reported_and_nothing_is_written():
    world = cluster()
    world.run()
    del world.store[LOCAL_DISK, "n1-d0"]["spec"]["claimRef"]
    before = copy.deepcopy(world.store)
    step = world.run()
    assert (step.reason, step.warn) == ("LockLost", True)
    assert world.store == before


def test_a_volume_that_is_deleted_under_its_claim_is_made_again_with_the_same_name():
    world = cluster()
    world.run()
    name = world.claim["spec"]["volumeName"]
    del world.store[PV, name]
    assert world.run() == steps.DONE
    assert world.get(PV, name) is not None


def test_a_volume_that_a_release_before_made_stays_with_its_path():
    world = cluster()
    assert world.run() == steps.DONE
    volume = next(one for (kind, _name), one in world.store.items() if kind == PV)
    volume["spec"]["local"]["path"] = "/var/lib/berth/disks/n1-d0/data"
    before = list(world.log)
    assert world.run() == steps.DONE
    assert world.log == before


def test_a_berth_that_is_asked_to_go_under_its_claim_stays():
    world = cluster()
    world.run()
    world.store[BERTH, "pvc-c-1"]["metadata"]["deletionTimestamp"] = "now"
    assert world.run().reason == "BerthDeleted"
    world.claim = None
    assert world.run() == steps.DONE
    assert (BERTH, "pvc-c-1") not in world.store
    assert "retainedFor" in world.get(LOCAL_DISK, "n1-d0")["spec"]


@pytest.mark.parametrize(
    ("pods", "phase", "named", "words"),
    [
        (
            (RUNS,),
            "Replacing",
            "",
            "waits for pod web-0: nothing is given up under a living pod: delete the pod",
        ),
        ((RUNS,), "Replacing", "", "(kubectl delete pod web-0 -n default), or run disk_replace again"),
        ((RUNS,), "Running", "", "(kubectl delete pod web-0 -n default)"),
        (None, "Replacing", "web-0", "(kubectl delete pod web-0 -n default), or run disk_replace again"),
        (None, "Replacing", "", "kubectl describe pvc data -n default"),
        ((STOPS,), "Replacing", "web-0", "kubectl describe pvc data -n default"),
    ],
)
def test_a_berth_and_a_claim_that_are_both_asked_to_go_wait_for_the_pod_and_say_so(pods, phase, named, words):
    """Where disk_replace died between the claim and its pod, and somebody gave the exchange up: no pod, no lock."""
    world = cluster()
    world.run()
    world.pods, record = pods, world.store[BERTH, "pvc-c-1"]
    record["status"] = {"phase": phase, **({"podName": named} if named else {})}
    record["metadata"]["deletionTimestamp"] = world.claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    before = copy.deepcopy(world.store)
    step = world.run()
    assert (step.reason, step.warn, world.store) == ("BerthDeleted", True, before)
    assert "the claim is going" in step.message
    assert words in step.message
    assert ("disk_replace" in step.message) <= (phase == "Replacing")
    world.claim = None
    assert world.run() == steps.DONE
    assert (BERTH, "pvc-c-1") not in world.store
    assert "retainedFor" in world.get(LOCAL_DISK, "n1-d0")["spec"]


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ({"accessModes": ["ReadWriteMany"]}, "ReadWriteMany"),
        ({"dataSource": {"kind": "VolumeSnapshot", "name": "s"}}, "dataSource"),
        ({"volumeAttributesClassName": "gold"}, "volumeAttributesClassName"),
    ],
)
def test_what_a_local_disk_cannot_do_is_said_and_not_begun(spec, word):
    world = Cluster(claim(**spec), storage_class(), [disk()])
    step = world.run()
    assert (step.reason, step.warn) == ("Unsupported", True)
    assert word in step.message
    assert world.log == []


def test_a_claim_that_names_its_volume_is_not_ours():
    world = Cluster(claim(volumeName="pv-1"), storage_class(), [disk()])
    assert world.run() == steps.DONE
    assert world.log == []


def test_the_name_of_a_long_claim_is_shortened_and_meets_no_other():
    long, other = "a" * 200, "a" * 199 + "b"
    assert len(claims.app_name(long)) == len(claims.volume_label(long)) == 63
    assert claims.app_name(long) != claims.app_name(other)
    assert claims.app_name("data") == "pvc.data"


HANDED = {"volume.kubernetes.io/storage-provisioner": claims.PROVISIONER}


@pytest.mark.parametrize(
    ("annotations", "there", "begun", "words"),
    [
        ({}, None, True, "StorageClass fast is gone"),
        (HANDED, None, False, "StorageClass fast is gone"),
        (HANDED, storage_class(provisioner="other.example.com"), False, "of provisioner other.example.com now"),
        ({}, None, False, ""),  # anybody's claim
        (HANDED, storage_class(), True, ""),
    ],
)
def test_a_claim_of_ours_whose_class_is_gone_is_told_so(annotations, there, begun, words):
    lost = claim()
    lost["metadata"]["annotations"] = annotations
    found = claims.lost_class(lost, there, begun)
    assert words in found
    assert bool(found) == bool(words)
    bound = {**lost, "spec": {**lost["spec"], "volumeName": "pv-1"}}
    assert claims.lost_class(bound, None, begun=True) == "", "a bound claim needs its class no more"


def test_nothing_is_given_up_while_the_class_is_gone():
    view = View("default/data", None, lost="StorageClass fast is gone")
    assert next_step(view) == steps.Wait("ClassGone", "StorageClass fast is gone", True)


def test_a_lock_is_given_up_for_a_berth_that_went_without_having_been_reserved_and_for_no_other():
    world = cluster()
    world.step()
    selected = world.get(BERTH, "pvc-c-1")
    world.step()
    locked = world.get(LOCAL_DISK, "n1-d0")
    world.step()
    reserved = world.get(BERTH, "pvc-c-1")
    another = {**selected, "metadata": {**selected["metadata"], "uid": "u-other"}}

    def left(record, now):
        return left_locks(View("default/data", None, record, {"n1-d0": locked}), record, now)

    for now in (None, another):
        (step,) = left(selected, now)
        assert step.body["metadata"]["resourceVersion"] == locked["metadata"]["resourceVersion"]
        assert not {"claimRef", "retainedFor"} & set(step.body["spec"])
    assert left(selected, selected) == [], "it is there"
    assert left(another, None) == [], "the lock is not its own"
    assert left(reserved, None) == [], "there may be data"
