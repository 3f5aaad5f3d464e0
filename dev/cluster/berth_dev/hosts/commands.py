# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Running the machine's own tools (ip, losetup, mkfs, nsenter) with errors that a person can use.

Every module of `hosts` that touches the machine calls this. It never uses a shell.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from typing import Any

from ..errors import HostError

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

PACKAGES = {
    "ip": "iproute2",
    "losetup": "mount",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.xfs": "xfsprogs",
    "chattr": "e2fsprogs",
    "blkid": "util-linux",
    "udevadm": "udev",
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "runc": "runc",
    "iptables": "iptables",
    "nft": "nftables",
    "conntrack": "conntrack",
    "busybox": "busybox-static",
    "python3": "python3",
}
"""Program and the Debian package that brings it: what a machine needs for real hosts."""


def missing_packages(programs: Iterable[str] | None = None) -> list[str]:
    """Debian packages whose programs (by default all that hosts need) this machine lacks."""
    return sorted({PACKAGES[p] for p in programs or PACKAGES if shutil.which(p, path=SYSTEM_PATH) is None})


def check_machine() -> None:
    """HostError, with the one line that mends it, when this machine cannot carry real hosts."""
    if os.geteuid() != 0:
        raise HostError("real hosts need root (namespaces, mounts, loop devices); without root use hosts=0")
    missing = missing_packages()
    if missing:
        packages = " ".join(missing)
        raise HostError(f"real hosts need programs of missing packages: apt-get install -y {packages}")


def run(*argv: str, input_text: str | None = None, timeout: float = 120.0) -> str:
    """Run a program, return what it prints. HostError with its own words when it fails."""
    environment = {**os.environ, "PATH": SYSTEM_PATH, "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(
            argv, input=input_text, capture_output=True, text=True, env=environment, timeout=timeout, check=False
        )
    except FileNotFoundError:
        package = PACKAGES.get(argv[0])
        hint = f": apt-get install -y {package}" if package else ""
        raise HostError(f"program {argv[0]} is missing on this machine{hint}") from None
    except subprocess.TimeoutExpired:
        raise HostError(f"{' '.join(argv)}: no end within {timeout:.0f} s") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip() or "no message"
        raise HostError(f"{' '.join(argv)}: exit {done.returncode}: {said}")
    return done.stdout


def run_json(*argv: str) -> Any:
    """The JSON that a program prints."""
    return json.loads(run(*argv) or "[]")
