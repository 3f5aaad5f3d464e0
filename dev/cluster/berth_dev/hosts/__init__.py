# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real hosts on one machine: nodes of the development cluster with their own disks, reached by ssh.

HostSet      the way in (hostset.py): up, down, disks, power, inventory
model        what a host and a disk are: every name and number, pure
slots        who has which subnet and loop devices on this machine
net, loops, cgroups, disks, ssh, services, power    one part of a host each
inside/      what runs inside a host: launch.sh -> rootfs.sh -> init.py, blockdev.py (its udev)
"""

from __future__ import annotations

from .hostset import HostSet
from .model import Disk, Host

__all__ = ["Disk", "Host", "HostSet"]
