# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the ResourceQuotas of a namespace leave room for everything that is going to be created.

The API server holds one object at a time against a quota, so a dry run of one replica tells nothing of the next. The
arithmetic is that of its quota admission (k8s.io/kubernetes/pkg/quota/v1, v1.36). Called by stateful_app, and by
tasks/bounds.py for the pods of tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..model.quantity import Number, exact_bytes, format_cpu, parse_quantity
from ..model.requests import CPU, EPHEMERAL, MEMORY, amount, is_extended, read_pod_resources

Object = Mapping[str, Any]
Usage = dict[str, Number]
_COMPUTE = (CPU, MEMORY, EPHEMERAL)
_OF_CLASS = "storageclass.storage.k8s.io"


@dataclass(frozen=True)
class Demand:
    """So many objects that are alike, and what one of them uses of a quota. ``pod``: the spec, where they are pods."""

    count: int
    usage: Mapping[str, Number]
    pod: Object | None = None


def refusals(quotas: Sequence[Object], demands: Iterable[Demand]) -> list[str]:
    """A line for each resource of a ResourceQuota that would be exceeded: hard, used and requested."""
    demands = list(demands)
    return [line for quota in quotas for line in QuotaRoom(quota).exceeded(demands)]


class QuotaRoom:
    """What one ResourceQuota leaves. `take` counts what is going to be created and is not in its status yet."""

    def __init__(self, quota: Object) -> None:
        status = quota.get("status") or {}
        self.name, self._spec = str(quota["metadata"]["name"]), quota["spec"]
        self._hard: Object = status.get("hard") or quota["spec"].get("hard") or {}
        self._used: Object = status.get("used") or {}
        self._taken: Usage = {}

    def exceeded(self, demands: Sequence[Demand]) -> Iterator[str]:
        """A line for each resource of which it does not leave so much."""
        requested = self._requested(demands)
        for name in sorted(requested):
            have, taken = self._used.get(name, "0"), self._taken.get(name, 0)
            if parse_quantity(have) + taken + requested[name] > parse_quantity(self._hard[name]):
                given = f", given meanwhile {_text(name, taken)}" if taken else ""
                yield f"{self._of(name)}, used {have}{given}, requested {_text(name, requested[name])}"

    def never(self, demands: Sequence[Demand]) -> Iterator[str]:
        """A line for each resource of which it would not leave so much even if nothing of it was used."""
        for name, value in sorted(self._requested(demands).items()):
            if value > parse_quantity(self._hard[name]):
                yield f"{self._of(name)}, requested {_text(name, value)}"

    def take(self, demands: Sequence[Demand]) -> None:
        """They are going to be created."""
        for name, value in self._requested(demands).items():
            self._taken[name] = self._taken.get(name, 0) + value

    def _requested(self, demands: Sequence[Demand]) -> Usage:
        """What they use of it, without what it does not limit. As admission does, what is 0 is not looked at."""
        found: Usage = {}
        for demand in demands:
            if demand.count > 0 and _matches(self._spec, demand.pod):
                for name, value in demand.usage.items():
                    if name in self._hard and value > 0:
                        found[name] = found.get(name, 0) + value * demand.count
        return found

    def _of(self, name: str) -> str:
        return f"ResourceQuota {self.name}: {name}: hard {self._hard[name]}"


def leaves_more(old: Object, new: Object) -> bool:
    """Whether a ResourceQuota that has changed may leave more than before: a limit rose or went, or less is used."""
    if old["spec"] != new["spec"]:
        return True
    before, after = (QuotaRoom(one) for one in (old, new))
    for name, hard in before._hard.items():
        if name not in after._hard or parse_quantity(after._hard[name]) > parse_quantity(hard):
            return True
        if parse_quantity(after._used.get(name, "0")) < parse_quantity(before._used.get(name, "0")):
            return True
    return False


def _text(name: str, value: Number) -> str:
    resource = name.rpartition(".")[2] if name.startswith(("requests.", "limits.")) else name
    if resource == CPU:
        return format_cpu(amount(CPU, value))
    size = resource in (MEMORY, EPHEMERAL) or name.endswith("requests.storage")
    return exact_bytes(amount(MEMORY, value)) if size else str(amount(resource, value))


