"""A wipe: only for a request that names the whole identity, never of what anybody uses, continued where it was."""

from __future__ import annotations

from typing import Any

import pytest

from berth_core.app import claim_manifests
from berth_core.app.disk_status import content_named, expected_filesystem
from berth_core.app.wipe import (
    FAILED,
    SUCCEEDED,
    check_not_wiped,
    check_same_content,
    clearing,
    content_of,
    ended,
    is_spent,
    is_to_be_cleared,
    locked_since,
    plan_wipe,
    progress,
    request_of,
)
from berth_core.errors import DataError, IdentityError, InputError, LockError, StateError
from tests.core.app.disk_samples import device, formatted, held, kept, local_disk

NOW = "2026-01-02T03:04:05Z"


def asked(method: str = "zero", **status: Any) -> dict[str, Any]:
    disk = local_disk(retainedFor=kept())
    disk["spec"]["wipe"] = {"requestID": "r1", "identity": dict(disk["spec"]["identity"]), "requestedBy": "ann"}
    if method:
        disk["spec"]["wipe"]["method"] = method
    return {**disk, "status": status}


def test_the_disk_of_that_identity_is_wiped_whatever_is_on_it():
    for found in (device(), formatted(), device(pttype="gpt"), device(fstype="ambivalent")):
        plan = plan_wipe(asked(), [found, device("sdc")], False, NOW)
        assert (plan.device, plan.number, plan.size, plan.method, plan.offset) == (
            "/dev/sdb",
            "8:16",
            4 << 30,
            "zero",
            0,
        )
        assert (plan.request, plan.requested_by, plan.start_time) == ("r1", "ann", NOW)


def test_without_a_request_nothing_is_planned():
    disk = asked()
    del disk["spec"]["wipe"]
    assert request_of(disk) is None
    with pytest.raises(StateError, match="no wipe is asked for"):
        plan_wipe(disk, [device()], True, NOW)


@pytest.mark.parametrize(
    "change", [{"serial": "other"}, {"size": 1}, {"wwn": "0x1"}, {"model": "x"}, {"byPath": "slot-1"}]
)
def test_a_request_that_names_another_identity_is_refused(change):
    disk = asked()
    disk["spec"]["wipe"]["identity"].update(change)
    with pytest.raises(InputError, match="nothing is wiped"):
        plan_wipe(disk, [device()], True, NOW)


@pytest.mark.parametrize("key", ["wwn", "serial", "model", "size"])
def test_a_request_that_leaves_a_key_out_is_refused(key):
    disk = asked()
    del disk["spec"]["wipe"]["identity"][key]
    with pytest.raises(InputError, match="nothing is wiped"):
        plan_wipe(disk, [device()], True, NOW)


def test_a_held_disk_is_never_wiped():
    disk = asked()
    disk["spec"]["claimRef"] = held()
    with pytest.raises(LockError, match="is held by default/db-0"):
        plan_wipe(disk, [device()], True, NOW)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"mounts": ["/srv"]}, "is mounted at /srv"),
        ({"holders": ["dm-0", "md1"]}, "is held by dm-0, md1"),
        ({"slaves": ["sdc"]}, "is built on sdc"),
        ({"swap": True}, "is used as swap"),
        ({"is_system": True}, "the running system"),
        ({"read_only": True}, "is read-only"),
    ],
)
def test_what_anybody_uses_is_never_wiped(facts, words):
    with pytest.raises(DataError, match=words):
        plan_wipe(asked(), [device(**facts)], True, NOW)
    part = {**device("sdb1", **facts), "type": "part", "parent": "sdb"}
    with pytest.raises(DataError, match=f"has partition sdb1, which .*{words}"):
        plan_wipe(asked(), [device(partitions=["sdb1"], pttype="gpt"), part], True, NOW)


def test_a_disk_that_is_gone_or_cannot_be_told_apart_is_not_wiped():
    with pytest.raises(StateError, match="no disk of this host"):
        plan_wipe(asked(), [device("sdc")], True, NOW)
    with pytest.raises(IdentityError, match="2 disks carry it"):
        plan_wipe(asked(), [device(), {**device(), "name": "sdx"}], True, NOW)


@pytest.mark.parametrize(
    ("method", "can_discard", "chosen", "fallback"),
    [
        ("auto", True, "discard", True),
        ("auto", False, "zero", True),
        ("discard", True, "discard", False),
        ("random", True, "random", False),
        ("signatures", False, "signatures", False),
        ("", False, "signatures", False),
    ],
)
def test_the_method(method, can_discard, chosen, fallback):
    plan = plan_wipe(asked(method), [device()], can_discard, NOW)
    assert (plan.method, plan.fallback) == (chosen, fallback)


def test_discard_that_the_disk_does_not_offer_is_refused():
    with pytest.raises(InputError, match="offers no discard"):
        plan_wipe(asked("discard"), [device()], False, NOW)


def test_an_interrupted_wipe_goes_on_by_its_method_and_another_request_begins_anew():
    first = plan_wipe(asked("auto"), [device()], True, NOW)
    journal = progress(first, "Overwriting", 1 << 20, 5, "zero")
    again = plan_wipe(asked("auto", wipe=journal), [device()], True, "later")
    assert (again.method, again.offset, again.start_time) == ("zero", 1 << 20, NOW)
    for other, began in (({**journal, "requestID": "r0"}, "later"), ({**journal, "step": "Signatures"}, NOW)):
        anew = plan_wipe(asked("auto", wipe=other), [device()], True, "later")
        assert (anew.method, anew.offset, anew.start_time) == ("discard", 0, began)


