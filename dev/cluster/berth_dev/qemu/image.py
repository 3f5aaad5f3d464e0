# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guest's system, made of Debian packages and kept in the per-user cache. `vm` calls this; needs root, once.

    <cache>/vm/<hash of what goes in>/root.img    a filesystem with systemd, udev, sshd, smartmontools, Python
                                      vmlinuz     Debian's kernel for virtual machines
                                      initrd      busybox, the modules for the root disk, berth-dev's /init

The folder is complete or absent. It holds no secret and no identity: keys, the host's name and the machine's id come
from each machine's own archive, which is appended to the initrd and laid over the root at every boot.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from .. import build
from ..errors import BuildError
from ..hosts.commands import SYSTEM_PATH, run
from ..images.debian import DROPPED, debootstrap
from . import cpio

SUITE = "bookworm"
PACKAGES = (
    *("linux-image-cloud-amd64", "systemd-sysv", "udev", "kmod", "iproute2", "procps", "openssh-server", "python3"),
    *("util-linux", "e2fsprogs", "xfsprogs", "dmsetup", "smartmontools", "nvme-cli"),
)
OVERLAY = "overlay"  # the folder of an initrd whose contents go over the root
ROOT_SIZE = "1500M"
_BUSYBOX = Path("/usr/bin/busybox")
_NEEDED = {"qemu-system-x86_64": "qemu-system-x86", "qemu-img": "qemu-utils", "debootstrap": "debootstrap"}
_DRIVERS = ("virtio_pci", "virtio_blk", "virtio_net")  # the root disk, and ssh early; udev loads the rest

INIT = """\
#!/bin/busybox sh
# The root disk's driver, then the root, then what belongs to this machine alone.
/bin/busybox mount -t devtmpfs dev /dev
for module in /modules/*; do /bin/busybox insmod "$module"; done
until [ -b /dev/vda ]; do /bin/busybox sleep 0.1; done
/bin/busybox mount -t ext4 /dev/vda /root || exec /bin/busybox sh
/bin/busybox cp -a /overlay/. /root/
/bin/busybox umount /dev
exec /bin/busybox switch_root /root /sbin/init
"""

FILES = {
    "etc/fstab": "",
    "etc/systemd/system/berth-network.service": """\
[Unit]
Description=The only network there is
DefaultDependencies=no
After=systemd-remount-fs.service
Before=network.target ssh.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'ip link set lo up && ip addr replace 10.0.2.15/24 dev eth0 && ip link set eth0 up'
ExecStart=/bin/sh -c 'ip route replace default via 10.0.2.2'
[Install]
WantedBy=multi-user.target
""",
    "etc/ssh/sshd_config": """\
HostKey /etc/ssh/berth_host_key
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
MaxStartups 100
MaxSessions 100
Subsystem sftp internal-sftp
""",
    # What a disk says must be seen after the test has ended too, and a full root must not stop it.
    "etc/systemd/journald.conf.d/berth.conf": "[Journal]\nStorage=volatile\nRuntimeMaxUse=16M\n",
}
"""What is laid over Debian's own files, and is not a machine's own."""

MASKED = (
    *("getty@.service", "serial-getty@.service", "apt-daily.timer", "apt-daily-upgrade.timer", "fstrim.timer"),
    *("dpkg-db-backup.timer", "e2scrub_all.timer", "e2scrub_reap.service", "systemd-timesyncd.service"),
    *("smartmontools.service", "smartd.service", "systemd-networkd-wait-online.service", "getty-static.service"),
    *("systemd-binfmt.service", "proc-sys-fs-binfmt_misc.automount", "systemd-update-utmp.service"),
    *("modprobe@configfs.service", "modprobe@efi_pstore.service", "modprobe@fuse.service", "modprobe@drm.service"),
    *("dev-hugepages.mount", "dev-mqueue.mount", "sys-kernel-debug.mount", "sys-kernel-tracing.mount"),
)
"""Units that cost time or come between: tests look at the disks themselves."""

ENABLED = ("ssh.service", "berth-network.service")
Progress = Callable[[str], None]


