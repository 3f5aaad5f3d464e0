"""Every change by which a waiting claim may be bound wakes it at once; one that changes its words alone, too, later."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth_core.app.claim_disks import Place, choose, place_of
from berth_core.app.claim_wakes import NOBODY, Concerned, of_class, of_disk, of_node
from berth_core.errors import UnschedulableError
from berth_core.model.disk import DiskClaimRef, LocalDisk, RetainedFor
from berth_core.model.labels import LabelSelector
from tests.core.app.claim_world import GI, asked, disk, node, storage_class

LOCK = {"namespace": "x", "name": "db-0", "uid": "u", "app": "db", "ordinal": 0, "claim": "d", "dataUID": "u"}
KEPT = {"namespace": "default", "app": "pvc.data", "ordinal": 0, "claim": "data", "dataUID": "u-7"}
MINE = frozenset({("default", "pvc.data")})
FAST = frozenset({"fast"})


def observed(body, **seen):
    """The disk as an agent reports it."""
    status = {**body["status"], "observed": {**body["status"]["observed"], **seen}}
    return {**body, "status": status}


def dying(body):
    return {**body, "metadata": {**body["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


FREE = disk()
NOW, LATER = Concerned(FAST, soon=True), Concerned(FAST)
CHANGES = {
    "added": (None, FREE, NOW),
    "added, and not looked at yet": (None, disk(phase=""), LATER),
    "gone": (FREE, None, LATER),
    "forgotten, broken with its data": (
        disk(retainedFor=KEPT, phase="Faulted"),
        None,
        Concerned(FAST, MINE),
    ),
    "forgotten while it is held": (disk(claimRef=LOCK), None, LATER),
    "its lock is taken off by hand": (disk(claimRef=LOCK, phase="Locked"), disk(phase="Locked"), LATER),
    "its agent has looked since": (disk(phase="Locked"), FREE, NOW),
    "its data is forgotten by hand": (disk(retainedFor=KEPT), disk(phase="Released"), Concerned(FAST, MINE)),
    "being deleted": (FREE, dying(FREE), LATER),
    "freed": (disk(claimRef=LOCK), FREE, NOW),
    "locked": (FREE, disk(claimRef=LOCK), LATER),
    "given up by an earlier claim": (disk(claimRef={**LOCK, **KEPT}), FREE, Concerned(FAST, MINE, True)),
    "ready": (disk(phase="Pending"), FREE, NOW),
    "found again": (disk(phase="Missing"), FREE, NOW),
    "mended": (disk(phase="Faulted"), FREE, NOW),
    "healthy again": (observed(FREE, health="Failing"), FREE, NOW),
    "failing": (FREE, observed(FREE, health="Failing"), LATER),
    "not mounted any more": (disk(phase="InUse"), FREE, NOW),
    "uncordoned": (disk(unschedulable=True), FREE, NOW),
    "not reserved any more": (disk(reserved=True), FREE, NOW),
    "wiped": (disk(wipe={"requestID": "r"}, retainedFor=KEPT), FREE, Concerned(FAST, MINE, True)),
    "to be wiped": (disk(retainedFor=KEPT), disk(retainedFor=KEPT, wipe={"requestID": "r"}), Concerned(FAST, MINE)),
    "given up with its data": (disk(claimRef=LOCK), disk(retainedFor=KEPT), Concerned(FAST, MINE)),
    "its data given up by name": (disk(retainedFor=KEPT), FREE, Concerned(FAST, MINE, True)),
    "gone with its data": (disk(retainedFor=KEPT), None, Concerned(FAST, MINE)),
    "broken, its data given up": (
        disk(retainedFor=KEPT, phase="Faulted"),
        disk(phase="Faulted"),
        Concerned(FAST, MINE),
    ),
    "broken with its data": (disk(retainedFor=KEPT), disk(retainedFor=KEPT, phase="Faulted"), Concerned(FAST, MINE)),
    "another class": (disk(storageClassName="slow"), FREE, Concerned(FAST | {"slow"}, soon=True)),
    "another volumeMode": (disk(volumeMode="Block"), FREE, NOW),
    "another size": (disk(size=GI), FREE, NOW),
    "another label": (disk(), disk(labels={"tier": "log"}), NOW),
    "another node": (disk(node="n2"), FREE, NOW),
    "measured": (FREE, observed(FREE, temperature=40, health="Healthy"), NOBODY),
    "failing while it is held": (disk(claimRef=LOCK), observed(disk(claimRef=LOCK), health="Failing"), NOBODY),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_a_disk_concerns(change):
    old, new, concerned = CHANGES[change]
    assert of_disk(*(one and LocalDisk.from_object(one) for one in (old, new))) == concerned


TAINT = [{"key": "k", "effect": "NoSchedule"}]
PLACES = {
    "added": (None, node(), True),
    "added, not Ready": (None, node(ready=False), True),
    "Ready": (node(ready=False), node(), True),
    "uncordoned": (node(unschedulable=True), node(), True),
    "the taint is off": (node(taints=TAINT), node(), True),
    "gone": (node(), None, False),
    "not Ready": (node(), node(ready=False), False),
    "cordoned": (node(), node(unschedulable=True), False),
    "tainted": (node(), node(taints=TAINT), False),
    "cordoned instead of not Ready": (node(ready=False), node(unschedulable=True), False),
    "a heartbeat": (node(), {**node(), "status": {**node()["status"], "nodeInfo": {}}}, None),
}


@pytest.mark.parametrize("change", PLACES)
def test_a_change_of_a_node_concerns(change):
    old, new, soon = PLACES[change]
    assert of_node(*(place_of(one) if one else None for one in (old, new))) is soon


CLASSES = {
    "made": (None, storage_class(), True),
    "gone": (storage_class(), None, True),
    "binds at once now": (storage_class(waits=True), storage_class(), True),
    "waits for a pod now": (storage_class(), storage_class(waits=True), True),
    "another's now": (storage_class(), storage_class(provisioner="x.example.com"), True),
    "berth's now": (storage_class(provisioner="x.example.com"), storage_class(), True),
    "another reclaim policy": (storage_class(), storage_class(policy="Delete"), True),
    "described": (storage_class(), {**storage_class(), "metadata": {"name": "fast", "labels": {"a": "b"}}}, False),
    "another's, made": (None, storage_class(provisioner="x.example.com"), False),
    "another's, gone": (storage_class(provisioner="x.example.com"), None, False),
}


@pytest.mark.parametrize("change", CLASSES)
def test_a_change_of_a_class_concerns_its_claims(change):
    old, new, concerned = CLASSES[change]
    assert of_class(old, new) is concerned


# -- of any two worlds that differ by one disk or one node -------------------------------------------------------------

_NAMES = ("data", "other")
_FREE = LocalDisk.from_object(FREE)
_LOCK = DiskClaimRef("x", "b", "u", "a", 0, "c", "u")
#: What may differ from a disk that is free and fits: one thing or two, for what speaks against it hides the rest.
_CHANGES = [
    *({"node_name": node} for node in ("n1", "n2")),
    *({"size": size} for size in (GI // 2, 3 * GI)),
    {"storage_class": "slow"},
    {"volume_mode": "Block"},
    {"labels": ()},
    *({"phase": phase} for phase in ("Faulted", "Missing", "Pending", "InUse")),
    {"health": "Failing"},
    *({flag: True} for flag in ("reserved", "cordoned", "wiping", "terminating")),
    {"claim_ref": _LOCK, "retained_for": None},
    *({"retained_for": RetainedFor("default", f"pvc.{name}", 0, name, "u-7"), "claim_ref": None} for name in _NAMES),
]


def changed(disk_, changes):
    for one in changes:
        disk_ = replace(disk_, **one)
    return disk_


_FEW = st.lists(st.sampled_from(_CHANGES), max_size=2)


def local_disks(name="d0"):
    return st.builds(changed, st.just(replace(_FREE, name=name, labels=(("tier", "log"),))), _FEW)


_PLACES = st.sampled_from([None, Place("n1", ""), Place("n1", "cordoned"), Place("n1", "not Ready")])


@st.composite
def asked_claims(draw):
    chosen = draw(st.sampled_from([None, None, "n1"]))
    labels = draw(st.sampled_from([None, {"matchLabels": {"tier": "log"}}]))
    one = asked(name=draw(st.sampled_from(_NAMES)), waits=chosen is not None, node=chosen)
    selector = LabelSelector.parse(labels) if labels else None
    return replace(one, claim=replace(one.claim, selector=selector))


def answer(one, disks, places):
    """(disk, what is said where there is none)"""
    there = {name: place for name, place in places.items() if place is not None}
    try:
        return choose(one, [disk for disk in disks if disk is not None], there).name, ""
    except UnschedulableError as exc:
        return None, exc.message


@settings(max_examples=400)
@given(asked_claims(), st.none() | local_disks(), st.none() | local_disks(), local_disks("d1"), _PLACES)
def test_a_claim_never_sleeps_through_the_disk_that_it_waits_for(one, old, new, other, place):
    places = {"n1": place, "n2": Place("n2", "")}
    before, now = (answer(one, [seen, other], places) for seen in (old, new))
    concerned = of_disk(old, new)
    owner = (one.claim.namespace, f"pvc.{one.claim.name}") in concerned.data
    if before[0] is None and now[0] is not None:
        assert owner or (concerned.soon and "fast" in concerned.classes), (before, now)
    elif before[0] is None and before != now:
        assert owner or "fast" in concerned.classes, (before, now)


@settings(max_examples=300)
@given(asked_claims(), local_disks(), local_disks("d1"), _PLACES, _PLACES)
def test_a_claim_never_sleeps_through_the_node_that_it_waits_for(one, disk_, other, old, new):
    before, now = (answer(one, [disk_, other], {"n1": place, "n2": Place("n2", "")}) for place in (old, new))
    if before[0] is None and now[0] is not None:
        assert of_node(old, new), (before, now)
    elif before[0] is None and before != now:
        assert of_node(old, new) is not None, (before, now)
