"""udev's database beside the kernel: whom a survey believes, over the recorded trees of hardware that is not here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_host.block_devices import survey
from ansible_collections.berth.stateful.plugins.module_utils.berth_host.machine import Machine
from tests.unit.host import trees

OLD_NVME = """S:disk/by-id/nvme-SSD_980_S6OLD
E:ID_MODEL=SSD 980
E:ID_SERIAL=SSD_980_S6OLD
E:ID_SERIAL_SHORT=S6OLD
E:ID_WWN=eui.0025388a01
E:ID_FS_TYPE=ext4
E:ID_FS_UUID=aa-bb"""
ATA = """S:disk/by-id/wwn-0x5002538f40e1b2c3
E:ID_BUS=ata
E:ID_SERIAL=Samsung_SSD_870_S5Y1
E:ID_SERIAL_SHORT=S5Y1
E:ID_WWN=0x5002538f40e1b2c3
E:ID_WWN_WITH_EXTENSION=0x5002538f40e1b2c3"""
SAN = """E:ID_BUS=scsi
E:ID_SERIAL=3600508b400105e210000900000490000
E:ID_SERIAL_SHORT=600508b400105e210000900000490000
E:ID_WWN=0x600508b400105e21
E:ID_WWN_WITH_EXTENSION=0x600508b400105e210000900000490000"""
T10 = b"ATA     Samsung SSD 870                         S5Y1"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    trees.mounts(tmp_path, "0:21 / /proc - proc proc rw")
    return tmp_path


def page_83(*designators: tuple[int, int, bytes]) -> bytes:
    """(code set, association and type, what) of each."""
    body = b"".join(bytes([codes, kind, 0, len(data)]) + data for codes, kind, data in designators)
    return b"\0\x83" + len(body).to_bytes(2, "big") + body


def scsi(root: Path, udev: str, names: bytes = b"", serial: str = "", **attributes: str) -> dict[str, Any]:
    trees.disk(root, "sdb", "8:16", udev=udev, diskseq="7", device__state="running", **attributes)
    folder = root / "sys/block/sdb/device"
    if names:
        (folder / "vpd_pg83").write_bytes(names)
    if serial:
        text = serial.rjust(20).encode()
        (folder / "vpd_pg80").write_bytes(b"\0\x80" + len(text).to_bytes(2, "big") + text)
    (disk,) = survey(Machine(str(root)))
    return disk


def test_udev_s_entry_of_the_disk_that_was_there_before_is_not_this_disk_s(root: Path) -> None:
    """An NVMe disk was replaced under the same number, and udev's database still tells of the old one."""
    words = {"wwid": "eui.0025388a02", "device__serial": "S6NEW ", "device__model": "SSD 980  "}
    trees.disk(root, "nvme0n1", "259:0", udev=OLD_NVME, **words)
    (disk,) = survey(Machine(str(root)))
    assert (disk["wwn"], disk["serial"], disk["model"]) == ("eui.0025388a02", "S6NEW", "SSD 980")
    assert (disk["by_id"], disk["fstype"], disk["fsuuid"]) == ([], "", "")


def test_the_same_disk_keeps_udev_s_spelling_and_links(root: Path) -> None:
    words = {"wwid": "eui.0025388a01", "device__serial": "S6OLD", "diskseq": "12"}
    trees.disk(root, "nvme0n1", "259:0", udev=OLD_NVME, **words)
    (disk,) = survey(Machine(str(root)))
    assert (disk["wwn"], disk["serial"], disk["fstype"]) == ("eui.0025388a01", "S6OLD", "ext4")
    assert disk["by_id"] == ["nvme-SSD_980_S6OLD"]
    assert disk["kernel"] == {"wwid": "eui.0025388a01", "serial": "S6OLD", "diskseq": 12}


@pytest.mark.parametrize("wwid", ["naa.5002538f40e1b2c3", "t10.ATA     Samsung SSD 870          S5Y1", ""])
def test_a_sata_disk_as_the_kernel_and_udev_spell_it(root: Path, wwid: str) -> None:
    names = page_83((2, 0x01, T10), (1, 0x03, bytes.fromhex("5002538f40e1b2c3")))
    disk = scsi(root, ATA, names, "S5Y1", device__wwid=wwid)
    assert (disk["wwn"], disk["serial"]) == ("0x5002538f40e1b2c3", "S5Y1")


def test_a_lun_with_several_names_of_which_udev_prefers_another(root: Path) -> None:
    """The kernel prefers a name string; udev's serial number is the disk's name, not that of page 0x80."""
    names = page_83(
        (3, 0x08, b"iqn.2003-01.org.example:lun0"),
        (1, 0x13, bytes.fromhex("5000097300000001")),  # of the target's port: not the disk's
        (1, 0x03, bytes.fromhex("600508b400105e210000900000490000")),
    )
    disk = scsi(root, SAN, names, "P7A", device__wwid="iqn.2003-01.org.example:lun0")
    assert disk["wwn"] == "0x600508b400105e210000900000490000"
    assert disk["serial"] == "600508b400105e210000900000490000"


@pytest.mark.parametrize(
    ("naa", "serial"),
    [("5002538f40e1b2c4", "S5Y1"), ("5002538f40e1b2c3", "S5Y2"), ("5002538f40e1b2c4", "S5Y2")],
    ids=["another name", "another serial number", "both"],
)
def test_another_sata_disk_behind_an_old_entry(root: Path, naa: str, serial: str) -> None:
    names = page_83((1, 0x03, bytes.fromhex(naa)))
    disk = scsi(root, ATA, names, serial, device__wwid=f"naa.{naa}")
    assert (disk["wwn"], disk["serial"], disk["by_id"]) == (f"naa.{naa}", serial, [])


def test_a_bridge_on_usb_has_a_number_of_its_own(root: Path, tmp_path: Path) -> None:
    usb = tmp_path / "sys/devices/pci0/usb2/2-1/block"
    usb.mkdir(parents=True)
    (root / "sys/block").mkdir(parents=True)
    (root / "sys/block/sdb").symlink_to(usb / "sdb")
    (usb / "sdb").mkdir()
    disk = scsi(root, "E:ID_BUS=usb\nE:ID_SERIAL_SHORT=0123456789AB", serial="S5Y1")
    assert disk["serial"] == "0123456789AB"


def test_a_page_that_is_cut_off_is_no_trouble(root: Path) -> None:
    whole = page_83((1, 0x03, bytes.fromhex("5002538f40e1b2c3")))
    for length in range(len(whole)):
        assert scsi(root, ATA, whole[:length], "S5Y1")["serial"] == "S5Y1"
