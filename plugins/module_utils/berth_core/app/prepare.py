# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to be done with a LocalDisk on its node, whether its lock is alive, what the journal says about each step.

Called by the node agent, and for the locks by disk_filesystem, who keeps no journal. The journal (``status.journal``,
condition Prepared) is written before and after each step that changes the disk or its mount: whoever comes after a
killed agent knows what was begun.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import LockError, StateError
from ..lifecycle.states import RESERVED, reached
from ..model.tenant import Tenant
from .fs_plan import FilesystemPlan, why_not_at_host
from .fsid import mount_point
from .identity import Device
from .next_commands import give_lock_up
from .wipe import is_to_be_cleared

CONDITION = "Prepared"
FORMATTING, FORMATTED = "Formatting", "Formatted"
MOUNTING, MOUNTED = "Mounting", "Mounted"
UNMOUNTING, UNMOUNTED = "Unmounting", "Unmounted"
#: Reason of the condition: no step of the journal.
LEFT = "LeftToVolume"
AT_HOST, NOT_AT_HOST = "MountedByHost", "NotMountedByHost"
STEPS = (FORMATTING, FORMATTED, MOUNTING, MOUNTED, UNMOUNTING, UNMOUNTED)

#: What next_work returns.
PREPARE, RELEASE, WIPE, CLEAR = "prepare", "release", "wipe", "clear"

Object = Mapping[str, Any]
#: (type, status, reason, message) of a condition
Finding = tuple[str, str, str, str]


def next_work(disk: Object) -> str:
    """Make it ready for its lock; or take it off its mount point (then wipe it, when that is asked for)."""
    if disk["spec"].get("claimRef"):
        return PREPARE
    if is_to_be_cleared(disk):
        return CLEAR
    return WIPE if disk["spec"].get("wipe") else RELEASE


def host_point(disk: Object) -> str:
    """Where the host itself mounts the disk's filesystem, for a volume that was there before berth; or empty."""
    owner = disk["spec"].get("claimRef") or disk["spec"].get("retainedFor") or {}
    return str(owner.get("mountPoint") or "")


def expected_point(disk: Object, mount_root: str) -> str:
    """Where the disk's filesystem is mounted, by its agent or by the host itself."""
    return host_point(disk) or mount_point(str(disk["metadata"]["name"]), mount_root)


def at_host(disk: Object, device: Device) -> Finding:
    """The condition of a held disk that the host mounts itself."""
    ref = disk["spec"]["claimRef"]
    away = why_not_at_host(ref, device)
    if away:
        return CONDITION, "False", NOT_AT_HOST, away
    words = f"the host itself mounts it at {ref['mountPoint']} for PersistentVolume {ref['volume']}; it is left alone"
    return CONDITION, "True", AT_HOST, words


def left_to(disk: Object) -> str:
    """The PersistentVolume through which a disk that nobody holds goes on to be used (lifecycle.way_out); or empty."""
    return "" if disk["spec"].get("claimRef") else str((disk["spec"].get("retainedFor") or {}).get("volume") or "")


def check_lock(disk: Object, uid: str, berth: Object | None) -> None:
    """The fence: the lock is still that of ``uid``, and its berth lives. Raises LockError.

    ``disk`` and ``berth`` are as the API server has them right now. A lock whose berth has not come to Reserved may
    still be undone without a trace: until then nothing may be written for it.
    """
    name, ref = disk["metadata"]["name"], disk["spec"].get("claimRef")
    if not ref or ref["uid"] != uid:
        raise LockError(f"LocalDisk {name} is no longer held by the berth with uid {uid}", disk=name)
    who = f"{ref['namespace']}/{ref['name']}"
    if berth is None or berth["metadata"].get("uid") != uid:
        raise LockError(
            f"LocalDisk {name}: its lock names Berth {who} with uid {uid}, and there is no such berth (any more): "
            f"nothing is done for a stale lock; its data stays kept when it is given up: {give_lock_up(name)}",
            disk=name,
        )
    if berth["metadata"].get("deletionTimestamp"):
        raise LockError(f"LocalDisk {name}: Berth {who}, which holds it, is being deleted", disk=name)
    phase = str((berth.get("status") or {}).get("phase") or "")
    if not reached(phase, RESERVED):
        raise LockError(
            f"LocalDisk {name}: Berth {who}, which holds it, is {phase or 'without a phase'}: the disk is made ready "
            f"when the berth is {RESERVED}",
            disk=name,
        )
    # Whoever may write disks may name any living berth in a lock; what the berth was given is in the berth.
    if (ref["claim"], name) not in [(each["claim"], each["name"]) for each in berth["spec"].get("disks") or ()]:
        raise LockError(
            f"LocalDisk {name}: its lock is for claim {ref['claim']} of Berth {who}, and that berth was not given this "
            "disk: nothing is done for such a lock",
            disk=name,
        )


