"""What is asked for of claims against what replicas hold: refused by ordinal and claim, with the way out."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from berth_core.app.plan import make_plan
from berth_core.errors import StateError
from berth_core.lifecycle import states
from tests.core.app.samples import GOOD
from tests.core.app.test_plan import app, observed

DISK = GOOD["disks"][0]


def with_disks(*disks, block=(), **values):
    """The app with these disks, each used by its container."""
    template = copy.deepcopy(GOOD["template"])
    container = template["spec"]["containers"][0]
    container["volumeMounts"] = [{"name": d["name"], "mountPath": f"/{d['name']}"} for d in disks if d not in block]
    container["volumeDevices"] = [{"name": d["name"], "devicePath": f"/dev/{d['name']}"} for d in block]
    return app(disks=list(disks), template=template, **values)


def refused(wanted, seen):
    with pytest.raises(StateError) as told:
        make_plan(wanted, seen)
    assert told.value.message.startswith("default/db: ")
    assert told.value.message.endswith("Nothing was changed")
    return told.value


BLOCK = {**DISK, "volume_mode": "Block"}


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (
            app(disks=[{**DISK, "storage_class": "slow"}]),
            "on LocalDisk h1-d0 (StorageClass fast), and StorageClass slow is",
        ),
        (with_disks(BLOCK, block=[BLOCK]), "(volumeMode Filesystem), and volumeMode Block is asked for"),
        (app(disks=[{**DISK, "size": "2Gi"}]), "(1Gi), and 2Gi is asked for"),
        (
            app(disks=[{**DISK, "size": "2Gi", "storage_class": "slow"}]),
            "(StorageClass fast, 1Gi), and StorageClass slow, 2Gi are asked for",
        ),
    ],
)
@pytest.mark.parametrize("upto", [states.RESERVED, states.BOUND, states.RUNNING])
def test_a_claim_of_another_kind_is_refused_with_what_is_held(wanted, words, upto):
    told = refused(wanted, observed(app(), upto, ordinals=[1]))
    assert "replica db-1: claim data is on LocalDisk h1-d0" in told.message
    assert words in told.message
    assert ("disk_replace" in told.message) == ("(1Gi), and 2Gi is" in words)
    assert ("another app" in told.message) != ("disk_replace" in told.message)
    assert told.details["ordinals"] == [1]


def test_claims_of_other_names_are_refused_and_are_another_way_out():
    wal = {**DISK, "name": "wal"}
    told = refused(with_disks(DISK, wal), observed(app(), states.RUNNING))
    assert "replica db-0: claim wal is asked for, and its berth has no disk for it; replica db-1: " in told.message
    assert "state: absent" in told.message
    renamed = refused(with_disks(wal), observed(app(), states.BOUND)).message
    assert "claim data is on LocalDisk h2-d0, and is not asked for any more, claim wal is asked for" in renamed


def test_what_is_wrong_with_many_is_told_of_a_few_and_the_way_out_is_told_all_the_same():
    told = refused(app(replicas=9, disks=[{**DISK, "size": "2Gi"}]), observed(app(replicas=9), states.BOUND, range(9)))
    assert "db-2: claim" in told.message
    assert "db-3" not in told.message
    assert "(and 6 replicas more)" in told.message
    assert len(told.message) < 1024, "it has to fit into a condition"


def test_a_statefulset_without_replicas_has_the_claims_that_it_was_made_with():
    """Its pods would look for them: Kubernetes never changes the claim templates of a StatefulSet."""
    seen = replace(observed(app(), states.CREATED), berths={}, disks={}, volumes={}, claims={})
    told = refused(with_disks({**DISK, "name": "wal"}), seen)
    assert "its StatefulSet was made with the claims data, and wal are asked for" in told.message


@pytest.mark.parametrize("upto", [states.RESERVED, states.BOUND, states.RUNNING])
def test_what_is_held_may_be_asked_for_in_less_words(upto):
    seen = observed(app(), upto)
    less = app(disks=[{"name": "data", "size": "1Mi", "volume_mode": "Filesystem"}])
    make_plan(less, seen)
    assert make_plan(less, observed(app(), states.RUNNING)).empty


def test_a_class_that_is_declared_anew_under_a_held_disk_is_either():
    """The volume has the class that was asked for, and the disk the one of today."""
    seen = observed(app(), states.RUNNING)
    disks = {name: {**disk, "spec": {**disk["spec"], "storageClassName": "slow"}} for name, disk in seen.disks.items()}
    seen = replace(seen, disks=disks)
    for held in ("fast", "slow"):
        assert make_plan(app(disks=[{**DISK, "storage_class": held}]), seen).empty
    assert (
        "(StorageClass fast), and StorageClass big"
        in refused(app(disks=[{**DISK, "storage_class": "big"}]), seen).message
    )


def test_a_choice_is_no_more_than_that():
    """Its locks may be there: who goes on with it finds that it fits no more, and chooses again."""
    seen = observed(app(), states.RESERVED)
    for record in seen.berths.values():
        record["status"]["phase"] = states.SELECTED
    assert make_plan(app(disks=[{**DISK, "storage_class": "slow"}]), seen).advance == dict.fromkeys(
        range(3), "Selected"
    )
