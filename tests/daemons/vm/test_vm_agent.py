"""The agent on real disks: NVMe and SCSI as udev shows them, failing, vanishing, coming back under other names.

What a namespace host cannot have: firmware identities, hot-plug, systemd. One machine for all tests of this file, in
their order; each leaves its disks as it found them.
"""

from __future__ import annotations

import pytest

from tests.daemons.vm.ground import VmGround
from tests.daemons.vm.service import SECONDS
from tests.dev.hosts_help import eventually
from tests.support.playbook import Run

pytestmark = [pytest.mark.slow]
MIB = 1 << 20


def changed(run: Run) -> list[str]:
    return [task.name.rpartition(" : ")[2] for task in run.tasks if task.result.get("changed")]


def test_the_role_has_installed_it_and_disks_are_found_by_what_their_firmware_says(ground: VmGround) -> None:
    agent = ground.agent
    assert {"Unit", "The agent, tried before it replaces the last", "Hand it over"} <= set(changed(agent.installed))
    assert (agent.shown("ActiveState"), agent.shown("UnitFileState")) == ("active", "enabled")
    assert agent.here("stat -c %a /etc/berth /etc/berth/token /etc/berth/kubeconfig").split() == ["700", "600", "600"]
    assert agent.here("cat /etc/berth/token") not in agent.installed.output
    assert set(agent.disks()) == {disk.serial for disk in ground.vm.spec.disks}, "the system's disk is not among them"
    for disk in ground.vm.spec.disks:
        seen = ground.wait_phase(disk.name, "Available")["status"]["observed"]
        assert (seen["size"], seen["rotational"]) == (disk.size, disk.rotational)
        assert seen["devicePath"] == ground.device(disk.name)
        assert seen["wwn"] == disk.wwn if disk.bus == "scsi" else seen["wwn"].startswith("nvme.1b36-")
        assert seen["byPath"].startswith("pci-0000:")


def test_two_disks_change_their_names_and_only_the_path_changes(ground: VmGround) -> None:
    before = {name: ground.wait_phase(name, "Available") for name in ("s0", "s1")}
    for name in before:
        ground.pull(name)
    for name in before:
        ground.wait_phase(name, "Missing")
    for name in sorted(before, key=lambda name: str(before[name]["status"]["observed"]["devicePath"]), reverse=True):
        ground.put_back(name)
        ground.wait_phase(name, "Available")
    after = {name: ground.object(name) for name in before}
    for name, other in (("s0", "s1"), ("s1", "s0")):
        seen = after[name]["status"]["observed"]
        assert seen["devicePath"] == before[other]["status"]["observed"]["devicePath"]
        assert {**seen, "devicePath": ""} == {**before[name]["status"]["observed"], "devicePath": ""}
        assert after[name]["spec"] == before[name]["spec"]


def test_disks_that_nobody_can_tell_apart_are_refused_by_name(ground: VmGround) -> None:
    disks, like = ground.vm.disks, ground.vm.disks.get("s1")
    try:
        disks.add("twin", "scsi", like.size, serial=like.serial, wwn=like.wwn, rotational=True)
        disks.add("nobody", "scsi", 64 * MIB, serial="", wwn="")
        words = ground.wait_condition("s1", "Matched", "False", "Ambiguous")
        twins = ground.devices("SERIAL", like.serial)
        assert (len(twins), [path for path in twins if path not in words]) == (2, []), words
        assert ground.object("s1")["status"]["phase"] != "Available"
        (nameless,) = ground.devices("SIZE", str(64 * MIB))
        refused = eventually(lambda: ground.refused(nameless), SECONDS, f"{nameless} is refused by name")
        assert "serial" in refused
        assert set(ground.agent.disks()) == {each["serial"] for each in ground.plugged.values()}
    finally:
        ground.discard("twin", "nobody")
    ground.wait_phase("s1", "Available")
    eventually(lambda: not ground.refused(""), SECONDS, "nothing is refused any more")
