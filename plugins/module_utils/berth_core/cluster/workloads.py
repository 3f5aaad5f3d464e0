# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services and the controllers of pods: which pods belong together, where a pod itself does not say.

Owned by the snapshot, for PodTopologySpread's default constraints and ServiceAntiAffinity.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

from ..model.fields import Object, mapping, metadata, string_map
from ..model.labels import LabelSelector, Requirement
from ..model.pod import PodInfo

REPLICATION_CONTROLLER = ("v1", "ReplicationController")
REPLICA_SET = ("apps/v1", "ReplicaSet")
STATEFUL_SET = ("apps/v1", "StatefulSet")
Kind = tuple[str, str]
Name = TypeVar("Name", bound=Hashable)


class WorkloadTable:
    """Selectors by name."""

    def __init__(self) -> None:
        self.generation = 1
        """Grows when a selector comes, goes or becomes another: a status that is written anew changes nothing."""
        self._services: dict[str, dict[str, LabelSelector]] = {}
        self._controllers: dict[tuple[Kind, str, str], LabelSelector] = {}

    def upsert_service(self, service: Object) -> None:
        """Add a Service, or write its new facts. One without a selector selects nothing."""
        namespace, name = metadata(service, "Service")
        where = f"Service {namespace}/{name}: spec"
        spec = mapping(service, "spec", where)
        selector = None
        if spec.get("selector") is not None:
            selector = LabelSelector.from_labels(string_map(spec, "selector", f"{where}.selector"))
        self._put(self._services.setdefault(namespace, {}), name, selector)

    def remove_service(self, namespace: str, name: str) -> None:
        """Take a Service out."""
        self._put(self._services.setdefault(namespace, {}), name, None)

    def upsert_controller(self, kind: Kind, controller: Object) -> None:
        """Add a controller of pods, or write its new facts."""
        namespace, name = metadata(controller, kind[1])
        where = f"{kind[1]} {namespace}/{name}: spec"
        spec = mapping(controller, "spec", where)
        if kind == REPLICATION_CONTROLLER:
            selector: LabelSelector | None = LabelSelector.from_labels(
                string_map(spec, "selector", f"{where}.selector")
            )
        else:
            selector = LabelSelector.parse(spec.get("selector"), f"{where}.selector")
        self._put(self._controllers, (kind, namespace, name), selector)

    def remove_controller(self, kind: Kind, namespace: str, name: str) -> None:
        """Take a controller out."""
        self._put(self._controllers, (kind, namespace, name), None)

    def _put(self, table: dict[Name, LabelSelector], name: Name, selector: LabelSelector | None) -> None:
        if table.get(name) == selector:
            return
        self.generation += 1
        if selector is None:
            del table[name]
        else:
            table[name] = selector

    def services_of(self, namespace: str, labels: dict[str, str]) -> list[LabelSelector]:
        """Return the selectors of the services that a pod with these labels belongs to, by the service's name."""
        return [one for _name, one in sorted(self._services.get(namespace, {}).items()) if one.matches(labels)]

    def selector_of(self, pod: PodInfo) -> LabelSelector | None:
        """Return what the pod's services and its controller select, all together; None where there are none."""
        requirements: set[Requirement] = set()
        for selector in self.services_of(pod.namespace, dict(pod.labels)):
            requirements.update(selector.requirements)
        if pod.controller is not None:
            api_version, kind, name = pod.controller
            owned = self._controllers.get(((api_version, kind), pod.namespace, name))
            requirements.update(owned.requirements if owned is not None else ())
        if not requirements:
            return None
        return LabelSelector(tuple(sorted(requirements, key=lambda one: (one.key, one.operator, one.values))))
