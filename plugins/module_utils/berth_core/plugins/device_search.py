# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which devices for which requests: the first assignment that satisfies all claims of a pod on one node.

Called by dynamic_resources.py with the pools of the node. Tries devices in their order, claim by claim and request by
request, and goes back where it comes to an end: if there is an assignment it is found, and it is the one that
kube-scheduler v1.36 finds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Callable

from ..cluster.dynamic import DynamicTable
from ..errors import SelectorError
from ..model.quantity import Number, parse_quantity
from ..model.resource_claim import ClaimRequest, DeviceRequest, MatchAttribute, ResourceClaimInfo
from ..model.resource_slice import Attribute, DeviceId
from ..model.semver import Version
from .device_capacity import consumption, enough
from .device_pools import Pool, PooledDevice

MOST_DEVICES = 32
"""Devices of one claim: the API's limit for a result."""
MOST_TRIES = 20_000
"""Devices looked at for one node. Who asks so that more is needed would stop the scheduler for everybody."""
Undo = Callable[[], object]


class Refused(Exception):
    """The claims cannot be had on this node, and why."""


class _TooMany(Exception):
    """More devices than one claim can have."""


@dataclass(frozen=True)
class Chosen:
    """One device for one request. `consumed`: of a shared device, what is taken of its capacity."""

    request: DeviceRequest
    device: PooledDevice
    consumed: Mapping[str, str] | None


@dataclass
class _Option:
    """One way to fill a request. `every`: the devices, where all are asked for."""

    request: DeviceRequest
    number: int
    every: list[PooledDevice] | None = None


class Constraint:
    """All devices have the same value of an attribute. Keeps the values of those that are chosen."""

    def __init__(self, rule: MatchAttribute) -> None:
        """Make it for one search."""
        self.rule = rule
        self._values: list[Attribute] = []

    def add(self, request: str, device: PooledDevice) -> Undo | None:
        """Count a device; None where it does not go with the others."""
        if not self.rule.concerns(request):
            return _nothing
        value = device.device.attribute(self.rule.attribute)
        if value is None or (self._values and not _same(value, self._values[0])):
            return None
        self._values.append(value)
        return self._drop

    def _drop(self) -> None:
        self._values.pop()


def _nothing() -> None:
    """Nothing to undo."""


def _same(one: Attribute, other: Attribute) -> bool:
    if isinstance(one, Version) and isinstance(other, Version):
        return one.text == other.text
    return type(one) is type(other) and one == other


