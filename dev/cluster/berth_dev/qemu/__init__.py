# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A virtual machine with real disks: a Debian kernel under QEMU's software emulation, NVMe and SCSI, see `vm`."""

from __future__ import annotations

from .model import Bus, VmDisk
from .vm import Vm

__all__ = ["Bus", "Vm", "VmDisk"]