def check_machine() -> None:
    """HostError, BuildError: this machine cannot run or make a virtual machine, and the line that mends it."""
    missing = sorted({package for program, package in _NEEDED.items() if not shutil.which(program, path=SYSTEM_PATH)})
    if missing:
        raise BuildError(f"a virtual machine needs programs that are missing: apt-get install -y {' '.join(missing)}")


def ensure(progress: Progress = build.quiet) -> Path:
    """The folder with the guest's system, made now if it is not in the cache. BuildError says why it cannot be."""
    check_machine()
    target = build.cache_folder() / "vm" / _key()
    if target.exists():
        return target
    if os.geteuid() != 0:
        raise BuildError("the virtual machine's system is made with debootstrap, which needs root; once: run as root")
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(target.parent / ".lock", "w", encoding="utf-8") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        if not target.exists():
            _make(target, progress)
    return target


def _key() -> str:
    parts = [SUITE, *PACKAGES, *MASKED, *ENABLED, *DROPPED, *_DRIVERS, ROOT_SIZE, INIT]
    parts += [f"{path}\0{text}" for path, text in FILES.items()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _make(target: Path, progress: Progress) -> None:
    with tempfile.TemporaryDirectory(prefix=".making-", dir=target.parent) as scratch:
        root, made = Path(scratch, "root"), Path(scratch, "made")
        made.mkdir(mode=0o755)
        progress(
            f"virtual machine: installing {len(PACKAGES)} Debian packages and what they need (two to three minutes)"
        )
        debootstrap(SUITE, PACKAGES, root)
        progress("virtual machine: making the root disk")
        (kernel,) = (root / "boot").glob("vmlinuz-*")
        shutil.copyfile(kernel, made / "vmlinuz")
        (made / "initrd").write_bytes(cpio.archive(_initrd(root)))
        furnish(root)
        run("mke2fs", "-q", "-t", "ext4", "-m", "0", "-d", str(root), str(made / "root.img"), ROOT_SIZE)
        made.rename(target)


def furnish(root: Path) -> None:
    """Turn Debian's tree into the guest's."""
    for name in (*DROPPED, "boot"):
        shutil.rmtree(root / name, ignore_errors=True)
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()  # made while it was installed: every machine would have the same
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    units = root / "etc/systemd/system"
    for name in MASKED:
        (units / name).unlink(missing_ok=True)
        (units / name).symlink_to("/dev/null")
    run("chroot", str(root), "systemctl", "enable", *ENABLED)


def _initrd(root: Path) -> list[cpio.Entry]:
    """Busybox, the modules in the order in which they are to be loaded, and the program that starts the root."""
    try:
        busybox = _BUSYBOX.read_bytes()
    except FileNotFoundError:
        raise BuildError(f"{_BUSYBOX}: is missing; apt-get install -y busybox-static") from None
    (modules,) = (root / "lib/modules").iterdir()
    files = [
        cpio.file(f"modules/{number:02}-{path.name}", path.read_bytes())
        for number, path in enumerate(load_order((modules / "modules.dep").read_text(), modules, _DRIVERS))
    ]
    folders = [cpio.folder(name) for name in ("bin", "dev", "root", "modules", OVERLAY)]
    return [*folders, cpio.file("init", INIT, 0o755), cpio.file("bin/busybox", busybox, 0o755), *files]


def load_order(table: str, folder: Path, wanted: tuple[str, ...]) -> list[Path]:
    """The files of these modules and of what they need, each after what it needs itself.

    `table`: modules.dep of depmod; a line is a file, then what it needs, the most basic last.
    """
    needs = {line.partition(":")[0]: line.partition(":")[2].split() for line in table.splitlines()}
    by_name = {Path(file).name.partition(".")[0]: file for file in needs}
    missing = [name for name in wanted if name not in by_name]
    if missing:
        raise BuildError(f"the guest's kernel has no module {', '.join(missing)}")
    files = [file for name in wanted for file in [*reversed(needs[by_name[name]]), by_name[name]]]
    return [folder / file for file in dict.fromkeys(files)]


def make_overlay(image: Path, target: Path) -> None:
    """A root disk that takes the writes of one machine; the image itself is never written."""
    argv = ["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(image / "root.img"), "-F", "raw", str(target)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{target}: {done.stderr.strip()}")