class Search:
    """One pod's claims on one node. `tries`: how many devices were looked at."""

    def __init__(self, table: DynamicTable, pools: Sequence[Pool], claims: Sequence[ResourceClaimInfo]) -> None:
        """Take what there is. Nothing of it is changed."""
        self.tries = 0
        self.chosen: list[list[Chosen]] = [[] for _claim in claims]
        self.selected: dict[tuple[int, int], int] = {}
        """By claim and request, which alternative was taken."""
        self._table, self._pools, self._claims = table, pools, claims
        self._devices = [one for pool in pools if pool.usable for one in pool.devices]
        self._taking: defaultdict[DeviceId, Counter[int]] = defaultdict(Counter)
        self._consuming: defaultdict[DeviceId, dict[str, Number]] = defaultdict(dict)
        self._constraints = [[Constraint(one) for one in claim.constraints] for claim in claims]
        self._options: list[list[list[_Option]]] = []
        self._passed_over: set[str] = set()

    def run(self) -> bool:
        """Search; True: `chosen` has all devices. Raises Refused where more can be said than that there are none."""
        self._options = [self._prepared(claim) for claim in self._claims]
        try:
            found = self._claim(0)
        except _TooMany:
            raise Refused("allocation max size exceeded") from None
        except RecursionError:
            raise Refused("the claims ask for more devices than can be searched for together") from None
        if not found and any(pool.invalid for pool in self._pools):
            raise Refused("invalid resource pools were encountered")
        if not found:
            problems = [f"resource pool {pool} has {pool.problem}" for pool in self._pools if pool.problem]
            problems += sorted(self._passed_over)
            if problems:
                raise Refused(f"cannot allocate all claims; not covered by this scheduler: {', '.join(problems[:3])}")
        return found

    # -- what is asked for

    def _prepared(self, claim: ResourceClaimInfo) -> list[list[_Option]]:
        found = [[self._option(claim, one) for one in request.options] for request in claim.requests]
        least = sum(min(one.number for one in options) for options in found)
        if least > MOST_DEVICES:
            text = f"number of requested devices {least} exceeds the claim limit of {MOST_DEVICES}"
            raise Refused(f"claim {claim}: {text}")
        return found

    def _option(self, claim: ResourceClaimInfo, request: DeviceRequest) -> _Option:
        where = f"claim {claim}, request {request.own_name}"
        if request.device_class not in self._table.classes:
            raise Refused(f"{where}: could not retrieve device class {request.device_class}")
        if request.count:
            return _Option(request, request.count)
        every = [one for pool in self._pools for one in self._all_of(claim, request, pool, where)]
        return _Option(request, len(every), every)

    def _all_of(
        self, claim: ResourceClaimInfo, request: DeviceRequest, pool: Pool, where: str
    ) -> Iterator[PooledDevice]:
        """Find all devices of a pool that a request for all of them means. Raises Refused where that is not known."""
        state = "being updated" if pool.incomplete else "invalid" if pool.invalid else ""
        if state:
            raise Refused(f"{where}: asks for all devices, but resource pool {pool} is currently {state}")
        if pool.problem:
            text = f"resource pool {pool} has {pool.problem}, which this scheduler does not cover"
            raise Refused(f"{where}: asks for all devices, but {text}")
        for one in pool.devices:
            if not self._selects(claim, request, one):
                continue
            if one.device.problem:
                text = f"{'/'.join(one.device.id)} is not covered by this scheduler"
                raise Refused(f"{where}: asks for all devices, but {text}: {one.device.problem}")
            if enough(dict(request.capacity), one.device.capacity, self._table.consumed.get(one.device.id), None):
                yield one

    def _selects(self, claim: ResourceClaimInfo, request: DeviceRequest, one: PooledDevice) -> bool:
        """Tell whether class and request select a device. Raises Refused where a selector cannot be evaluated."""
        known = self._table.classes[request.device_class]
        for what, selectors in ((f"class {known.name}", known.selectors), (f"claim {claim}", request.selectors)):
            for number, selector in enumerate(selectors):
                if not _selects(f"{what}: selector #{number}", one, selector):
                    return False
        return True

    # -- the search

    def _claim(self, claim: int) -> bool:
        return claim == len(self._claims) or self._request(claim, 0)

    def _request(self, claim: int, request: int) -> bool:
        if request == len(self._options[claim]):
            try:
                return self._claim(claim + 1)
            except _TooMany:
                return False
        asked: ClaimRequest = self._claims[claim].requests[request]
        if not asked.prioritized:
            return self._fill(claim, request, self._options[claim][request][0], 0, 0)
        too_many = True
        for number, option in enumerate(self._options[claim][request]):
            found = self._attempt(claim, request, option)
            too_many = too_many and found is None
            if found:
                self.selected[claim, request] = number
                return True
        if too_many:
            raise _TooMany
        return False

    def _attempt(self, claim: int, request: int, option: _Option) -> bool | None:
        """Fill a request in one of several ways; None: that takes too many devices."""
        try:
            return self._fill(claim, request, option, 0, 0)
        except _TooMany:
            return None

    def _fill(self, claim: int, request: int, option: _Option, have: int, start: int) -> bool:
        """Find the devices from number `have` on, among those from `start` on; then go on with the next request."""
        if option.every is not None and not option.every:
            return False
        if have >= option.number:
            return self._request(claim, request + 1)
        if len(self.chosen[claim]) + option.number - have > MOST_DEVICES:
            raise _TooMany
        if option.every is not None:
            return self._try(claim, request, option, have, option.every[have], 0, must=True)
        for position in range(start, len(self._devices)):
            one = self._devices[position]
            self.tries += 1
            if self.tries > MOST_TRIES:
                raise Refused(f"more than {MOST_TRIES} ways to allocate the claims were tried")
            if self._in_use(claim, option.request, one) or not self._selects(self._claims[claim], option.request, one):
                continue
            if one.device.problem:
                self._passed_over.add(f"device {'/'.join(one.device.id)}, as {one.device.problem}")
            elif self._try(claim, request, option, have, one, position + 1):
                return True
        return False

    def _try(
        self, claim: int, request: int, option: _Option, have: int, one: PooledDevice, then: int, must: bool = False
    ) -> bool:
        """Take a device and go on; give it back where that leads nowhere."""
        undo = self._take(claim, option.request, one, must)
        if undo is None:
            return False
        try:
            found = self._fill(claim, request, option, have + 1, then)
        except _TooMany:
            _undone(undo)
            raise
        if not found:
            _undone(undo)
        return found

    # -- one device

    def _in_use(self, claim: int, request: DeviceRequest, one: PooledDevice) -> bool:
        """Tell whether somebody has it; an admin only minds having it twice in one claim."""
        taking = self._taking.get(one.device.id)
        if request.admin:
            return not one.device.shared and taking is not None and claim in taking
        return bool(taking) or one.device.id in self._table.taken

    def _take(self, claim: int, request: DeviceRequest, one: PooledDevice, must: bool) -> list[Undo] | None:
        """Choose a device, which the selectors have let pass; None where it cannot be had."""
        device = one.device
        if self._in_use(claim, request, one) or _repelled(request, one):
            return None
        undo: list[Undo] = []
        for constraint in self._constraints[claim]:
            done = constraint.add(request.name, one)
            if done is None:
                _undone(undo)
                if must:
                    named = f"claim {self._claims[claim]}, request {request.own_name}"
                    text = f"cannot add device {'/'.join(device.id)} because a claim constraint would not be satisfied"
                    raise Refused(f"{named}: {text}")
                return None
            undo.append(done)
        asked = dict(request.capacity)
        given_out, being_given = self._table.consumed.get(device.id), self._consuming.get(device.id)
        if not enough(asked, device.capacity, given_out, being_given):
            _undone(undo)
            return None
        consumed = consumption(asked, device.capacity) if device.shared else None
        undo.append(self._count(claim, device.id, consumed))
        self.chosen[claim].append(Chosen(request, one, consumed))
        undo.append(self.chosen[claim].pop)
        return undo

    def _count(self, claim: int, device: DeviceId, consumed: Mapping[str, str] | None) -> Undo:
        if consumed is None:
            self._taking[device][claim] += 1

            def give_back() -> None:
                self._taking[device] -= Counter({claim: 1})

            return give_back
        amounts = {name: parse_quantity(text) for name, text in consumed.items()}
        self._consume(device, amounts, 1)
        return lambda: self._consume(device, amounts, -1)

    def _consume(self, device: DeviceId, amounts: Mapping[str, Number], sign: int) -> None:
        known = self._consuming[device]
        for name, amount in amounts.items():
            known[name] = known.get(name, 0) + sign * amount


def _undone(undo: list[Undo]) -> None:
    for one in reversed(undo):
        one()


def _selects(what: str, one: PooledDevice, selector: str) -> bool:
    try:
        return one.device.matches(selector)
    except SelectorError as exc:
        raise Refused(f"{what}: {exc.message}") from None


def _repelled(request: DeviceRequest, one: PooledDevice) -> bool:
    """Tell whether a taint of the device keeps the request away."""
    return any(
        taint.repels and not any(toleration.tolerates(taint) for toleration in request.tolerations)
        for taint in one.device.taints
    )