def names_earlier_data(disk: Object) -> bool:
    """Whether the lock says that the disk has data of an earlier lock, and by its uid of which namespace."""
    ref = disk["spec"]["claimRef"]
    return bool(ref.get("namespaceUID")) and ref["dataUID"] != ref["uid"]


def check_tenant(disk: Object, namespace: Object | None) -> None:
    """The uid in such a lock is that of the namespace, as it is now. Raises LockError.

    The schema lets kept data be locked for the namespace's uid alone; whether that is the uid, it cannot look up.
    """
    name, ref = disk["metadata"]["name"], disk["spec"]["claimRef"]
    record = Tenant.on_record(ref)
    asking = Tenant.in_namespace(namespace, record.pod_uid)
    if not asking.may_have(record):
        raise LockError(
            f"LocalDisk {name} has the data of {ref['namespace']}/{ref['app']}-{ref['ordinal']} "
            f"{asking.difference(record)}, and its lock is for Berth {ref['namespace']}/{ref['name']} of today: "
            "nothing is done for such a lock",
            disk=name,
        )


def check_unchanged(given: Object, disk: Object | None, berth: Object | None) -> Object:
    """The LocalDisk as it is now, when its lock is the one that a play has read (``given``). Raises LockError.

    ``berth``: that the lock names now, if it is there. A lock without one, or one that may still be undone without a
    trace, is refused, as the agent refuses it: an admission policy cannot look a Berth up.
    """
    name, ref = given["metadata"]["name"], dict(given["spec"].get("claimRef") or {})
    if disk is None:
        raise LockError(f"LocalDisk {name} is there no more: nothing was done", disk=name)
    now = disk["spec"].get("claimRef") or {}
    if any(now.get(key) != ref.get(key) for key in ("uid", "dataUID")):
        holder = f"{now['namespace']}/{now['name']}" if now else "nobody"
        raise LockError(
            f"LocalDisk {name}: its lock has changed since the play read it, and {holder} holds it now: "
            "nothing was done; run the play again",
            disk=name,
        )
    if now:
        check_lock(disk, str(now["uid"]), berth)
    return disk


def check_alone(disk: Object, agent: Object | None) -> None:
    """No agent leads on the disk's node. ``agent``: a row of `node_agents.agent_of`. Raises StateError."""
    if agent is not None and agent["alive"]:
        name, node = disk["metadata"]["name"], disk["spec"]["nodeName"]
        raise StateError(
            f"LocalDisk {name}: the agent {agent['holder']} leads on node {node}, and makes and mounts the "
            "filesystems of held disks itself: nothing was done; leave that to it, or remove it first",
            disk=name,
        )


def journal_entry(step: str, plan: FilesystemPlan, lock: Mapping[str, Any]) -> dict[str, str]:
    """``status.journal`` for a step under a lock."""
    return {
        "step": step,
        "lockUID": str(lock["uid"]),
        "dataUID": str(lock["dataUID"]),
        "filesystemUUID": plan.uuid,
        "fsType": plan.fs_type,
        "mountPoint": plan.point,
    }


def after_release(step: str, journal: Mapping[str, Any], point: str) -> dict[str, Any]:
    """``status.journal`` while and after a disk that nobody holds is taken off its mount point."""
    return {"lockUID": "", "mountPoint": point, **journal, "step": step}


def is_mounted_for(disk: Object, uid: str) -> bool:
    """Whether the journal says that the disk has been made ready for this very lock."""
    journal = journal_of(disk)
    return journal.get("step") == MOUNTED and journal.get("lockUID") == uid


def journal_of(disk: Object) -> Mapping[str, Any]:
    """``status.journal``."""
    return dict((disk.get("status") or {}).get("journal") or {})


def finding(step: str, plan: FilesystemPlan) -> Finding:
    """The condition Prepared at a step."""
    words = {
        FORMATTING: f"making {plan.fs_type} {plan.uuid}{' once more: it was left half made' if plan.again else ''}",
        FORMATTED: f"{plan.fs_type} {plan.uuid} is made",
        MOUNTING: f"mounting {plan.fs_type} {plan.uuid} at {plan.point}",
        MOUNTED: f"{plan.fs_type} {plan.uuid} is mounted at {plan.point}",
    }
    return CONDITION, "True" if step == MOUNTED else "False", step, words[step]
