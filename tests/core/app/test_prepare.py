"""What is to be done with a disk on its node, and the fence: no step for a lock that is not alive."""

from __future__ import annotations

from typing import Any

import pytest

from berth_core.app.fs_plan import plan_prepared
from berth_core.app.prepare import (
    STEPS,
    after_release,
    at_host,
    check_alone,
    check_lock,
    check_tenant,
    check_unchanged,
    expected_point,
    finding,
    host_point,
    is_mounted_for,
    journal_entry,
    journal_of,
    left_to,
    names_earlier_data,
    next_work,
)
from berth_core.errors import LockError, StateError
from tests.core.app.disk_samples import device, formatted, held, kept, local_disk

WIPE = {"requestID": "r1"}


def test_a_disk_that_its_host_mounts_says_so():
    ref = {**held(data_uid="pv"), "filesystemUUID": "fs-1", "volume": "pv-1", "mountPoint": "/mnt/x"}
    disk = local_disk(claimRef=ref)
    assert at_host(disk, formatted(uuid="fs-1", mounts=["/mnt/x"]))[1:3] == ("True", "MountedByHost")
    assert at_host(disk, formatted(uuid="fs-1"))[1:3] == ("False", "NotMountedByHost")
    assert (host_point(disk), expected_point(disk, "/r")) == ("/mnt/x", "/mnt/x")
    kept = local_disk(retainedFor={**{key: ref[key] for key in ("filesystemUUID", "volume", "mountPoint")}, "app": "x"})
    assert (host_point(kept), left_to(kept)) == ("/mnt/x", "pv-1")
    assert (host_point(local_disk()), expected_point(local_disk(), "/r")) == ("", "/r/h1-d0")


def berth(uid: str = "u1", phase: str = "Reserved", disk: str = "h1-d0", **meta: Any) -> dict[str, Any]:
    spec = {"disks": [{"claim": "data", "name": disk, "size": 1}]}
    return {"metadata": {"name": "db-0", "uid": uid, **meta}, "spec": spec, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("spec", "status", "work"),
    [
        ({}, {}, "release"),
        ({"retainedFor": kept()}, {}, "release"),
        ({"claimRef": held()}, {}, "prepare"),
        ({"wipe": WIPE}, {}, "wipe"),
        ({"wipe": WIPE}, {"lastWipe": {"requestID": "r0", "result": "Succeeded"}}, "wipe"),
        ({"wipe": WIPE}, {"lastWipe": {"requestID": "r1", "result": "Failed"}}, "wipe"),
        ({"wipe": WIPE}, {"lastWipe": {"requestID": "r1", "result": "Succeeded"}}, "clear"),
        ({"wipe": WIPE, "claimRef": held()}, {}, "prepare"),
    ],
)
def test_what_is_to_be_done(spec, status, work):
    assert next_work({**local_disk(**spec), "status": status}) == work


@pytest.mark.parametrize("phase", ["Reserved", "Bound", "Created", "Running"])
def test_a_living_lock(phase):
    check_lock(local_disk(claimRef=held()), "u1", berth(phase=phase))


@pytest.mark.parametrize(
    ("spec", "holder", "words"),
    [
        ({}, berth(), "no longer held by the berth with uid u1"),
        ({"claimRef": held("u2")}, berth("u2"), "no longer held by the berth with uid u1"),
        ({"claimRef": held()}, None, "there is no such berth"),
        ({"claimRef": held()}, berth("u2"), "there is no such berth"),
        ({"claimRef": held()}, berth(deletionTimestamp="now"), "is being deleted"),
        (
            {"claimRef": held()},
            berth(phase="Selected"),
            "is Selected: the disk is made ready when the berth is Reserved",
        ),
        ({"claimRef": held()}, berth(phase=""), "without a phase"),
        ({"claimRef": held()}, berth(disk="h1-d1"), "that berth was not given this disk"),
        ({"claimRef": {**held(), "claim": "log"}}, berth(), "that berth was not given this disk"),
    ],
)
def test_a_lock_that_is_not_alive(spec, holder, words):
    with pytest.raises(LockError, match=words):
        check_lock(local_disk(**spec), "u1", holder)


