"""What the virtual machine is made of, without starting one."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from berth_dev.errors import BuildError, HostError
from berth_dev.qemu import Vm, command, cpio, image, model
from berth_dev.qemu.drives import Drives
from berth_dev.qemu.store import Store, VmSpec
from berth_dev.state import ClusterDir

MIB = 1 << 20


def test_an_archive_is_read_by_cpio_and_two_of_them_are_one(tmp_path: Path) -> None:
    first = cpio.archive([cpio.folder("etc", 0o755), cpio.file("etc/odd", "12345", 0o600)])
    second = cpio.archive([cpio.folder("root", 0o700), cpio.file("root/even", b"\0" * 8)])
    assert len(first) % 4 == len(second) % 4 == 0
    for number, archive in enumerate((first, second)):
        folder = tmp_path / str(number)
        folder.mkdir()
        subprocess.run(["busybox", "cpio", "-i", "-d"], input=archive, cwd=folder, check=True, capture_output=True)
    assert (tmp_path / "0/etc/odd").read_text() == "12345"
    assert (tmp_path / "0/etc/odd").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "1/root/even").read_bytes() == b"\0" * 8
    assert (tmp_path / "1/root").stat().st_mode & 0o777 == 0o700


def test_modules_are_loaded_after_what_they_need() -> None:
    table = "k/a.ko: k/b.ko k/c.ko\nk/b.ko: k/c.ko\nk/c.ko:\nk/d.ko.xz: k/c.ko\n"
    order = image.load_order(table, Path("/m"), ("a", "d"))
    assert order == [Path("/m/k/c.ko"), Path("/m/k/b.ko"), Path("/m/k/a.ko"), Path("/m/k/d.ko.xz")]
    with pytest.raises(BuildError, match="no module missing"):
        image.load_order(table, Path("/m"), ("a", "missing"))


def test_identities_are_a_machines_own_unless_they_are_wished_for() -> None:
    one, same, other = (model.new_disk(token, "s0", "scsi", MIB, 0, {}) for token in ("a", "a", "b"))
    assert one == same
    assert {one.serial, one.wwn}.isdisjoint({other.serial, other.wwn})
    wished = model.new_disk("a", "s0", "scsi", MIB, 0, {"serial": "S-1", "wwn": "0x5000000000000001"})
    assert (wished.serial, wished.wwn) == ("S-1", "0x5000000000000001")
    nobody = model.new_disk("a", "s0", "scsi", MIB, 0, {"serial": "", "wwn": ""})
    assert {"serial", "wwn"}.isdisjoint(model.devices(nobody)[1])
    assert model.new_disk("a", "n0", "nvme", MIB, 0, {}).wwn == ""


@pytest.mark.parametrize(
    ("name", "bus", "wished", "complaint"),
    [
        ("N0", "nvme", {}, "disk name 'N0': expected lower-case"),
        ("a,b", "nvme", {}, "disk name 'a,b'"),
        ("n0", "sata", {}, "bus 'sata': expected nvme or scsi"),
        ("n0", "nvme", {"serial": "a,drive=root"}, "serial 'a,drive=root': expected"),
        ("n0", "nvme", {"serial": "x" * 21}, "expected 1 to 20"),
        ("n0", "nvme", {"serial": ""}, "expected 1 to 20"),
        ("n0", "nvme", {"wwn": "0x5000000000000001"}, "made of its serial number"),
        ("s0", "scsi", {"wwn": "5000"}, "WWN '5000': expected 0x and 16"),
    ],
)
def test_what_a_drive_cannot_be_is_refused(name: str, bus: str, wished: dict[str, Any], complaint: str) -> None:
    with pytest.raises(HostError, match=complaint):
        model.new_disk("token", name, bus, MIB, 0, wished)


def test_a_disk_that_is_out_keeps_its_bay() -> None:
    disks = [model.new_disk("t", f"d{bay}", "nvme", MIB, bay, {}) for bay in model.BAYS if bay != 3]
    assert model.free_bay(disks) == 3
    with pytest.raises(HostError, match="no bay is free"):
        model.free_bay([*disks, model.new_disk("t", "d3", "scsi", MIB, 3, {})])


def test_swapped_disks_change_bays_and_nothing_else() -> None:
    disks = model.default_disks("t")
    after = {disk.name: disk for disk in model.swapped(disks, "s0", "s1")}
    assert (after["s0"].bay, after["s1"].bay) == (3, 2)
    assert after["s0"].serial == disks[2].serial
    assert [after[disk.name] for disk in disks[:2]] == disks[:2]


def test_errors_come_between_the_file_and_the_drive() -> None:
    disk = model.VmDisk("n0", "nvme", MIB, 0, "S1", errors="write")
    file, fault, top = model.block_nodes(disk, "disks/n0.img")
    assert (file["node-name"], fault["image"], top["file"]) == ("file-n0", "file-n0", "fault-n0")
    assert [rule["iotype"] for rule in fault["inject-error"]] == ["write"]
    assert top["node-name"] == model.devices(disk)[0]["drive"]


def test_only_disks_that_are_plugged_in_are_on_the_command_line() -> None:
    disks = [model.VmDisk("n0", "nvme", MIB, 0, "S1"), model.VmDisk("n1", "nvme", MIB, 1, "S2", plugged=False)]
    line = " ".join(command.command("qemu", Path("/k"), 512, 2222, disks))
    assert "disks/n0.img" in line
    assert "n1" not in line
    assert "hostfwd=tcp:127.0.0.1:2222-:22" in line


@pytest.fixture
def off(tmp_path: Path) -> Drives:
    """The drives of a machine that is off."""
    store = Store(tmp_path)
    (tmp_path / "disks").mkdir()
    store.save(VmSpec("vm", 1, "/nowhere", "token", ()))
    return Drives(store, lambda: None)


def test_drives_are_changed_while_the_machine_is_off(off: Drives, tmp_path: Path) -> None:
    off.add("n0", size=MIB)
    off.add("s0", "scsi", MIB)
    assert (tmp_path / "disks/n0.img").stat().st_size == MIB
    off.swap("n0", "s0")
    off.smart("n0", 4)
    off.errors("s0", "all")
    assert (off.get("n0").bay, off.get("n0").critical, off.get("s0").errors) == (1, 4, "all")
    off.pull("n0")
    off.discard("n0")
    assert not (tmp_path / "disks/n0.img").exists()


def test_drives_refuse_what_makes_no_sense(off: Drives) -> None:
    off.add("n0", size=MIB)
    off.add("s0", "scsi", MIB)
    for act, complaint in (
        (lambda: off.get("x"), "has no disk 'x'; it has n0, s0"),
        (lambda: off.add("n0"), "there is a disk n0 already"),
        (lambda: off.plug("n0"), "n0 is plugged in already"),
        (lambda: off.discard("n0"), "plugged in; pull it out first"),
        (lambda: off.smart("s0", 4), "SCSI disks have no SMART log"),
        (lambda: off.smart("n0", 64), "critical warning 64: expected 0 to 63"),
    ):
        with pytest.raises(HostError, match=complaint):
            act()
    off.pull("n0")
    with pytest.raises(HostError, match="not plugged in"):
        off.pull("n0")


def test_no_machine_is_told_in_one_sentence(tmp_path: Path) -> None:
    vm = Vm(ClusterDir(tmp_path / "x"))
    assert vm.status() == {"exists": False}
    assert not vm.down()
    with pytest.raises(HostError, match="there is no virtual machine; `berth-dev vm up` makes one"):
        vm.run("true")


def test_missing_programs_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(image, "SYSTEM_PATH", str(tmp_path))
    with pytest.raises(BuildError, match="apt-get install -y debootstrap qemu-system-x86 qemu-utils"):
        image.ensure()
