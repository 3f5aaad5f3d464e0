# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ResourceSlices: the devices that drivers publish for dynamic resource allocation.

Read by the snapshot, searched by plugins/device_search.py. What a slice or a device says that the search does not
understand is kept as a phrase (`problem`): such a device is never given out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Union

from ..errors import SelectorError
from .cel import read
from .cel_values import Domains, Quantity
from .fields import Object, boolean, integer, mapping, metadata, objects, string
from .labels import NodeSelector
from .quantity import Number, parse_quantity
from .semver import Version

DeviceId = tuple[str, str, str]
"""Driver, pool and name."""
PoolId = tuple[str, str]
"""Driver and name."""
Attribute = Union[bool, int, str, Version]
MOST_KNOWN = 128
"""Selectors whose answer is remembered per device."""


@dataclass(frozen=True)
class DeviceTaint:
    """Keeps requests without a toleration away; effects other than these two do not."""

    key: str
    value: str
    effect: str

    @property
    def repels(self) -> bool:
        """Tell whether it matters to allocation."""
        return self.effect in ("NoSchedule", "NoExecute")


@dataclass(frozen=True)
class RequestPolicy:
    """Which amounts of a capacity can be had. `values`, or `lowest` to `highest` in steps."""

    default: str | None = None
    values: tuple[str, ...] = ()
    lowest: str | None = None
    highest: str | None = None
    step: str | None = None


@dataclass(frozen=True)
class Capacity:
    """How much a device has of something, as it was written."""

    value: str
    policy: RequestPolicy | None = None

    @property
    def amount(self) -> Number:
        """Return it as a number."""
        return parse_quantity(self.value)


@dataclass(frozen=True)
class SliceDevice:
    """A device. `shared`: several claims can have it at once, each its own part of the capacity."""

    id: DeviceId
    attributes: Mapping[str, Mapping[str, Attribute]]
    """By domain, then by name."""
    capacity: Mapping[str, Capacity]
    """By the name as it was written."""
    taints: tuple[DeviceTaint, ...] = ()
    shared: bool = False
    binds_to_node: bool = False
    waits: bool = False
    """It has binding conditions."""
    problem: str = ""
    _variables: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    _known: dict[str, bool | str] = field(default_factory=dict, compare=False, repr=False)

    def attribute(self, name: str) -> Attribute | None:
        """Return the attribute of a qualified name, None where the device does not have it."""
        domain, _slash, own = name.partition("/")
        return self.attributes.get(domain, {}).get(own)

    def matches(self, expression: str) -> bool:
        """Tell whether a CEL expression selects the device. Raises SelectorError as CEL would."""
        found = self._known.get(expression)
        if found is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            try:
                found = read(expression).matches(self._variables)
            except SelectorError as exc:
                found = exc.message
            self._known[expression] = found
        if isinstance(found, str):
            raise SelectorError(found)
        return found


@dataclass(frozen=True)
class SliceInfo:
    """One slice of a pool. On `node`, on nodes that `selector` matches, or, with neither, on all of them."""

    name: str
    pool: PoolId
    generation: int
    of: int
    """How many slices the pool has in this generation."""
    node: str
    selector: NodeSelector | None
    selector_source: Object
    devices: tuple[SliceDevice, ...]
    problem: str = ""

    @classmethod
    def from_object(cls, source: Object) -> SliceInfo:
        """Read a ResourceSlice. Raises InputError that names it and the field."""
        _namespace, name = metadata(source, "ResourceSlice")
        where = f"ResourceSlice {name}: spec"
        spec = mapping(source, "spec", where)
        pool = mapping(spec, "pool", f"{where}.pool")
        driver, pool_name = string(spec, "driver", f"{where}.driver"), string(pool, "name", f"{where}.pool.name")
        selector = mapping(spec, "nodeSelector", f"{where}.nodeSelector")
        node, everywhere = string(spec, "nodeName", f"{where}.nodeName"), boolean(spec, "allNodes", f"{where}.allNodes")
        problem = ""
        if spec.get("sharedCounters"):
            problem = "devices that share counters"
        elif not node and not selector and not everywhere:
            problem = "devices with nodes of their own"
        listed = objects(spec, "devices", f"{where}.devices")
        return cls(
            name=name,
            pool=(driver, pool_name),
            generation=integer(pool, "generation", f"{where}.pool.generation"),
            of=integer(pool, "resourceSliceCount", f"{where}.pool.resourceSliceCount"),
            node=node,
            selector=NodeSelector.parse(selector, f"{where}.nodeSelector") if selector else None,
            selector_source=selector,
            devices=tuple(_device(one, driver, pool_name, f"{where}.devices") for one in listed),
            problem=problem,
        )


