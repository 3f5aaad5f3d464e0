# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of plugins: kube-scheduler's v1.36 by extension point, berth's, and the names that policies had before.

Read by plugin_sets.py and plugin_args.py. Names of kube-scheduler that the engine has no plugin for are known here,
so that a file that names them is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

POINTS = (
    "preEnqueue", "queueSort", "preFilter", "filter", "postFilter", "preScore", "score", "reserve", "permit",
    "preBind", "bind", "postBind",
)  # fmt: skip
PLACEMENT_POINTS = ("placementGenerate", "placementScore")
"""Points at which kube-scheduler places groups of pods (alpha): read, and not looked at."""

EXTENDS: Mapping[str, tuple[str, ...]] = {
    "Coscheduling": ("preEnqueue", "permit"),
    "DefaultBinder": ("bind",),
    "DefaultPreemption": ("preEnqueue", "postFilter"),
    "DevicePacking": ("preScore", "score", "reserve"),
    "DynamicResources": ("preEnqueue", "preFilter", "filter", "postFilter", "score", "reserve", "preBind"),
    "ImageLocality": ("score",),
    "InterPodAffinity": ("preFilter", "filter", "preScore", "score"),
    "LocalDeviceFit": ("preFilter", "filter", "preScore", "score", "reserve"),
    "LocalDiskFit": ("preFilter", "filter", "preScore", "score", "reserve", "preBind"),
    "NodeAffinity": ("preFilter", "filter", "preScore", "score"),
    "NodeDeclaredFeatures": ("preFilter", "filter"),
    "NodeName": ("filter",),
    "NodePorts": ("preFilter", "filter"),
    "NodeResourcesBalancedAllocation": ("preScore", "score"),
    "NodeResourcesFit": ("preFilter", "filter", "preScore", "score"),
    "NodeUnschedulable": ("filter",),
    "NodeVolumeLimits": ("preFilter", "filter"),
    "PodTopologySpread": ("preFilter", "filter", "preScore", "score"),
    "PrioritySort": ("queueSort",),
    "SchedulingGates": ("preEnqueue",),
    "ServiceAntiAffinity": ("score",),
    "TaintToleration": ("filter", "preScore", "score"),
    "VolumeBinding": ("preFilter", "filter", "preScore", "score", "reserve", "preBind"),
    "VolumeRestrictions": ("preFilter", "filter"),
    "VolumeZone": ("preFilter", "filter"),
}

REMOVED = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")
"""Plugins that kube-scheduler refuses by now: NodeVolumeLimits has taken over."""

ALIASES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "BalancedResourceAllocation": ("NodeResourcesBalancedAllocation", {}),
    "CalculateAntiAffinityPriority": ("ServiceAntiAffinity", {"label": "topology.kubernetes.io/zone"}),
    "HostName": ("NodeName", {}),
    "ImageLocalityPriority": ("ImageLocality", {}),
    "LeastRequestedPriority": ("NodeResourcesFit", {"scoringStrategy": {"type": "LeastAllocated"}}),
    "MatchNodeSelector": ("NodeAffinity", {}),
    "MaxEBSVolumeCount": ("NodeVolumeLimits", {"defaultLimits": {"ebs.csi.aws.com": 39}}),
    "MaxGCEPDVolumeCount": ("NodeVolumeLimits", {"defaultLimits": {"pd.csi.storage.gke.io": 16}}),
    "NoDiskConflict": ("VolumeRestrictions", {}),
    "NoVolumeZoneConflict": ("VolumeZone", {}),
    "NodeAffinityPriority": ("NodeAffinity", {}),
    "PodFitsHostPorts": ("NodePorts", {}),
    "PodFitsResources": ("NodeResourcesFit", {}),
    "SelectorSpreadPriority": ("PodTopologySpread", {"defaultingType": "System"}),
}
"""Names of predicates and priorities -> the plugin that does the same, and the arguments with which it does."""
