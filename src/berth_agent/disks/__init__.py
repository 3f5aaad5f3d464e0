"""The life of a disk on its node: made ready for a lock, watched, taken off, wiped. Plugged into the frame as DiskWork.

    work.py        what is to be done with one disk now; the frame calls it
    preparing.py   filesystem and mount for a live lock, and the way back; each step is journalled before and after
    wiping.py      a request to wipe, carried out by a process of its own
    checking.py    health of every disk: probes, SMART, the kernel's log
    kernel_log.py  the kernel's log as it is written
    pods.py        pods on a disk that is not well are told
    record.py      this part's fields of a LocalDisk's status

What is decided is decided in berth_core.app (prepare, fs_plan, wipe, health); what is done to a disk is done in
berth_host. Nothing here takes a disk that is in use away from anybody.
"""

from __future__ import annotations

from ..seams import Tools
from .work import Disks


def make(tools: Tools) -> Disks:
    """What the agent plugs in."""
    return Disks(tools)
