# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The life of a berth, as data. The module that runs it, the crash tests that cut it and the diagram in the docs
read this table.

Every transition lists its writes in order. Each write is idempotent, so a run that dies after any of them is continued
by the next run, and two runs of one app help each other instead of fighting.
"""

from __future__ import annotations

from typing import NamedTuple

SELECTED = "Selected"
RESERVED = "Reserved"
BOUND = "Bound"
CREATED = "Created"
RUNNING = "Running"
PHASES = (SELECTED, RESERVED, BOUND, CREATED, RUNNING)
#: the berth does not exist
ABSENT = "Absent"


class Write(NamedTuple):
    """One request that changes the cluster. ``each``: once for every such thing of the berth (disk, device, claim)
    or of the app."""

    verb: str
    what: str
    each: str


class Transition(NamedTuple):
    name: str
    source: str
    target: str
    writes: tuple[Write, ...]
    meaning: str


FORWARD = (
    Transition(
        "select",
        ABSENT,
        SELECTED,
        (Write("create", "Berth", "berth"),),
        "node, disks and devices are chosen and written down; the berth's uid now exists for the locks to carry",
    ),
    Transition(
        "reserve",
        SELECTED,
        RESERVED,
        (
            Write("lock", "LocalDisk", "disk"),
            Write("lock", "LocalDevice", "device"),
            Write("record", "LocalDisk status", "disk"),
            Write("record", "Berth status", "berth"),
        ),
        "every lock is taken by compare-and-swap; losing one undoes this berth's own locks and chooses again",
    ),
    Transition(
        "prebind",
        RESERVED,
        BOUND,
        (
            Write("create", "PersistentVolume", "disk"),
            Write("create", "PersistentVolumeClaim", "disk"),
            Write("create", "ResourceClaim", "device"),
            Write("record", "Berth status", "berth"),
        ),
        "the claims are tied to the locked disks, so that any scheduler brings the pod to them",
    ),
    Transition(
        "create",
        BOUND,
        CREATED,
        (
            Write("apply", "Service", "app"),
            Write("apply", "workload", "app"),
            Write("record", "Berth status", "berth"),
        ),
        "the StatefulSet (once, for all its ordinals) or the pod is created",
    ),
    Transition(
        "run",
        CREATED,
        RUNNING,
        (Write("record", "Berth status", "berth"),),
        "the pod is Ready; recorded by whoever waited for it",
    ),
)

#: On the way back no phase is recorded: a record never goes back, and the berth itself goes last.
BACKWARD = (
    Transition(
        "stop",
        CREATED,
        BOUND,
        (Write("scale or delete", "workload", "app"),),
        "the pod is asked to go, and is waited for: a lock is never given up under a living pod",
    ),
    Transition(
        "unbind",
        BOUND,
        RESERVED,
        (
            Write("delete", "PersistentVolumeClaim", "disk"),
            Write("delete", "PersistentVolume", "disk"),
            Write("delete", "ResourceClaim", "device"),
        ),
        "claims and volumes go; what they pointed at is not touched",
    ),
    Transition(
        "unreserve",
        RESERVED,
        SELECTED,
        (
            Write("unlock", "LocalDevice", "device"),
            Write("unlock", "LocalDisk", "disk"),
            Write("record", "LocalDisk status", "disk"),
        ),
        "locks are given up in reverse order; a disk that may carry data stays retained for this ordinal",
    ),
    Transition(
        "forget",
        SELECTED,
        ABSENT,
        (Write("delete", "Berth", "berth"),),
        "the record goes last: a lock without a berth is proof of a stale lock",
    ),
)


def reached(phase: str, goal: str) -> bool:
    """Whether a berth in ``phase`` has passed ``goal``."""
    return phase in PHASES and PHASES.index(phase) >= PHASES.index(goal)


def later(one: str, other: str) -> str:
    """The further of two phases; anything unknown counts as the very beginning."""
    return one if reached(one, other) else other


def forward_from(phase: str) -> tuple[Transition, ...]:
    """What is still to do for a berth in ``phase``, in order."""
    start = (
        next(index for index, step in enumerate(FORWARD) if step.source == phase) if phase != RUNNING else len(FORWARD)
    )
    return FORWARD[start:]


def diagram() -> str:
    """The table as a Mermaid state diagram, for the documentation."""
    lines = ["stateDiagram-v2", f"    [*] --> {SELECTED}: {FORWARD[0].name}"]
    lines += [f"    {step.source} --> {step.target}: {step.name}" for step in FORWARD[1:]]
    lines += [f"    {RUNNING} --> {BOUND}: stop"]
    lines += [f"    {step.source} --> {step.target}: {step.name}" for step in BACKWARD[:-1]]
    lines += [f"    {SELECTED} --> [*]: {BACKWARD[-1].name}"]
    return "\n".join(lines) + "\n"
