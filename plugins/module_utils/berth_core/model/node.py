# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node, reduced to what scheduling looks at. Called by the snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from .fields import Object, boolean, mapping, metadata, string_map, strings
from .image import Images, node_images
from .requests import CPU, EPHEMERAL, MEMORY, PODS, amount, is_scalar, resource_list
from .taint import Taint, parse_taints


@dataclass(frozen=True)
class NodeInfo:
    """Name, labels, taints, cordon, and what can be given out, in whole units (cpu in thousandths of a core)."""

    name: str
    labels: tuple[tuple[str, str], ...]
    taints: tuple[Taint, ...]
    unschedulable: bool
    allocatable: tuple[tuple[str, int], ...]
    images: Images = ()
    features: frozenset[str] = frozenset()
    """What its kubelet declares that it can do (status.declaredFeatures)."""

    @classmethod
    def from_object(cls, node: Object) -> NodeInfo:
        """Read a Node of the API."""
        _namespace, name = metadata(node, "Node")
        spec = mapping(node, "spec", f"node {name}: spec")
        status = mapping(node, "status", f"node {name}: status")
        allocatable = resource_list(status, "allocatable", f"node {name}: allocatable")
        counted = {
            key: value for key, value in allocatable.items() if key in (CPU, MEMORY, EPHEMERAL, PODS) or is_scalar(key)
        }
        return cls(
            name=name,
            labels=tuple(sorted(string_map(mapping(node, "metadata"), "labels", f"node {name}: labels").items())),
            taints=parse_taints(spec, f"node {name}: spec.taints"),
            unschedulable=boolean(spec, "unschedulable", f"node {name}: spec.unschedulable"),
            allocatable=tuple(sorted((key, amount(key, value)) for key, value in counted.items())),
            images=node_images(status, f"node {name}"),
            features=frozenset(strings(status, "declaredFeatures", f"node {name}: declaredFeatures")),
        )
