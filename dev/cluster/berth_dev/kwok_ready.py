# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits until kwok acts for the fake nodes. `cluster` and `kind.fakes` call this; `kwok` makes the nodes.

That a node is Ready says nothing about kwok: it was made so. kwok acts for a node whose lease it holds, and tells of no
pod that it heard of before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from .errors import KubeError
from .kubeapi import ApiError, KubeApi
from .kwok import LEASES, Home, listed

_NOT_FOUND = 404


def wait(plane: Home, timeout: float = 120.0, *, started: bool = False) -> None:
    """Until every fake node is Ready, without the taint that says it is not, and held by kwok. With `started`, kwok was
    started just now: until it has dealt with the pods that are there, too. KubeError when that takes too long.
    """
    with plane.api() as api:
        _until_none(plane, lambda: _not_held(api), timeout, "fake nodes are not Ready, or their leases not held")
        if started:
            _until_none(plane, lambda: _woken(api), timeout, "pods of fake nodes wait for kwok")


def _until_none(plane: Home, waiting: Callable[[], list[str]], timeout: float, what: str) -> None:
    until = time.monotonic() + timeout
    while True:
        began = time.monotonic()
        left = waiting()
        if not plane.folder.alive("kwok"):
            raise plane.failure("kwok", "ended; it keeps the fake nodes Ready")
        if not left:
            return
        if time.monotonic() > until:
            few = f"{', '.join(left[:5])}{', …' if len(left) > 5 else ''}"
            raise KubeError(f"{len(left)} {what} after {timeout:.0f} s ({few}): see {plane.folder.log_path('kwok')}")
        # A list of thousands costs the API server what it needs for them: ask a fifth of the time at most.
        time.sleep(max(0.2, 4 * (time.monotonic() - began)))


def _not_held(api: KubeApi) -> list[str]:
    """Names of fake nodes. A lease that was another node's of the same name is not theirs."""
    leases = api.request("GET", f"{LEASES}?resourceVersion=0")["items"]
    owners = {owner["uid"] for lease in leases for owner in lease["metadata"].get("ownerReferences", ())}
    return [
        item["metadata"]["name"] for item in listed(api) if item["metadata"]["uid"] not in owners or not _ready(item)
    ]


def _ready(item: Mapping[str, Any]) -> bool:
    taints = {taint["key"] for taint in item["spec"].get("taints", ())}
    conditions = {c["type"]: c["status"] for c in item["status"].get("conditions", ())}
    return conditions.get("Ready") == "True" and "node.kubernetes.io/not-ready" not in taints


def _woken(api: KubeApi) -> list[str]:
    """Names of the pods that wait for kwok, each changed so that kwok hears of it again: what it heard before it knew
    that it holds the lease of the pod's node, it has put aside for good.
    """
    nodes = {item["metadata"]["name"] for item in listed(api)}
    pods = api.request("GET", "/api/v1/pods?fieldSelector=spec.nodeName!%3D&resourceVersion=0")["items"]
    waiting = [pod["metadata"] for pod in pods if pod["spec"]["nodeName"] in nodes and _waits(pod)]
    change = {"metadata": {"annotations": {"kwok.x-k8s.io/told-again": str(time.time_ns())}}}
    for meta in waiting:
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        try:
            api.request("PATCH", path, change, "application/merge-patch+json")
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise
    return [f"{meta['namespace']}/{meta['name']}" for meta in waiting]


def _waits(pod: Mapping[str, Any]) -> bool:
    """To be run, or to be deleted where nobody's finalizer is in the way."""
    meta = pod["metadata"]
    if "deletionTimestamp" in meta:
        return not meta.get("finalizers")
    return bool(pod["status"].get("phase") == "Pending")
