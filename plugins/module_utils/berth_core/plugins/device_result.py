# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a search has found, as the API writes it: status.allocation of a ResourceClaim.

Called by dynamic_resources.py for the chosen node. Drivers and kubelets read it, whoever wrote it: so it is, field by
field, what kube-scheduler v1.36 writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from ..cluster.dynamic import DynamicTable
from ..errors import SelectorError
from ..model.fields import Object, objects, strings
from ..model.resource_claim import Allocation, DeviceRequest, ResourceClaimInfo
from .device_search import Chosen


def allocation(
    table: DynamicTable, claim: ResourceClaimInfo, chosen: Sequence[Chosen], selected: Mapping[int, int], node: str
) -> Allocation:
    """Return the claim's allocation on a node. `selected`: per request which of its alternatives was taken."""
    requests = [one.options[selected.get(number, 0)] for number, one in enumerate(claim.requests) if one.options]
    devices: dict[str, Any] = {
        "results": [_result(claim, number, one) for number, one in enumerate(chosen)],
    }
    config = [*_of_classes(table, requests), *_of_claim(claim, requests)]
    if config:
        devices["config"] = config
    found: dict[str, Any] = {"devices": devices}
    where = _where(chosen, node)
    if where is not None:
        found["nodeSelector"] = where
    return found


def _result(claim: ResourceClaimInfo, number: int, one: Chosen) -> Object:
    driver, pool, device = one.device.device.id
    found: dict[str, Any] = {"request": one.request.name, "driver": driver, "pool": pool, "device": device}
    if one.request.admin:
        found["adminAccess"] = True
    if one.request.tolerations_source:
        found["tolerations"] = [dict(source) for source in one.request.tolerations_source]
    if one.consumed is not None:
        found["shareID"] = _share(f"{claim.uid} {number} {driver} {pool} {device}")
        if one.consumed:
            found["consumedCapacity"] = dict(one.consumed)
    return found


def _share(of: str) -> str:
    """Return an identity that no other share of the device has, in the form of a random UUID; the same each time."""
    digits = sha256(of.encode()).hexdigest()
    variant = "89ab"[int(digits[16], 16) % 4]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"


def _of_classes(table: DynamicTable, requests: Sequence[DeviceRequest]) -> list[Object]:
    """Return the configuration of each class, once, with all requests that are of the class."""
    names: dict[str, list[str]] = {}
    for one in requests:
        names.setdefault(one.device_class, []).append(one.name)
    return [
        {**config, "source": "FromClass", "requests": of}
        for name, of in names.items()
        for config in table.classes[name].config
    ]


def _of_claim(claim: ResourceClaimInfo, requests: Sequence[DeviceRequest]) -> list[Object]:
    """Return the claim's own configuration, as far as it is for a request that was filled."""
    found: list[Object] = []
    for config in claim.config:
        meant = strings(config, "requests")
        entry = {**config, "source": "FromClaim"}
        if not meant:
            found.append(entry)
        found += [entry for one in requests if one.name in meant or one.name.partition("/")[0] in meant]
    return found


def _where(chosen: Sequence[Chosen], node: str) -> Object | None:
    """Return from where the devices can be had; None: from everywhere. Raises SelectorError."""
    fields: list[Object] = []
    expressions: list[Object] = []
    for one in chosen:
        if one.device.slice.node or one.device.device.binds_to_node:
            only = {"key": "metadata.name", "operator": "In", "values": [node]}
            return {"nodeSelectorTerms": [{"matchFields": [only]}]}
        terms = objects(one.device.slice.selector_source, "nodeSelectorTerms")
        if len(terms) > 1:
            raise SelectorError(f"ResourceSlice {one.device.slice.name}: a nodeSelector with {len(terms)} terms")
        for term in terms:
            _add(fields, objects(term, "matchFields"))
            _add(expressions, objects(term, "matchExpressions"))
    term = {key: listed for key, listed in (("matchExpressions", expressions), ("matchFields", fields)) if listed}
    return {"nodeSelectorTerms": [term]} if term else None


def _add(to: list[Object], more: Sequence[Object]) -> None:
    known = [(one.get("key"), one.get("operator"), set(strings(one, "values"))) for one in to]
    to += [one for one in more if (one.get("key"), one.get("operator"), set(strings(one, "values"))) not in known]
