# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The life of a berth, as data: its phases, and the writes of each step in their order. Which step is due when stands
in situations.py.

No other phase is recorded than this table lets follow (recording.py), and the writes of a step are made in its order.
The crash tests cut a process at each of its writes, and the diagram in the docs is made from it. Each write is
idempotent, so a run that dies after any of them is continued by the next run, and two runs of one app help each other
instead of fighting.
"""

from __future__ import annotations

from typing import NamedTuple

SELECTED = "Selected"
RESERVED = "Reserved"
BOUND = "Bound"
CREATED = "Created"
RUNNING = "Running"
#: The way forward, in order.
PHASES = (SELECTED, RESERVED, BOUND, CREATED, RUNNING)
#: One of its disks is being exchanged for another; it keeps its locks, and only who exchanges the disk carries it on.
REPLACING = "Replacing"
#: It is being given up: from here no berth comes back.
RELEASING = "Releasing"
RECORDED = (*PHASES, REPLACING, RELEASING)
#: the berth does not exist
ABSENT = "Absent"

#: What the end of a berth means for the data on its disks: decided once, with the phase Releasing, and recorded.
RETAIN = "Retain"
WIPE = "Wipe"
NOTHING = "Nothing"
#: The replica goes on without a berth: its pod, claims and volumes stay, and its disks keep its data.
LEAVE = "Leave"
OUTCOMES = (RETAIN, WIPE, NOTHING, LEAVE)


class Effect(NamedTuple):
    """One request that changes the cluster. ``each``: once for every such thing of the berth (disk, device, claim)
    or of the app."""

    verb: str
    what: str
    each: str


#: The write by which a berth says that it has come to a phase.
RECORD = Effect("record", "Berth status", "berth")


class Transition(NamedTuple):
    """``also``: other phases in which it may begin."""

    name: str
    source: str
    target: str
    writes: tuple[Effect, ...]
    meaning: str
    also: tuple[str, ...] = ()

    @property
    def sources(self) -> tuple[str, ...]:
        """Every phase in which it may begin."""
        return (self.source, *self.also)


FORWARD = (
    Transition(
        "select",
        ABSENT,
        SELECTED,
        (Effect("create", "Berth", "berth"),),
        "node, disks and devices are chosen and written down; the berth's uid now exists for the locks to carry",
    ),
    Transition(
        "reserve",
        SELECTED,
        RESERVED,
        (
            Effect("lock", "LocalDisk", "disk"),
            Effect("record", "LocalDisk status", "disk"),
            Effect("lock", "LocalDevice", "device"),
            RECORD,
        ),
        "every lock is taken by compare-and-swap; losing one gives the berth up and chooses again. Reserved is "
        "recorded when all replicas of the run have their locks: from then on a disk may carry data",
    ),
    Transition(
        "prebind",
        RESERVED,
        BOUND,
        (
            Effect("create", "PersistentVolume", "disk"),
            Effect("create", "PersistentVolumeClaim", "disk"),
            Effect("create", "ResourceClaim", "device"),
            RECORD,
        ),
        "the claims are tied to the locked disks, so that any scheduler brings the pod to them",
    ),
    Transition(
        "create",
        BOUND,
        CREATED,
        (
            Effect("apply", "Service", "app"),
            Effect("apply", "workload", "app"),
            RECORD,
        ),
        "the StatefulSet (once, for all its ordinals) or the pod is created",
    ),
    Transition(
        "run",
        CREATED,
        RUNNING,
        (RECORD,),
        "the pod is Ready; recorded by whoever waited for it, of a claim's berth by the controller",
    ),
)

#: One disk of a berth for another one of its node. Until the last write the berth keeps all its other locks.
REPLACEMENT = (
    Transition(
        "replace",
        RESERVED,
        REPLACING,
        (Effect("cordon", "LocalDisk", "old disk"), RECORD),
        "the old disk is given to nobody anew, and the berth says which disk is exchanged for which",
        also=(BOUND, CREATED, RUNNING),
    ),
    Transition(
        "relock",
        REPLACING,
        RESERVED,
        (
            Effect("delete", "PersistentVolumeClaim", "old disk"),
            Effect("delete", "Pod", "berth"),
            Effect("delete", "PersistentVolume", "old disk"),
            Effect("unlock", "LocalDisk", "old disk"),
            Effect("record", "LocalDisk status", "old disk"),
            Effect("create", "LocalDisk", "new disk"),
            Effect("assign", "Berth", "berth"),
            Effect("lock", "LocalDisk", "new disk"),
            Effect("record", "LocalDisk status", "new disk"),
            RECORD,
        ),
        "the pod stops, the old disk keeps its data in the replica's name, and the new one takes its place",
    ),
)

#: The way back of a berth whose node is lost, where that is proven and somebody asked for it. Then as every other one.
LOSS = (
    Transition(
        "abandon",
        RESERVED,
        RELEASING,
        (Effect("cordon", "LocalDisk", "disk"), RECORD),
        "its node is lost: its disks are given to nobody anew, this replica among them, and keep its data",
        also=(SELECTED, BOUND, CREATED, RUNNING),
    ),
    Transition(
        "bury",
        RELEASING,
        ABSENT,
        (
            Effect("delete", "PersistentVolumeClaim", "disk"),
            Effect("delete by force", "Pod", "berth"),
            Effect("delete", "ResourceClaim", "device"),
            Effect("delete", "PersistentVolume", "disk"),
            Effect("unlock", "LocalDevice", "device"),
            Effect("unlock", "LocalDisk", "disk"),
            Effect("record", "LocalDisk status", "disk"),
            Effect("delete", "Berth", "berth"),
        ),
        "no kubelet confirms that the pod has ended, so its object goes by force; claims, volumes, locks and record go "
        "as always",
    ),
)

#: The way out: the replica goes on as plain Kubernetes, with the pod, the claims and the volumes that it has.
WAY_OUT = (
    Transition(
        "part",
        BOUND,
        RELEASING,
        (RECORD,),
        "the replica is released from berth: the berth says that it goes, and that claims and volumes stay",
        also=(CREATED, RUNNING),
    ),
    Transition(
        "untie",
        RELEASING,
        ABSENT,
        (
            Effect("untie", "PersistentVolumeClaim", "disk"),
            Effect("untie", "PersistentVolume", "disk"),
            Effect("unlock", "LocalDisk", "disk"),
            Effect("record", "LocalDisk status", "disk"),
            Effect("delete", "Berth", "berth"),
        ),
        "claims and volumes lose berth's labels and its mark, and nothing else; a disk keeps the data for this "
        "ordinal, and names the volume that goes on to use it",
    ),
)

#: The way back of a berth whose replica leaves a node that is well. Then as every other one.
LEAVING = (
    Transition(
        "leave",
        RESERVED,
        RELEASING,
        (Effect("cordon", "LocalDisk", "disk"), RECORD),
        "its replica is to run on another node: its disks are given to nobody anew, and keep its data",
        also=(SELECTED, BOUND, CREATED, RUNNING),
    ),
    Transition(
        "vacate",
        RELEASING,
        ABSENT,
        (
            Effect("delete", "PersistentVolumeClaim", "disk"),
            Effect("delete", "Pod", "berth"),
            *(effect for effect in LOSS[1].writes if effect.what not in ("PersistentVolumeClaim", "Pod")),
        ),
        "the claims are asked to go first, so that no new pod is made of them; the pod is waited for, and locks and "
        "record go as always",
    ),
)

#: No phase but Releasing is recorded on the way back, and the berth itself goes last.
BACKWARD = (
    Transition(
        "stop",
        CREATED,
        BOUND,
        (Effect("scale or delete", "workload", "app"),),
        "the pod is asked to go, and is waited for: a lock is never given up under a living pod",
        also=(RUNNING,),
    ),
    Transition(
        "release",
        BOUND,
        RELEASING,
        (RECORD,),
        "the berth says that it goes, and what becomes of the data: nobody carries it forward any more",
        also=(SELECTED, RESERVED, CREATED, RUNNING, REPLACING),
    ),
    Transition(
        "forget",
        RELEASING,
        ABSENT,
        (
            Effect("delete", "PersistentVolumeClaim", "disk"),
            Effect("delete", "ResourceClaim", "device"),
            Effect("delete", "PersistentVolume", "disk"),
            Effect("unlock", "LocalDevice", "device"),
            Effect("unlock", "LocalDisk", "disk"),
            Effect("record", "LocalDisk status", "disk"),
            Effect("delete", "Berth", "berth"),
        ),
        "claims and volumes go, then the locks, in reverse order; a disk that may carry data stays retained for this "
        "ordinal. The record goes last: a lock without a berth is proof of a stale lock",
    ),
)


#: Every step that there is.
TABLE = (*FORWARD, *REPLACEMENT, *BACKWARD, *LOSS, *LEAVING, *WAY_OUT)
#: By name.
STEPS = {step.name: step for step in TABLE}


def reached(phase: str, goal: str) -> bool:
    """Whether a berth in ``phase`` has passed ``goal``. One whose disk is exchanged is as far as Reserved; one that is
    given up has passed nothing."""
    phase = RESERVED if phase == REPLACING else phase
    return phase in PHASES and PHASES.index(phase) >= PHASES.index(goal)


def may_follow(phase: str, following: str) -> bool:
    """Whether a berth in ``phase`` may be recorded as ``following``: by one step of the table, or by several of the way
    forward, whose last one tells of all."""
    if following in [step.target for step in forward_from(phase)]:
        return True
    return any(following == step.target and phase in step.sources and RECORD in step.writes for step in TABLE)


def forward_from(phase: str) -> tuple[Transition, ...]:
    """What is still to do for a berth in ``phase``, in order; nothing where it is not on the way forward."""
    starts = [index for index, step in enumerate(FORWARD) if step.source == phase]
    return FORWARD[starts[0] :] if starts else ()


def diagram() -> str:
    """The table as a Mermaid state diagram, for the documentation."""
    edges = [(source, step) for step in TABLE for source in step.sources]
    lines = [f"    {_shown(source)} --> {_shown(step.target)}: {step.name}" for source, step in edges]
    return "\n".join(["stateDiagram-v2", *lines]) + "\n"


def _shown(phase: str) -> str:
    """In a diagram: what is not there is where it begins and ends."""
    return "[*]" if phase == ABSENT else phase
