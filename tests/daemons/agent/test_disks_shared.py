"""Disks that somebody else has, on real hosts: another node, a program that outlived its pod, a restored cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.daemons.agent.disk_ground import Ground

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.promise]
HOSTS = ("h2", "h3")
#: Writes to the device until it is ended, like a container whose pod was deleted by force.
WRITER = """
import os, sys, time
handle = os.open(sys.argv[1], os.O_RDWR)
while True:
    os.pwrite(handle, sys.argv[2].encode() + bytes(4096), 1 << 20)
    os.fsync(handle)
    time.sleep(0.05)
"""


@pytest.fixture
def grounds(dev_cluster: Any, rights: None) -> Iterator[tuple[Ground, Ground]]:
    one, two = (Ground(dev_cluster, host) for host in HOSTS)
    yield one, two
    for each in (one, two):
        each.clean()


def test_no_agent_touches_a_disk_that_another_node_sees(grounds: tuple[Ground, Ground]) -> None:
    """Lock and request were written when nobody else was seen; by the time that they are carried out, somebody is."""
    one, two = grounds
    names = {"5002538f40e1b2c3": "wiped", "5002538f40e1b2c4": "made"}
    seen, ours = {name: one.plug() for name in names}, {name: two.plug() for name in names}
    for name in names:
        one.name_it(seen[name], f"0x{name}")
        two.name_it(ours[name], f"0x{name}")
    two.declare()
    two.agent.start()
    for disk in ours.values():
        two.wait_phase(disk, "Available")
    two.agent.stop()
    wiped, made = ours
    two.agent.here(f"echo live | dd of={two.device(ours[wiped])} bs=1M seek=8 conv=notrunc status=none; sync")
    before = two.checksum(*ours.values())
    two.ask_wipe(ours[wiped], "zero")
    lock = two.lock(ours[made])

    one.declare()
    one.agent.start()
    for disk in seen.values():
        assert "node h3 sees the same disk" in one.wait_condition(disk, "Matched", "False", "Shared")
    two.agent.start(log="second")
    for disk, kind in ((ours[wiped], "Wiped"), (ours[made], "Prepared")):
        assert "node h2 sees the same disk" in two.wait_condition(disk, kind, "False", "Refused")
        assert "node h2 sees the same disk" in two.wait_condition(disk, "Matched", "False", "Shared")
    assert two.checksum(*ours.values()) == before

    for disk in seen.values():
        one.pull(disk)
    two.wait(ours[wiped], "wiped and cleared", lambda disk: "wipe" not in disk["spec"])
    two.wait_mounted(ours[made], lock)


def write_on(ground: Ground, disk: str, what: str) -> str:
    """A program that has the disk open and writes to it from now on; its pid."""
    path = ground.agent.put("writer.py", WRITER)
    return ground.agent.here(f"nohup python3 {path} {ground.device(disk)} {what!r} >/dev/null 2>&1 & echo $!")


def test_a_raw_volume_is_neither_wiped_nor_formatted_under_who_still_writes_to_it(
    grounds: tuple[Ground, Ground],
) -> None:
    _other, ground = grounds
    given_up, next_one = ground.plug(), ground.plug()
    ground.declare(**{given_up: {"volume_mode": "Block"}})
    ground.agent.start()
    for disk in (given_up, next_one):
        ground.wait_phase(disk, "Available")
    lock = ground.lock(given_up)
    ground.wait_condition(given_up, "Prepared", "True", "Raw")
    writers = [write_on(ground, given_up, "mine"), write_on(ground, next_one, "")]
    ground.release(given_up, lock)
    ground.ask_wipe(given_up, "zero")
    taken = ground.lock(next_one)
    assert "is open for writing by python3" in ground.wait_condition(given_up, "Wiped", "False", "Refused")
    assert "is open for writing by python3" in ground.wait_condition(next_one, "Prepared", "False", "Refused")
    assert ground.agent.here(f"dd if={ground.device(given_up)} bs=1M skip=1 count=1 status=none | head -c 4") == "mine"
    assert ground.agent.here(f"blkid -p {ground.device(next_one)} || echo nothing") == "nothing"

    ground.agent.here(f"kill {' '.join(writers)}")
    ground.wait(given_up, "wiped and cleared", lambda disk: "wipe" not in disk["spec"])
    assert ground.agent.here(f"tr -d '\\0' < {ground.device(given_up)} | wc -c") == "0"
    ground.wait_mounted(next_one, taken)


def test_raw_data_without_a_signature_is_not_formatted_by_the_next_holder(grounds: tuple[Ground, Ground]) -> None:
    """It was somebody's raw volume, was given up by name, and has become a disk with a filesystem."""
    _other, ground = grounds
    mine = ground.plug()
    ground.declare(**{mine: {"volume_mode": "Block"}})
    ground.agent.start()
    ground.wait_phase(mine, "Available")
    lock = ground.lock(mine)
    ground.wait_condition(mine, "Prepared", "True", "Raw")
    ground.agent.here(f"echo precious | dd of={ground.device(mine)} conv=notrunc status=none; sync")
    ground.release(mine, lock)
    ground.patch(mine, retainedFor=None)
    ground.patch(mine, volumeMode="Filesystem", fsType="ext4")
    before = ground.checksum(mine)
    taken = ground.lock(mine)
    assert "carries data without a signature" in ground.wait_condition(mine, "Prepared", "False", "Refused")
    assert ground.checksum(mine) == before
    ground.patch(mine, claimRef=None)
    ground.agent.signal("HUP")
    ground.wait_phase(mine, "Pending")
    ground.ask_wipe(mine, "signatures")
    ground.wait_phase(mine, "Available")
    assert taken["uid"]


def test_a_request_that_was_taken_back_does_not_come_back_for_other_data(grounds: tuple[Ground, Ground]) -> None:
    """As a cluster does whose state is restored from a backup: the same request, and what came to the disk since."""
    _other, ground = grounds
    raw, formatted = ground.plug(), ground.plug()
    ground.declare(**{raw: {"volume_mode": "Block"}})
    ground.agent.start()
    for disk in (raw, formatted):
        ground.wait_phase(disk, "Available")
    holders = {disk: ground.hold(disk) for disk in (raw, formatted)}
    requests = {disk: ground.ask_wipe(disk, "zero") for disk in holders}
    for disk, holder in holders.items():
        assert "is used by somebody else" in ground.wait_condition(disk, "Wiped", "False", "Refused")
        ground.patch(disk, wipe=None)
        ground.agent.here(f"kill {holder}")
    locks = {disk: ground.lock(disk) for disk in holders}
    ground.wait_mounted(formatted, locks[formatted])
    ground.agent.here(f"echo precious > {ground.point(formatted)}/data/file")
    ground.wait_condition(raw, "Prepared", "True", "Raw")
    ground.agent.here(f"echo precious | dd of={ground.device(raw)} conv=notrunc status=none; sync")
    for disk, lock in locks.items():
        ground.release(disk, lock)
    ground.wait(formatted, "unmounted", lambda disk: disk["status"]["journal"]["step"] == "Unmounted")
    before = ground.checksum(raw, formatted)
    for disk, request in requests.items():
        ground.ask_wipe(disk, "zero", request=request)
    for disk in requests:
        ground.wait(
            disk, "refused", lambda found: "was asked for when the disk carried ends blank" in str(found["status"])
        )
    assert ground.checksum(raw, formatted) == before
    for disk in requests:
        ground.patch(disk, wipe=None)
        ground.ask_wipe(disk, "zero")
    for disk in requests:
        ground.wait(disk, "wiped and cleared", lambda found: "wipe" not in found["spec"])
