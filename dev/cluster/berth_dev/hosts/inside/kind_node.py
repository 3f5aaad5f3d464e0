# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What systemd runs in a kind node before containerd: only its own disks are to be seen, other nodes' pods are reached.

    kind_node.py disks | routes

Docker gives a node every device of the machine, and /sys lists them all: without this a node would see, and could take,
the disks of other nodes and of the machine. berth_dev.kind.nodes writes its settings and its units.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

from . import blockdev

SETTINGS = Path("/opt/berth/host.json")


def disks() -> None:
    """Hide every block device, then show this node's own. Done already in this life of the node: nothing."""
    if os.path.ismount("/sys/block"):
        return
    for entry in Path("/dev").iterdir():
        if stat.S_ISBLK(entry.lstat().st_mode):
            entry.unlink()
    Path("/run/udev/data").mkdir(parents=True, exist_ok=True)
    blockdev.hide_all()
    with blockdev.exclusive():
        blockdev.add(json.loads(SETTINGS.read_text())["disks"])


def routes() -> None:
    """To the pods of every other node. A node that has no address yet: systemd runs this again."""
    for name, subnet in json.loads(SETTINGS.read_text())["routes"].items():
        address = socket.gethostbyname(name)
        subprocess.run(["ip", "route", "replace", subnet, "via", address], check=True)


if __name__ == "__main__":
    {"disks": disks, "routes": routes}[sys.argv[1]]()
