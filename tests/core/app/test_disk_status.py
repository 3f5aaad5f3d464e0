"""The phase and the rest of the status: what a look at the node makes of a LocalDisk."""

from __future__ import annotations

import pytest

from berth_core.app.disk_status import beside_others, best_link, disk_status, foreign_signature, observed_of
from berth_core.app.fsid import filesystem_uuid
from berth_core.app.phase import PHASES, disk_phase
from tests.core.app.disk_samples import device, formatted, held, kept, local_disk

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
SEEN = {"devicePath": "/dev/sdb"}


@pytest.mark.parametrize(
    ("spec", "observed", "phase"),
    [
        ({}, None, "Pending"),
        ({"claimRef": held()}, None, "Pending"),
        ({}, {}, "Missing"),
        ({"claimRef": held()}, {"serial": "S"}, "Missing"),
        ({"claimRef": held()}, {**SEEN, "health": "Faulted", "mounts": ["/a"]}, "Faulted"),
        ({}, {**SEEN, "health": "Healthy", "readOnly": True}, "Faulted"),
        ({"claimRef": held()}, {**SEEN, "mounts": ["/a"]}, "InUse"),
        ({"claimRef": held()}, {**SEEN, "holders": ["loop9"]}, "InUse"),
        ({"claimRef": held()}, SEEN, "Locked"),
        ({"retainedFor": kept()}, {**SEEN, "filesystem": {"type": "ext4"}}, "Released"),
        ({}, {**SEEN, "filesystem": {"type": "ext4"}}, "Pending"),
        ({}, {**SEEN, "health": "Unknown"}, "Available"),
        ({}, SEEN, "Available"),
    ],
)
def test_the_worst_news_is_the_phase(spec, observed, phase):
    assert disk_phase(spec, observed) == phase
    assert phase in PHASES


def conditions(status):
    return {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}


def test_a_free_disk_is_ready():
    status = disk_status(local_disk(), device(), NOW)
    assert (status["phase"], status["capacity"]) == ("Available", "4Gi")
    assert conditions(status) == {
        "Matched": ("True", "Found"),
        "Healthy": ("True", "Healthy"),
        "Ready": ("True", "Free"),
    }
    assert status["observed"]["devicePath"] == "/dev/sdb"
    assert "mounts" not in status["observed"]


def test_the_same_look_gives_the_same_status_whenever_it_is_taken():
    disk = local_disk()
    disk["status"] = disk_status(disk, device(), NOW)
    assert disk_status(disk, device(), LATER) == disk["status"]


def test_only_the_conditions_that_changed_get_a_new_time():
    disk = local_disk()
    disk["status"] = disk_status(disk, device(), NOW)
    after = disk_status(disk, device(health="Faulted", problem="input/output error"), LATER)
    times = {each["type"]: each["lastTransitionTime"] for each in after["conditions"]}
    assert times == {"Matched": NOW, "Healthy": LATER, "Ready": LATER}
    assert after["phase"] == "Faulted"


def test_what_others_have_written_stays_where_it_is():
    wiped = {"type": "Wiped", "status": "True", "reason": "Wiped", "lastTransitionTime": NOW}
    journal = {"step": "Mounted", "lockUID": "u"}
    made = disk_status(local_disk(), device(), NOW)
    before = {**made, "journal": journal, "conditions": [wiped, *made["conditions"]]}
    assert beside_others(before, made) == before
    lost = beside_others(before, disk_status({**local_disk(), "status": before}, None, LATER))
    assert (lost["phase"], lost["journal"], lost["conditions"][0]) == ("Missing", journal, wiped)
    assert beside_others({}, made) == made


def test_a_disk_that_is_gone_is_remembered_by_its_identity_and_its_last_slot():
    disk = local_disk()
    disk["status"] = disk_status(disk, device(), NOW)
    after = disk_status(disk, {}, LATER)
    assert after["phase"] == "Missing"
    slot = {"byPath": "pci-0000:00:1f.2-sdb"}
    assert after["observed"] == {"wwn": "0x5000sdb", "serial": "SERIAL-sdb", "model": "Disk", "size": 4 << 30, **slot}
    assert conditions(after)["Matched"] == ("False", "NotFound")


def test_what_belongs_to_nobody_on_record_is_foreign():
    ours = filesystem_uuid("u1", "h1-d0")
    carries = observed_of(formatted(uuid=ours))
    assert foreign_signature("h1-d0", local_disk(claimRef=held())["spec"], carries) == ""
    assert foreign_signature("h1-d0", local_disk(retainedFor=kept())["spec"], carries) == ""
    assert ours in foreign_signature("h1-d0", local_disk()["spec"], carries)
    assert ours in foreign_signature("h1-d0", local_disk(claimRef=held("u2", "u2"))["spec"], carries)
    assert ours in foreign_signature("h1-d1", local_disk("h1-d1", claimRef=held())["spec"], carries)


def test_a_filesystem_of_before_is_its_holders_by_the_uuid_on_record():
    there = observed_of(formatted(uuid="fs-1", partly_mounted=True))
    assert there["partlyMounted"] is True
    for owner in (
        {"claimRef": {**held(), "filesystemUUID": "FS-1"}},
        {"retainedFor": {**kept(), "filesystemUUID": "fs-1"}},
    ):
        assert foreign_signature("h1-d0", local_disk(**owner)["spec"], there) == ""
        assert "fs-2" in foreign_signature("h1-d0", local_disk(**owner)["spec"], observed_of(formatted(uuid="fs-2")))


def test_a_block_volumes_content_is_its_holders_business():
    block = local_disk(volumeMode="Block", claimRef=held())["spec"]
    assert foreign_signature("h1-d0", block, observed_of(formatted())) == ""


def test_a_held_disk_with_foreign_data_is_not_ready():
    status = disk_status(local_disk(claimRef=held()), formatted(), NOW)
    assert (status["phase"], conditions(status)["Ready"]) == ("Locked", ("False", "ForeignSignature"))


def test_a_partition_table_is_a_signature():
    assert observed_of(device(pttype="gpt"))["filesystem"] == {"type": "gpt"}


def test_the_link_with_the_serial_is_the_one_to_reach_a_disk_by():
    links = ["lvm-pv-uuid-x", "wwn-0x5000sdb", "ata-Disk_SERIAL-sdb"]
    assert best_link(device(by_id=links)) == "ata-Disk_SERIAL-sdb"
    assert best_link(device(by_id=links[:2])) == "wwn-0x5000sdb"
    assert best_link(device(by_id=links[:1])) == ""


def test_what_a_device_says_of_itself_is_kept_within_the_schema():
    status = disk_status(local_disk(), device(model="M" * 9000, mounts=[f"/m{i}" for i in range(99)]), NOW)
    assert len(status["observed"]["model"]) == 256
    assert len(status["observed"]["mounts"]) == 64
