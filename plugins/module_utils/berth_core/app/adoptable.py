# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a local volume that berth did not make can come under berth, and the LocalDisk below it.

Called by adopting, claim by claim, before anything is written; and for the disk once more right before it is put on
record. Every refusal is a StateError that says which object, what was wrong, and what to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import StateError
from ..lifecycle.locks import BERTH_ANNOTATION
from ..lifecycle.view import going
from ..model.over_disk import disk_below
from ..model.tenant import Tenant
from .fs_plan import FS_TYPES
from .manifests import HOSTNAME_LABEL
from .phase import is_faulted, is_seen

Object = Mapping[str, Any]
_BY_IDENTITY = "declare the whole disk by its identity (inventory, agent configuration or local_disk)"


@dataclass(frozen=True)
class Whose:
    """The replica's claim that a disk is to be of. ``tenant``: its namespace, as it is now."""

    namespace: str
    app: str
    ordinal: int
    claim: str
    tenant: Tenant

    @property
    def names(self) -> dict[str, Any]:
        return {"namespace": self.namespace, "app": self.app, "ordinal": self.ordinal, "claim": self.claim}


@dataclass(frozen=True)
class Part:
    """One claim of a replica, with what is below it. ``kept``: what the disk is to have on record, or has."""

    whose: Whose
    claim: Object
    volume: Object
    disk: Object
    kept: Mapping[str, Any]

    @property
    def volume_name(self) -> str:
        return str(self.volume["metadata"]["name"])

    @property
    def disk_name(self) -> str:
        return str(self.disk["metadata"]["name"])


def check_claim(claim: Object | None, name: str, namespace: str) -> Object:
    """The claim is bound, and stays."""
    title = f"PersistentVolumeClaim {namespace}/{name}"
    if claim is None:
        raise StateError(f"{title} is not there, and the StatefulSet's pod uses it: look why")
    if going(claim) or (claim.get("status") or {}).get("phase") != "Bound":
        raise StateError(f"{title} is {_phase(claim)}, expected Bound: look why")
    return claim


def check_volume(volume: Object | None, claim: Object, hostnames: Mapping[str, str]) -> str:
    """The volume is that claim's own, local, of one node. Returns the Node's name."""
    name, meta = claim["spec"].get("volumeName"), claim["metadata"]
    title = f"PersistentVolume {name}"
    if volume is None:
        raise StateError(f"{title} of claim {meta['name']} is not there: look why")
    if going(volume) or (volume.get("status") or {}).get("phase") != "Bound":
        raise StateError(f"{title} is {_phase(volume)}, expected Bound: look why")
    spec = volume["spec"]
    ref = spec.get("claimRef") or {}
    if (ref.get("namespace"), ref.get("name"), ref.get("uid")) != (meta["namespace"], meta["name"], meta["uid"]):
        raise StateError(f"{title} is bound to claim {ref.get('namespace')}/{ref.get('name')} (uid {ref.get('uid')})")
    if not spec.get("local"):
        raise StateError(
            f"{title} has no spec.local ({_kind_of(spec)}): only local volumes over whole disks come under berth. "
            "Leave the StatefulSet outside, or make a new application with stateful_app and bring the data there: by "
            "the application's own replication, or from a backup"
        )
    if spec.get("volumeMode", "Filesystem") != "Filesystem":
        raise StateError(f"{title} has volumeMode {spec['volumeMode']}: only volumes of mode Filesystem are adopted")
    return _node_of(title, spec, hostnames)


def _kind_of(spec: Object) -> str:
    """What a volume is that is not local, for people; of a CSI volume whose."""
    if spec.get("csi"):
        return f"csi, driver {spec['csi'].get('driver') or '(none)'}"
    return next((key for key in ("csi", "nfs", "hostPath", "iscsi", "fc") if key in spec), "another kind of volume")


