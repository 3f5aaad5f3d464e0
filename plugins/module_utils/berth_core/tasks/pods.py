# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A task's pod, reduced to what its life depends on, and the manifest from which it is made. Keeps no manifest."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..model.fields import Object, mapping, objects, string
from ..model.pod import Amounts, requests_of_pod
from ..model.pod_groups import GROUP, MINIMUM
from ..model.times import between
from .filler import FILLER_LABEL, killed_by_its_node, label_of, lowered, read_label
from .gangs import group_name
from .task import BATCH_LABEL, CONTENT_LABEL, INDEX_LABEL, SLOTS, TASK_LABEL, TRY_LABEL, UID_LABEL, Element, Task

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
#: Reasons of a pod's end that are nobody's fault: the try does not count.
DISRUPTIONS = frozenset({"Evicted", "Preempting", "Preempted", "NodeLost", "NodeShutdown", "Terminated", "Shutdown"})
#: A pod that somebody deletes is made again, whether its kubelet was quick enough to tell of its end or not.
DELETED = "Deleted"
_MESSAGE = 512
#: Reasons of a container that waits as every one does when its pod begins.
_BEGINS = frozenset({"", "ContainerCreating", "PodInitializing"})
#: The kubelet says the one and the other in turns.
_SAME = {"ErrImagePull": "ImagePullBackOff"}
#: A kubelet keeps no more of what a container leaves.
MOST_TERMINATION_MESSAGE = 4096


class Details(NamedTuple):
    """What most pods that run have none of: one object for all of those. `exit_code` None: no container tells of one.

    `container`: whose end that is. `reason` and `message`: of its end; of a pod that is Pending, why it does not start.
    `nominated`: the node on which a scheduler makes room for it.
    """

    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    disrupted: bool = False
    termination_message: str = ""
    container: str = ""
    nominated: str = ""


NOTHING = Details()


@dataclass(frozen=True, **SLOTS)
class PodState:
    """One pod of a task. `task_key`: namespace and name of that. `number`: which try.

    `filler`: it reserves nothing of its node; `requests` is what its task asks for.
    """

    name: str
    uid: str
    version: int
    task_key: tuple[str, str]
    task_uid: str
    number: int
    content: str
    phase: str
    node: str
    going: bool
    requests: Amounts
    started: str = ""
    filler: bool = False
    details: Details = NOTHING

    @property
    def namespace(self) -> str:
        return self.task_key[0]

    @property
    def key(self) -> tuple[str, str]:
        return self.task_key[0], self.name

    @property
    def charge(self) -> tuple[str, int]:
        """Under what its account stands."""
        return self.task_uid, self.number

    @property
    def over(self) -> bool:
        """Whether it has ended, so that what it took is free."""
        return self.phase in (SUCCEEDED, FAILED)


def read_pod(pod: Object) -> PodState | None:
    """The state of a pod; None where it is no task's. Raises InputError for what is no pod."""
    meta, status = mapping(pod, "metadata"), mapping(pod, "status")
    labels = mapping(meta, "labels")
    number = str(labels.get(TRY_LABEL) or "")
    if not number.isdecimal() or not labels.get(UID_LABEL):
        return None
    phase = string(status, "phase", "pod.status.phase") or PENDING
    namespace = sys.intern(string(meta, "namespace", "pod.metadata.namespace") or "default")  # very many have it
    filler = FILLER_LABEL in labels
    return PodState(
        name=string(meta, "name", "pod.metadata.name"),
        uid=string(meta, "uid", "pod.metadata.uid"),
        version=int(meta.get("resourceVersion") or 0),
        task_key=(namespace, _task_name(labels)),
        task_uid=str(labels[UID_LABEL]),
        number=int(number),
        content=str(labels.get(CONTENT_LABEL) or ""),
        phase=phase,
        node=string(mapping(pod, "spec"), "nodeName", "pod.spec.nodeName"),
        going=meta.get("deletionTimestamp") is not None,
        requests=read_label(str(labels[FILLER_LABEL])) if filler else requests_of_pod(pod),
        started=str(status.get("startTime") or ""),
        filler=filler,
        details=_details(
            status,
            pending=phase == PENDING,
            disrupted=_disrupted(status) or (filler and killed_by_its_node(mapping(pod, "spec"), status)),
            deleted=phase == FAILED and _deleted_before(meta, status),
        ),
    )


def _details(status: Object, *, pending: bool, disrupted: bool, deleted: bool) -> Details:
    code, reason, message, left, container = _ended(status)
    if deleted and not disrupted:
        reason = DELETED
    if pending:
        reason, message = _not_started(status)
    return Details(
        exit_code=code,
        reason=reason,
        message=message[:_MESSAGE],
        disrupted=disrupted or deleted,
        termination_message=left[:MOST_TERMINATION_MESSAGE],
        container=container,
        nominated=string(status, "nominatedNodeName", "pod.status.nominatedNodeName"),
    )


def _not_started(status: Object) -> tuple[str, str]:
    """Reason and message of the first container that waits for more than its turn, else of the scheduler."""
    for one in (*objects(status, "initContainerStatuses"), *objects(status, "containerStatuses")):
        waiting = mapping(mapping(one, "state"), "waiting")
        reason = str(waiting.get("reason") or "")
        if reason not in _BEGINS:
            return _SAME.get(reason, reason), str(waiting.get("message") or "")
    conditions = (one for one in objects(status, "conditions") if one.get("type") == "PodScheduled")
    why: Object = next((one for one in conditions if one.get("status") == "False"), {})
    return str(why.get("reason") or ""), str(why.get("message") or "")


