"""What the host has mounted where, as a container sees it that has the host's tree below /host."""

from __future__ import annotations

from pathlib import Path

from berth_host.machine import Machine
from berth_host.mounts import mount_points, read_mounts, system_devices

MOUNTINFO = """\
700 600 0:50 / / rw,relatime - overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w
701 700 8:1 / /host rw,relatime - ext4 /dev/sda1 rw
702 701 8:2 / /host/boot rw,relatime - ext4 /dev/sda2 rw
703 701 8:17 / /host/data rw,relatime - xfs /dev/sdb1 rw
704 701 8:32 / /host/var/lib/berth/disks/h1-0 rw,relatime - xfs /dev/sdc rw
705 700 8:32 / /var/lib/berth/disks/h1-0 rw,relatime - xfs /dev/sdc rw
706 700 8:1 /etc/hosts /etc/hosts rw,relatime - ext4 /dev/sda1 rw
707 700 8:48 / /hostile rw,relatime - ext4 /dev/sdd rw
"""


def test_the_hosts_mounts_are_seen_at_the_hosts_places_and_the_containers_own_are_not(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(MOUNTINFO)
    machine = Machine(str(tmp_path), "/host/")
    mounts = read_mounts(machine)
    assert [mount.point for mount in mounts] == ["/", "/boot", "/data", "/var/lib/berth/disks/h1-0"]
    assert mount_points(mounts, "8:32") == ["/var/lib/berth/disks/h1-0"]
    assert mount_points(mounts, "8:48") == []
    assert system_devices(machine, mounts) == {"8:1", "8:2"}
    assert mount_points(read_mounts(Machine(str(tmp_path))), "8:17") == ["/host/data"]
