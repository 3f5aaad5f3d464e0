# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All built-in plugins: one static table, and the default profile.

Read by front ends and by the configuration. Plugins from outside are added with `TABLE.extended` by a program's main,
nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Callable

from ..errors import InputError
from ..framework.contract import Plugin
from ..framework.profile import Profile
from ..framework.registry import Factory, Registry
from ..model.fields import integer
from .args import known_only
from .balanced_allocation import NodeResourcesBalancedAllocation
from .coscheduling import Coscheduling
from .default_preemption import DefaultPreemption
from .device_packing import DevicePacking
from .dynamic_resources import DynamicResources
from .image_locality import ImageLocality
from .inter_pod_affinity import InterPodAffinity
from .local_device_fit import LocalDeviceFit
from .local_disk_fit import LocalDiskFit
from .node_affinity import NodeAffinity
from .node_declared_features import NodeDeclaredFeatures
from .node_name import NodeName
from .node_ports import NodePorts
from .node_resources_fit import NodeResourcesFit
from .node_unschedulable import NodeUnschedulable
from .node_volume_limits import NodeVolumeLimits
from .pod_topology_spread import PodTopologySpread
from .queue_order import PrioritySort, SchedulingGates
from .service_anti_affinity import ServiceAntiAffinity
from .taint_toleration import TaintToleration
from .volume_binding import VolumeBinding
from .volume_restrictions import VolumeRestrictions
from .volume_zone import VolumeZone


def _without_args(make: Callable[[], Plugin]) -> Factory:
    def factory(args: Mapping[str, Any], path: str) -> Plugin:
        known_only(args, (), path)
        return make()

    return factory


def _volume_binding(args: Mapping[str, Any], path: str) -> Plugin:
    # bindTimeoutSeconds is for who writes the binding; deciding takes no time to wait for.
    known_only(args, ("bindTimeoutSeconds",), path)
    where = f"{path}.bindTimeoutSeconds"
    if integer(args, "bindTimeoutSeconds", where, 600) < 0:
        raise InputError(f"{where}: expected at least 0, got {args['bindTimeoutSeconds']}", field=where)
    return VolumeBinding()


TABLE = Registry(
    (
        ("Coscheduling", Coscheduling.from_args),
        ("DefaultPreemption", DefaultPreemption.from_args),
        ("DevicePacking", DevicePacking.from_args),
        ("DynamicResources", DynamicResources.from_args),
        ("ImageLocality", _without_args(ImageLocality)),
        ("InterPodAffinity", InterPodAffinity.from_args),
        ("LocalDeviceFit", _without_args(LocalDeviceFit)),
        ("LocalDiskFit", _without_args(LocalDiskFit)),
        ("NodeAffinity", NodeAffinity.from_args),
        ("NodeDeclaredFeatures", _without_args(NodeDeclaredFeatures)),
        ("NodeName", _without_args(NodeName)),
        ("NodePorts", _without_args(NodePorts)),
        ("NodeResourcesBalancedAllocation", NodeResourcesBalancedAllocation.from_args),
        ("NodeResourcesFit", NodeResourcesFit.from_args),
        ("NodeUnschedulable", _without_args(NodeUnschedulable)),
        ("NodeVolumeLimits", NodeVolumeLimits.from_args),
        ("PodTopologySpread", PodTopologySpread.from_args),
        ("PrioritySort", _without_args(PrioritySort)),
        ("SchedulingGates", _without_args(SchedulingGates)),
        ("ServiceAntiAffinity", ServiceAntiAffinity.from_args),
        ("TaintToleration", _without_args(TaintToleration)),
        ("VolumeBinding", _volume_binding),
        ("VolumeRestrictions", _without_args(VolumeRestrictions)),
        ("VolumeZone", _without_args(VolumeZone)),
    )
)

DEFAULT: tuple[tuple[str, int], ...] = (
    ("SchedulingGates", 0),
    ("PrioritySort", 0),
    ("NodeUnschedulable", 0),
    ("NodeName", 0),
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodePorts", 0),
    ("NodeResourcesFit", 1),
    ("VolumeRestrictions", 0),
    ("NodeVolumeLimits", 0),
    ("VolumeBinding", 0),
    ("VolumeZone", 0),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("DynamicResources", 2),
    ("DefaultPreemption", 0),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
    ("DefaultBinder", 0),
    ("NodeDeclaredFeatures", 0),
    # A disk that is too large for its replica is lost to others for good, a full node is not: hence the weight.
    ("LocalDiskFit", 3),
    ("LocalDeviceFit", 3),
)
"""kube-scheduler's plugins in its order and with its weights, then berth's; they stand at multiPoint."""

QUEUE_PLUGINS = ("SchedulingGates", "PrioritySort")
"""Plugins of `TABLE` that order the queue and place nothing."""

DEFAULT_WEIGHTS: tuple[tuple[str, int], ...] = tuple(
    (name, weight)
    for name, weight in DEFAULT
    if name in TABLE.names and name not in (*QUEUE_PLUGINS, "DynamicResources")
)
"""Those of `DEFAULT` that place pods, and that there is a plugin for.

Without DynamicResources, which refuses: modules choose a node, and another scheduler allocates the claims there.
"""


def make_profile(
    name: str = "default",
    args: Mapping[str, Mapping[str, Any]] | None = None,
    weights: Iterable[tuple[str, int]] = DEFAULT_WEIGHTS,
    table: Registry = TABLE,
) -> Profile:
    """Build a profile from names and weights, with arguments per plugin (as under pluginConfig)."""
    given = args or {}
    return Profile.build(name, ((table.make(plugin, given.get(plugin)), weight) for plugin, weight in weights))


DEFAULT_PROFILE = make_profile()
