"""The virtual machine is a host with real disks: udev, SMART, hot-plug, I/O errors, names that change.

One machine for all of these tests; each leaves its disks as it found them. That it keeps its root, its identity and its
disks when power is cut and they change bays is seen where the agent lives through it, in tests/daemons/vm.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from berth_dev.errors import HostError
from berth_dev.qemu import Vm

from .hosts_help import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def seen(vm: Vm) -> dict[str, dict[str, Any]]:
    """Disks with a serial number as lsblk shows them, by serial number."""
    answer = vm.run("lsblk", "--json", "--bytes", "--nodeps", "--output", "NAME,SIZE,SERIAL,WWN,ROTA,TRAN")
    return {disk["serial"]: disk for disk in json.loads(answer)["blockdevices"] if disk["serial"]}


def by_name(vm: Vm, name: str) -> str:
    """The kernel's name of a disk that is plugged in."""
    serial = vm.disks.get(name).serial
    return str(eventually(lambda: seen(vm).get(serial), 60, f"disk {name}")["name"])


def gone(vm: Vm, name: str) -> None:
    serial = vm.disks.get(name).serial
    eventually(lambda: serial not in seen(vm), 60, f"{name} gone")


def settle(vm: Vm) -> None:
    vm.run("udevadm", "settle", timeout=300)


def test_its_disks_are_those_that_it_was_given(vm: Vm) -> None:
    found = seen(vm)
    wanted = vm.spec.disks
    assert set(found) == {disk.serial for disk in wanted}
    for disk in wanted:
        assert found[disk.serial]["size"] == disk.size
        assert found[disk.serial]["rota"] == disk.rotational
        assert found[disk.serial]["wwn"] == disk.wwn or disk.bus == "nvme"


def test_smart_tells_that_a_drive_is_failing_and_that_it_is_not(vm: Vm) -> None:
    device = f"/dev/{by_name(vm, 'n0')}"
    for critical, passed in ((4, False), (0, True)):
        vm.disks.smart("n0", critical)
        answer = json.loads(vm.run("smartctl", "--json", "--health", device, check=False))
        assert answer["smart_status"]["passed"] is passed


def test_a_disk_is_pulled_out_and_comes_back_with_its_data(vm: Vm) -> None:
    for name in ("n1", "s0"):
        device = by_name(vm, name)
        vm.sh(f"echo kept | dd of=/dev/{device} conv=fsync bs=512 2>/dev/null")
        vm.disks.pull(name)
        gone(vm, name)
        vm.disks.plug(name)
        device = by_name(vm, name)
        settle(vm)
        assert vm.run("dd", f"if=/dev/{device}", "bs=5", "count=1") == "kept\n"
        vm.run("blkdiscard", "--zeroout", "--force", f"/dev/{device}")


@pytest.mark.parametrize("name", ["n1", "s0"])
def test_a_disk_fails_and_is_healed(vm: Vm, name: str) -> None:
    device = f"/dev/{by_name(vm, name)}"
    access = {
        "read": f"dd if={device} of=/dev/null bs=4096 count=1 iflag=direct",
        "write": f"dd if=/dev/zero of={device} bs=4096 count=1 oflag=direct",
    }
    for errors in ("read", "write", "all", "none"):
        vm.disks.errors(name, errors)
        for kind, line in access.items():
            works = errors not in ("all", kind)
            assert vm.sh(f"{line} 2>/dev/null && echo works || echo fails") == ("works\n" if works else "fails\n")


def test_two_disks_change_their_names(vm: Vm) -> None:
    before = {name: by_name(vm, name) for name in ("s0", "s1")}
    with pytest.raises(HostError, match="change bays only while both are out"):
        vm.disks.swap("s0", "s1")
    for name in before:
        vm.disks.pull(name)
    for name in sorted(before, key=before.__getitem__, reverse=True):
        vm.disks.plug(name)
        by_name(vm, name)
    assert {name: by_name(vm, name) for name in before} == dict(zip(before, reversed(before.values()), strict=True))


def test_two_disks_may_say_that_they_are_the_same(vm: Vm) -> None:
    twin = vm.disks.get("s1")
    vm.disks.add("twin", "scsi", 64 << 20, serial=twin.serial, wwn=twin.wwn, rotational=True)
    try:
        columns = ("lsblk", "--nodeps", "--noheadings", "--output", "SERIAL,WWN")
        eventually(lambda: vm.run(*columns).splitlines().count(f"{twin.serial} {twin.wwn}") == 2, 60, "the twin")
    finally:
        vm.disks.pull("twin")
        vm.disks.discard("twin")
