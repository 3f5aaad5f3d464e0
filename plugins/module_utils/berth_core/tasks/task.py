# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Task of the API as a value: what it asks for, how far it is. Read by the daemon and by the modules.

Raises InputError that names the object and the field.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable, NamedTuple

from ..errors import InputError
from ..model.fields import Object, boolean, integer, mapping, metadata, objects, string, string_map
from ..model.names import check_label, is_label, shown
from ..model.pod import Amounts, PodInfo
from ..model.requests import check_requirements
from . import states

GROUP = "berth.dev"
#: Labels of a task's pod: the Task's name and uid, the number of the try, and the digest of the content.
TASK_LABEL, UID_LABEL = f"{GROUP}/task", f"{GROUP}/task-uid"
TRY_LABEL, CONTENT_LABEL = f"{GROUP}/task-try", f"{GROUP}/task-content"
#: The pod of a batch's element has these in place of the Task's name.
BATCH_LABEL, INDEX_LABEL = f"{GROUP}/task-batch", f"{GROUP}/task-index"
DEFAULT_QUEUE = "default"
#: A pod is called by its task and 11 characters more, and is the name of a host.
LONGEST_NAME = 52
MOST_RETRIES = 100
#: Tasks that start together: as many as a batch has open at one time.
LARGEST_GANG = 1_000
#: What modules and programs call a field of the spec, of Tasks and of TaskBatches.
SHARED_FIELDS = {
    "queue": "queue",
    "priority": "priority",
    "retries": "retries",
    "retry_exit_codes": "retryExitCodes",
    "template": "template",
    "gang": "gang",
}
#: For dataclasses of which there are very many values: none has a dict of its own, where Python knows how (3.10).
SLOTS: dict[str, Any] = {"slots": True} if sys.version_info >= (3, 10) else {}
FIELDS = {**SHARED_FIELDS, "keep_failed_pod": "keepFailedPod", "offer": "offer"}


class Gang(NamedTuple):
    """Tasks of which so many start together or not at all. `name`: of the gang, or of the batch that it is."""

    name: str
    least: int


@dataclass(frozen=True, **SLOTS)
class Status:
    """How far a task is. `tries`: how many have ended; `failures`: those of them that count."""

    state: str = states.SUBMITTED
    tries: int = 0
    failures: int = 0
    reason: str = ""
    message: str = ""
    finished: str = ""

    @property
    def final(self) -> bool:
        return self.state in states.FINAL


@dataclass(frozen=True)
class Element:
    """Which part of a TaskBatch a task is. `args`: in place of those of the first container; `env`: of each."""

    batch: str
    batch_uid: str
    index: int
    args: tuple[str, ...] | None = None
    env: tuple[tuple[str, str], ...] = ()


class Asked(NamedTuple):
    """What is asked of a task beside its template: very many have the same, and so one object. `going`: its deletion.

    `retry_codes` empty: every exit code is worth a retry. `offer`: the TaskOffer whose room its first try takes.
    """

    generation: int
    queue: str
    priority: int
    retries: int
    retry_codes: frozenset[int]
    keep_failed_pod: bool
    kill: bool
    going: bool
    gang: Gang | None = None
    offer: str = ""


@dataclass(frozen=True, **SLOTS)
class Task:
    """`key`: namespace and name. `requests`: what one pod of it takes.

    `element`: of a TaskBatch, which has no object of its own in the API; its name is no name of a Task.
    """

    key: tuple[str, str]
    uid: str
    version: int
    created: str
    asked: Asked
    template: Object
    content: str
    requests: Amounts
    status: Status
    element: Element | None = None

    @property
    def namespace(self) -> str:
        return self.key[0]

    @property
    def name(self) -> str:
        return self.key[1]

    @property
    def queue(self) -> str:
        return self.asked.queue

    @property
    def priority(self) -> int:
        return self.asked.priority

    @property
    def gang(self) -> Gang | None:
        return self.asked.gang

    @property
    def gang_key(self) -> str:
        """Which gang it is of: all elements of a batch are of one, and Tasks of one queue that name the same."""
        if self.element is not None:
            return self.element.batch_uid
        return f"{self.namespace}/{self.queue}/{self.gang.name}" if self.gang is not None else ""


