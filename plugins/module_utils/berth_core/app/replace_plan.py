# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a replica's disk may be exchanged for: whose it is, and whether the new one can take its place.

Called by the module disk_replace before anything is written; the exchange itself is in lifecycle/replacing.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..errors import IdentityError, InputError, StateError
from .disk_change import SETTINGS, new_disk, wanted_name
from .identity import agrees, from_spec

Object = Mapping[str, Any]


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
