# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments of plugins: kube-scheduler's defaults filled in, then checked by the plugin itself.

Called by configuration.py. Arguments stay what they are in the file, so that they can be shown as they are in force.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ..framework.registry import Registry
from ..model.fields import integer, mapping, objects
from .reading import only, seconds, within, wrong

Args = Mapping[str, Any]
API_VERSION = "kubescheduler.config.k8s.io/v1"
_CPU_AND_MEMORY = ({"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1})


def _resources(source: Args, path: str) -> list[Args]:
    listed = objects(source, "resources", f"{path}.resources")
    return [{**one, "weight": one.get("weight") or 1} for one in listed] or [dict(one) for one in _CPU_AND_MEMORY]


def _fit(args: Args, path: str) -> Args:
    strategy = mapping(args, "scoringStrategy", f"{path}.scoringStrategy")
    if args.get("scoringStrategy") is None:
        strategy = {"type": "LeastAllocated"}
    resources = _resources(strategy, f"{path}.scoringStrategy")
    return {**args, "scoringStrategy": {**strategy, "resources": resources}}


_PLAIN_DEFAULTS: Mapping[str, Args] = {
    "DefaultPreemption": {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 100},
    "DynamicResources": {"filterTimeout": "10s", "bindingTimeout": "10m0s"},
    "InterPodAffinity": {"hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": False},
    "NodeAffinity": {},
    "VolumeBinding": {"bindTimeoutSeconds": 600},
}
_MADE_DEFAULTS: Mapping[str, Callable[[Args, str], Args]] = {
    "NodeResourcesBalancedAllocation": lambda args, path: {**args, "resources": _resources(args, path)},
    "NodeResourcesFit": _fit,
    "PodTopologySpread": lambda args, _path: {**args, "defaultingType": args.get("defaultingType") or "System"},
}


def _check_preemption(args: Args, path: str) -> None:
    only(args, ("minCandidateNodesPercentage", "minCandidateNodesAbsolute"), path)
    where = f"{path}.minCandidateNodesPercentage"
    share = within(integer(args, "minCandidateNodesPercentage", where), 0, 100, where)
    where = f"{path}.minCandidateNodesAbsolute"
    least = within(integer(args, "minCandidateNodesAbsolute", where), 0, None, where)
    if share == least == 0:
        raise wrong(where, "more than 0 where minCandidateNodesPercentage is 0", 0)


def _check_dynamic_resources(args: Args, path: str) -> None:
    only(args, ("filterTimeout", "bindingTimeout"), path)
    if seconds(args, "filterTimeout", f"{path}.filterTimeout", 0) < 0:
        raise wrong(f"{path}.filterTimeout", "no negative duration", args["filterTimeout"])
    if seconds(args, "bindingTimeout", f"{path}.bindingTimeout", 1) < 1:
        raise wrong(f"{path}.bindingTimeout", "at least 1s", args["bindingTimeout"])


_CHECKS: Mapping[str, Callable[[Args, str], None]] = {
    "DefaultPreemption": _check_preemption,
    "DynamicResources": _check_dynamic_resources,
}


def arguments(name: str, given: Args, path: str, table: Registry) -> Args:
    """Return a plugin's arguments with defaults. Raises InputError with the path of what is wrong."""
    kind = given.get("kind", f"{name}Args")
    if kind != f"{name}Args" or given.get("apiVersion", API_VERSION) != API_VERSION:
        raise wrong(f"{path}.kind", f"{name}Args of {API_VERSION}", f"{kind} of {given.get('apiVersion')}")
    own = {key: value for key, value in given.items() if key not in ("apiVersion", "kind")}
    filled = _filled(name, own, path)
    if name in _CHECKS:
        _CHECKS[name](filled, path)
    elif name in table.names:
        table.make(name, filled, path)
    else:
        only(filled, (), path)
    return filled


def takes_arguments(name: str) -> bool:
    """Tell whether a plugin of kube-scheduler's has arguments, and so stands in every profile's pluginConfig."""
    return name in _PLAIN_DEFAULTS or name in _MADE_DEFAULTS


def _filled(name: str, own: Args, path: str) -> Args:
    if name in _MADE_DEFAULTS:
        return _MADE_DEFAULTS[name](own, path)
    given = {key: value for key, value in own.items() if value is not None}
    return {**_PLAIN_DEFAULTS.get(name, {}), **given}
