"""What a declaration may make of a LocalDisk, and what is refused."""

from __future__ import annotations

import copy

import pytest

from berth_core.app.disk_change import changed_disk, check_delete, check_settings, new_disk, wanted_name
from berth_core.app.identity import Identity, disk_name
from berth_core.errors import DataError, IdentityError, InputError, LockError, QuantityError
from tests.core.app.disk_samples import held, kept, local_disk

WANTED = {"name": "h1-d0", "node_name": "h1", "identity": {"serial": "S", "size": "4Gi"}}


def test_a_new_disk_holds_what_was_said_and_no_more():
    made = new_disk({**WANTED, "storage_class": "fast", "labels": {"rack": 7}}, "d0")
    assert made["spec"] == {
        "nodeName": "h1",
        "identity": {"serial": "S", "size": 4 << 30},
        "storageClassName": "fast",
    }
    assert made["metadata"] == {"name": "h1-d0", "labels": {"rack": "7"}}


@pytest.mark.parametrize("identity", [{}, {"size": "4Gi"}, {"serial": "S"}, {"model": "M", "size": "4Gi"}])
def test_a_new_disk_needs_a_strong_identity_and_its_size(identity):
    with pytest.raises(IdentityError, match="cannot name one disk"):
        new_disk({**WANTED, "identity": identity}, "d0")


def test_a_size_that_is_no_quantity_is_refused_by_name():
    with pytest.raises(QuantityError, match="4 gigs"):
        new_disk({**WANTED, "identity": {"serial": "S", "size": "4 gigs"}}, "disks[0]")


def test_names():
    assert wanted_name({"node_name": "h1", "identity": {"serial": "S"}}, "x") == disk_name("h1", Identity(serial="S"))
    for name in ("Upper", "a_b", "a..b", "x" * 254):
        with pytest.raises(InputError, match="DNS-1123"):
            wanted_name({"name": name}, "x")
    with pytest.raises(InputError, match="neither name nor node_name"):
        wanted_name({"identity": {"serial": "S"}}, "x")


@pytest.mark.parametrize(
    "wanted", [{"volume_mode": "Block", "fs_type": "xfs"}, {"mount_options": ["a b"]}, {"mount_options": ["a,b"]}]
)
def test_settings_that_cannot_be(wanted):
    with pytest.raises(InputError, match="d0"):
        check_settings(wanted, "d0")


def test_what_is_not_mentioned_stays():
    live = local_disk(claimRef=held(), storageClassName="fast", mountOptions=["noatime"])
    before = copy.deepcopy(live)
    assert changed_disk(live, {"reserved": None}, "d0") == before
    after = changed_disk(live, {"mount_options": [], "reserved": True, "labels": {"a": "b"}}, "d0")
    assert "mountOptions" not in after["spec"]
    assert (after["spec"]["reserved"], after["spec"]["claimRef"]) == (True, held())
    assert after["metadata"]["labels"] == {"a": "b"}
    assert live == before


def test_node_and_identity_never_change():
    with pytest.raises(InputError, match="does not change its node"):
        changed_disk(local_disk(), {"node_name": "h2"}, "d0")
    with pytest.raises(IdentityError, match="identity never changes"):
        changed_disk(local_disk(), {"identity": {"serial": "other"}}, "d0")
    changed_disk(local_disk(), {"identity": {"serial": "SERIAL-sdb"}}, "d0")


@pytest.mark.parametrize("owner", [{"claimRef": held()}, {"retainedFor": kept()}])
@pytest.mark.parametrize("wanted", [{"volume_mode": "Block"}, {"fs_type": "xfs"}])
def test_what_the_data_was_written_with_stays_while_there_is_data(owner, wanted):
    with pytest.raises(LockError, match="default/db-0"):
        changed_disk(local_disk(**owner), wanted, "d0")
    assert changed_disk(local_disk(), wanted, "d0") != local_disk()


def test_a_block_disk_has_no_filesystem():
    after = changed_disk(local_disk(mountOptions=["noatime"]), {"volume_mode": "Block"}, "d0")
    assert "fsType" not in after["spec"]
    assert "mountOptions" not in after["spec"]


def test_a_held_disk_is_never_deleted_and_kept_data_is_not_forgotten_by_accident():
    with pytest.raises(LockError, match="held by berth default/db-0"):
        check_delete(local_disk(claimRef=held()), force_retained=True)
    with pytest.raises(DataError, match="force_retained"):
        check_delete(local_disk(retainedFor=kept()), force_retained=False)
    check_delete(local_disk(retainedFor=kept()), force_retained=True)
    check_delete(local_disk(), force_retained=False)
