# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One disk of a berth for another one of its node: the writes, and the parts by which people name them.

While it goes on the berth is Replacing, a phase of its own: it keeps all its other locks, and whoever else looks at it
leaves it alone or gives it up with its data kept. Nothing is wiped, and the old disk keeps its data and the name of the
replica that it is of.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Callable

from ..app import claims
from ..app.disk_acts import cordoned_disk
from ..app.manifests import volume_over
from ..app.phase import AVAILABLE
from ..app.replace_plan import check_new
from ..errors import BerthError, LockError
from ..model.resources import BERTH, LOCAL_DISK, POD, PV, PVC
from . import history, left_volumes, states
from .back import told_phase
from .forward import lock_disks
from .locks import disk_holder, holds_disk, unlock_disk
from .owner import Owner
from .recording import record_phase
from .step import CREATE, REMOVE, REPLACE, Ref, Step, Wait, Write, first_due
from .view import Object, View, claim_name, disks_of, going

#: Every part in order, and what it means.
PARTS = {
    "cordon": "the old disk is given to nobody anew",
    "begin": "the berth is Replacing: it keeps its other disks, and nobody else carries it on",
    "stop": "the replica's claim goes, and its pod stops; other replicas run on",
    "unbind": "the volume over the old disk goes; what it pointed at is not touched",
    "release": "the old disk's lock is given up; its data stays on it, in the replica's name",
    "adopt": "the new disk is declared, found by its identity, blank and healthy",
    "assign": "the new disk takes the old one's place in the berth",
    "lock": "the new disk is locked for the berth",
    "bind": "volume and claim are made over the new disk",
    "run": "the replica's pod is Ready on the new disk; the app rebuilds or restores its data",
}


@dataclass(frozen=True)
class OfClaim:
    """The claim ``name``, without an app, whose disk is exchanged.

    ``workload``: the StatefulSet that makes it again. ``pod``: the one that mounts it. ``storage_class``: the object.
    """

    namespace: str
    name: str
    workload: str
    pod: str
    storage_class: Object
    mount_root: str


@dataclass(frozen=True)
class Exchange:
    """``old``: a LocalDisk's name. ``declared``: the LocalDisk of the new one. ``claim``: of the berth that holds or
    held the old one; empty where there is none. ``of``: what is known of a claim without an app; None for a replica."""

    claim: str
    old: str
    declared: Object
    of: OfClaim | None = None

    @property
    def new(self) -> str:
        """The new LocalDisk's name."""
        return str(self.declared["metadata"]["name"])

    def done(self, record: Object) -> bool:
        """Whether the berth has the new disk."""
        return self.new in [each["name"] for each in disks_of(record) if each["claim"] == self.claim]


def not_reserved(record: Object, exchange: Exchange) -> Wait | None:
    """A berth that is only Selected has nothing to be exchanged yet; one that has the new disk goes on."""
    name = record["metadata"]["name"]
    if exchange.of is not None:
        text = f"Berth {name} to be Reserved or given up: its claim is just being bound"
        return Wait("NotReserved", text, on=Ref.of(BERTH, record), part="begin")
    if exchange.done(record):
        return None
    text = f"Berth {name} is Selected, and LocalDisk {exchange.old} is not its own yet: run stateful_app to its end"
    return Wait("NotReserved", f"{text} first; nothing was changed", True, part="begin")


def replace(view: View, record: Object, exchange: Exchange) -> Step | None:
    """-> Replacing; None where the berth has the new disk."""
    if exchange.done(record):
        return None
    entries = {each["claim"]: each["name"] for each in disks_of(record)}
    if entries.get(exchange.claim) != exchange.old:
        has = entries.get(exchange.claim, "no disk")
        text = f"its claim {exchange.claim} has {has}, not LocalDisk {exchange.old}: somebody else has exchanged it"
        return Wait("OtherDisk", text, True)
    told = {"claim": exchange.claim, "from": exchange.old, "to": exchange.new}
    begin = record_phase(record, states.REPLACING, replacing=told)._replace(part="begin")
    return _below_another(view, exchange, record["metadata"]["uid"]) or cordon(view, exchange) or begin


def relock(view: View, record: Object, owner: Owner, exchange: Exchange) -> Step | None:
    """Replacing -> Reserved."""
    onto: Mapping[tuple[str, str], Callable[[], Step | None]] = {
        ("create", "LocalDisk"): lambda: adopt(view, exchange, record["metadata"]["uid"]),
        ("assign", "Berth"): lambda: _assign(record, exchange),
        ("lock", "LocalDisk"): lambda: _lock(view, record, owner),
        ("record", "Berth status"): lambda: record_phase(record, states.RESERVED)._replace(part="bind"),
    }
    return take_off(view, record, exchange) or first_due(states.STEPS["relock"].writes, onto)


