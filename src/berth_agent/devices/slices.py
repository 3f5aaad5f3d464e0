"""Devices of a node as ResourceSlices, and what to write so that the API server has just these. Pure.

One pool per node, of as many slices as its devices need. Each device carries attributes that pin it (``id``), shares as
a consumable capacity, and a taint: what was not made for a lock is not given one of these devices by accident.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from berth_core.app.device_claim import DRIVER, ID_ATTRIBUTE, SHARES, TAINT, device_id, slice_device_name
from berth_core.model.device import WHOLE
from berth_core.model.quantity import bytes_

from .device import Attribute, Device

Object = Mapping[str, Any]
#: the API's limit for slices whose devices have taints or shared capacity
PER_SLICE = 64
#: the API's limits of one device
MAX_ATTRIBUTES = 24
MAX_TEXT = 64


class SlicePlan(NamedTuple):
    """Writes, in this order. ``replace`` and ``delete``: objects as they were read, the former with new specs."""

    create: tuple[dict[str, Any], ...] = ()
    replace: tuple[dict[str, Any], ...] = ()
    delete: tuple[Object, ...] = ()

    @property
    def empty(self) -> bool:
        return not (self.create or self.replace or self.delete)


def slice_device(device: Device, local: Object) -> dict[str, Any]:
    """One device of a ResourceSlice. What may be given out is what the LocalDevice says, not what the source says."""
    spec = local["spec"]
    capacity = spec.get("capacity", {})
    shares = str(capacity.get("shares", WHOLE))
    capacities: dict[str, Any] = {
        SHARES: {"value": shares, "requestPolicy": {"default": shares, "validRange": {"min": "1"}}}
    }
    if capacity.get("memory"):
        # Known, and asked for by nobody unless he names it: shares are what is divided.
        policy = {"default": "0", "validRange": {"min": "0"}}
        capacities["memory"] = {"value": str(capacity["memory"]), "requestPolicy": policy}
    return {
        "name": slice_device_name(spec),
        "attributes": {name: _attribute(value) for name, value in _attributes(device, local).items()},
        "capacity": capacities,
        "allowMultipleAllocations": True,
        "taints": [{"key": TAINT, "effect": "NoSchedule"}],
    }


def _attributes(device: Device, local: Object) -> dict[str, Attribute]:
    spec = local["spec"]
    own: dict[str, Attribute] = {ID_ATTRIBUTE: device_id(spec), "class": spec["deviceClass"]}
    texts = {"uuid": spec["uuid"], "localDevice": local["metadata"]["name"], "model": device.model}
    own.update({name: text for name, text in texts.items() if 0 < len(text) <= MAX_TEXT})
    rest = {name: value for name, value in sorted(device.attributes.items()) if name not in own and value != ""}
    return dict(list({**own, **rest}.items())[:MAX_ATTRIBUTES])


def _attribute(value: Attribute) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"bool": value}
    return {"int": value} if isinstance(value, int) else {"string": value}


def plan_slices(node: Object, devices: Sequence[Mapping[str, Any]], there: Sequence[Object]) -> SlicePlan:
    """What to write. ``node``: the Node object, owner of its slices; ``devices``: all of its, as `slice_device` makes
    them; ``there``: the slices of this driver on this node. Nothing when they say the same already."""
    name = node["metadata"]["name"]
    ordered = sorted(devices, key=lambda each: str(each["name"]))
    chunks = [ordered[start : start + PER_SLICE] for start in range(0, len(ordered), PER_SLICE)]
    names = [f"{name[:230]}-{DRIVER}-{index}" for index in range(len(chunks))]
    seen = {each["metadata"]["name"]: each for each in there}
    if _same(name, dict(zip(names, chunks)), seen):
        return SlicePlan()
    generation = max((int(each["spec"]["pool"]["generation"]) for each in there), default=0) + 1
    pool = {"name": name, "generation": generation, "resourceSliceCount": len(chunks)}
    create, replace = [], []
    for slice_name, chunk in zip(names, chunks):
        spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": chunk}
        if slice_name in seen:
            replace.append({**seen[slice_name], "spec": spec})
        else:
            create.append(_slice(slice_name, node, spec))
    gone = [each for each in there if each["metadata"]["name"] not in names]
    return SlicePlan(tuple(create), tuple(replace), tuple(gone))


def _slice(name: str, node: Object, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The Node owns it: a node that is deleted takes its slices along."""
    meta = node["metadata"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": meta["name"], "uid": meta["uid"], "controller": True}
    metadata = {"name": name, "ownerReferences": [owner]}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": dict(spec)}


def _same(node: str, wanted: Mapping[str, Sequence[Object]], there: Mapping[str, Object]) -> bool:
    if set(wanted) != set(there):
        return False
    pools = [each["spec"]["pool"] for each in there.values()]
    if any(pool != {**pools[0], "name": node, "resourceSliceCount": len(wanted)} for pool in pools):
        return False
    return all(
        [_plain(each) for each in devices] == [_plain(each) for each in there[name]["spec"].get("devices") or ()]
        for name, devices in wanted.items()
    )


def _plain(device: Object) -> dict[str, Any]:
    """A device with its quantities as numbers (the API server writes 1000 as 1k), without what the server adds."""
    capacity = {name: _plain_capacity(each) for name, each in (device.get("capacity") or {}).items()}
    taints = [(each["key"], each["effect"]) for each in device.get("taints") or ()]
    return {
        "name": device["name"],
        "attributes": device.get("attributes") or {},
        "capacity": capacity,
        "multiple": bool(device.get("allowMultipleAllocations")),
        "taints": taints,
    }


def _plain_capacity(capacity: Object) -> tuple[int, int, int]:
    policy = capacity.get("requestPolicy") or {}
    minimum = (policy.get("validRange") or {}).get("min", 0)
    return bytes_(capacity["value"]), bytes_(policy.get("default", 0)), bytes_(minimum)
