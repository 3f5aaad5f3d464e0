# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a disk says of its own health, by smartctl: SMART of ATA and SCSI disks, the health log of NVMe ones.

Called by the node agent. A sleeping disk is not woken. No smartctl, or a disk that has no such report, is no error.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from .machine import NOT_STARTED, Machine

_SECONDS = 30.0
#: Bits of smartctl's exit status: the command line was wrong, the device did not open (or sleeps), a command failed.
_BAD_CALL, _NOT_OPEN = 1, 2


class Report(NamedTuple):
    """``report``: smartctl's JSON, empty where it says nothing; ``why``: then the reason."""

    report: dict[str, Any]
    why: str = ""


def read_smart(machine: Machine, path: str) -> Report:
    """Ask the disk. Takes up to half a minute on a disk that hangs: not for an event loop."""
    argv = ["smartctl", "--json=c", "--health", "--attributes", "--nocheck=standby", path]
    answer = machine.run(argv, _SECONDS)
    if answer.status == NOT_STARTED:
        return Report({}, "smartctl is not installed on this host (package smartmontools): SMART is not looked at")
    try:
        report = json.loads(answer.out)
    except ValueError:
        return Report({}, f"{path}: smartctl gave no report: {answer.why()}")
    if not isinstance(report, dict) or answer.status & (_BAD_CALL | _NOT_OPEN):
        return Report({}, f"{path}: {_words(report) or f'smartctl: exit status {answer.status}'}")
    return Report(report)


def _words(report: Any) -> str:
    messages = report.get("smartctl", {}).get("messages", []) if isinstance(report, dict) else []
    return "; ".join(str(each.get("string")) for each in messages if isinstance(each, dict))
