# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The life of a task, as data: its states, and what each event makes of each of them.

What a try's end, a refusal and a kill make of a task next_step.py looks up here. The other events are pods that come
and go: it reads the state from those that are there, and tests hold that no step leaves the rows of this table. The
diagram in the docs is made from it. What is not in the table changes nothing: events come twice, late, out of order.
"""

from __future__ import annotations

from typing import NamedTuple

SUBMITTED = "Submitted"
RUNNING = "Running"
UPDATED = "Updated"
SUCCEEDED = "Succeeded"
FAILED = "Failed"
KILLED = "Killed"
STATES = (SUBMITTED, RUNNING, UPDATED, SUCCEEDED, FAILED, KILLED)
#: From here no task comes back.
FINAL = (SUCCEEDED, FAILED, KILLED)

START = "start"
CHANGE = "change"
OLD_POD_ENDED = "old-pod-ended"
LOSE = "lose"
SUCCEED = "succeed"
RETRY = "retry"
FAIL = "fail"
REFUSE = "refuse"
KILL = "kill"
EVENTS = (START, CHANGE, OLD_POD_ENDED, LOSE, SUCCEED, RETRY, FAIL, REFUSE, KILL)


class Transition(NamedTuple):
    """One row."""

    source: str
    event: str
    target: str
    meaning: str


TABLE = (
    Transition(SUBMITTED, START, RUNNING, "its queue may have what it asks for: a pod is made, the amount is taken"),
    Transition(SUBMITTED, REFUSE, FAILED, "the API server refuses the template; field and cause stand in the message"),
    Transition(SUBMITTED, KILL, KILLED, "nothing has run"),
    Transition(RUNNING, CHANGE, UPDATED, "submitted again with other content: a new pod takes over, the old one goes"),
    Transition(RUNNING, REFUSE, FAILED, "the API server refuses the new template; the pod goes"),
    Transition(RUNNING, LOSE, SUBMITTED, "its pod vanished: the same try is made once more, and none is counted"),
    Transition(RUNNING, SUCCEED, SUCCEEDED, "exit code and log are kept, the amount is given back, the pod goes"),
    Transition(RUNNING, RETRY, SUBMITTED, "the try has failed and another one is left, or it was disrupted"),
    Transition(RUNNING, FAIL, FAILED, "the try has failed and none is left; the pod goes unless it is to be kept"),
    Transition(RUNNING, KILL, KILLED, "the pod goes"),
    Transition(UPDATED, OLD_POD_ENDED, RUNNING, "the old pod's amount is given back, however it ended"),
    Transition(UPDATED, SUCCEED, SUCCEEDED, "the new pod was done before the old one was gone; both go"),
    Transition(UPDATED, RETRY, SUBMITTED, "the new pod's try has failed and another one is left"),
    Transition(UPDATED, FAIL, FAILED, "the new pod's try has failed and none is left"),
    Transition(UPDATED, LOSE, RUNNING, "the new pod vanished while the old one is there; the change is made anew"),
    Transition(UPDATED, REFUSE, FAILED, "the API server refuses a template that came while both are there; both go"),
    Transition(UPDATED, KILL, KILLED, "both pods go"),
)
_NEXT = {(row.source, row.event): row.target for row in TABLE}


def after(state: str, event: str) -> str:
    """The state that follows; the same one where the event means nothing there."""
    return _NEXT.get((state, event), state)


def diagram() -> str:
    """The table as a Mermaid state diagram, for the documentation."""
    lines = ["stateDiagram-v2", f"    [*] --> {SUBMITTED}: submit"]
    lines += [f"    {row.source} --> {row.target}: {row.event}" for row in TABLE]
    lines += [f"    {state} --> [*]" for state in FINAL]
    return "\n".join(lines) + "\n"


def table() -> str:
    """The same as a table of Markdown."""
    rows = ["| from | event | to | what it means |", "|---|---|---|---|"]
    rows += [f"| {row.source} | {row.event} | {row.target} | {row.meaning} |" for row in TABLE]
    return "\n".join(rows) + "\n"