def _ended(status: Object) -> tuple[int | None, str, str, str, str]:
    """Exit code, reason, message, what it has left, and its name: of the first container that failed, else ended."""
    containers = objects(status, "containerStatuses")
    listed = [*objects(status, "initContainerStatuses"), *containers]
    states = [(str(one.get("name") or ""), mapping(mapping(one, "state"), "terminated")) for one in listed]
    ends = [(name, end) for name, end in states if isinstance(end.get("exitCode"), int)]
    failed = [one for one in ends if one[1]["exitCode"] != 0]
    nothing: tuple[str, Object] = ("", {})
    name, end = (failed or ends or [nothing])[0]
    why = _disruption(status)
    own = str(status.get("reason") or why.get("reason") or "")
    message = str(status.get("message") or why.get("message") or end.get("message") or "")
    last: Object = end if failed or not containers else mapping(mapping(containers[0], "state"), "terminated")
    return end.get("exitCode"), own or str(end.get("reason") or ""), message, str(last.get("message") or ""), name


def _disrupted(status: Object) -> bool:
    return status.get("reason") in DISRUPTIONS or bool(_disruption(status))


def _deleted_before(meta: Object, status: Object) -> bool:
    """Whether somebody has deleted it while its containers ran: the kubelet ended them, and says no more than how.

    Times are of whole seconds. An end in the second of the deletion is taken for its consequence.
    """
    due = meta.get("deletionTimestamp")
    if due is None:
        return False
    listed = (*objects(status, "initContainerStatuses"), *objects(status, "containerStatuses"))
    ends = [str(mapping(mapping(one, "state"), "terminated").get("finishedAt") or "") for one in listed]
    after = [between(str(due), end) for end in ends if end]
    grace = meta.get("deletionGracePeriodSeconds") or 0
    return not after or any(seconds is not None and seconds >= -float(grace) for seconds in after)


def _disruption(status: Object) -> Object:
    """The condition that says who ends the pod and why; empty where nobody does."""
    told = (one for one in objects(status, "conditions") if one.get("type") == "DisruptionTarget")
    return next((one for one in told if one.get("status") == "True"), {})


def element_name(batch: str, index: int) -> str:
    """What an element is called: no Task can have that name."""
    return f"{batch}[{index}]"


def _task_name(labels: Mapping[str, Any]) -> str:
    batch, index = labels.get(BATCH_LABEL), str(labels.get(INDEX_LABEL) or "")
    return element_name(str(batch), int(index)) if batch and index.isdecimal() else str(labels.get(TASK_LABEL) or "")


def pod_name(task: Task, number: int) -> str:
    """The name of a try's pod: always the same, so that no try is made twice, whoever makes it."""
    name = f"{task.element.batch}-{task.element.index}" if task.element else task.name
    return f"{name}-{hashlib.sha256(f'{task.uid}/{number}'.encode()).hexdigest()[:10]}"


def manifest(task: Task, number: int, together: int = 0, fills: str = "") -> dict[str, Any]:
    """The pod of a try. It goes with its Task, or TaskBatch. `together`: of a gang that is bound with so many pods.

    `fills`: the node in whose filler room it runs.
    """
    meta: Mapping[str, Any] = task.template.get("metadata") or {}
    spec = {**(task.template.get("spec") or {}), "restartPolicy": "Never"}
    whose, owner = {TASK_LABEL: task.name}, ("Task", task.name, task.uid)
    if task.element is not None:
        batch = task.element.batch
        whose = {BATCH_LABEL: batch, INDEX_LABEL: str(task.element.index)}
        owner = ("TaskBatch", batch, task.element.batch_uid)
        spec.update(_for_element(task.element, spec))
    if fills:
        spec = lowered(spec, fills)
    own = {name: value for name, value in (meta.get("labels") or {}).items() if name != FILLER_LABEL}
    labels = {
        **own,
        **whose,
        UID_LABEL: task.uid,
        TRY_LABEL: str(number),
        CONTENT_LABEL: task.content,
        **({GROUP: group_name(task), MINIMUM: str(together)} if together else {}),
        **({FILLER_LABEL: label_of(task.requests)} if fills else {}),
    }
    made: dict[str, Any] = {
        "name": pod_name(task, number),
        "namespace": task.namespace,
        "labels": labels,
        "ownerReferences": [_owner(*owner)],
    }
    if meta.get("annotations"):
        made["annotations"] = dict(meta["annotations"])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": spec}


def _owner(kind: str, name: str, uid: str) -> dict[str, Any]:
    return {"apiVersion": "berth.dev/v1alpha1", "kind": kind, "name": name, "uid": uid, "controller": True}


def _for_element(element: Element, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The containers of one element: they know which it is, whatever the template says of these variables."""
    env = dict(element.env) | {"BERTH_TASK_BATCH": element.batch, "BERTH_TASK_INDEX": str(element.index)}
    more = [{"name": name, "value": value} for name, value in env.items()]
    found: dict[str, Any] = {}
    for kind in ("initContainers", "containers"):
        if spec.get(kind):
            found[kind] = [
                {**one, "env": [*(each for each in one.get("env") or () if each.get("name") not in env), *more]}
                for one in spec[kind]
            ]
    if element.args is not None:
        found["containers"][0]["args"] = list(element.args)
    return found
