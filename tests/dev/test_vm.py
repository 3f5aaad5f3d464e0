"""The virtual machine is a host with real disks, which udev knows by their identities, and with I/O errors.

One machine for all of these tests; each leaves its disks as it found them. SMART, hot-plug, twins, and that it keeps
its root, its identity and its disks when power is cut and they change bays, are seen where the agent lives through it,
in tests/daemons/vm.
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


def test_its_disks_are_those_that_it_was_given(vm: Vm) -> None:
    found = seen(vm)
    wanted = vm.spec.disks
    assert set(found) == {disk.serial for disk in wanted}
    for disk in wanted:
        assert found[disk.serial]["size"] == disk.size
        assert found[disk.serial]["rota"] == disk.rotational
        assert found[disk.serial]["wwn"] == disk.wwn or disk.bus == "nvme"
    with pytest.raises(HostError, match="change bays only while both are out"):
        vm.disks.swap("s0", "s1")


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
