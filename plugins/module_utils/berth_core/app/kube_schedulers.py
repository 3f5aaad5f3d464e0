# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stock kube-schedulers of a cluster, from the mirrors of their static pods: who is Ready, and with what.

Called by the modules kube_scheduler_info, scheduler and installation_check.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ..config.static_pod import DIGEST, reads
from ..errors import InputError
from .node_agents import is_ready, pod_problem

NAMESPACE = "kube-system"
#: As kubeadm labels them.
LABELS = "component=kube-scheduler,tier=control-plane"


def scheduler_of(pod: Mapping[str, Any]) -> dict[str, Any]:
    """One kube-scheduler. ``configuration``: the digest of what was put in; empty: it reads what it was made with."""
    meta = pod["metadata"]
    ready = is_ready(pod) and not meta.get("deletionTimestamp")
    try:
        version = reads({"kind": "Pod", **pod}).version
    except InputError:  # not made by kubeadm
        version = ""
    return {
        "node": str(pod["spec"].get("nodeName") or ""),
        "name": meta["name"],
        "ready": ready,
        "version": version,
        "configuration": str((meta.get("annotations") or {}).get(DIGEST) or ""),
        "problem": "" if ready else pod_problem(pod),
    }


def asking(pods: Iterable[Mapping[str, Any]], given_back: Collection[str] = ()) -> list[str]:
    """The nodes whose kube-scheduler was told by berth to ask the extender, sorted; but for those in ``given_back``.

    One whose file was written by hand does not tell.
    """
    found = [each for each in map(scheduler_of, pods) if each["configuration"]]
    return sorted({each["node"] for each in found} - {*given_back})


def unready(node: str, found: Mapping[str, Any] | None, configuration: str | None) -> str:
    """Why the kube-scheduler of a node is not what is waited for, as one line; empty when it is."""
    if found is None:
        return f"node {node} has no kube-scheduler"
    if configuration is not None and found["configuration"] != configuration:
        has, wanted = (each or "its own" for each in (found["configuration"], configuration))
        return f"{found['name']} has configuration {has}, not {wanted}"
    return "" if found["ready"] else f"not Ready: {found['problem']}"