def take_off(view: View, record: Object, exchange: Exchange) -> Step | None:
    """The writes of relock that have to do with the old disk: all that there is to do under a Berth that goes with its
    claim."""
    return first_due(states.STEPS["relock"].writes, _OFF, view, record, exchange)


def left_alone(record: Object) -> Wait:
    """Who was not asked to exchange the disk does nothing with a berth that is Replacing."""
    told = (record.get("status") or {}).get("replacing") or {}
    what = f"LocalDisk {told.get('from')} is being exchanged for {told.get('to')}"
    return Wait("Replacing", f"{what}: run disk_replace again to finish it")


def left_to_its_claim(record: Object) -> Wait | None:
    """A claim goes in the course of an exchange of its disk: its Berth is let be until it is asked to go itself."""
    return left_alone(record) if claims.claim_of(record) is not None and not going(record) else None


def other_exchange(record: Object, asked: Exchange) -> Wait | None:
    """Another exchange than the one that the Berth tells of is refused."""
    told = (record.get("status") or {}).get("replacing") or {}
    if not told or (told.get("claim"), told.get("from"), told.get("to")) == (asked.claim, asked.old, asked.new):
        return None
    what = f"LocalDisk {told.get('from')} (claim {told.get('claim')}) is being exchanged for {told.get('to')}"
    return Wait("OtherExchange", f"{what}: finish that first; nothing was changed", True)


def part_of(step: Step) -> str:
    """Which of PARTS a step of this berth belongs to."""
    if isinstance(step, Wait) and step.reason in ("Workload", "Pod"):
        return "run"
    if isinstance(step, Write) and step.resource == BERTH:
        status = step.body.get("status") or {}
        if status.get("phase") in (states.CREATED, states.RUNNING) and not step.part:
            return "run"
    return getattr(step, "part", "") or "bind"


def why_not_adopted(new: Object | None) -> str:
    """What is still missing, for who waits."""
    if new is None:
        return "it is not declared yet"
    status = new.get("status") or {}
    if not status.get("phase"):
        return "the agent of its node has not looked for it yet"
    told = [each for each in status.get("conditions") or () if each.get("status") == "False"]
    why = "; ".join(f"{each['type']}: {each['reason']} {each.get('message', '')}".rstrip() for each in told)
    return f"it is {status['phase']}{': ' + why if why else ''}"


def cordon(view: View, exchange: Exchange) -> Step | None:
    """The old disk is given to nobody anew."""
    old = view.disks.get(exchange.old)
    if old is None or old["spec"].get("unschedulable"):
        return None
    return Write(REPLACE, LOCAL_DISK, cordoned_disk(old, True), f"LocalDisk {exchange.old} is cordoned", "cordon")


def _old_claim(view: View, record: Object, exchange: Exchange) -> Object | None:
    """The claim over the old disk: one that was made anew stays."""
    if exchange.of is not None:
        claim = view.claims.get(exchange.of.name)
        made_for = claim is not None and claims.berth_name(claim["metadata"]["uid"]) == record["metadata"]["name"]
        return claim if made_for else None
    claim = view.claims.get(claim_name(record, exchange.claim))
    before = volume_over(record, exchange.old)
    old = claim is not None and (going(claim) or claim["spec"].get("volumeName") == before)
    return claim if old else None


def _claim_goes(view: View, record: Object, exchange: Exchange) -> Step | None:
    """First: while it is going, no new pod is made, and it goes when the pod has stopped."""
    claim = _old_claim(view, record, exchange)
    if claim is None or going(claim):
        return None
    return Write(REMOVE, PVC, dict(claim), "the claim over the old disk goes", "stop")


def _pod_stops(view: View, record: Object, exchange: Exchange) -> Step | None:
    claim = _old_claim(view, record, exchange)
    if claim is None:
        return None
    pod_name = exchange.of.pod if exchange.of is not None else str(record["metadata"]["name"])
    pod = view.pods.get(pod_name)
    if pod is not None and not going(pod):
        return Write(REMOVE, POD, dict(pod), "the pod on the old disk stops", "stop")
    ref = Ref.of(PVC, claim)
    text = f"pod {ref.namespace}/{pod_name} to stop and its claim {ref.name} to go"
    return Wait("PodGoing", text, on=ref, part="stop")


