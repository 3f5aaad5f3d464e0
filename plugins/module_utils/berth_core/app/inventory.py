# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster as an Ansible inventory: which hosts there are, their variables, and the groups they are in.

Called by the inventory plugin with an overview (overview.py), fresh or out of its cache. Names
that come from the cluster become group names here, so that nothing in one can be more than a word.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import StateError
from .overview import by_node

NODES, DISKS, BERTHS = "nodes", "disks", "berths"
HOST_KINDS = (NODES, DISKS, BERTHS)
ADDRESS_TYPES = ("InternalIP", "ExternalIP", "Hostname", "InternalDNS", "ExternalDNS")

#: A disk is broken, or is not there: somebody has to look.
_BAD = ("faulted", "missing", "unhealthy")
#: What the API server lets a name be. A name is not a value: Ansible before 2.19 would template one.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,510}[a-z0-9])?")
_NOT_A_WORD = re.compile(r"[^A-Za-z0-9_]")


class Host(NamedTuple):
    """One host of the inventory."""

    name: str
    variables: dict[str, Any]
    groups: list[str]


def hosts(
    found: Mapping[str, Any], kinds: Collection[str] = (NODES,), address_types: Sequence[str] = ADDRESS_TYPES
) -> list[Host]:
    """The hosts of these kinds, nodes first. Raises StateError where two objects would be one host.

    A node has its own name, a disk NAME.disk, a berth NAME.NAMESPACE.berth; the latter two are reached by the address
    of their node. Variables of a node: ``berth_node``, ``berth_local_disks``, ``berth_local_devices``,
    ``berth_berths``; of a disk ``berth_local_disk`` and ``berth_node``; of a berth ``berth_berth`` and ``berth_node``.
    """
    nodes = {node["name"]: node for node in found["nodes"]}
    address = {name: _address(node, address_types) for name, node in nodes.items()}
    disks, devices, berths = (by_node(found[part]) for part in ("disks", "devices", "berths"))
    made: list[Host] = []
    if NODES in kinds:
        made += [
            _node(node, disks.get(name, []), devices.get(name, []), berths.get(name, []))
            for name, node in nodes.items()
        ]
    if DISKS in kinds:
        made += [_disk(disk, nodes.get(disk["node"])) for disk in found["disks"]]
    if BERTHS in kinds:
        made += [_berth(row, nodes.get(row["node"])) for row in found["berths"]]
    _refuse_strange(made)
    for host in made:
        where = address.get((host.variables.get("berth_node") or {}).get("name", ""))
        if where:
            host.variables["ansible_host"] = where
    return made


def app_group(namespace: str, app: str) -> str:
    """The group of the hosts that have replicas of an app. Two underscores part what hyphens would mix up."""
    return f"berth_app_{word(namespace)}__{word(app)}"


def word(text: str) -> str:
    """A text as a part of a group's name: letters, digits and underscores."""
    return _NOT_A_WORD.sub("_", text)


def _address(node: Mapping[str, Any], types: Sequence[str]) -> str | None:
    return next((node["addresses"][one] for one in types if node["addresses"].get(one)), None)


def _node(
    node: dict[str, Any],
    disks: list[dict[str, Any]],
    devices: list[dict[str, Any]],
    berths: list[dict[str, Any]],
) -> Host:
    groups = ["berth_nodes"]
    if node["schedulable"] and node["ready"]:
        groups.append("berth_nodes_ready")
    if any(disk["free"] for disk in disks):
        groups.append("berth_nodes_with_free_disks")
    if any(disk["why_not_free"] in _BAD or disk["phase"] in ("Faulted", "Missing") for disk in disks):
        groups.append("berth_nodes_with_bad_disks")
    groups += sorted({app_group(row["namespace"], row["app"]) for row in berths})
    variables = {"berth_node": node, "berth_local_disks": disks, "berth_local_devices": devices, "berth_berths": berths}
    return Host(node["name"], variables, groups)


def _disk(disk: dict[str, Any], node: dict[str, Any] | None) -> Host:
    groups = ["berth_disks", f"berth_disks_{word(disk['phase'].lower())}"]
    holder = disk["holder"]
    if holder:
        groups.append(app_group(holder["namespace"], holder["app"]))
    return Host(f"{disk['name']}.disk", {"berth_local_disk": disk, "berth_node": node}, groups)


def _berth(row: dict[str, Any], node: dict[str, Any] | None) -> Host:
    groups = ["berth_berths", f"berth_berths_{word(row['phase'].lower())}", app_group(row["namespace"], row["app"])]
    return Host(f"{row['name']}.{row['namespace']}.berth", {"berth_berth": row, "berth_node": node}, groups)


def _refuse_strange(made: Sequence[Host]) -> None:
    seen: set[str] = set()
    for host in made:
        if not _NAME.fullmatch(host.name):
            raise StateError(f"{host.name!r} is no name that an API server accepts: it becomes no host")
        if host.name in seen:
            raise StateError(
                f"two objects of the cluster would be the host {host.name}: a node has the name of a disk's or berth's "
                "host; leave one of the kinds out"
            )
        seen.add(host.name)