def node_named(spec: Object) -> str | None:
    """The host name that a volume's node affinity names; None where it allows none, or more than one."""
    terms = ((spec.get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms") or []
    if len(terms) != 1:
        return None
    wanted = [one for one in terms[0].get("matchExpressions") or () if one.get("key") == HOSTNAME_LABEL]
    values = wanted[0].get("values") or [] if len(wanted) == 1 and wanted[0].get("operator") == "In" else []
    return str(values[0]) if len(values) == 1 else None


def _node_of(title: str, spec: Object, hostnames: Mapping[str, str]) -> str:
    host = node_named(spec)
    if host is None:
        raise StateError(f"{title} is not of exactly one node: expected one term, {HOSTNAME_LABEL} In [NODE]")
    if host not in hostnames:
        raise StateError(f"{title} is of node {host}, and no Node has that {HOSTNAME_LABEL}")
    return hostnames[host]


def find_disk(volume: Object, node: str, disks: Mapping[str, Object], named: str | None) -> Object:
    """The LocalDisk that shows the volume's path as the mount point of its whole filesystem, or that is named."""
    here = {name: one for name, one in disks.items() if one["spec"]["nodeName"] == node}
    title, path = f"PersistentVolume {volume['metadata']['name']}", str(volume["spec"]["local"]["path"])
    if named is not None:
        if named not in here:
            where = f"it is in node {disks[named]['spec']['nodeName']}" if named in disks else "there is none"
            raise StateError(f"{title} is of node {node}, and LocalDisk {named} was named for it: {where}")
        return here[named]
    found = [one for one in here.values() if _is_below(one, volume)]
    if len(found) > 1:
        names = ", ".join(str(one["metadata"]["name"]) for one in found)
        raise StateError(f"{title}: LocalDisks {names} show {path}: name the right one (local_disks)")
    if not found:
        raise StateError(
            f"{title}: no LocalDisk of node {node} shows a filesystem mounted at {path}. {_BY_IDENTITY}, and wait for "
            "its look at the host. What is no whole disk is not adopted: a partition, a volume of LVM or TopoLVM, a "
            "folder of a larger filesystem"
        )
    return found[0]


def _is_below(disk: Object, volume: Object) -> bool:
    spec, name = disk["spec"], volume["metadata"]["name"]
    owner = spec.get("claimRef") or spec.get("retainedFor") or {}
    return owner.get("volume") == name or volume["spec"]["local"]["path"] in (_observed(disk).get("mounts") or ())


def put_on_record(disk: Object, volume: Object, whose: Whose, size: int) -> dict[str, Any]:
    """What the disk keeps from now on, ``spec.retainedFor``; as it is where it keeps that already.

    Raises StateError for a disk that is anybody else's, or not what the volume needs.
    """
    spec, title = disk["spec"], f"LocalDisk {disk['metadata']['name']}"
    kept, name = spec.get("retainedFor"), volume["metadata"]["name"]
    ref = spec.get("claimRef")
    if ref:
        raise StateError(f"{title} is held by Berth {ref['namespace']}/{ref['name']} (claim {ref['claim']})")
    _check_free(title, spec)
    if kept:
        return _kept_already(title, kept, whose, name)
    observed = _observed(disk)
    _check_seen(title, disk, observed, volume)
    if spec["identity"]["size"] < size:
        raise StateError(f"{title} has {spec['identity']['size']} bytes, and its claim asks for {size}")
    _check_class(title, spec, volume)
    return {
        **whose.names,
        **whose.tenant.fields(),
        "dataUID": volume["metadata"]["uid"],
        "filesystemUUID": observed["filesystem"]["uuid"],
        "volume": name,
        "mountPoint": volume["spec"]["local"]["path"],
    }


def _check_free(title: str, spec: Object) -> None:
    for field, words in (
        ("unschedulable", "is cordoned: take that back (local_disk)"),
        ("wipe", "is to be wiped: take the request back"),
    ):
        if spec.get(field):
            raise StateError(f"{title} {words}")
    if spec.get("volumeMode", "Filesystem") != "Filesystem":
        raise StateError(f"{title} has volumeMode {spec['volumeMode']}, expected Filesystem: {_BY_IDENTITY}")


def _kept_already(title: str, kept: Object, whose: Whose, volume: str) -> dict[str, Any]:
    mine = all(kept.get(key) == value for key, value in whose.names.items())
    if mine and whose.tenant.may_have(Tenant.on_record(kept)) and kept.get("volume") == volume:
        return dict(kept)
    through = f" for PersistentVolume {kept['volume']}" if kept.get("volume") else ""
    who = f"{kept['namespace']}/{kept['app']}-{kept['ordinal']} (claim {kept['claim']})"
    raise StateError(f"{title} keeps the data of {who}{through}: it is nobody else's, and for no other volume")


def _check_seen(title: str, disk: Object, observed: Object, volume: Object) -> None:
    path = volume["spec"]["local"]["path"]
    if not is_seen(observed):
        raise StateError(f"{title} has not been seen in its node ({(disk.get('status') or {}).get('phase')}): look why")
    if is_faulted(observed):
        raise StateError(f"{title} is faulted: replace it first, or wait until it is healed")
    if observed.get("sharedWith"):
        raise StateError(f"{title} is seen by node {observed['sharedWith']}, too: two nodes would write to it")
    if observed.get("holders"):
        raise StateError(
            f"{title} is held on its host by {', '.join(observed['holders'])} (LVM, RAID, encryption): only a "
            "filesystem on the whole disk is adopted"
        )
    if path not in (observed.get("mounts") or ()):
        mounts = ", ".join(observed.get("mounts") or ()) or "nowhere"
        raise StateError(f"{title} is mounted at {mounts}, and the volume is {path}: expected its filesystem there")
    if observed.get("partlyMounted"):
        raise StateError(f"{title}: {path} is a folder of its filesystem, not the whole: such a volume is not adopted")
    filesystem = observed.get("filesystem") or {}
    if filesystem.get("type") not in FS_TYPES or not filesystem.get("uuid"):
        told = f"{filesystem.get('type') or 'nothing'} {filesystem.get('uuid') or 'without UUID'}"
        raise StateError(f"{title} carries {told}: expected a filesystem of {' or '.join(FS_TYPES)} with a UUID")


def _check_class(title: str, spec: Object, volume: Object) -> None:
    """Else the replica's next template would not fit its own node."""
    has, wanted = (each["spec"].get("storageClassName") or "" for each in ({"spec": spec}, volume))
    if has != wanted:
        raise StateError(
            f"{title} is of class {has or '(none)'}, and PersistentVolume {volume['metadata']['name']} of "
            f"{wanted or '(none)'}: declare the disk with storage_class: {wanted or repr(wanted)}"
        )


def check_alone(volume: Object, volumes: Mapping[str, Object]) -> None:
    """No other volume of that node is the same filesystem, or a folder of it."""
    name, host = volume["metadata"]["name"], node_named(volume["spec"])
    path = str(volume["spec"]["local"]["path"]).rstrip("/")
    for other in volumes.values():
        there = str((other["spec"].get("local") or {}).get("path") or "").rstrip("/")
        if other["metadata"]["name"] == name or not (there == path or there.startswith(f"{path}/")):
            continue
        if node_named(other["spec"]) in (host, None):
            raise StateError(
                f"PersistentVolume {other['metadata']['name']} ({there}) lies on the same filesystem as {name}: a disk "
                "is given as a whole"
            )


def check_uncovered(disk: Object, volume: Object, volumes: Mapping[str, Object]) -> None:
    """No volume of berth's has stayed over the disk from a lock that was taken off: its pod may use the disk."""
    name = disk["metadata"]["name"]
    for other in volumes.values():
        left = str(other["metadata"]["name"])
        if left != volume["metadata"]["name"] and disk_below(other) == name:
            raise StateError(
                f"LocalDisk {name} is below PersistentVolume {left} of berth's, too, whose lock is gone: delete its "
                "claim and that volume, or give the disk back to their berth"
            )


def check_mark(thing: Object, title: str, uid: str | None) -> None:
    """Nobody's Berth but the replica's own has its mark on it."""
    there = (thing["metadata"].get("annotations") or {}).get(BERTH_ANNOTATION)
    if there not in (None, uid):
        raise StateError(f"{title} has the mark of a Berth with uid {there}: see the orphans (local_disk_info)")


def _observed(disk: Object) -> Mapping[str, Any]:
    return (disk.get("status") or {}).get("observed") or {}


def _phase(thing: Object) -> str:
    return "going" if going(thing) else str((thing.get("status") or {}).get("phase") or "without a phase")
