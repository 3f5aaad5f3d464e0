"""The agent on real disks: NVMe and SCSI as udev shows them, failing, vanishing, coming back.

What a namespace host cannot have: firmware identities, SMART, hot-plug, I/O errors under a filesystem, a clock of its
own, systemd, a power cut. (That two disks change their kernel names: tests/daemons/agent/test_agent_hosts.py.)

One machine for all tests of this folder, in their order; each leaves its disks as it found them, but for the one that
`kept` holds from the first test that wants it to the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from berth_core.app.claim_disks import not_free
from berth_core.app.prepare import FORMATTING
from berth_core.model.disk import LocalDisk
from tests.daemons.vm.ground import HELD, Kept, VmGround
from tests.daemons.vm.service import SECONDS, UNIT
from tests.dev.hosts_help import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
MIB = 1 << 20
# What the program that makes filesystems does when it is asked to stop half-way: on the disk everything is there.
MKFS = """#!/bin/sh
echo mkfs >> /root/mkfs-calls; sync /root/mkfs-calls
/usr/sbin/mkfs.xfs "$@" || exit
[ -e /run/stall ] || exit 0
sync; touch /run/stalled; exec sleep 3600
"""


def test_disks_are_found_by_what_their_firmware_says(ground: VmGround) -> None:
    agent = ground.agent
    assert (agent.shown("ActiveState"), agent.shown("UnitFileState")) == ("active", "enabled")
    assert set(agent.disks()) == {disk.serial for disk in ground.vm.spec.disks}, "the system's disk is not among them"
    for disk in ground.vm.spec.disks:
        seen = ground.wait_phase(disk.name, "Available")["status"]["observed"]
        assert (seen["size"], seen["rotational"]) == (disk.size, disk.rotational)
        assert seen["devicePath"] == ground.device(disk.name)
        assert seen["wwn"] == disk.wwn if disk.bus == "scsi" else seen["wwn"].startswith("nvme.1b36-")
        assert seen["byPath"].startswith("pci-0000:")


@pytest.mark.promise
def test_disks_fail_each_in_its_way_and_their_pods_are_told(ground: VmGround) -> None:
    """SMART's critical warning, I/O errors of writes, and a disk pulled out; all under live filesystems."""
    warned, broken, pulled = "n0", ("s0",), "s1"
    replicas = ground.replicas([warned, *broken, pulled])
    sums = {name: ground.write(name) for name in replicas}
    try:
        ground.vm.disks.smart(warned, 4)
        for name in broken:
            ground.vm.disks.errors(name, "write")
        ground.pull(pulled)
        for name in (warned, *broken):
            assert not_free_when_free(ground.wait_phase(name, "Faulted")) == "Faulted"
            ground.wait_told(replicas[name].pod, "False", "SelfReported" if name == warned else "")
        ground.wait_event(replicas[warned].pod, "DiskSelfReported")
        assert ground.read(warned) == sums[warned], "a disk in use is not taken away"
        assert not_free_when_free(ground.wait_phase(pulled, "Missing")) == "Missing"
        ground.wait_told(replicas[pulled].pod, "False", "Missing")
    finally:  # the tests that follow are not to fail by this one
        ground.heal()
    for name, replica in replicas.items():
        ground.wait_phase(name, "InUse")
        ground.wait_told(replica.pod, "True", "Healthy")
        ground.wait_mounted(name, replica.lock)
        assert ground.read(name) == sums[name]
    ground.give_back({name: replica.lock for name, replica in replicas.items()})


@pytest.mark.promise
def test_a_device_that_was_built_on_a_disk_keeps_it_from_a_wipe_and_from_the_next_holder(ground: VmGround) -> None:
    """What LVM or LUKS in a container makes of a raw disk: device-mapper's, and no process has the disk itself open."""
    build = f"dmsetup create built --table '0 2048 linear {ground.device('s1')} 0'"
    ground.patch("s1", volumeMode="Block")
    lock = ground.lock("s1")
    ground.wait_condition("s1", "Prepared", "True", "Raw")
    ground.agent.here(f"{build} && printf mine > /dev/mapper/built && sync")
    try:
        ground.release("s1", lock)
        ground.ask_wipe("s1", "signatures")
        words = ground.wait_condition("s1", "Wiped", "False", "Refused")
        assert "dm-0" in words, words
        read = f"dd if={ground.device('s1')} iflag=direct bs=512 count=1 status=none"
        assert ground.agent.here(f"{read} | head -c 4") == "mine", "not by the disk's page cache, which dm goes past"
        ground.agent.here("dmsetup remove built")
        ground.wait("s1", "wiped and cleared", lambda disk: "wipe" not in disk["spec"])

        ground.patch("s1", volumeMode="Filesystem")
        ground.agent.here(build)
        lock = ground.lock("s1")
        words = ground.wait_condition("s1", "Prepared", "False", "Refused")
        assert "dm-0" in words, words
        assert not ground.agent.here(f"wipefs --noheadings {ground.device('s1')}")
    finally:
        ground.agent.here("dmsetup remove built", check=False)
    ground.wait_mounted("s1", lock)
    ground.give_back({"s1": lock})


def not_free_when_free(disk: dict[str, Any]) -> str:
    """Why the scheduler would not give it to anybody, even if nobody held it."""
    return not_free(LocalDisk.from_object({**disk, "spec": {**disk["spec"], "claimRef": None}}))


@pytest.mark.promise
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


