# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the LimitRanges of a namespace add to a pod: the defaults of the LimitRanger admission plugin (v1.36).

Called where the API server cannot be asked to try the pod itself. Minima, maxima and ratios are not checked: the API
server refuses by them.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

Object = Mapping[str, Any]


def with_defaults(pod: Object, limit_ranges: Sequence[Object]) -> dict[str, Any]:
    """The pod (a manifest) with every request and limit that it leaves out and a LimitRange has a default for.

    A limit that the template gives is the container's request too before any default is.
    """
    found = copy.deepcopy(dict(pod))
    limits, requests = _defaults(limit_ranges)
    spec = found["spec"]
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        resources = container.get("resources") or {}
        given = resources.get("limits") or {}
        wanted = {
            "limits": {**limits, **given},
            "requests": {**requests, **given, **(resources.get("requests") or {})},
        }
        added = {key: value for key, value in wanted.items() if value}
        if added:
            container["resources"] = {**resources, **added}
    return found


def _defaults(limit_ranges: Sequence[Object]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(limits, requests). Of several LimitRanges the first that names a resource decides."""
    limits: dict[str, Any] = {}
    requests: dict[str, Any] = {}
    for limit_range in limit_ranges:
        for item in limit_range["spec"].get("limits") or ():
            if item.get("type") == "Container":
                limits = {**(item.get("default") or {}), **limits}
                requests = {**(item.get("defaultRequest") or {}), **requests}
    return limits, requests
