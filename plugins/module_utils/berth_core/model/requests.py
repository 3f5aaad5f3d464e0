# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a pod asks of a node: the arithmetic of resource requests.

Called by model/pod.py and the node table. The formulas are those of the API (k8s.io/component-helpers/resource,
v0.36.4): containers run side by side and are summed; init containers run one after the other and set a minimum;
restartable init containers (sidecars) keep running and are added to everything after them; requests at pod level
replace the sum for cpu, memory and huge pages; overhead is added last. Sums are exact; rounding up to whole units
happens once, at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..errors import InputError
from .fields import Object, mapping, objects, string
from .quantity import Number, bytes_, cpu_milli, parse_quantity

CPU, MEMORY, EPHEMERAL, PODS = "cpu", "memory", "ephemeral-storage", "pods"
DEFAULT_CPU = parse_quantity("100m")
"""CPU that scoring assumes for a container that requests none (kube-scheduler's DefaultMilliCPURequest)."""
DEFAULT_MEMORY = 200 * 1024 * 1024
"""Memory in bytes that scoring assumes for a container that requests none (kube-scheduler's DefaultMemoryRequest)."""

Resources = dict[str, Number]


def is_scalar(name: str) -> bool:
    """Tell whether a resource is counted apart from cpu, memory, storage and pods.

    Extended, huge pages, attachable volumes.
    """
    if name.startswith(("hugepages-", "attachable-volumes-")):
        return True
    return "/" in name and ("kubernetes.io/" in name or not name.startswith("requests."))


def is_extended(name: str) -> bool:
    """Tell whether a resource is an extended one: with a domain that is not Kubernetes' own."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def amount(name: str, value: Number) -> int:
    """Return the whole units in which a resource is counted, rounded up.

    Thousandths of a core for cpu, else units or bytes.
    """
    return cpu_milli(value) if name == CPU else bytes_(value)


def resource_list(parent: Object, key: str, path: str) -> Resources:
    """Read an object of quantities. Raises QuantityError that names the field."""
    return {name: parse_quantity(value, path, name) for name, value in mapping(parent, key, path).items()}


def check_requirements(resources: Object, path: str) -> None:
    """Refuse the resources of a container that no API server takes.

    Those are unknown keys, quantities that are none or below 0, and parts of a device. Raises InputError that names the
    field.
    """
    unknown = sorted(str(key) for key in resources if key not in ("claims", "limits", "requests"))
    if unknown:
        raise InputError(f"{path}: {unknown[0]} is not known: expected limits, requests or claims")
    for key in ("limits", "requests"):
        for name, value in resource_list(resources, key, f"{path}.{key}").items():
            if value < 0:
                raise InputError(f"{path}.{key}.{name} is {resources[key][name]!r}: expected 0 or more")
            if is_extended(name) and value != int(value):
                raise InputError(
                    f"{path}.{key}.{name} is {resources[key][name]!r}: expected a whole number, as a device is given to"
                    " one pod as a whole"
                )


@dataclass(frozen=True)
class Container:
    """The part of a container that counts: what it requests, and whether it is a sidecar among the init containers."""

    requests: Mapping[str, Number]
    sidecar: bool = False


@dataclass(frozen=True)
class PodResources:
    """Everything from which a pod's requests are computed."""

    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...]
    pod_level: Mapping[str, Number]
    overhead: Mapping[str, Number]

    def total(self, missing: Resources | None = None, pod_level: bool = True) -> Resources:
        """Return the effective requests; `missing` stands in, per container, for a request that is not there at all."""
        total = _aggregate(self.containers, self.init_containers, missing or {})
        total.update(self.pod_level if pod_level else {})
        _add(total, self.overhead)
        return total


def read_pod_resources(spec: Object, where: str, status: Object) -> PodResources:
    """Read a pod's spec and, for a pod that runs, what its containers were really given (in-place resize)."""
    resize = _resize_infeasible_or_absent(status)
    given = {} if resize is None else _container_status(status)
    declared = _containers(spec, where, {}, False)
    containers, inits = _containers(spec, where, given, bool(resize)) if given else declared
    # Defaults at pod level were set when the pod was made, from what it declared: not from what it was given since.
    pod_level = _pod_level(spec, where, status, bool(resize), _aggregate(*declared, {}))
    return PodResources(containers, inits, pod_level, resource_list(spec, "overhead", f"{where}.overhead"))


