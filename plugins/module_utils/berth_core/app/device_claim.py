# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the lock on a LocalDevice to the ResourceClaim that gives exactly that device to the pod, and back again.

`resource_claim` is written by whoever makes the berth's pod; `granted` is asked by the agent before a container gets
anything: the claim's allocation has to be what the locks say, or it is refused. Pure; never talks to anybody.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import LockError, StateError
from ..lifecycle.locks import BERTH_ANNOTATION
from ..model.device import WHOLE
from ..model.quantity import bytes_

Object = Mapping[str, Any]

#: The driver's name in ResourceSlices, the name of its DeviceClass and the domain of its attributes.
DRIVER = "berth.dev"
DEVICE_CLASS = "berth.dev"
CLAIM_LABEL = "berth.dev/claim"
#: Attribute that tells one device from all others of the cluster, and the capacity that shares are taken from.
ID_ATTRIBUTE = "id"
SHARES = "shares"
#: On every published device: what is not made for a lock is not given one of berth's by accident.
TAINT = "berth.dev/lock-required"


def device_id(spec: Object) -> str:
    """32 hexadecimal digits for one device of one node; ``spec`` is a LocalDevice's."""
    text = json.dumps([spec["nodeName"], spec["deviceClass"], spec["uuid"]], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def slice_device_name(spec: Object) -> str:
    """The device's name in its node's ResourceSlices: a DNS label that says the class."""
    label = re.sub(r"[^a-z0-9]+", "-", spec["deviceClass"].lower()).strip("-")[:40].strip("-") or "device"
    return f"{label}-{device_id(spec)[:12]}"


def resource_claim(
    metadata: Object, record: Object, claim: str, devices: Sequence[tuple[Object, int]], namespace: str
) -> dict[str, Any]:
    """The ResourceClaim of one device claim of a berth.

    ``metadata``: its name and labels. ``record``: the Berth. ``devices``: each locked LocalDevice with the shares.
    """
    requests = [
        {
            "name": f"device-{index}",
            "exactly": {
                "deviceClassName": DEVICE_CLASS,
                "selectors": [{"cel": {"expression": _pin(device["spec"])}}],
                "tolerations": [{"key": TAINT, "operator": "Exists"}],
                "capacity": {"requests": {SHARES: str(shares)}},
            },
        }
        for index, (device, shares) in enumerate(sorted(devices, key=lambda each: each[0]["metadata"]["name"]))
    ]
    labels = {**metadata.get("labels", {}), CLAIM_LABEL: claim}
    annotations = {BERTH_ANNOTATION: record["metadata"]["uid"]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {**metadata, "namespace": namespace, "labels": labels, "annotations": annotations},
        "spec": {"devices": {"requests": requests}},
    }


def _pin(spec: Object) -> str:
    """CEL that is true for one device only."""
    return f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].{ID_ATTRIBUTE} == "{device_id(spec)}"'


class Grant(NamedTuple):
    """One device that a claim may have. ``share_id`` is empty where the scheduler gave none."""

    request: str
    pool: str
    device: str
    share_id: str
    local_device: str
    device_class: str
    uuid: str
    shares: int
    total: int


def consumers(claim: Object) -> list[str]:
    """The names of the pods that the claim is reserved for: a berth's claim has one, its berth's own."""
    reserved = (claim.get("status") or {}).get("reservedFor") or ()
    return sorted({str(each.get("name")) for each in reserved if each.get("resource") == "pods"})


def granted(claim: Object, node: str, devices: Sequence[Object], berth: Object | None) -> list[Grant]:
    """What the claim's allocation gives on ``node``, each device backed by a lock of the pod's berth.

    ``devices``: the node's LocalDevices as read just now; ``berth``: the Berth named like the claim's pod, or None.
    Raises LockError where a device is not this berth's, StateError where there is nothing to decide on.
    """
    where = f"ResourceClaim {claim['metadata']['namespace']}/{claim['metadata']['name']}"
    results = _results(claim, where)
    holder = _holder(claim, berth, where)
    by_name = {slice_device_name(device["spec"]): device for device in devices if device["spec"]["nodeName"] == node}
    grants = []
    for result in results:
        if result["pool"] != node:
            raise StateError(f"{where}: device {result['device']} is of node {result['pool']}, this is {node}")
        device = by_name.get(result["device"])
        if device is None:
            raise StateError(
                f"{where}: node {node} has no LocalDevice for device {result['device']}; it was deleted, or declared "
                "anew with another uuid: delete the claim and give the berth up"
            )
        grants.append(_grant(where, result, device, holder, devices))
    return grants


