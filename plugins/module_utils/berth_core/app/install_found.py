# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which parts of berth a cluster has: where, of which version, from which image, by whatever name and in whatever way.

Called by the module installation_check and by install_check.py. Nothing is read or written here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from . import controller_install, extender_install, scheduler_install, task_backend_install
from .crd_plan import schema_of
from .crd_schemas import SCHEMAS
from .node_agents import ACCOUNT
from .release import version_of_image
from .shipped import NAME_LABEL, PART_OF

Object = Mapping[str, Any]
#: What lists of them are asked for by.
SELECTOR = f"{PART_OF}=berth"
#: The name of the shipped objects -> the part.
_PARTS = {
    controller_install.SHIPPED: "controller",
    scheduler_install.SHIPPED: "scheduler",
    extender_install.SHIPPED: "extender",
    task_backend_install.SHIPPED: "task_backend",
    ACCOUNT: "agents_hosts",
}
_WORDS = {"agents_hosts": "agents", "agents_daemonset": "DaemonSet", "task_backend": "task backend"}


class Installed(NamedTuple):
    """A part that is there. ``version``: what its image's tag, its agents or its schema say; empty: nothing."""

    part: str
    name: str
    namespace: str = ""
    version: str = ""
    image: str = ""
    nodes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{_WORDS.get(self.part, self.part)} {self.name}"

    def row(self) -> dict[str, Any]:
        """For the module's result: what there is to say of it."""
        return {key: list(value) if key == "nodes" else value for key, value in self._asdict().items() if value}


def installed(
    definitions: Mapping[str, Object],
    workloads: Iterable[Object],
    bindings: Iterable[Object],
    agents: Iterable[Mapping[str, Any]],
) -> list[Installed]:
    """Each part once for every place and version. ``workloads``: Deployments and DaemonSets; ``bindings``:
    ClusterRoleBindings, which a scheduler or agents on hosts have alone."""
    found = [
        Installed("crds", name, version=f"schema {schema_of(definitions[name])}")
        for name in sorted(SCHEMAS)
        if name in definitions
    ]
    running = [each for each in map(_workload, workloads) if each]
    found += running
    there = {(_kind(each.part), each.name, each.namespace) for each in running}
    found += [each for each in _bound(bindings) if (_kind(each.part), each.name, each.namespace) not in there]
    return found + _agents(agents)


def _kind(part: str) -> str:
    return "agents" if part.startswith("agents") else part


def _workload(body: Object) -> Installed | None:
    meta, pod = body["metadata"], body["spec"]["template"]
    origin = _origin(pod.get("metadata") or {}, str(meta["name"]))
    part = _PARTS.get(origin)
    if part is None or not _ours(meta):
        return None
    part = "agents_daemonset" if part == "agents_hosts" else part
    image = str((pod["spec"].get("containers") or [{}])[0].get("image") or "")
    return Installed(part, str(meta["name"]), str(meta["namespace"]), version_of_image(image), image)


def _bound(bindings: Iterable[Object]) -> Iterable[Installed]:
    for body in bindings:
        meta = body["metadata"]
        part = _PARTS.get(_origin(meta, str(meta["name"])))
        if part is None or not _ours(meta):
            continue
        for place in sorted({str(one["namespace"]) for one in body.get("subjects") or () if one.get("namespace")}):
            yield Installed(part, str(meta["name"]), place)


def _agents(agents: Iterable[Mapping[str, Any]]) -> list[Installed]:
    """Those that live, by what each says of itself."""
    nodes: dict[str, list[str]] = {}
    for agent in agents:
        if agent["alive"]:
            nodes.setdefault(str(agent["version"]), []).append(str(agent["node"]))
    return [
        Installed("agents", ACCOUNT, version=version, nodes=tuple(sorted(nodes[version]))) for version in sorted(nodes)
    ]


def _ours(meta: Object) -> bool:
    return (meta.get("labels") or {}).get(PART_OF) == "berth"


def _origin(meta: Object, name: str) -> str:
    """The name under which it is shipped; what was applied by hand has that name and no label."""
    return str((meta.get("labels") or {}).get(NAME_LABEL) or name)


def daemon_sets(found: Iterable[Object]) -> list[Object]:
    """Those of agents."""
    return [body for body in found if (_workload(body) or Installed("", "")).part == "agents_daemonset"]


def covered(sets: Sequence[Object], nodes: Iterable[Object]) -> set[str]:
    """The nodes for which these DaemonSets have a pod, by their selectors: agents tolerate everything."""
    wanted = [(body["spec"]["template"]["spec"].get("nodeSelector") or {}).items() for body in sets]
    return {
        str(node["metadata"]["name"])
        for node in nodes
        if any(each <= (node["metadata"].get("labels") or {}).items() for each in wanted)
    }


def schemas_of_controllers(deployments: Iterable[Object]) -> list[tuple[str, str]]:
    """(what, the schemas that it was installed for) of each controller."""
    found = []
    for body in deployments:
        each = _workload(body)
        if each is not None and each.part == "controller":
            found.append((f"controller {each.namespace}/{each.name}", controller_install.schemas_of(body)))
    return found


def scheduler_names(bodies: Iterable[Object], scheduler: str) -> list[str]:
    """What pods say as their schedulerName: of a scheduler, by its Deployment and its Role on hosts."""
    ours = [body for body in bodies if _ours(body["metadata"])]
    return sorted({name for body in ours for name in scheduler_install.profiles_of(body, scheduler)})
