# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The readiness gate by which a pod leaves its Services before an update in place ends its containers. Pure.

A template that names the gate (``spec.readinessGates``) asks for it. Kubernetes counts such a pod as Ready only while
its status has the condition as True, and writes that condition for nobody: berth-controller does, for the apps that it
carries out. A playbook ends, and then there is nobody who opens the gate of a pod that comes anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from ..errors import InputError
from .helper_pods import going
from .observed import ready
from .pod_revision import not_begun

#: The condition of the pod, and the name of the gate.
GATE = "berth.dev/InService"
#: Conditions of a pod whose containers may still be ended for another size.
RESIZES = ("PodResizePending", "PodResizeInProgress")
Object = Mapping[str, Any]


def gated(thing: Object) -> bool:
    """Whether a pod, or a template, has the gate."""
    gates = (thing.get("spec") or {}).get("readinessGates") or ()
    return any(isinstance(one, Mapping) and one.get("conditionType") == GATE for one in gates)


def refuse_without_controller(template: Object, handed_over: bool, waits: bool) -> None:
    """Raises InputError where a playbook's pods would never be Ready, or the run would wait for that in vain.

    ``handed_over``: its StatefulApp has the gate already, so the controller had it before a playbook, and may have it
    again.
    """
    if not gated(template) or (handed_over and not waits):
        return
    why = f"spec.readinessGates names {GATE}, which berth-controller opens and a playbook does not"
    if handed_over:
        raise InputError(f"{why}: wait: true would wait in vain for a new pod; leave it out of this run")
    raise InputError(
        f"{why}, so that no pod would ever be Ready: set driver: controller, or take the gate out of the template"
    )


def is_open(pod: Object) -> bool:
    return _status(pod) == "True"


def is_shut(pod: Object) -> bool:
    """Whether an update has taken the pod out of its Services. One whose condition nobody has written yet is new."""
    return _status(pod) == "False"


def _status(pod: Object) -> str | None:
    found = (one["status"] for one in _conditions(pod) if one["type"] == GATE)
    return next(found, None)


def _conditions(pod: Object) -> list[Object]:
    return list((pod.get("status") or {}).get("conditions") or ())


def gate_body(pod: Object, opened: bool, now: datetime) -> dict[str, Any]:
    """The JSON merge patch of the subresource ``status``, which has all conditions of the pod: it is bound to the pod
    as seen."""
    told = {
        "type": GATE,
        "status": "True" if opened else "False",
        "reason": "InService" if opened else "Updating",
        "message": "" if opened else "an update is going to end containers of the pod",
        "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    seen = {"uid": pod["metadata"]["uid"], "resourceVersion": pod["metadata"]["resourceVersion"]}
    return {
        "metadata": seen,
        "status": {"conditions": [*(one for one in _conditions(pod) if one["type"] != GATE), told]},
    }


def to_open(pods: Mapping[str, Object], under_way: bool) -> Iterator[Object]:
    """The pods that are waiting for the gate's first opening; where no update is under way any more, also those that
    one has taken out of their Services and that may return."""
    for pod in pods.values():
        if gated(pod) and not going(pod) and (_status(pod) is None or (not under_way and may_return(pod))):
            yield pod


def leaves_first(pod: Object) -> bool:
    """Whether a pod with the gate has to be taken out of its Services before its containers are ended."""
    return is_open(pod) and ready(pod)


def still_serves(pod: Object) -> bool:
    """Whether the kubelet of a pod with the gate has not yet told that the pod is not Ready any more."""
    return is_shut(pod) and ready(pod)


def may_return(pod: Object) -> bool:
    """Whether a pod that is out of its Services has no container left that is going to be ended. Whether the new ones
    are Ready, the kubelet asks beside the gate."""
    resizing = any(one["type"] in RESIZES and one["status"] == "True" for one in _conditions(pod))
    return is_shut(pod) and not resizing and not not_begun(pod)


def ends_by_resize(pod: Object, body: Object) -> bool:
    """Whether a patch of the subresource ``resize`` has a container ended, as the container's ``resizePolicy`` says."""
    live = {one["name"]: one for one in pod["spec"]["containers"]}
    return any(_ended(live[one["name"]], one) for one in body["spec"]["containers"])


def _ended(live: Object, wanted: Object) -> bool:
    policies = {one["resourceName"]: one["restartPolicy"] for one in live.get("resizePolicy") or ()}
    before, after = live.get("resources") or {}, wanted.get("resources") or {}
    for name, policy in policies.items():
        amounts = [[(each.get(kind) or {}).get(name) for kind in ("requests", "limits")] for each in (before, after)]
        if policy == "RestartContainer" and amounts[0] != amounts[1]:
            return True
    return False
