# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that tie a filesystem and a PersistentVolume to their LocalDisk: the UUID, the mount point, the PV's path.

Called by stateful_app (which writes the path into the PV) and by disk_filesystem (which makes what the path names), so
that both always mean the same place. Never touches a disk.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Mapping
from typing import Any

from ..errors import InputError, StateError
from ..model.names import is_label

DEFAULT_MOUNT_ROOT = "/var/lib/berth/disks"
#: Inside the filesystem: absent while the disk is not mounted, an empty mount point is never taken for the volume.
DATA_DIRECTORY = "data"
#: The same in a filesystem that was there before berth and is mounted by the agent now. Its root may have a folder of
#: the other name that is the application's; this one is made by a person, who moves into it what the volume had.
MOVED_DIRECTORY = ".berth-data"
#: Beside the mount points (no LocalDisk's name begins with a dot): under each disk's name, a link to its data directory
#: by the name of the namespace that holds the disk.
NAMESPACES_DIRECTORY = ".namespaces"
#: Fixed for ever: it separates berth's filesystem UUIDs from all other name-based UUIDs.
_NAMESPACE = bytes.fromhex("b7f0a9be7c1d4a5e9d3c52e5f1b0d15c")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def filesystem_uuid(data_uid: str, disk_name: str) -> str:
    """The UUID of the filesystem that holds the data of ``dataUID`` on that LocalDisk (RFC 9562, version 5).

    The same berth and disk always give the same UUID: a filesystem with any other UUID does not belong there.
    """
    if not data_uid or not disk_name:
        raise InputError("a filesystem UUID needs both the lock's dataUID and the LocalDisk's name")
    key = _NAMESPACE + f"{data_uid}/{disk_name}".encode()
    digest = bytearray(hashlib.sha1(key, usedforsecurity=False).digest()[:16])
    digest[6] = (digest[6] & 0x0F) | 0x50
    digest[8] = (digest[8] & 0x3F) | 0x80
    text = digest.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def filesystem_of(owner: Mapping[str, Any], disk_name: str) -> str:
    """The UUID of the filesystem that belongs on a LocalDisk, as its lock or the record of its kept data says.

    One that was there before berth has its own UUID, which is on record; any other is made of ``dataUID``.
    """
    return str(owner.get("filesystemUUID") or "").lower() or filesystem_uuid(owner["dataUID"], disk_name)


def data_directory(owner: Mapping[str, Any]) -> str:
    """The directory inside the filesystem that the volume is, as lock or kept data say."""
    return MOVED_DIRECTORY if owner.get("filesystemUUID") else DATA_DIRECTORY


def mount_point(disk_name: str, mount_root: str = DEFAULT_MOUNT_ROOT) -> str:
    """Where a LocalDisk's filesystem is mounted on its node."""
    if not _NAME.fullmatch(disk_name):
        raise InputError(f"LocalDisk name {disk_name!r} cannot be a directory's name: expected a DNS-1123 subdomain")
    root = posixpath.normpath(mount_root)
    if not posixpath.isabs(mount_root) or root in ("/", "//") or ".." in mount_root.split("/"):
        raise InputError(f"mount root {mount_root!r} is not usable: expected an absolute path below / without '..'")
    return posixpath.join(root, disk_name)


def namespace_link(disk_name: str, namespace: str, mount_root: str = DEFAULT_MOUNT_ROOT) -> str:
    """Where a LocalDisk's data directory is on its node for the namespace that holds the disk, and for no other.

    A volume says by its path alone what it gives: so the path names the namespace, and admission compares the two.
    """
    if not is_label(namespace):
        raise InputError(f"namespace {namespace!r} of LocalDisk {disk_name} is none: expected a DNS-1123 label")
    root, name = posixpath.split(mount_point(disk_name, mount_root))
    return posixpath.join(root, NAMESPACES_DIRECTORY, name, namespace)


def volume_path(disk: Mapping[str, Any], namespace: str, mount_root: str = DEFAULT_MOUNT_ROOT) -> str:
    """The ``local.path`` of the PersistentVolume over a LocalDisk (an object of the API) for a claim of ``namespace``.

    Filesystem: the namespace's link to the data directory inside the mounted filesystem (volumes of releases before
    name that directory itself). Block: a link that names this very disk whatever the kernel calls it today. Raises
    StateError when no such link has been seen.
    """
    name = disk["metadata"]["name"]
    spec = disk["spec"]
    if spec.get("volumeMode", "Filesystem") != "Block":
        return namespace_link(name, namespace, mount_root)
    link = _stable_link(spec["identity"], (disk.get("status") or {}).get("observed"))
    if link is None:
        raise StateError(
            f"LocalDisk {name} on node {spec['nodeName']} has no stable link below /dev/disk/by-id: a block volume "
            "would follow the kernel's changing device name; observe it with the role local_disks, or name it by_path"
        )
    return link


def _stable_link(identity: Mapping[str, Any], observed: Mapping[str, Any] | None) -> str | None:
    by_id = (observed or {}).get("byId")
    if by_id:
        return _link("by-id", by_id)
    # A path names a slot, not a disk: only for a disk that its owner declared by nothing but its slot.
    if identity.get("byPath") and not identity.get("wwn") and not identity.get("serial"):
        return _link("by-path", identity["byPath"])
    return None


def _link(folder: str, name: str) -> str:
    if "/" in name or name in (".", "..") or "\0" in name:
        raise InputError(f"{name!r} is not the name of a link below /dev/disk/{folder}")
    return f"/dev/disk/{folder}/{name}"