def test_a_request_is_carried_out_once_and_cleared_with_whose_data_there_was():
    plan = plan_wipe(asked(), [device()], True, NOW)
    done = asked(lastWipe=ended(plan, SUCCEEDED, "", plan.size, "zero", NOW))
    assert done["status"]["lastWipe"]["requestedBy"] == "ann"
    assert request_of(done) is None
    assert is_to_be_cleared(done)
    assert [(each["op"], each["path"]) for each in clearing(done)] == [
        ("test", "/metadata/resourceVersion"),
        ("test", "/spec/wipe/requestID"),
        ("remove", "/spec/wipe"),
        ("remove", "/spec/retainedFor"),
    ]
    failed = asked(lastWipe=ended(plan, FAILED, "I/O error", 5, "zero", NOW))
    assert request_of(failed) is None
    assert not is_to_be_cleared(failed)
    assert not is_to_be_cleared(asked())


def test_a_request_that_was_carried_out_for_other_data_is_refused():
    """Taken for done, it would free a disk whose data it never destroyed."""
    plan = plan_wipe(asked(), [device()], True, NOW)
    last = ended(plan, SUCCEEDED, "", plan.size, "zero", NOW)
    locked = asked(lastWipe={**last, **locked_since({"status": {"lastWipe": last}}, "u2")["lastWipe"]})
    del locked["spec"]["retainedFor"]  # a raw disk that was given up: nothing else tells of it
    unnoted = asked(lastWipe=last)
    unnoted["spec"]["retainedFor"] = kept("u2")  # made ready by no agent
    for disk in (locked, unnoted):
        assert is_spent(disk, "r1")
        assert not is_spent(disk, "r2")
        assert not is_to_be_cleared(disk)
        with pytest.raises(InputError, match="carried out before, and the disk has been held since"):
            plan_wipe(disk, [device()], True, NOW)
        disk["spec"]["wipe"]["requestID"] = "r2"
        assert plan_wipe(disk, [device()], True, NOW).request == "r2"


def test_the_first_lock_after_a_wipe_is_noted_once():
    last = {"requestID": "r1", "result": SUCCEEDED}
    assert locked_since({"status": {"lastWipe": last}}, "u2") == {"lastWipe": {**last, "lockUID": "u2"}}
    assert locked_since({"status": {"lastWipe": {**last, "lockUID": "u2"}}}, "u3") == {}
    assert locked_since({}, "u3") == {}


def test_a_request_stands_for_the_filesystem_that_was_there_when_it_was_asked_for():
    disk = asked()
    disk["spec"]["wipe"]["filesystemUUID"] = "1111-22"
    for fits in (device(fstype="ext4", fsuuid="1111-22"), device()):
        assert plan_wipe(disk, [fits], True, NOW).request == "r1"
    with pytest.raises(DataError, match=r"filesystem 1111-22 was on the disk, and .* carries ext4 3333-44: nothing is"):
        plan_wipe(disk, [device(fstype="ext4", fsuuid="3333-44")], True, NOW)


def test_a_request_names_what_is_seen_on_the_disk_or_belongs_there():
    uuid = expected_filesystem("h1-d0", {"retainedFor": kept()})
    seen = local_disk(retainedFor=kept())
    assert content_named(seen) == {"filesystemUUID": uuid}
    seen["status"] = {"observed": {"filesystem": {"type": "ext4", "uuid": "1111-22"}}}
    assert content_named(seen) == {"filesystemUUID": "1111-22"}
    assert content_named(local_disk(retainedFor=kept(), volumeMode="Block")) == {}
    assert content_named(local_disk()) == {}
    claim = claim_manifests.wipe_request(local_disk(claimRef=held()), "u1", "default/c")
    assert claim["filesystemUUID"] == expected_filesystem("h1-d0", {"claimRef": held()})


def test_content_that_came_after_the_request_was_first_seen_is_refused_unless_the_wipe_has_begun():
    blank, raw = content_of(device(), "blank"), content_of(device(fstype="data"), "sha256:ab")
    ext4 = content_of(device(fstype="ext4", fsuuid="1111-22"), "")
    assert len({blank, raw, ext4}) == 3
    check_same_content(asked(), "r1", blank, blank)
    for before, now in ((blank, ext4), (blank, raw), (raw, ext4), (ext4, blank)):
        with pytest.raises(DataError, match=f"when the disk carried {before}, and it carries {now}"):
            check_same_content(asked(), "r1", before, now)
        check_same_content(asked(wipe={"requestID": "r1", "step": "Signatures"}), "r1", before, now)


def test_a_lock_for_data_that_was_wiped_unknown_to_the_api_server_is_refused():
    """As in a cluster that was restored from a backup: lock and status are those of then."""
    disk = local_disk(claimRef=held("u1"), volumeMode="Block")
    check_not_wiped(disk, [])
    with pytest.raises(DataError, match=r"which wipe r1 destroyed on this host: what is on the disk came since"):
        check_not_wiped(disk, ["r1", "r2"])
    for known, refused in (("r0", True), ("r1", False), ("r2", False)):
        seen = {**disk, "status": {"lastWipe": {"requestID": known, "result": SUCCEEDED}}}
        if refused:
            with pytest.raises(DataError):
                check_not_wiped(seen, ["r1", "r2"])
        else:
            check_not_wiped(seen, ["r1", "r2"])  # its berth got the disk once more, after the wipe