def _unbind(view: View, record: Object, exchange: Exchange) -> Step | None:
    """The volume over the old disk goes."""
    name = volume_over(record, exchange.old)
    volume = view.volumes.get(name)
    if volume is None:
        return None
    if not going(volume):
        return Write(REMOVE, PV, dict(volume), "the volume over the old disk goes", "unbind")
    return Wait("VolumeGoing", f"volume {name} to go", on=Ref(PV, name), part="unbind")


def _unlock(view: View, record: Object, exchange: Exchange) -> Step | None:
    """The old disk's lock is given up; its data stays in its name."""
    old = view.disks.get(exchange.old)
    if old is None:
        return None
    unlocked = unlock_disk(old, record["metadata"]["uid"], keep_data=True)
    if unlocked is None:
        return None
    text = f"LocalDisk {exchange.old} is given up; its data is kept"
    return Write(REPLACE, LOCAL_DISK, history.carried(unlocked, record), text, "release")


def _old_told(view: View, _record: Object, exchange: Exchange) -> Step | None:
    """The phase of the old disk, which nobody holds any more."""
    old = view.disks.get(exchange.old)
    told = None if old is None or old["spec"].get("claimRef") else told_phase(old)
    return told._replace(part="release") if told is not None else None


def _lock(view: View, record: Object, owner: Owner) -> Step | None:
    """Every lock that the berth is to have is looked at once more, and the phase that follows from it."""
    try:
        lock = lock_disks(view, record, owner)
    except LockError as exc:
        return Wait("LockLost", f"{exc.message}: find out who took it, and run the task again", True, part="lock")
    return lock._replace(part="lock") if lock is not None else None


def adopt(view: View, exchange: Exchange, uid: str | None) -> Step | None:
    """The new disk is declared and waited for, until it can be locked or the Berth of that uid has it. ``uid``: None
    where the old disk is nobody's, and whoever has the new one may keep it."""
    new = view.disks.get(exchange.new)
    if new is None:
        return Write(CREATE, LOCAL_DISK, dict(exchange.declared), f"LocalDisk {exchange.new} is declared", "adopt")
    holder = disk_holder(new)
    if holder and (uid is None or holds_disk(new, uid)):
        return None
    if holder:
        other = ", or name another new disk" if exchange.of is not None else ""
        text = f"LocalDisk {exchange.new} is held by {holder}: find out who took it{other}"
        return Wait("DiskTaken", text, True, part="adopt")
    try:
        check_new(exchange.declared, new)
    except BerthError as exc:
        return Wait("NotTheDisk", exc.message, True, part="adopt")
    left = _below_another(view, exchange, uid or "")
    if left is not None:
        return left
    if (new.get("status") or {}).get("phase") == AVAILABLE:
        return None
    node = exchange.declared["spec"]["nodeName"]
    text = f"the new disk, LocalDisk {exchange.new}: {why_not_adopted(new)}. Put it into node {node}"
    return Wait("NotAdopted", text, on=Ref(LOCAL_DISK, exchange.new), part="adopt")


def _below_another(view: View, exchange: Exchange, uid: str) -> Wait | None:
    """The new disk is below a volume of a berth whose lock was taken off: known before anything is touched."""
    new = view.disks.get(exchange.new)
    left = left_volumes.waits(view, uid, new) if new is not None else None
    return left._replace(part="adopt") if left is not None else None


def _assign(record: Object, exchange: Exchange) -> Step | None:
    """The new disk takes the old one's place."""
    if exchange.done(record):
        return None
    body = copy.deepcopy(dict(record))
    body["spec"]["disks"] = [
        {"claim": each["claim"], "name": exchange.new, "size": each["size"]}
        if each["claim"] == exchange.claim
        else each
        for each in disks_of(record)
    ]
    return Write(REPLACE, BERTH, body, f"LocalDisk {exchange.new} takes the place of {exchange.old}", "assign")


#: How the writes of relock are made that have to do with the old disk; None: it has been.
_OFF: Mapping[tuple[str, str], Callable[[View, Object, Exchange], Step | None]] = {
    ("delete", "PersistentVolumeClaim"): _claim_goes,
    ("delete", "Pod"): _pod_stops,
    ("delete", "PersistentVolume"): _unbind,
    ("unlock", "LocalDisk"): _unlock,
    ("record", "LocalDisk status"): _old_told,
}
