"""When a disk is formatted (once, blank, by name), when it is mounted, and everything else: refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth_core.app.fs_plan import carries_another, fstab_line, plan_prepared
from berth_core.app.fsid import filesystem_uuid
from berth_core.errors import BerthError, DataError, IdentityError, InputError, LockError, StateError
from tests.core.app.disk_samples import device, formatted, held, kept, local_disk

OURS = filesystem_uuid("u1", "h1-d0")
POINT = "/var/lib/berth/disks/h1-d0"


def test_a_blank_disk_of_a_first_holder_is_formatted_and_mounted():
    plan = plan_prepared(local_disk(claimRef=held(), fsType="xfs", mountOptions=["noatime"]), [device(), device("sdc")])
    assert (plan.device, plan.uuid, plan.fs_type, plan.format, plan.mount) == ("/dev/sdb", OURS, "xfs", True, True)
    assert (plan.point, plan.path) == (POINT, "/var/lib/berth/disks/.namespaces/h1-d0/default")
    assert fstab_line(plan) == f"UUID={OURS} {POINT} xfs noatime,nofail,x-berth.localdisk=h1-d0 0 0"


@pytest.mark.parametrize("lock", [held(), held("u2", "u1")])
def test_the_filesystem_that_belongs_there_is_mounted_and_never_formatted(lock):
    plan = plan_prepared(local_disk(claimRef=lock), [formatted(uuid=OURS.upper())])
    assert (plan.format, plan.mount) == (False, True)
    mounted = formatted(uuid=OURS, mounts=[POINT])
    assert plan_prepared(local_disk(claimRef=lock), [mounted]).mount is False


def test_nothing_is_made_without_a_lock():
    for spec in ({}, {"retainedFor": kept()}):
        with pytest.raises(LockError, match="held by no berth"):
            plan_prepared(local_disk(**spec), [device()])


def test_a_blank_disk_that_should_carry_data_is_refused():
    with pytest.raises(DataError, match="hide the loss"):
        plan_prepared(local_disk(claimRef=held("u2", "u1")), [device()])


@pytest.mark.parametrize(
    "facts",
    [
        {"fstype": "ext4", "fsuuid": "foreign"},
        {"fstype": "LVM2_member"},
        {"fstype": "ambivalent"},
        {"pttype": "gpt"},
        {"partitions": ["sdb1"]},
        {"mounts": ["/srv"]},
        {"mounts": [POINT, "/srv"], "fstype": "ext4", "fsuuid": OURS},
        {"holders": ["dm-0"]},
        {"slaves": ["sdc"]},
        {"swap": True},
        {"read_only": True},
        {"is_system": True},
        {"problem": "not allowed to look", "health": "Unknown"},
        {"mounts": [POINT]},
    ],
)
def test_everything_else_is_refused(facts):
    with pytest.raises(DataError, match="LocalDisk h1-d0"):
        plan_prepared(local_disk(claimRef=held()), [device(**facts)])


def test_what_came_since_the_journal_was_written_is_another_holders():
    """As in a cluster that was restored from a backup: lock and journal are those of then, the disk is of today."""
    disk = local_disk(claimRef=held())
    disk["status"] = {"journal": {"step": "Mounted", "lockUID": "u1", "filesystemUUID": OURS}}
    today = formatted(uuid=filesystem_uuid("u9", "h1-d0"), mounts=[POINT])
    assert carries_another(disk, today)
    with pytest.raises(DataError, match=r"made for this very lock before the other came \(a cluster restored"):
        plan_prepared(disk, [today])
    for mine in (formatted(uuid=OURS.upper()), device()):
        assert not carries_another(disk, mine)
    assert not carries_another(local_disk(claimRef=held(), volumeMode="Block"), today)


BEFORE = {"filesystemUUID": "FS-1", "volume": "pv-1", "mountPoint": "/mnt/x"}


@pytest.mark.promise
def test_what_the_host_mounts_itself_is_looked_at_and_left_alone():
    disk = local_disk(claimRef={**held(data_uid="pv-uid"), **BEFORE})
    here = formatted(uuid="fs-1", mounts=["/mnt/x", "/var/lib/kubelet/pods/1/volumes/x"])
    plan = plan_prepared(disk, [here])
    assert (plan.point, plan.path, plan.format, plan.mount) == ("", "", False, False)
    assert not carries_another(disk, here)
    for found, words in (
        (formatted(uuid="fs-1"), "not mounted at /mnt/x, where PersistentVolume pv-1 expects it"),
        (formatted(uuid="fs-1", mounts=["/mnt/y"]), "not mounted at /mnt/x"),
        (formatted(uuid="fs-1", mounts=["/mnt/x"], partly_mounted=True), "not mounted at /mnt/x"),
        (
            formatted(uuid="fs-2", mounts=["/mnt/x"]),
            "carries ext4 fs-2, expected filesystem fs-1, which was",
        ),
        (device(), "carries nothing without UUID, expected filesystem fs-1"),
    ):
        with pytest.raises(StateError, match=words):
            plan_prepared(disk, [found])


@pytest.mark.promise
def test_a_filesystem_of_before_is_mounted_and_never_made():
    disk = local_disk(claimRef={**held("u2", "pv-uid"), "filesystemUUID": "FS-1"})
    plan = plan_prepared(disk, [formatted(uuid="fs-1")])
    assert (plan.uuid, plan.folder, plan.format, plan.mount, plan.point) == ("fs-1", ".berth-data", False, True, POINT)
    assert plan_prepared(local_disk(claimRef=held()), [device()]).folder == "data"
    for found in (device(), formatted(uuid=OURS), formatted(uuid="fs-1", mounts=["/mnt/x"]),
                  device(fstype="data", begun="fs-1")):  # fmt: skip
        with pytest.raises(DataError):
            plan_prepared(disk, [found])
    half = formatted(uuid="fs-1", unfinished=True)
    assert plan_prepared(disk, [half]).format is False, "the kernel refuses it, and nobody makes it once more"


def test_a_broken_disk_is_refused():
    with pytest.raises(StateError, match="input/output error"):
        plan_prepared(local_disk(claimRef=held()), [device(health="Faulted", problem="input/output error")])


def test_the_disk_is_found_by_identity_or_not_at_all():
    disk = local_disk(claimRef=held())
    with pytest.raises(StateError, match="no disk of this host"):
        plan_prepared(disk, [device("sdc")])
    with pytest.raises(StateError, match="no disk of this host"):
        plan_prepared(disk, [device(size=1)])
    with pytest.raises(IdentityError, match="2 disks carry it"):
        plan_prepared(disk, [device(), device()])


def test_a_block_volume_is_checked_and_left_alone():
    block = local_disk(claimRef=held("u2", "u1"), volumeMode="Block")
    block["status"] = {"observed": {"byId": "ata-Disk_SERIAL-sdb"}}
    plan = plan_prepared(block, [formatted()])
    assert (plan.format, plan.mount, plan.path) == (False, False, "/dev/disk/by-id/ata-Disk_SERIAL-sdb")
    with pytest.raises(DataError, match="mounted at /srv"):
        plan_prepared(block, [formatted(mounts=["/srv"])])
    with pytest.raises(StateError, match="lost its link"):
        plan_prepared(block, [formatted(by_id=["wwn-1"])])


@pytest.mark.parametrize(
    "spec",
    [{"fsType": "ntfs"}, {"fsType": "ext4 -F"}, {"mountOptions": ["noatime 0 0\n/dev/sda"]}, {"mountOptions": ["a,b"]}],
)
def test_words_of_the_cluster_that_are_no_words_reach_no_command(spec):
    with pytest.raises(InputError, match="LocalDisk h1-d0"):
        plan_prepared(local_disk(claimRef=held(), **spec), [device()])


FACT = st.fixed_dictionaries(
    {},
    optional={
        "fstype": st.sampled_from(["ext4", "xfs"]),
        "fsuuid": st.sampled_from([OURS, "x"]),
        "pttype": st.just("dos"),
        "mounts": st.sampled_from([[POINT], ["/srv"]]),
        "holders": st.just(["dm-0"]),
        "serial": st.sampled_from(["SERIAL-sdb", "other"]),
        "size": st.sampled_from([1, 4 << 30]),
        "problem": st.just("?"),
    },
)


@given(FACT, st.sampled_from([None, held(), held("u2", "u1")]))
def test_format_means_blank_unused_held_new_and_that_very_disk(facts, lock):
    found = device(**facts)
    spec = {"claimRef": lock} if lock else {}
    try:
        plan = plan_prepared(local_disk(**spec), [found])
    except BerthError:
        return
    if plan.format:
        assert lock == held()
        assert not any(found[key] for key in ("fstype", "pttype", "holders", "problem"))
        assert found["mounts"] == []
        assert (found["serial"], found["size"]) == ("SERIAL-sdb", 4 << 30)
    else:
        assert (found["fstype"] != "", found["fsuuid"]) == (True, OURS)


def test_data_without_a_signature_is_formatted_where_mkfs_of_this_very_filesystem_had_begun():
    raw = {"fstype": "data", "fsuuid": ""}
    for facts in (raw, {**raw, "begun": "1111-22"}, {**raw, "begun": OURS, "mounts": [POINT]}):
        with pytest.raises(DataError, match=r"data without a signature|is mounted"):
            plan_prepared(local_disk(claimRef=held()), [device(**facts)])
    plan = plan_prepared(local_disk(claimRef=held()), [device(**raw, begun=OURS)])
    assert (plan.format, plan.begun) == (True, True)
    with pytest.raises(DataError, match="hide the loss"):
        plan_prepared(local_disk(claimRef=held("u2", "u1")), [device(**raw, begun=OURS)])


def half_made(**facts):
    return device(fstype="xfs", fsuuid=OURS, unfinished=True, **facts)


def test_a_half_made_filesystem_of_ours_is_made_once_more():
    plan = plan_prepared(local_disk(claimRef=held(), fsType="xfs"), [half_made()])
    assert (plan.format, plan.again, plan.uuid) == (True, True, OURS)
    assert plan_prepared(local_disk(claimRef=held(), fsType="xfs"), [device()]).again is False


def test_a_complete_filesystem_or_another_one_is_never_made_once_more():
    assert plan_prepared(local_disk(claimRef=held()), [formatted(uuid=OURS)]).format is False
    with pytest.raises(DataError, match="expected filesystem"):
        plan_prepared(local_disk(claimRef=held()), [{**half_made(), "fsuuid": "1111-22"}])
    assert plan_prepared(local_disk(claimRef=held()), [half_made(mounts=[POINT])]).format is False


@pytest.mark.parametrize("step", ["Formatted", "Mounting", "Mounted", "Unmounting", "Unmounted"])
def test_a_filesystem_that_was_made_is_not_made_again_on_a_disk_that_is_blank_now(step):
    disk = {**local_disk(claimRef=held()), "status": {"journal": {"step": step, "filesystemUUID": OURS}}}
    with pytest.raises(DataError, match="another disk, or the data is lost"):
        plan_prepared(disk, [device()])


def test_a_journal_of_another_lock_or_of_an_unfinished_step_keeps_nobody_from_formatting():
    for journal in ({"step": "Formatting", "filesystemUUID": OURS}, {"step": "Mounted", "filesystemUUID": "1111"}):
        disk = {**local_disk(claimRef=held()), "status": {"journal": journal}}
        assert plan_prepared(disk, [device()]).format is True
