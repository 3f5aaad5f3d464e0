# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pod that names one node: each term of its required node affinity does, since terms are alternatives.

Written by app.manifests and by the policy berth-node-affinity (decision 43); kube-scheduler's NodeAffinity then looks
at that node and at no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _field(node: str) -> dict[str, Any]:
    return {"key": "metadata.name", "operator": "In", "values": [node]}


def tie(spec: dict[str, Any], node: str) -> None:
    """Require the node by name in every term of the pod's node affinity: any scheduler then brings it there."""
    selector = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {}).setdefault(_REQUIRED, {})
    terms = selector.get("nodeSelectorTerms") or [{}]
    selector["nodeSelectorTerms"] = [
        {**term, "matchFields": [*(term.get("matchFields") or ()), _field(node)]} for term in terms
    ]


def is_tied(spec: Mapping[str, Any], node: str) -> bool:
    """Whether the pod can run on that node alone."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    return bool(terms) and all(_field(node) in (term.get("matchFields") or ()) for term in terms)
