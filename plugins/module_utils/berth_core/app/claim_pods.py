# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pods that mount a claim without an app: which of them its Berth names, and whose they are.

Called by the controller with what it watches, and by the steps of a claim. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..model.fields import mapping, objects
from .observed import ready

#: A Deployment's ReplicaSets have its name and the hash of a pod template, which their pods have as this label.
_TEMPLATE_HASH = "pod-template-hash"


class ClaimPod(NamedTuple):
    """A pod that has not ended. ``workload``: ``StatefulSet pg``; empty for a pod that nobody controls."""

    name: str
    workload: str
    ready: bool
    going: bool


def claim_pod(pod: Mapping[str, Any]) -> ClaimPod:
    """Read a Pod of the API."""
    meta = mapping(pod, "metadata")
    return ClaimPod(str(meta.get("name")), workload_of(pod), ready(pod), bool(meta.get("deletionTimestamp")))


def workload_of(pod: Mapping[str, Any]) -> str:
    """Kind and name of what controls the pod; of a Deployment's ReplicaSet the Deployment. Empty: nobody does."""
    meta = mapping(pod, "metadata")
    owner = next((one for one in objects(meta, "ownerReferences") if one.get("controller")), None)
    if owner is None:
        return ""
    kind, name = str(owner.get("kind")), str(owner.get("name"))
    tail = f"-{mapping(meta, 'labels').get(_TEMPLATE_HASH)}"
    if kind == "ReplicaSet" and name.endswith(tail):
        kind, name = "Deployment", name[: -len(tail)]
    return f"{kind} {name}"


def named_pod(pods: Iterable[ClaimPod], before: object) -> ClaimPod | None:
    """The pod that a claim's Berth names; ``before``: the one that it has named so far, which is kept while it stays.

    Of several pods one that stays comes first, then one that is Ready; None where there is no pod.
    """
    return min(pods, key=lambda pod: (pod.going, pod.name != before, not pod.ready, pod.name), default=None)
