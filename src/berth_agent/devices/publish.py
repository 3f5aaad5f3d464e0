"""What the API should say of this node's devices: LocalDevices that are missing, and the status of each. Pure.

A LocalDevice is made for a device that has none, never changed in its spec and never deleted: one whose device is gone
is Missing, and its locks stay where they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from berth_core.app.device_claim import DRIVER, device_id, slice_device_name
from berth_core.app.disk_status import conditions
from berth_core.model.device import WHOLE
from berth_core.model.quantity import bytes_, format_bytes

from .device import Device

Object = Mapping[str, Any]
Key = tuple[str, str]


def key_of(local: Object) -> Key:
    return (local["spec"]["deviceClass"], local["spec"]["uuid"])


def declaration(node: str, device: Device) -> dict[str, Any]:
    """The LocalDevice of a device that has none. Its name says node and class; its end keeps it apart from others."""
    capacity: dict[str, Any] = {"shares": device.shares}
    if device.memory is not None:
        capacity["memory"] = str(device.memory)
    spec = {"nodeName": node, "deviceClass": device.device_class, "uuid": device.uuid, "capacity": capacity}
    label = re.sub(r"[^a-z0-9]+", "-", device.device_class.lower()).strip("-") or "device"
    metadata = {
        "name": f"{node[:180]}-{label[:40].strip('-')}-{device_id(spec)[:12]}",
        "labels": {"app.kubernetes.io/managed-by": "berth"},
    }
    return {"apiVersion": "berth.dev/v1alpha1", "kind": "LocalDevice", "metadata": metadata, "spec": spec}


def undeclared(node: str, devices: Sequence[Device], locals_: Sequence[Object]) -> list[dict[str, Any]]:
    """LocalDevices to create."""
    known = {key_of(local) for local in locals_}
    return [declaration(node, device) for device in devices if device.key not in known]


def ambiguous(locals_: Sequence[Object]) -> dict[str, str]:
    """LocalDevice -> what is wrong, where several declare one device: only the oldest of them is published."""
    oldest: dict[Key, Object] = {}
    for local in sorted(locals_, key=lambda each: (each["metadata"].get("creationTimestamp", ""), _name(each))):
        oldest.setdefault(key_of(local), local)
    return {
        _name(local): f"LocalDevice {_name(oldest[key_of(local)])} declares this device too; delete one of them"
        for local in locals_
        if _name(oldest[key_of(local)]) != _name(local)
    }


def _name(local: Object) -> str:
    return str(local["metadata"]["name"])


class Seen(NamedTuple):
    """A LocalDevice with the device that it stands for. ``problem``: why it is not published, empty when it is."""

    local: Object
    device: Device | None
    problem: str


def see(devices: Sequence[Device], locals_: Sequence[Object]) -> list[Seen]:
    """Every LocalDevice of the node beside what was found."""
    found, double = {device.key: device for device in devices}, ambiguous(locals_)
    return [_see(local, found.get(key_of(local)), double.get(_name(local), "")) for local in locals_]


def _see(local: Object, device: Device | None, double: str) -> Seen:
    if device is None:
        return Seen(local, None, double or "no source of this node finds the device")
    return Seen(local, device, double or device.problem)


def status(seen: Seen, registered: bool, now: str) -> dict[str, Any]:
    """The whole status that the agent applies. Times of conditions change with their status, not with each look."""
    local, device, problem = seen
    held = bool(local["spec"].get("claimRefs"))
    phase = "Missing" if device is None else "Faulted" if problem else "InUse" if held else "Available"
    observed = {"health": "Missing" if device is None else "Faulted" if problem else "Healthy"}
    if device is not None:
        observed.update({"devicePath": device.device_path, "model": device.model})
    published = registered and not problem
    if published:
        observed["driver"] = DRIVER
    matched = ("True", "Found", "") if device is not None else ("False", "Missing", problem)
    healthy = ("False", phase, problem) if problem else ("True", "Healthy", "")
    drift = _drift(device, local) if device is not None else ""
    ours = [
        ("Matched", *(("False", "Drift", drift) if drift else matched)),
        ("Healthy", *healthy),
        ("Published", *_published(problem, registered, slice_device_name(local["spec"]))),
    ]
    before = (local.get("status") or {}).get("conditions") or ()
    return {
        "phase": phase,
        "observed": {name: value for name, value in observed.items() if value},
        "conditions": conditions(ours, before, now),
    }


def _published(problem: str, registered: bool, name: str) -> tuple[str, str, str]:
    if problem:
        return ("False", "Withdrawn", problem)
    if not registered:
        return ("False", "NotRegistered", f"no kubelet of this node has registered the DRA driver {DRIVER}")
    return ("True", "Published", f"device {name} in the ResourceSlices of {DRIVER}")


def _drift(device: Device, local: Object) -> str:
    """Where the device is smaller than its LocalDevice promises."""
    declared = local["spec"].get("capacity", {})
    shares = int(declared.get("shares", WHOLE))
    if shares > device.shares:
        return f"{shares} shares are declared, the device has {device.shares}"
    memory = declared.get("memory")
    if memory is not None and device.memory is not None and bytes_(memory) > device.memory:
        return f"{memory} of memory is declared, the device has {format_bytes(device.memory)}"
    return ""


def says(local: Object, wanted: Object) -> bool:
    """Whether the object's status is already what would be applied; conditions of others are not judged."""
    there = local.get("status") or {}
    ours = {each["type"] for each in wanted["conditions"]}
    conditions = {each["type"]: each for each in there.get("conditions") or () if each["type"] in ours}
    return (
        there.get("phase") == wanted["phase"]
        and (there.get("observed") or {}) == wanted["observed"]
        and conditions == {each["type"]: each for each in wanted["conditions"]}
    )