@pytest.mark.promise
def test_another_disk_in_the_slot_of_a_locked_one_is_drift_and_is_not_touched(ground: VmGround, kept: Kept) -> None:
    disks = ground.vm.disks
    stranger = disks.add("x", "nvme", 64 * MIB)
    try:
        ground.agent.here(f"printf mine > {ground.device_of(stranger.serial)}; sync")
        ground.pull("x")
        ground.pull(HELD)
        disks.swap(HELD, "x")
        disks.plug("x")
        words = ground.wait_condition(HELD, "Matched", "False", "Drift")
        assert stranger.serial in words, words
        assert ground.plugged[HELD]["serial"] in words
        ground.wait_told(kept.pod, "False", "Missing")
        ground.pull("x")
        disks.swap(HELD, "x")
        ground.put_back(HELD)
        kept.check()
        ground.wait_told(kept.pod, "True", "Healthy")
        disks.plug("x")
        assert ground.agent.here(f"head -c 8 {ground.device_of(stranger.serial)} | tr -d '\\0'") == "mine"
    finally:
        ground.discard("x")
        ground.plug_all()


@pytest.fixture
def clock(ground: VmGround) -> Iterator[Callable[[int], None]]:
    """Moves the machine's clock by seconds, and sets it right afterwards."""
    moved: list[int] = []

    def move(seconds: int) -> None:
        moved.append(seconds)
        ground.agent.here(f"date -s @$(( $(date +%s) + {seconds} ))")

    yield move
    if sum(moved):
        move(-sum(moved))


@pytest.mark.promise
def test_the_clock_jumps_an_hour_and_back_and_nothing_else_happens(
    ground: VmGround, kept: Kept, clock: Callable[[int], None]
) -> None:
    spec, pid = ground.object(HELD)["spec"], ground.agent.shown("MainPID")
    clock(3600)
    ground.pull("s1")
    ground.wait_phase("s1", "Missing")
    clock(-3600)
    renewed = ground.agent.lease()["spec"]["renewTime"]
    ground.put_back("s1")
    ground.wait_phase("s1", "Available")
    ground.wait_renewed(renewed)
    kept.check()
    assert (ground.object(HELD)["spec"], ground.agent.shown("MainPID")) == (spec, pid)


@pytest.mark.promise
def test_systemd_starts_an_agent_again_that_was_killed_or_hangs(ground: VmGround, kept: Kept) -> None:
    agent = ground.agent
    # A sign of life is due every twenty seconds at least, from the next start on: a stopped process gives none.
    runtime = f"/run/systemd/system/{UNIT}.d"
    agent.here(f"mkdir -p {runtime} && printf '[Service]\nWatchdogSec=20\n' > {runtime}/zz-watchdog.conf")
    agent.here("systemctl daemon-reload")
    restarts = int(agent.shown("NRestarts"))
    agent.signal("KILL")
    eventually(lambda: int(agent.shown("NRestarts")) > restarts, SECONDS, "a restart")
    agent.wait_ready(SECONDS)
    main = agent.shown("MainPID")
    agent.signal("STOP")
    agent.here(f"rm -r {runtime}; systemctl daemon-reload")
    eventually(lambda: agent.shown("MainPID") not in (main, "0"), SECONDS, "another process")
    agent.wait_ready(SECONDS)
    kept.check()
    assert "Watchdog timeout" in agent.said_of_it()
    assert "reception only permitted" not in agent.said_of_it()


@pytest.mark.promise
def test_power_is_cut_between_mkfs_and_status_and_disks_have_been_moved(ground: VmGround, kept: Kept) -> None:
    """No second mkfs, no other disk, and the same bytes; the kernel's names are what the firmware makes of it.

    The last test: n0 stays held, as the disk of `kept` does.
    """
    agent, vm = ground.agent, ground.vm
    vm.put("/usr/local/sbin/mkfs.xfs", MKFS.encode(), 0o755)
    agent.here("touch /run/stall")
    lock = ground.lock("n0")
    eventually(lambda: agent.here("cat /run/stalled && echo yes", check=False), SECONDS, "mkfs is done, and not told")
    assert (ground.object("n0")["status"]["journal"] or {}).get("step") == FORMATTING
    before = {name: ground.object(name) for name in ground.plugged}
    boot = agent.here("cat /proc/sys/kernel/random/boot_id")
    vm.power_off(cut=True)
    assert not vm.running
    moved = {"n0": "n1", "n1": "n0", "s0": "s1", "s1": "s0"}
    for pair in (("n0", "n1"), ("s0", "s1")):
        vm.disks.swap(*pair)
    try:
        vm.power_on()
        assert agent.here("cat /proc/sys/kernel/random/boot_id") != boot
        assert agent.here("cat /etc/machine-id") == vm.spec.token
        agent.wait_ready(SECONDS)  # systemd has started it
        ground.wait_mounted("n0", lock)
        assert agent.here("cat /root/mkfs-calls") == "mkfs"
        kept.check()
        for name, disk in before.items():
            after = ground.wait_phase(name, "InUse" if name in ("n0", HELD) else "Available")
            assert after["spec"] == disk["spec"]
            was, now = disk["status"]["observed"], after["status"]["observed"]
            assert now["devicePath"] == ground.device(name)
            assert now["byPath"] == before[moved[name]]["status"]["observed"]["byPath"]
            place = dict.fromkeys(("devicePath", "byPath", "filesystem", "mounts"))
            assert {**now, **place} == {**was, **place}
    finally:
        agent.here("rm -f /usr/local/sbin/mkfs.xfs /root/mkfs-calls", check=False)