def _device(source: Object, driver: str, pool: str, where: str) -> SliceDevice:
    name = string(source, "name", f"{where}[].name")
    where = f"{where}: {name}"
    attributes, problem = _attributes(source, driver, where)
    waits = bool(source.get("bindingConditions") or source.get("bindingFailureConditions"))
    if source.get("consumesCounters"):
        problem = "it shares counters with other devices"
    elif waits:
        problem = "it has binding conditions"
    capacity = {
        key: _capacity(mapping(mapping(source, "capacity"), key), f"{where}: capacity {key}")
        for key in mapping(source, "capacity", f"{where}: capacity")
    }
    amounts: dict[str, dict[str, Quantity]] = {}
    for key, one in capacity.items():
        domain, own = _qualified(key, driver)
        amounts.setdefault(domain, {})[own] = Quantity(one.amount)
    shared = boolean(source, "allowMultipleAllocations", f"{where}: allowMultipleAllocations")
    variables = {
        "driver": driver,
        "allowMultipleAllocations": shared,
        "attributes": Domains(attributes),
        "capacity": Domains(amounts),
    }
    taints = tuple(
        DeviceTaint(string(one, "key"), string(one, "value"), string(one, "effect"))
        for one in objects(source, "taints", f"{where}: taints")
    )
    binds = boolean(source, "bindsToNode", f"{where}: bindsToNode")
    return SliceDevice((driver, pool, name), attributes, capacity, taints, shared, binds, waits, problem, variables)


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, slash, own = name.partition("/")
    return (domain, own) if slash else (driver, name)


def _attributes(source: Object, driver: str, where: str) -> tuple[dict[str, dict[str, Attribute]], str]:
    """Return the attributes, and what is not understood of them. A name with its domain counts before one without."""
    found: dict[str, dict[str, Attribute]] = {}
    problem = ""
    given = mapping(source, "attributes", f"{where}: attributes")
    for name in sorted(given, key=lambda one: "/" in one):
        value = _value(mapping(given, name, f"{where}: attribute {name}"))
        if value is None:
            problem = f"its attribute {name} has a value of another kind than bool, int, string or version"
            continue
        domain, own = _qualified(name, driver)
        found.setdefault(domain, {})[own] = value
    return found, problem


def _value(source: Object) -> Attribute | None:
    for key in ("int", "bool", "string"):
        value = source.get(key)
        if isinstance(value, (bool, int, str)):
            return value
    text = source.get("version")
    try:
        return Version.parse(text) if isinstance(text, str) else None
    except SelectorError:
        return None


def _capacity(source: Object, where: str) -> Capacity:
    value = _amount(source, "value", where)
    policy = mapping(source, "requestPolicy", f"{where}: requestPolicy")
    if not policy:
        return Capacity(value or "0")
    between = mapping(policy, "validRange", f"{where}: validRange")
    listed = policy.get("validValues")
    return Capacity(
        value or "0",
        RequestPolicy(
            default=_amount(policy, "default", where),
            values=tuple(str(one) for one in listed) if isinstance(listed, list) else (),
            lowest=_amount(between, "min", where),
            highest=_amount(between, "max", where),
            step=_amount(between, "step", where),
        ),
    )


def _amount(source: Object, key: str, where: str) -> str | None:
    """Return a quantity as it was written. Raises QuantityError."""
    value = source.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        string(source, key, f"{where}: {key}")
    parse_quantity(value, f"{where}: {key}")
    return str(value)
