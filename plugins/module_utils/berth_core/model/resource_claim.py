# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ResourceClaims and DeviceClasses: what is asked of dynamic resource allocation, and what was given.

Read by the snapshot, searched by plugins/device_search.py. What a claim says that the search does not understand is
kept as a phrase (`problem`): such a claim is never allocated. An allocation stays the object of the API that it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .fields import Object, boolean, integer, mapping, metadata, objects, string, strings
from .quantity import parse_quantity
from .resource_slice import DeviceId, DeviceTaint

Allocation = Object
"""A claim's status.allocation: {devices: {results, config}, nodeSelector}."""
FINALIZER = "resource.kubernetes.io/delete-protection"


@dataclass(frozen=True)
class DeviceToleration:
    """As a pod's toleration of taints. `source`: as it was written."""

    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, taint: DeviceTaint) -> bool:
        """Tell whether the taint is tolerated."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        return self.operator == "Exists" or (self.operator in ("", "Equal") and self.value == taint.value)


@dataclass(frozen=True)
class DeviceRequest:
    """So many devices of a class, or every one (`count` 0). `name`: with a slash for one of several alternatives."""

    name: str
    device_class: str
    selectors: tuple[str, ...] = ()
    count: int = 1
    admin: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    tolerations_source: tuple[Object, ...] = ()
    capacity: tuple[tuple[str, str], ...] = ()
    """How much of each capacity, as it was written."""

    @property
    def own_name(self) -> str:
        """Return the name without that of the request that it is an alternative of."""
        return self.name.rpartition("/")[2]


@dataclass(frozen=True)
class ClaimRequest:
    """One request: exactly this, or the first of several alternatives that can be had."""

    name: str
    options: tuple[DeviceRequest, ...]
    prioritized: bool = False


@dataclass(frozen=True)
class MatchAttribute:
    """All devices of these requests (of all, where none is named) have the same value of an attribute."""

    attribute: str
    requests: tuple[str, ...] = ()

    def concerns(self, request: str) -> bool:
        """Tell whether it is about a request, which may be named by its alternative."""
        return not self.requests or request in self.requests or request.partition("/")[0] in self.requests


@dataclass(frozen=True)
class DeviceClassInfo:
    """A class of devices."""

    name: str
    selectors: tuple[str, ...]
    config: tuple[Object, ...]
    problem: str = ""

    @classmethod
    def from_object(cls, source: Object) -> DeviceClassInfo:
        """Read a DeviceClass. Raises InputError that names it and the field."""
        _namespace, name = metadata(source, "DeviceClass")
        where = f"DeviceClass {name}: spec"
        spec = mapping(source, "spec", where)
        selectors, problem = _selectors(spec, where)
        return cls(name, selectors, tuple(objects(spec, "config", f"{where}.config")), problem)


@dataclass(frozen=True)
class ResourceClaimInfo:
    """A claim. `allocation` None: it has no devices yet."""

    namespace: str
    name: str
    uid: str
    terminating: bool
    owner_uid: str
    """Of the controller that it was made for."""
    requests: tuple[ClaimRequest, ...]
    constraints: tuple[MatchAttribute, ...]
    config: tuple[Object, ...]
    allocation: Allocation | None
    reserved_for: tuple[str, ...]
    """Uids."""
    problem: str = ""

    def __str__(self) -> str:
        """Return namespace/name."""
        return f"{self.namespace}/{self.name}"

    @classmethod
    def from_object(cls, source: Object) -> ResourceClaimInfo:
        """Read a ResourceClaim. Raises InputError that names it and the field."""
        namespace, name = metadata(source, "ResourceClaim")
        where = f"ResourceClaim {namespace}/{name}"
        meta, spec = mapping(source, "metadata"), mapping(source, "spec", f"{where}: spec")
        status, devices = mapping(source, "status", f"{where}: status"), mapping(spec, "devices", f"{where}: devices")
        requests, problems = [], []
        for one in objects(devices, "requests", f"{where}: requests"):
            request, problem = _request(one, f"{where}: request {one.get('name')}")
            requests.append(request)
            problems.append(problem)
        constraints, problem = _constraints(devices, f"{where}: constraints")
        allocation = mapping(status, "allocation", f"{where}: status.allocation")
        return cls(
            namespace=namespace,
            name=name,
            uid=string(meta, "uid", f"{where}: metadata.uid"),
            terminating=meta.get("deletionTimestamp") is not None,
            owner_uid=_controller(meta, where),
            requests=tuple(requests),
            constraints=constraints,
            config=tuple(objects(devices, "config", f"{where}: config")),
            allocation=allocation if status.get("allocation") is not None else None,
            reserved_for=tuple(string(one, "uid") for one in objects(status, "reservedFor", f"{where}: reservedFor")),
            problem=next((one for one in (*problems, problem) if one), ""),
        )


@dataclass(frozen=True)
class Given:
    """One device of an allocation. `consumed`: of a shared device, what the claim has of its capacity."""

    device: DeviceId
    request: str
    shared: bool
    consumed: tuple[tuple[str, str], ...]


def given(allocation: Allocation) -> Iterator[Given]:
    """Return the devices that an allocation takes from others: all but those that are only looked at by an admin."""
    for one in results(allocation):
        if one.get("adminAccess") is not True:
            consumed = mapping(one, "consumedCapacity")
            yield Given(
                (string(one, "driver"), string(one, "pool"), string(one, "device")),
                string(one, "request"),
                one.get("shareID") is not None,
                tuple((name, str(amount)) for name, amount in consumed.items()),
            )


def results(allocation: Allocation) -> list[Object]:
    """Return the devices of an allocation as the API has them."""
    return objects(mapping(allocation, "devices"), "results")


def _controller(meta: Object, where: str) -> str:
    owners = objects(meta, "ownerReferences", f"{where}: ownerReferences")
    return next((string(one, "uid") for one in owners if one.get("controller") is True), "")


def _selectors(source: Object, where: str) -> tuple[tuple[str, ...], str]:
    found, problem = [], ""
    for one in objects(source, "selectors", f"{where}.selectors"):
        expression = string(mapping(one, "cel", f"{where}.selectors[].cel"), "expression")
        if not expression:
            problem = "a selector that is no CEL expression"
        found.append(expression)
    return tuple(found), problem


def _request(source: Object, where: str) -> tuple[ClaimRequest, str]:
    name = string(source, "name", f"{where}.name")
    listed = objects(source, "firstAvailable", f"{where}.firstAvailable")
    if listed:
        read = [_device_request(one, f"{name}/{one.get('name')}", where) for one in listed]
    elif source.get("exactly") is not None:
        read = [_device_request(mapping(source, "exactly", f"{where}.exactly"), name, where)]
    else:
        return ClaimRequest(name, ()), f"request {name}: unknown request type"
    return ClaimRequest(name, tuple(one for one, _problem in read), bool(listed)), next((p for _o, p in read if p), "")


def _device_request(source: Object, name: str, where: str) -> tuple[DeviceRequest, str]:
    selectors, problem = _selectors(source, where)
    mode = string(source, "allocationMode", f"{where}.allocationMode", "ExactCount")
    if mode not in ("ExactCount", "All"):
        problem = f"unsupported count mode {mode}"
    tolerations = objects(source, "tolerations", f"{where}.tolerations")
    amounts: Any = mapping(mapping(source, "capacity", f"{where}.capacity"), "requests", f"{where}.capacity.requests")
    for key, amount in amounts.items():
        parse_quantity(amount, f"{where}.capacity.requests", str(key))
    request = DeviceRequest(
        name=name,
        device_class=string(source, "deviceClassName", f"{where}.deviceClassName"),
        selectors=selectors,
        count=0 if mode == "All" else integer(source, "count", f"{where}.count", 1) or 1,
        admin=boolean(source, "adminAccess", f"{where}.adminAccess"),
        tolerations=tuple(
            DeviceToleration(string(one, "key"), string(one, "operator"), string(one, "value"), string(one, "effect"))
            for one in tolerations
        ),
        tolerations_source=tuple(tolerations),
        capacity=tuple(sorted((str(key), str(amount)) for key, amount in amounts.items())),
    )
    return request, f"request {name}: {problem}" if problem else ""


def _constraints(source: Object, where: str) -> tuple[tuple[MatchAttribute, ...], str]:
    found, problem = [], ""
    for index, one in enumerate(objects(source, "constraints", where)):
        attribute = string(one, "matchAttribute", f"{where}[{index}].matchAttribute")
        if not attribute:
            problem = f"constraint #{index} is another than matchAttribute"
        found.append(MatchAttribute(attribute, strings(one, "requests", f"{where}[{index}].requests")))
    return tuple(found), problem
