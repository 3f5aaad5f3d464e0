"""Names that tie filesystem and PersistentVolume to their disk."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth_core.app.fsid import filesystem_uuid, mount_point, volume_path
from berth_core.errors import InputError, StateError
from tests.core.app.disk_samples import local_disk

NAMESPACE = uuid.UUID("b7f0a9be-7c1d-4a5e-9d3c-52e5f1b0d15c")
NAME = st.text("abc-019", min_size=1)


@given(NAME, NAME)
def test_the_uuid_is_the_standards_name_based_one(data_uid, name):
    assert filesystem_uuid(data_uid, name) == str(uuid.uuid5(NAMESPACE, f"{data_uid}/{name}"))


def test_the_namespace_never_changes_for_filesystems_carry_what_it_gave():
    assert filesystem_uuid("a", "b") == "ce80d1c0-b7e9-540b-8799-b9547c4aa148"


def test_a_uuid_needs_both_parts():
    with pytest.raises(InputError):
        filesystem_uuid("", "h1-d0")


@pytest.mark.parametrize("root", ["", "relative", "/", "//", "/a/../b"])
def test_a_mount_root_is_a_folder_of_its_own(root):
    with pytest.raises(InputError, match="mount root"):
        mount_point("h1-d0", root)


@pytest.mark.parametrize("name", ["", "..", "a/b", "UPPER", "-a"])
def test_a_name_that_is_no_name_of_the_api_makes_no_path(name):
    with pytest.raises(InputError, match="LocalDisk name"):
        mount_point(name)


def test_a_filesystem_volume_is_the_disk_s_data_as_its_namespace_has_it():
    assert volume_path(local_disk(), "team-a") == "/var/lib/berth/disks/.namespaces/h1-d0/team-a"
    assert volume_path(local_disk(), "data", "/srv/disks/") == "/srv/disks/.namespaces/h1-d0/data"


@pytest.mark.parametrize("namespace", ["", "..", "a/b", "a.b", "UPPER", "-a", "a" * 64])
def test_a_namespace_that_is_none_makes_no_path(namespace):
    with pytest.raises(InputError, match=r"namespace .* of LocalDisk h1-d0"):
        volume_path(local_disk(), namespace)


def test_a_block_volume_is_a_link_that_names_this_very_disk():
    disk = local_disk(volumeMode="Block")
    with pytest.raises(StateError, match="by-id"):
        volume_path(disk, "team-a")
    disk["status"] = {"observed": {"byId": "ata-Disk_S", "byPath": "pci-1"}}
    assert volume_path(disk, "team-a") == "/dev/disk/by-id/ata-Disk_S"


def test_a_slot_names_a_block_volume_only_where_there_is_nothing_else():
    disk = local_disk(volumeMode="Block")
    disk["spec"]["identity"] = {"byPath": "pci-1", "size": 1}
    assert volume_path(disk, "team-a") == "/dev/disk/by-path/pci-1"


def test_a_link_cannot_lead_elsewhere():
    disk = local_disk(volumeMode="Block")
    disk["status"] = {"observed": {"byId": "../../sda"}}
    with pytest.raises(InputError, match="not the name of a link"):
        volume_path(disk, "team-a")