# -- what one object uses


def of_object(plural: str, group: str = "") -> Usage:
    """One object of any kind; Services and claims have a name of their own beside it."""
    usage: Usage = {f"count/{plural}.{group}" if group else f"count/{plural}": 1}
    return {**usage, plural: 1} if plural in ("services", "persistentvolumeclaims") else usage


def of_claim(size: int, storage_class: str | None) -> Usage:
    """A claim of so many bytes. A class that is not known yet counts for none."""
    usage = {**of_object("persistentvolumeclaims"), "requests.storage": size}
    if storage_class:
        usage[f"{storage_class}.{_OF_CLASS}/persistentvolumeclaims"] = 1
        usage[f"{storage_class}.{_OF_CLASS}/requests.storage"] = size
    return usage


def of_pod(spec: Object) -> Usage:
    """A pod that has not ended, without its count as an object (``count/pods``)."""
    usage: Usage = {"pods": 1}
    for name, value in read_pod_resources(spec, "pod", {}).total().items():
        if name in _COMPUTE or name.startswith("hugepages-"):
            usage[name] = value
            usage[f"requests.{name}"] = value
        elif is_extended(name):
            usage[f"requests.{name}"] = value
    limits = read_pod_resources(_limits_alone(spec), "pod", {}).total()
    usage.update({f"limits.{name}": value for name, value in limits.items() if name in _COMPUTE})
    return usage


def _limits_alone(spec: Object) -> dict[str, Any]:
    """The spec with limits in the place of requests: they are summed by the same rules."""

    def turned(part: Object) -> dict[str, Any]:
        return {**part, "resources": {"requests": dict((part.get("resources") or {}).get("limits") or {})}}

    found = turned(spec)
    for key in ("containers", "initContainers"):
        found[key] = [turned(each) for each in spec.get(key) or ()]
    limited = {name for part in (found, *found["containers"]) for name in part["resources"]["requests"]}
    found["overhead"] = {name: value for name, value in (spec.get("overhead") or {}).items() if name in limited}
    return found


# -- which quota counts what


def _matches(quota: Object, pod: Object | None) -> bool:
    """Whether a quota (its spec) counts the object. One with scopes counts pods alone, if they are in all of them."""
    terms = [{"scopeName": name, "operator": "Exists"} for name in quota.get("scopes") or ()]
    terms += (quota.get("scopeSelector") or {}).get("matchExpressions") or ()
    return all(pod is not None and _in_scope(term, pod) for term in terms)


def _in_scope(term: Object, pod: Object) -> bool:
    name = term["scopeName"]
    if name == "PriorityClass":
        return _by_class(term, pod.get("priorityClassName") or "")
    if name in ("Terminating", "NotTerminating"):
        ends = pod.get("activeDeadlineSeconds") is not None
        return ends is (name == "Terminating")
    if name in ("BestEffort", "NotBestEffort"):
        return _best_effort(pod) is (name == "BestEffort")
    return bool(name == "CrossNamespacePodAffinity") and any(
        term.get("namespaces") or term.get("namespaceSelector") is not None for term in _affinity_terms(pod)
    )


def _by_class(term: Object, name: str) -> bool:
    values, operator = term.get("values") or (), term.get("operator")
    if operator in ("In", "NotIn"):
        return bool((name in values) is (operator == "In"))
    return bool(name) is (operator == "Exists")


def _best_effort(pod: Object) -> bool:
    parts = (pod, *(pod.get("containers") or ()), *(pod.get("initContainers") or ()))
    amounts = (
        value
        for part in parts
        for key in ("requests", "limits")
        for name, value in ((part.get("resources") or {}).get(key) or {}).items()
        if name in (CPU, MEMORY)
    )
    return not any(parse_quantity(value) > 0 for value in amounts)


def _affinity_terms(pod: Object) -> Iterator[Object]:
    for kind in ("podAffinity", "podAntiAffinity"):
        given = (pod.get("affinity") or {}).get(kind) or {}
        yield from given.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for each in given.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield each.get("podAffinityTerm") or {}
