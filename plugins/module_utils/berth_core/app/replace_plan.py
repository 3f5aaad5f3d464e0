# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is left to do until a replica runs on another disk of its node: the steps, from what the API server says now.

Called by the module disk_replace before every step: whoever dies half-way is continued by the next run. Nothing is
wiped, and the old disk keeps its data and the name of the replica that it is of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..errors import IdentityError, InputError, StateError
from . import states
from .disk_change import SETTINGS, new_disk, wanted_name
from .identity import agrees, from_spec
from .manifests import volume_name
from .phase import AVAILABLE

Object = Mapping[str, Any]
#: Every step in order, and what it means.
STEPS = {
    "cordon": "the old disk is given to nobody anew",
    "stop": "the replica's claim goes, and its pod stops; other replicas run on",
    "unbind": "the volume over the old disk goes; what it pointed at is not touched",
    "reopen": "the berth is Selected again, so that its disk may change",
    "release": "the old disk's lock is given up; its data stays on it, in the replica's name",
    "adopt": "the new disk is declared, found by its identity, blank and healthy",
    "assign": "the new disk takes the old one's place in the berth",
    "lock": "the new disk is locked for the berth",
    "bind": "volume and claim are made over the new disk",
    "run": "the replica's pod is Ready on the new disk; the app rebuilds or restores its data",
}


class Replica(NamedTuple):
    """Whose disk it is."""

    namespace: str
    app: str
    ordinal: int
    claim: str

    @property
    def berth(self) -> str:
        """Also the pod's name."""
        return f"{self.app}-{self.ordinal}"

    @property
    def claim_name(self) -> str:
        return f"{self.claim}-{self.app}-{self.ordinal}"


class Seen(NamedTuple):
    """What is there now; None for what is not. ``volumes``: the names of the berth's PersistentVolumes."""

    old: Object
    new: Object | None
    berth: Object | None
    claim: Object | None
    volumes: frozenset[str]
    pod_ready: bool


def replica_of(old: Object) -> Replica | None:
    """Who holds the disk, or whose data it keeps; None for a disk that is nobody's.

    Raises StateError for a claim without an app: its disk is exchanged by deleting the claim.
    """
    ref = old["spec"].get("claimRef") or old["spec"].get("retainedFor")
    if not ref:
        return None
    if "." in ref["app"]:
        raise StateError(
            f"LocalDisk {old['metadata']['name']} is held for the PersistentVolumeClaim behind {ref['namespace']}/"
            f"{ref['app']}, which no app of stateful_app owns: restore its data into a new claim and delete it instead"
        )
    return Replica(ref["namespace"], ref["app"], int(ref["ordinal"]), ref["claim"])