def content_of(template: Object) -> str:
    """The digest of what a pod is made from: the same text for the same content, whatever the order of its keys."""
    text = json.dumps(template, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Content(NamedTuple):
    """What pods of a task are made from, its digest, and what one of them takes."""

    template: Object
    digest: str
    requests: Amounts


def read_content(template: Object, where: str) -> Content:
    """Read a template. Raises InputError that names the field."""
    check_metadata(template, f"{where}: spec.template.metadata")
    return Content(template, content_of(template), requests_of(template, where))


def read_task(obj: Object, read: Callable[[Object, str], Content] = read_content) -> Task:
    """Read a Task. `read`: who reads its template, which is most of the work, where very many have the same."""
    namespace, name = metadata(obj, "Task")
    where = f"Task {namespace}/{name}" if namespace else f"Task {name}"
    meta, spec = mapping(obj, "metadata"), mapping(obj, "spec", f"{where}: spec")
    content = read(mapping(spec, "template", f"{where}: spec.template"), where)
    return Task(
        key=(namespace, name),
        uid=string(meta, "uid"),
        version=int(string(meta, "resourceVersion") or 0),
        created=string(meta, "creationTimestamp"),
        asked=_asked(meta, spec, where),
        template=content.template,
        content=content.digest,
        requests=content.requests,
        status=_status(mapping(obj, "status", f"{where}: status"), where),
    )


def _asked(meta: Object, spec: Object, where: str) -> Asked:
    return Asked(
        generation=integer(meta, "generation"),
        queue=string(spec, "queue", f"{where}: spec.queue", DEFAULT_QUEUE),
        priority=integer(spec, "priority", f"{where}: spec.priority"),
        retries=integer(spec, "retries", f"{where}: spec.retries"),
        retry_codes=exit_codes(spec, where),
        keep_failed_pod=boolean(spec, "keepFailedPod", f"{where}: spec.keepFailedPod"),
        kill=boolean(spec, "kill", f"{where}: spec.kill"),
        going=meta.get("deletionTimestamp") is not None,
        gang=_gang(spec, where),
        offer=_offer(spec, where),
    )


def _gang(spec: Object, where: str) -> Gang | None:
    least = least_of_gang(spec, where)
    if least is None:
        return None
    name = string(mapping(spec, "gang"), "name", f"{where}: spec.gang.name")
    if not is_label(name) or len(name) > LONGEST_NAME:
        raise InputError(
            f"{where}: spec.gang.name is {shown(name)}: expected a DNS-1123 label of at most {LONGEST_NAME} characters"
        )
    return Gang(name, least)


def _offer(spec: Object, where: str) -> str:
    name = string(spec, "offer", f"{where}: spec.offer")
    if name and spec.get("gang") is not None:
        raise InputError(
            f"{where}: spec.offer is {shown(name)} and spec.gang is there: an offer is room for one task, and a gang "
            "starts together; leave one of them out"
        )
    return name


def least_of_gang(spec: Object, where: str) -> int | None:
    """How many start together; None where there is no gang."""
    if spec.get("gang") is None:
        return None
    least = integer(mapping(spec, "gang", f"{where}: spec.gang"), "minCount", f"{where}: spec.gang.minCount")
    if not 1 <= least <= LARGEST_GANG:
        raise InputError(f"{where}: spec.gang.minCount is {least}: expected 1 to {LARGEST_GANG}")
    return least


def requests_of(template: Object, where: str) -> Amounts:
    """What a pod of the template takes of a node. Raises InputError that names the field."""
    spec = mapping(template, "spec", f"{where}: spec.template.spec")
    containers = objects(spec, "containers", f"{where}: spec.template.spec.containers")
    if not containers:
        raise InputError(f"{where}: spec.template.spec.containers is empty: expected at least one container")
    for index, one in enumerate(containers):
        path = f"{where}: spec.template.spec.containers[{index}].resources"
        check_requirements(mapping(one, "resources", path), path)
    policy = string(spec, "restartPolicy", f"{where}: spec.template.spec.restartPolicy", "Never")
    if policy != "Never":
        raise InputError(
            f"{where}: spec.template.spec.restartPolicy is {policy!r}: expected Never; a task is tried again by its"
            " retries"
        )
    pod = {"metadata": {"name": "task", "namespace": "task"}, "spec": spec}
    try:
        return PodInfo.from_manifest(pod).requests
    except InputError as exc:
        raise InputError(f"{where}: spec.template.spec cannot be read as a pod's: {exc.message}") from exc


def check_new(name: str, spec: Mapping[str, Any]) -> None:
    """Refuse what no Task can be, before the API server is asked."""
    check_label(name, "name")
    if len(name) > LONGEST_NAME:
        raise InputError(f"name is {name!r}: expected at most {LONGEST_NAME} characters")
    retries = spec.get("retries") or 0
    if not 0 <= retries <= MOST_RETRIES:
        raise InputError(f"retries is {retries}: expected 0 to {MOST_RETRIES}")
    read_task({"metadata": {"name": name}, "spec": spec})


def check_metadata(template: Object, path: str) -> None:
    """The pod has these labels and annotations beside its own: they are read long before the API server sees them."""
    meta = mapping(template, "metadata", path)
    for field in ("labels", "annotations"):
        string_map(meta, field, f"{path}.{field}")


def exit_codes(spec: Object, where: str) -> frozenset[int]:
    found = spec.get("retryExitCodes") or ()
    if any(isinstance(code, bool) or not isinstance(code, int) or not 1 <= code <= 255 for code in found):
        raise InputError(f"{where}: spec.retryExitCodes is {list(found)!r}: expected numbers from 1 to 255")
    return frozenset(found)


def _status(status: Object, where: str) -> Status:
    return Status(
        state=string(status, "state", f"{where}: status.state", states.SUBMITTED),
        tries=integer(status, "tries", f"{where}: status.tries"),
        failures=integer(status, "failures", f"{where}: status.failures"),
        reason=string(status, "reason", f"{where}: status.reason"),
        message=string(status, "message", f"{where}: status.message"),
        finished=string(status, "finishedAt", f"{where}: status.finishedAt"),
    )
