# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One task and its pods: what is to be done next. The whole life of a task is this question, asked again and again.

The answer depends on nothing but the Task and the snapshot, so that a process may die after any write. What has ended
is recorded in the Task first, and its pod is deleted then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Union

from . import states
from .pods import SUCCEEDED, PodState
from .task import Status, Task


@dataclass(frozen=True)
class Start:
    """Make the pod of this try, as soon as the task's queue may have it."""

    number: int
    event: str = states.START


@dataclass(frozen=True)
class Record:
    """Write the status; `pod`: whose exit code and log are kept with it."""

    status: Status
    pod: PodState | None = None


@dataclass(frozen=True)
class Delete:
    """Delete these pods: what is to be known of them is recorded, or nobody wants it."""

    pods: tuple[PodState, ...]


@dataclass(frozen=True)
class Rest:
    """Nothing, until something changes. `running`: the pod that runs for the task."""

    running: PodState | None = None


Step = Union[Start, Record, Delete, Rest]


def next_step(task: Task, pods: Iterable[PodState]) -> Step:
    """What to do next. `pods`: those of this very Task (by its uid), in any order."""
    mine = sorted((pod for pod in pods if pod.task_uid == task.uid), key=lambda pod: pod.number)
    status = task.status
    if status.final or task.asked.going:
        return _delete(pod for pod in mine if not (_kept(task, pod) and not task.asked.going))
    if task.asked.kill:
        state = states.after(live_state(task, mine), states.KILL)
        return Record(Status(state, _last(mine, status), status.failures, "Killed", "its end was asked for"))
    told = [pod for pod in mine if pod.number <= status.tries]
    if any(not pod.going for pod in told):
        return _delete(told)
    current = [pod for pod in mine if pod.number > status.tries]
    if not current:
        return _start(status.tries + 1)
    return _of_current(task, current)


def live_state(task: Task, pods: Iterable[PodState]) -> str:
    """The state of a task by what is there now, between two writes of its status."""
    if task.status.final:
        return task.status.state
    found = [pod for pod in pods if pod.task_uid == task.uid and pod.number > task.status.tries]
    return states.SUBMITTED if not found else states.UPDATED if len(found) > 1 else states.RUNNING


def goes_with_others(task: Task, pod: PodState) -> bool:
    """Whether its Task's uid says enough to delete the pod: it has ended, and none of the Task stays or is to come."""
    return task.status.final and pod.over and not task.asked.keep_failed_pod


def ended(task: Task, pod: PodState, state: str = states.RUNNING) -> Status:
    """The status after a try's end. Disruptions do not count, and a failure is retried while retries are left."""
    old = task.status
    if pod.phase == SUCCEEDED:
        return Status(states.after(state, states.SUCCEED), pod.number, old.failures, "Completed")
    reason = pod.details.reason or "Failed"
    if pod.details.disrupted:
        words = f"try {pod.number} was disrupted ({reason}), which does not count"
        return Status(states.after(state, states.RETRY), pod.number, old.failures, reason, words)
    failures = old.failures + 1
    words = f"try {pod.number} failed: {pod.details.message or reason}"
    if pod.details.exit_code is not None:
        words = f"try {pod.number} failed with exit code {pod.details.exit_code}"
    again = failures <= task.asked.retries and _worth_a_retry(task, pod)
    event = states.RETRY if again else states.FAIL
    return Status(states.after(state, event), pod.number, failures, reason, words)


def refused(task: Task, number: int, words: str) -> Status:
    """The status where the API server does not take the pod."""
    state = states.after(states.SUBMITTED, states.REFUSE)
    return Status(state, number, task.status.failures, "TemplateRejected", words)


def _of_current(task: Task, current: list[PodState]) -> Step:
    """`current`: pods of tries that have not been recorded; the last one counts, older ones are on their way out."""
    newest, older = current[-1], current[:-1]
    if newest.over:
        return Record(ended(task, newest, states.UPDATED if older else states.RUNNING), newest)
    leaving = [pod for pod in older if not pod.going]
    if leaving:
        return _delete(leaving)
    if newest.content != task.content and not newest.going:
        return _start(newest.number + 1, states.CHANGE)
    return Rest(newest)


@lru_cache(maxsize=256)
def _start(number: int, event: str = states.START) -> Start:
    """Very many tasks wait for the same."""
    return Start(number, event)


def _worth_a_retry(task: Task, pod: PodState) -> bool:
    return not task.asked.retry_codes or pod.details.exit_code in task.asked.retry_codes


def _kept(task: Task, pod: PodState) -> bool:
    """The pod of the failure that a person wants to look at."""
    failed = task.status.state == states.FAILED and pod.number == task.status.tries
    return task.asked.keep_failed_pod and failed and pod.over


def _last(pods: list[PodState], status: Status) -> int:
    return max((pod.number for pod in pods), default=status.tries)


def _delete(pods: Iterable[PodState]) -> Step:
    going = tuple(pod for pod in pods if not pod.going)
    return Delete(going) if going else Rest()
