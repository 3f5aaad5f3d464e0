# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A TaskOffer of the API as a value: room for one task on one node, which a program holds for a bounded time.

It waits in its queue as a task does, and is charged to it while it is held. A Task that names it takes its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..model.fields import Object, integer, mapping, metadata, string
from ..model.pod import Amounts
from ..model.requests import amount, resource_list
from .task import DEFAULT_QUEUE

WAITING, HELD = "Waiting", "Held"
MOST_SECONDS = 600


@dataclass(frozen=True)
class TaskOffer:
    """`seconds`: how long it waits at most, and how long it is held then. `until`: as its status says."""

    namespace: str
    name: str
    uid: str
    created: str
    queue: str
    priority: int
    requests: Amounts
    seconds: int
    state: str = WAITING
    node: str = ""
    until: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """What it is called in a queue: no Task can have that name."""
        return self.namespace, f"offer({self.name})"

    @property
    def gang(self) -> None:
        """It is room for one."""
        return None

    @property
    def gang_key(self) -> str:
        return ""

    @property
    def charge(self) -> tuple[str, int]:
        """Under what its account stands: no try has that number."""
        return self.uid, 0

    def room_for(self, requests: Amounts) -> bool:
        """Whether a pod with these requests takes no more than is held."""
        has = dict(self.requests)
        return all(value <= has.get(name, 0) for name, value in requests)


def read_offer(obj: Object) -> TaskOffer:
    """Read a TaskOffer. Raises InputError that names the object and the field."""
    namespace, name = metadata(obj, "TaskOffer")
    where = f"TaskOffer {namespace}/{name}" if namespace else f"TaskOffer {name}"
    meta, spec = mapping(obj, "metadata"), mapping(obj, "spec", f"{where}: spec")
    status = mapping(obj, "status", f"{where}: status")
    seconds = integer(spec, "seconds", f"{where}: spec.seconds")
    if not 1 <= seconds <= MOST_SECONDS:
        raise InputError(f"{where}: spec.seconds is {seconds}: expected 1 to {MOST_SECONDS}")
    return TaskOffer(
        namespace=namespace,
        name=name,
        uid=string(meta, "uid"),
        created=string(meta, "creationTimestamp"),
        queue=string(spec, "queue", f"{where}: spec.queue", DEFAULT_QUEUE),
        priority=integer(spec, "priority", f"{where}: spec.priority"),
        requests=requests_of(spec, where),
        seconds=seconds,
        state=string(status, "state", f"{where}: status.state", WAITING),
        node=string(status, "node", f"{where}: status.node"),
        until=string(status, "until", f"{where}: status.until"),
    )


def requests_of(spec: Object, where: str) -> Amounts:
    """What is asked for, in whole units. Raises InputError that names the field."""
    found = resource_list(spec, "requests", f"{where}: spec.requests")
    wrong = sorted(name for name, value in found.items() if value < 0)
    if wrong or not found:
        what = f".{wrong[0]} is below 0" if wrong else " is empty: expected at least one resource"
        raise InputError(f"{where}: spec.requests{what}")
    return tuple(sorted((name, amount(name, value)) for name, value in found.items()))


def on_node(template: Mapping[str, Any], node: str) -> dict[str, Any]:
    """The pod template, its pod on just this node, whatever else it asks of nodes; any scheduler obeys."""
    spec = mapping(template, "spec", "template.spec")
    affinity = mapping(spec, "affinity", "template.spec.affinity")
    of_nodes = mapping(affinity, "nodeAffinity", "template.spec.affinity.nodeAffinity")
    path, field = "template.spec.affinity.nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"
    terms = mapping(of_nodes, field, f"{path}.{field}").get("nodeSelectorTerms") or [{}]
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    found = [{**term, "matchFields": [*(term.get("matchFields") or ()), here]} for term in terms]
    required = {**of_nodes, field: {"nodeSelectorTerms": found}}
    return {**template, "spec": {**spec, "affinity": {**affinity, "nodeAffinity": required}}}
