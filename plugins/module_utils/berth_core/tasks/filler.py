# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filler tasks: what they may be, how their pods reserve nothing, and on which nodes a task of them may run.

How much room there is for them says filler_room.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..model.fields import Object, mapping, objects
from ..model.pod import Amounts, PodInfo
from ..model.requests import CPU, EPHEMERAL, MEMORY
from ..model.taint import Taint, untolerated
from .held import TaskOffer, on_node
from .offers import Wants
from .task import GROUP, Task

#: Of a filler task's pod: what its task asks for, of which the pod itself reserves nothing.
FILLER_LABEL = f"{GROUP}/filler"
#: deploy/tasks makes it: below everything else, and its pods preempt nobody.
PRIORITY_CLASS = "berth-filler"
FILLED = (CPU, MEMORY)
#: Why a task of a filler queue never starts; why none of it starts now.
NOT_FILLER, NO_METRICS = "NotFiller", "NoMetrics"
_OOM = "OOMKilled"


def unfit(wanted: Wants) -> str:
    """Why it cannot be filler work; empty where it can."""
    said = f"and TaskQueue {wanted.namespace}/{wanted.queue} is of filler work"
    if isinstance(wanted, TaskOffer):
        return f"TaskOffer {wanted.namespace}/{wanted.name} holds room, {said}, for which nothing is held: name another"
    if wanted.gang is not None:
        return f"spec.gang is there, {said}, whose tasks are ended one by one: leave it out, or name another queue"
    if isinstance(wanted, Task) and wanted.asked.offer:
        offer = wanted.asked.offer
        return f"spec.offer is {offer!r}, {said}, for which nothing is held: leave it out, or name another queue"
    other = next((name for name, value in wanted.requests if value and name not in FILLED), "")
    if other:
        return f"asks for {other}, {said}, which fills cpu and memory alone: leave it out, or name another queue"
    return ""


# -- pods ----------------------------------------------------------------------------------------------------------


def lowered(spec: Object, node: str) -> dict[str, Any]:
    """The pod's spec without anything that it reserves, below everything else, on just that node.

    Requests of 0 are written down: where they were missing a LimitRange, or a limit, would set them. Limits stay.
    """
    made = {**on_node({"spec": spec}, node)["spec"], "priorityClassName": PRIORITY_CLASS}
    for field in ("priority", "preemptionPolicy"):  # those of the class
        made.pop(field, None)
    for field in ("initContainers", "containers"):
        if made.get(field):
            made[field] = [{**one, "resources": _unreserved(one.get("resources") or {})} for one in made[field]]
    if made.get("resources"):
        made["resources"] = _unreserved(made["resources"])
    return made


def _unreserved(resources: Object) -> dict[str, Any]:
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    none = dict.fromkeys((CPU, MEMORY, *(EPHEMERAL for name in asked if name == EPHEMERAL)), "0")
    return {**resources, "requests": none}


def label_of(requests: Amounts) -> str:
    """What its task asks for, as the value of FILLER_LABEL."""
    return "_".join(f"{name}-{value}" for name, value in requests if name in FILLED) or "nothing"


def read_label(value: str) -> Amounts:
    """What such a label says; nothing of what is none."""
    pairs = (part.partition("-") for part in value.split("_"))
    return tuple(sorted((name, int(text)) for name, _dash, text in pairs if name in FILLED and text.isdecimal()))


def killed_by_its_node(spec: Object, status: Object) -> bool:
    """Whether a container without a memory limit was killed for memory: the node had none left."""
    if mapping(mapping(spec, "resources"), "limits").get(MEMORY):
        return False
    for kind, states in (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")):
        bounded = {
            one.get("name") for one in objects(spec, kind) if mapping(mapping(one, "resources"), "limits").get(MEMORY)
        }
        for one in objects(status, states):
            end = mapping(mapping(one, "state"), "terminated")
            if end.get("reason") == _OOM and one.get("name") not in bounded:
                return True
    return False


# -- nodes ---------------------------------------------------------------------------------------------------------


def may_run(pod: PodInfo, node: str, labels: Mapping[str, str], taints: tuple[Taint, ...]) -> bool:
    """Whether a pod that is sent to just this node finds its way: as of its labels and taints."""
    if pod.node_name not in ("", node) or untolerated(taints, pod.tolerations):
        return False
    if pod.node_selector is not None and not pod.node_selector.matches(labels):
        return False
    return pod.required_affinity is None or pod.required_affinity.matches(labels, node)