class _Holder(NamedTuple):
    """The berth on whose behalf a claim is prepared."""

    namespace: str
    name: str
    uid: str
    claim: str


def _results(claim: Object, where: str) -> list[Object]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = [each for each in (allocation.get("devices") or {}).get("results") or () if each.get("driver") == DRIVER]
    if not results:
        raise StateError(f"{where} has no device of {DRIVER} allocated to it; the scheduler has not been here yet")
    return results


def _holder(claim: Object, berth: Object | None, where: str) -> _Holder:
    meta, pods = claim["metadata"], consumers(claim)
    if len(pods) != 1:
        who = ", ".join(pods) or "no pod"
        raise StateError(f"{where} is reserved for {who}: the claim of a berth serves its one pod")
    claimed = (meta.get("labels") or {}).get(CLAIM_LABEL, "")
    uid = (meta.get("annotations") or {}).get(BERTH_ANNOTATION, "")
    if berth is None:
        raise LockError(
            f"{where}: pod {meta['namespace']}/{pods[0]} has no Berth of its name, and a device of {DRIVER} is only "
            "given to the berth that holds its lock: use stateful_app to allocate devices"
        )
    if not uid or berth["metadata"]["uid"] != uid:
        raise LockError(
            f"{where} was made for a berth with uid {uid or '(none)'}; Berth {meta['namespace']}/{pods[0]} has uid "
            f"{berth['metadata']['uid']}: the claim is an old one, delete it"
        )
    return _Holder(meta["namespace"], pods[0], uid, claimed)


def _grant(where: str, result: Object, device: Object, holder: _Holder, devices: Sequence[Object]) -> Grant:
    name, spec = device["metadata"]["name"], device["spec"]
    ref = next((each for each in _refs(device) if _is(each, holder)), None)
    if ref is None:
        theirs = [each["metadata"]["name"] for each in devices if any(_is(ref, holder) for ref in _refs(each))]
        raise LockError(
            f"{where}: LocalDevice {name} is held by {_held_by(device)}, not by {holder.namespace}/{holder.name} for "
            f"its claim {holder.claim or '(no label)'}, which holds {', '.join(theirs) or 'none of this node'}; the "
            "device that was locked is the only one that its pod gets",
            device=name,
        )
    total = int(spec.get("capacity", {}).get("shares", WHOLE))
    consumed = (result.get("consumedCapacity") or {}).get(SHARES)
    shares = total if consumed is None else bytes_(consumed)
    if shares != ref["shares"]:
        raise LockError(
            f"{where}: {shares} of {total} shares of LocalDevice {name} are allocated, the lock of "
            f"{holder.namespace}/{holder.name} is for {ref['shares']}",
            device=name,
        )
    return Grant(
        request=result["request"],
        pool=result["pool"],
        device=result["device"],
        share_id=result.get("shareID") or "",
        local_device=name,
        device_class=spec["deviceClass"],
        uuid=spec["uuid"],
        shares=shares,
        total=total,
    )


def _refs(device: Object) -> Sequence[Object]:
    return device["spec"].get("claimRefs") or ()


def _is(ref: Object, holder: _Holder) -> bool:
    return (ref["namespace"], ref["name"], ref["uid"], ref["claim"]) == holder


def _held_by(device: Object) -> str:
    held = (f"{ref['namespace']}/{ref['name']} (claim {ref['claim']}, {ref['shares']} shares)" for ref in _refs(device))
    return ", ".join(held) or "nobody"
