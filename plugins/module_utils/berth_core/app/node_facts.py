# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a node's allocatable is its capacity without what is kept back: the figures on which every placement rests.

Called by the node agent with the Node of the API and the kubelet's own configuration (its /configz). The rule is the
kubelet's: Allocatable = Capacity - Kube-Reserved - System-Reserved - hard eviction threshold, and memory also without
what is set aside as huge pages (pkg/kubelet/cm/node_container_manager_linux.go, nodestatus/setters.go of Kubernetes).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..errors import QuantityError
from ..model.quantity import Number, parse_quantity

#: What may be kept back; every other resource is allocatable as it is.
RESOURCES = ("cpu", "memory", "ephemeral-storage", "pid")
_EVICTION = {"memory": "memory.available", "ephemeral-storage": "nodefs.available"}
_HUGE = "hugepages-"


class Fact(NamedTuple):
    """One resource of a node, in cores, bytes or pieces."""

    resource: str
    capacity: Number
    kube_reserved: Number
    system_reserved: Number
    eviction: Number
    huge_pages: Number
    allocatable: Number

    @property
    def expected(self) -> Number:
        """What the kubelet should report as allocatable; never less than nothing."""
        kept = self.kube_reserved + self.system_reserved + self.eviction + self.huge_pages
        return max(0, self.capacity - kept)

    @property
    def matches(self) -> bool:
        """Whether it does."""
        return self.expected == self.allocatable

    def describe(self) -> str:
        """The sum, for people."""
        kept = [
            ("kube-reserved", self.kube_reserved),
            ("system-reserved", self.system_reserved),
            ("eviction threshold", self.eviction),
            ("huge pages", self.huge_pages),
        ]
        terms = "".join(f" - {name} {_number(value)}" for name, value in kept if value)
        total = f"expected capacity {_number(self.capacity)}{terms} = {_number(self.expected)}"
        return f"{self.resource}: allocatable {_number(self.allocatable)}, {total}"


def node_facts(node: Mapping[str, Any], kubelet: Mapping[str, Any]) -> list[Fact]:
    """The facts of every resource that may be kept back and that the node has. Raises QuantityError.

    ``kubelet``: its KubeletConfiguration as it runs.
    """
    status = node.get("status") or {}
    capacity, allocatable = status.get("capacity") or {}, status.get("allocatable") or {}
    huge = sum(_quantity(capacity, key) for key in capacity if key.startswith(_HUGE))
    found = []
    for resource in RESOURCES:
        if resource in capacity:
            total = _quantity(capacity, resource)
            found.append(
                Fact(
                    resource,
                    total,
                    _quantity(kubelet.get("kubeReserved"), resource),
                    _quantity(kubelet.get("systemReserved"), resource),
                    _threshold(kubelet.get("evictionHard"), resource, total),
                    huge if resource == "memory" else 0,
                    _quantity(allocatable, resource),
                )
            )
    return found


def condition(facts: list[Fact]) -> tuple[str, str, str]:
    """(status, reason, message): AllocatableMatches."""
    wrong = list(_mismatches(facts))
    if wrong:
        return "False", "Mismatch", "; ".join(wrong)
    return "True", "Matches", ""


def _mismatches(facts: list[Fact]) -> Iterator[str]:
    return (fact.describe() for fact in facts if not fact.matches)


def _quantity(values: Mapping[str, Any] | None, key: str) -> Number:
    return parse_quantity((values or {}).get(key) or "0")


def _threshold(values: Mapping[str, Any] | None, resource: str, capacity: Number) -> Number:
    """A hard eviction threshold: a quantity, or a share of the capacity in percent (the kubelet's is a float32)."""
    text = str((values or {}).get(_EVICTION.get(resource, "")) or "0")
    if not text.endswith("%"):
        return parse_quantity(text)
    try:
        share = _float32(_float32(float(text[:-1])) / 100)
    except (ValueError, OverflowError):
        raise QuantityError(f"eviction threshold {text!r} is neither a quantity nor a percentage") from None
    return int(float(capacity) * share)


def _float32(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def _number(value: Number) -> str:
    return str(value) if isinstance(value, int) else f"{float(value):g}"