@pytest.mark.parametrize(
    ("lock", "namespace", "words"),
    [
        ({"namespaceUID": "n1"}, {"metadata": {"uid": "n1"}}, None),
        ({}, {"metadata": {"uid": "n2"}}, None),
        ({"namespaceUID": "n1"}, {"metadata": {"uid": "n2"}}, "of an earlier namespace of that name (uid n1"),
        ({"namespaceUID": "n1"}, None, "it is gone"),
    ],
)
def test_a_lock_that_names_an_earlier_namespaces_data_is_held_against_the_namespace_of_today(lock, namespace, words):
    disk = local_disk(claimRef={**held(), "dataUID": "u0", **lock})
    assert names_earlier_data(disk) is bool(lock)
    assert not names_earlier_data(local_disk(claimRef={**held(), **lock}))
    if words is None:
        check_tenant(disk, namespace)
        return
    with pytest.raises(LockError, match="nothing is done for such a lock") as caught:
        check_tenant(disk, namespace)
    assert words in caught.value.message


def test_the_journal_tells_for_which_lock_and_filesystem_a_step_was_done():
    plan = plan_prepared(local_disk(claimRef=held()), [device()])
    for step in STEPS[:4]:
        entry = journal_entry(step, plan, held())
        assert (entry["step"], entry["lockUID"], entry["filesystemUUID"]) == (step, "u1", plan.uuid)
        kind, status, reason, message = finding(step, plan)
        assert (kind, status, reason) == ("Prepared", "True" if step == "Mounted" else "False", step)
        assert plan.uuid in message
    disk = {**local_disk(claimRef=held()), "status": {"journal": journal_entry("Mounted", plan, held())}}
    assert is_mounted_for(disk, "u1")
    assert not is_mounted_for(disk, "u2")
    assert not is_mounted_for(local_disk(), "u1")
    gone = after_release("Unmounted", journal_of(disk), plan.point)
    assert gone == {**journal_of(disk), "step": "Unmounted"}
    assert after_release("Unmounting", {}, "/p") == {"lockUID": "", "mountPoint": "/p", "step": "Unmounting"}


def test_a_lock_that_a_play_has_read_is_the_one_that_counts():
    given = local_disk(claimRef=held())
    now = {**given, "metadata": {**given["metadata"], "resourceVersion": "9"}}
    assert check_unchanged(given, now, berth()) is now


@pytest.mark.parametrize(
    ("ref", "words"),
    [
        (held("u2", "u2"), "and .* holds it now"),
        (held("u1", "u2"), "and .* holds it now"),
        (None, "and nobody holds it now"),
    ],
)
def test_a_lock_that_has_changed_since(ref, words):
    given = local_disk(claimRef=held())
    now = local_disk(claimRef=ref) if ref else local_disk()
    with pytest.raises(LockError, match=f"its lock has changed since the play read it, {words}"):
        check_unchanged(given, now, berth(ref["uid"]) if ref else None)


def test_a_disk_that_is_gone_and_a_lock_that_may_still_be_undone():
    given = local_disk(claimRef=held())
    with pytest.raises(LockError, match="is there no more"):
        check_unchanged(given, None, None)
    with pytest.raises(LockError, match="Selected"):
        check_unchanged(given, given, berth(phase="Selected"))
    with pytest.raises(LockError, match="is being deleted"):
        check_unchanged(given, given, berth(deletionTimestamp="now"))
    for record in (berth("u2"), None):
        with pytest.raises(LockError, match=r"no such berth .*'name=h1-d0 state=released'"):
            check_unchanged(given, given, record)


def test_beside_an_agent_that_leads_nobody_else_prepares():
    disk = local_disk(claimRef=held())
    check_alone(disk, None)
    check_alone(disk, {"alive": False, "holder": "h1_x"})
    with pytest.raises(StateError, match="the agent h1_x leads on node h1"):
        check_alone(disk, {"alive": True, "holder": "h1_x"})
