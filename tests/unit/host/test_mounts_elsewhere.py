"""Who else mounts a disk: a container's volume counts, the copy of berth's mount in a service's namespace does not."""

from __future__ import annotations

import os
from pathlib import Path

from berth_host.machine import Machine
from berth_host.mounts import users_elsewhere

# As on a Debian host: systemd-udevd has a namespace of its own, whose root follows the host's.
OURS = """\
23 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
67 23 259:0 / /var/lib/berth/disks/h1-0 rw,relatime shared:33 - xfs /dev/nvme0n1 rw
"""
UDEVD = """\
53 35 254:0 / / rw,relatime shared:16 master:1 - ext4 /dev/vda rw
71 53 259:0 / /var/lib/berth/disks/h1-0 rw,relatime shared:34 master:33 - xfs /dev/nvme0n1 rw
"""
CONTAINER = """\
90 80 0:50 / / rw,relatime master:70 - overlay overlay rw
91 90 259:0 /data /data rw,relatime master:33 - xfs /dev/nvme0n1 rw
"""
COPIED = """\
53 35 254:0 / / rw,relatime - ext4 /dev/vda rw
71 53 259:0 / /var/lib/berth/disks/h1-0 rw,relatime - xfs /dev/nvme0n1 rw
"""


def machine(root: Path, **others: str) -> Machine:
    """A host with these other processes, each in a mount namespace of its own."""
    for pid, mounts in {"self": OURS, "1": OURS, **{name.lstrip("p"): text for name, text in others.items()}}.items():
        folder = root / "proc" / pid
        (folder / "ns").mkdir(parents=True)
        (folder / "mountinfo").write_text(mounts)
        os.symlink(f"mnt:[{0 if pid in ('self', '1') else pid}]", folder / "ns/mnt")
    return Machine(str(root))


def test_a_copy_that_goes_with_our_mount_uses_nothing(tmp_path: Path) -> None:
    assert users_elsewhere(machine(tmp_path, p142=UDEVD), "259:0") == []


def test_a_containers_volume_is_a_use(tmp_path: Path) -> None:
    found = users_elsewhere(machine(tmp_path, p142=UDEVD, p500=CONTAINER), "259:0")
    assert found == ["/data of process 500"]


def test_a_copy_that_hears_nothing_of_us_stays_and_is_a_use(tmp_path: Path) -> None:
    found = users_elsewhere(machine(tmp_path, p600=COPIED), "259:0")
    assert found == ["/var/lib/berth/disks/h1-0 of process 600"]
    assert users_elsewhere(machine(tmp_path / "other", p600=COPIED), "254:0") != []


def test_a_container_with_both_is_a_use(tmp_path: Path) -> None:
    both = UDEVD + "91 53 259:0 /data /data rw,relatime master:33 - xfs /dev/nvme0n1 rw\n"
    assert users_elsewhere(machine(tmp_path, p500=both), "259:0") == ["/data of process 500"]