def new_local_disk(old: Object, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The LocalDisk of the new disk: on the old one's node, with its settings and labels where none are given.

    Raises InputError, IdentityError.
    """
    spec = old["spec"]
    where = f"disk_replace: the disk in place of {old['metadata']['name']}"
    inherited = {option: spec.get(field) for option, field in SETTINGS.items() if option != "reserved"}
    given = {key: value for key, value in wanted.items() if value is not None}
    labels = {**(old["metadata"].get("labels") or {}), **(given.get("labels") or {})}
    made = new_disk({**inherited, **given, "labels": labels, "node_name": spec["nodeName"]}, where)
    if made["metadata"]["name"] == old["metadata"]["name"]:
        raise InputError(f"{where} has the same name; leave name out, or give it another")
    if agrees(from_spec(made["spec"]["identity"]), from_spec(spec["identity"])):
        raise IdentityError(f"{where} is that very disk ({from_spec(spec['identity']).describe()})")
    for field in ("volumeMode", "fsType"):
        default = "Filesystem" if field == "volumeMode" else None
        if spec.get(field, default) != made["spec"].get(field, default):
            raise InputError(f"{where}: {field} cannot differ from the old disk's: the replica's claim is made for it")
    return made


def new_name(old: Object, wanted: Mapping[str, Any]) -> str:
    """The new LocalDisk's name."""
    return wanted_name({**wanted, "node_name": old["spec"]["nodeName"]}, "disk_replace: new")


def check_new(declared: Object, live: Object) -> None:
    """Refuse a LocalDisk of that name that is not the disk that was declared. Raises IdentityError, StateError."""
    name, asked, there = declared["metadata"]["name"], declared["spec"]["identity"], live["spec"]["identity"]
    if not agrees(from_spec(asked), from_spec(there)) or live["spec"]["nodeName"] != declared["spec"]["nodeName"]:
        raise IdentityError(
            f"LocalDisk {name} is {from_spec(there).describe()} of node {live['spec']['nodeName']}, declared is "
            f"{from_spec(asked).describe()} of node {declared['spec']['nodeName']}; nothing was given to it"
        )
    if live["spec"].get("retainedFor"):
        kept = live["spec"]["retainedFor"]
        raise StateError(f"LocalDisk {name} keeps the data of {kept['namespace']}/{kept['app']}-{kept['ordinal']}")


def check_size(berth: Object, replica: Replica, declared: Object) -> None:
    """Raises StateError where the new disk is too small for what the replica asked for."""
    asked = [entry["size"] for entry in berth["spec"].get("disks") or () if entry["claim"] == replica.claim]
    size = declared["spec"]["identity"]["size"]
    if asked and size < asked[0]:
        raise StateError(
            f"LocalDisk {declared['metadata']['name']} has {size} bytes, and claim {replica.claim} of berth "
            f"{replica.namespace}/{replica.berth} asked for {asked[0]}: take a larger disk; nothing was changed"
        )


def remaining(seen: Seen, replica: Replica | None, name: str) -> list[str]:
    """The steps that are left, in order. ``name``: the new LocalDisk's."""
    left = [] if seen.old["spec"].get("unschedulable") else ["cordon"]
    berth = seen.berth
    if replica is None or berth is None:
        return left if _adopted(seen.new, None) else [*left, "adopt"]
    uid = berth["metadata"]["uid"]
    before, after = volume_name(seen.old["metadata"]["name"], uid), volume_name(name, uid)
    assigned = [entry["name"] for entry in berth["spec"].get("disks") or () if entry["claim"] == replica.claim] == [
        name
    ]
    phase = (berth.get("status") or {}).get("phase", "")
    tied = seen.claim["spec"].get("volumeName", "") if seen.claim else ""
    going = bool(seen.claim) and bool((seen.claim or {})["metadata"].get("deletionTimestamp"))
    held = (seen.old["spec"].get("claimRef") or {}).get("uid") == uid
    checks = {
        "stop": tied == before or going,
        "unbind": before in seen.volumes,
        "reopen": not assigned and phase != states.SELECTED,
        "release": held,
        "adopt": not _adopted(seen.new, uid),
        "assign": not assigned,
        "lock": _holder(seen.new) != uid,
        "bind": not states.reached(phase, states.BOUND) or tied != after or after not in seen.volumes or not assigned,
        "run": not seen.pod_ready or tied != after or phase != states.RUNNING,
    }
    return [*left, *(step for step, needed in checks.items() if needed)]


def why_not_adopted(new: Object | None) -> str:
    """What is still missing, for who waits."""
    if new is None:
        return "it is not declared yet"
    status = new.get("status") or {}
    if not status.get("phase"):
        return "the agent of its node has not looked for it yet"
    told = [each for each in status.get("conditions") or () if each.get("status") == "False"]
    why = "; ".join(f"{each['type']}: {each['reason']} {each.get('message', '')}".rstrip() for each in told)
    return f"it is {status['phase']}{': ' + why if why else ''}"


def _adopted(new: Object | None, uid: str | None) -> bool:
    if new is None:
        return False
    held = _holder(new) if uid is None else _holder(new) == uid
    return bool(held) or (new.get("status") or {}).get("phase") == AVAILABLE


def _holder(disk: Object | None) -> str:
    return str(((disk or {}).get("spec") or {}).get("claimRef", {}).get("uid", ""))
