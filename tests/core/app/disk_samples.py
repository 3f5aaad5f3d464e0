"""Records of block devices and LocalDisks: where the tests of the disks begin."""

from __future__ import annotations

from typing import Any

GI = 1 << 30


def device(name: str = "sdb", **facts: Any) -> dict[str, Any]:
    """A blank, healthy disk that nobody uses, as block_device_info reports it."""
    blank: dict[str, Any] = {
        "name": name,
        "path": f"/dev/{name}",
        "number": "8:16",
        "type": "disk",
        "parent": "",
        "by_id": [f"ata-Disk_SERIAL-{name}"],
        "by_path": [f"pci-0000:00:1f.2-{name}"],
        "wwn": f"0x5000{name}",
        "serial": f"SERIAL-{name}",
        "model": "Disk",
        "size": 4 * GI,
        "rotational": False,
        "removable": False,
        "read_only": False,
        "partitions": [],
        "mounts": [],
        "holders": [],
        "slaves": [],
        "swap": False,
        "is_system": False,
        "fstype": "",
        "fsuuid": "",
        "label": "",
        "pttype": "",
        "health": "Healthy",
        "problem": "",
        "usable": True,
        "refusals": [],
    }
    return {**blank, **facts}


def system_disk() -> dict[str, Any]:
    return device("sda", is_system=True, mounts=["/"], fstype="ext4", usable=False, refusals=["it carries the system"])


def formatted(name: str = "sdb", uuid: str = "1111-22", **facts: Any) -> dict[str, Any]:
    carries = f"it carries a signature (ext4 {uuid})"
    return device(name, fstype="ext4", fsuuid=uuid, usable=False, refusals=[carries], **facts)


def local_disk(name: str = "h1-d0", found: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """The LocalDisk of a device (by default sdb's) as the API server has it, never observed."""
    found = found or device()
    identity = {key: found[key] for key in ("wwn", "serial", "model", "size") if found[key]}
    whole = {
        "nodeName": "h1",
        "identity": identity,
        "storageClassName": "",
        "volumeMode": "Filesystem",
        "fsType": "ext4",
        "reclaimPolicy": "Retain",
        "wipeMethod": "signatures",
        "reserved": False,
        **spec,
    }
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "7"}, "spec": whole}


def held(uid: str = "u1", data_uid: str = "u1") -> dict[str, Any]:
    who = {"namespace": "default", "name": "db-0", "uid": uid, "app": "db", "ordinal": 0, "claim": "data"}
    return {**who, "dataUID": data_uid}


def kept(data_uid: str = "u1") -> dict[str, Any]:
    return {"namespace": "default", "app": "db", "ordinal": 0, "claim": "data", "dataUID": data_uid}