def _containers(
    spec: Object, where: str, given: Mapping[str, Object], infeasible: bool
) -> tuple[tuple[Container, ...], tuple[Container, ...]]:
    """Return containers and init containers with their effective requests; of the latter only sidecars are resized."""
    containers = tuple(
        Container(_effective(one, where, given.get(string(one, "name")), infeasible))
        for one in objects(spec, "containers", f"{where}.containers")
    )
    inits = []
    for one in objects(spec, "initContainers", f"{where}.initContainers"):
        sidecar = one.get("restartPolicy") == "Always"
        seen = given.get(string(one, "name")) if sidecar else None
        inits.append(Container(_effective(one, where, seen, infeasible), sidecar))
    return containers, tuple(inits)


def _resize_infeasible_or_absent(status: Object) -> bool | None:
    """Return None without a status, else whether a resize is pending that can never be done."""
    if not status:
        return None
    for condition in objects(status, "conditions", "status.conditions"):
        if condition.get("type") == "PodResizePending":
            return condition.get("reason") == "Infeasible"
    return False


def _container_status(status: Object) -> dict[str, Object]:
    listed: list[Object] = []
    for key in ("containerStatuses", "initContainerStatuses"):
        listed += objects(status, key, f"status.{key}")
    return {string(one, "name"): one for one in listed if one.get("resources") is not None}


def _effective(container: Object, where: str, seen: Object | None, infeasible: bool) -> Resources:
    """Return a container's requests.

    Limits stand in for requests that are missing, as the API server's defaulting does.
    """
    resources = mapping(container, "resources", f"{where}: container {container.get('name')}: resources")
    path = f"{where}: container {container.get('name')}: resources"
    requests = resource_list(resources, "limits", f"{path}.limits")
    requests.update(resource_list(resources, "requests", f"{path}.requests"))
    if seen is None:
        return requests
    return _largest(
        {} if infeasible else requests,
        resource_list(mapping(seen, "resources"), "requests", f"{path}.requests"),
        resource_list(seen, "allocatedResources", f"{path}.allocatedResources"),
    )


def _pod_level(spec: Object, where: str, status: Object, infeasible: bool, aggregate: Resources) -> Resources:
    """Return requests at pod level for the resources that may be given there, defaulted as the API server does."""
    resources = mapping(spec, "resources", f"{where}.resources")
    limits = resource_list(resources, "limits", f"{where}.resources.limits")
    requests = resource_list(resources, "requests", f"{where}.resources.requests")
    if limits or requests:
        # Huge pages are requested as they are limited; those of containers become a limit of the pod.
        pages = {
            name: value for name, value in aggregate.items() if name.startswith("hugepages-") and name not in requests
        }
        limits = {**pages, **limits}
    if limits:
        for name, value in aggregate.items():
            if _pod_level_resource(name) and not name.startswith("hugepages-"):
                requests.setdefault(name, value)
        for name, value in limits.items():
            requests.setdefault(name, value)
    requests = {name: value for name, value in requests.items() if _pod_level_resource(name)}
    seen = mapping(status, "resources", "status.resources")
    if not seen or not requests:
        return requests
    largest = _largest(
        {} if infeasible else requests,
        resource_list(seen, "requests", "status.resources.requests"),
        resource_list(status, "allocatedResources", "status.allocatedResources"),
    )
    return {name: largest.get(name, 0) for name in requests}


def _pod_level_resource(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith("hugepages-")


def _largest(*lists: Mapping[str, Number]) -> Resources:
    largest: Resources = {}
    for one in lists:
        for name, value in one.items():
            if name not in largest or value > largest[name]:
                largest[name] = value
    return largest


def _aggregate(containers: Iterable[Container], inits: Iterable[Container], missing: Resources) -> Resources:
    total: Resources = {}
    for container in containers:
        _add(total, {**missing, **container.requests})
    sidecars: Resources = {}
    peak: Resources = {}
    for container in inits:
        requests = {**missing, **container.requests}
        during = dict(sidecars)
        _add(during, requests)
        if container.sidecar:
            _add(total, requests)
            sidecars = during
        peak = _largest(peak, during)
    return _largest(total, peak)


def _add(total: Resources, more: Mapping[str, Number]) -> None:
    for name, value in more.items():
        total[name] = total[name] + value if name in total else value


def nonzero_defaults(requests: Mapping[str, Number], pod_level: bool) -> Resources:
    """Return what scoring assumes for containers without a request.

    Nothing for a resource that a pod-level pod does request.
    """
    defaults: Resources = {CPU: DEFAULT_CPU, MEMORY: DEFAULT_MEMORY}
    return {name: value for name, value in defaults.items() if not (pod_level and name in requests)}
