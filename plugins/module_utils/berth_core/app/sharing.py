# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether two nodes see one disk at once (shared SAS, FC, iSCSI), or a disk went from one node to another.

Called by the node agent. A LocalDisk shows the disk's own world wide name in one spelling (``status.observed.diskID``);
two that show the same name in two nodes at once are one disk, which is given to nobody. What a name is worth is
decided here: no path, no serial number, and no name that virtual machines repeat.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..errors import DataError
from .phase import is_seen

Disk = Mapping[str, Any]
_HEX = re.compile(r"(naa\.|eui\.|0x)([0-9a-f]{16}|[0-9a-f]{24}|[0-9a-f]{32})")
_UUID = re.compile(r"uuid\.([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
#: Where the number of the IEEE for the vendor is in a NAA name, by its first digit: 3 is locally assigned, without one.
_NAA_VENDOR = {"2": 4, "5": 1, "6": 1}
#: The bit of a vendor's number that says: not given by the IEEE. QEMU's default names have it, in every machine.
_LOCAL = 0x02


class Neighbour(NamedTuple):
    """The LocalDisk of another node that shows the same disk. ``sees_it``: now; else it showed it once.

    ``data``: whose data its node has on record, for people. Without any neighbour all is empty.
    """

    name: str = ""
    node: str = ""
    sees_it: bool = False
    data: str = ""


#: No other node shows the disk.
ALONE = Neighbour()


def disk_id(device: Mapping[str, Any]) -> str:
    """The world wide name of a record of block_device_info; empty where it has none, or one that others have."""
    for name in ((device.get("kernel") or {}).get("wwid"), device.get("wwn")):
        found = world_wide(str(name or ""))
        if found:
            return found
    return ""


def world_wide(name: str) -> str:
    """One spelling of a name as the kernel or udev writes it; empty where others may have it too."""
    text = name.strip().lower()
    uuid = _UUID.fullmatch(text)
    if uuid:
        return uuid.group(1)
    found = _HEX.fullmatch(text)
    if not found:
        return ""
    kind, digits = found.groups()
    vendor = _vendor(kind, digits)
    return digits if vendor and int(vendor, 16) and not int(vendor[:2], 16) & _LOCAL else ""


def _vendor(kind: str, digits: str) -> str:
    """The vendor's six digits. udev's 0x does not say which kind it is: a NAA name begins with its type."""
    if kind == "naa." or (kind == "0x" and digits[0] in _NAA_VENDOR):
        at = _NAA_VENDOR.get(digits[0])
        return digits[at : at + 6] if at is not None else ""
    at = 16 if len(digits) == 32 else 0
    return digits[at : at + 6]


def neighbour_of(disk: Disk, others: Iterable[Disk]) -> Neighbour:
    """Of LocalDisks that show the same diskID, the one that matters: in another node, one that sees it first."""
    node = disk["spec"]["nodeName"]
    found = [_neighbour(each) for each in others if each["spec"]["nodeName"] != node]
    return min(found, key=lambda each: (not each.sees_it, not each.data, each.node, each.name), default=ALONE)


def _neighbour(disk: Disk) -> Neighbour:
    spec, observed = disk["spec"], (disk.get("status") or {}).get("observed") or {}
    owner = spec.get("claimRef") or spec.get("retainedFor")
    data = f"{owner['namespace']}/{owner['app']}-{owner['ordinal']} (claim {owner['claim']})" if owner else ""
    return Neighbour(str(disk["metadata"]["name"]), str(spec["nodeName"]), is_seen(observed), data)


def shared_words(node: str, identity: str) -> str:
    """What is said of a disk that another node sees, too."""
    return (
        f"node {node} sees the same disk ({identity}): it is given to nobody, and nothing is made, mounted or wiped on "
        f"it while both see it; both: kubectl get ld --field-selector status.observed.diskID={identity}"
    )


def moved_words(other: Neighbour) -> str:
    """What is said of a disk that came from another node with data; empty where it brought none that is on record."""
    if other.sees_it or not other.data:
        return ""
    return f"it came from node {other.node}, whose LocalDisk {other.name} has the data of {other.data} on record"


def gone_words(other: Neighbour) -> str:
    """What is said of a disk that is not in its node any more, where it is; empty where nobody sees it."""
    return f"the disk is in node {other.node} now, as LocalDisk {other.name}" if other.sees_it else ""


def check_alone(disk: Disk, other: Neighbour, identity: str) -> None:
    """Raises DataError where another node sees the disk, too."""
    if other.sees_it:
        name = disk["metadata"]["name"]
        raise DataError(
            f"LocalDisk {name}: {shared_words(other.node, identity)} (there LocalDisk {other.name})", disk=name
        )
