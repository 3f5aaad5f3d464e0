# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which steps a berth is due, as data: by its phase, and by the situation that it is in.

One row for each phase and situation. The steps of a row are asked in order, and the first that has something to do or
to wait for is what next_step says. Most are those of states.py, by their names; the others stand in BESIDE. How each is
made stands in next_step.py. The tests go through all of it, and the page in the docs is made from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from . import way_out
from .states import ABSENT, BOUND, CREATED, RECORDED, RELEASING, REPLACING, RESERVED, RUNNING, SELECTED
from .view import View, going, recorded

WANTED = "wanted"
EXCHANGE = "disk exchanged"
CLAIM_EXCHANGE = "claim's disk exchanged"
ASKED = "asked to go"
GONE = "owner gone"
LOST = "node lost"
LEFT = "node left"
PARTING = "released from berth"
UNREADABLE = "class gone"
#: What may be so of a berth, and what it means. Where several are so, situation_of tells which one decides.
SITUATIONS = {
    WANTED: "the replica or the claim that it is for is there",
    EXCHANGE: "one of its disks is to be exchanged for another one",
    CLAIM_EXCHANGE: "the same, where the disk is a claim's without an app: its Berth goes with the claim",
    ASKED: "its Berth was deleted, and what it is for is there",
    GONE: "what it is for is gone",
    LOST: "its node is lost, that is proven, and somebody asked for another place",
    LEFT: "its replica is to leave a node that is well",
    PARTING: "its replica is to go on as plain Kubernetes, and the Berth does not say so yet",
    UNREADABLE: "the claim is there, and its StorageClass is not: nobody knows what it asks for",
}

#: Steps that are not in states.py, and what they do.
BESIDE = {
    "nothing": "all is done",
    "wait for class": "waits for the StorageClass",
    "hold": "takes a lock that is gone again, where that is safe; else a person has to look",
    "follow": "records Bound, Created or Running when it is reached, and waits until then",
    "keep": "waits: nothing is given up before what the Berth is for is deleted",
    "let be": "waits: who was not asked for this exchange leaves the berth alone",
    "let claim's be": "the same for a claim's berth that was not asked to go: its claim goes in the exchange",
    "finish exchange": "waits: a person ends the exchange first, by deleting the Berth",
    "cordon kept": "the disks on that node that keep the replica's data are given to nobody anew",
    "cordon": "the old disk is given to nobody anew",
    "same exchange": "refuses another exchange than the one that the Berth tells of",
    "not reserved": "no disk is exchanged before it is locked",
    "fit": "refuses a new disk that the claim cannot use",
    "adopt": "declares the new disk, and waits for it",
    "rename": "the Berth tells of the new disk that is asked for now",
    "take off": "the writes of relock up to the old disk's lock",
    "heir": "the claim that was made anew is carried on; once its berth is Reserved, this one is released",
}


class Row(NamedTuple):
    """The steps that are due in one situation, in each of these phases. The last of them always has an answer."""

    situation: str
    phases: tuple[str, ...]
    steps: tuple[str, ...]


_LOCKED = (RESERVED, BOUND, CREATED, RUNNING)

TABLE = (
    Row(WANTED, (ABSENT,), ("select",)),
    Row(WANTED, (SELECTED,), ("reserve",)),
    Row(WANTED, _LOCKED, ("hold", "prebind", "follow")),
    Row(WANTED, (REPLACING,), ("let be",)),
    Row(WANTED, (RELEASING,), ("untie", "vacate", "forget")),
    Row(EXCHANGE, (ABSENT,), ("cordon", "adopt", "nothing")),
    Row(EXCHANGE, (SELECTED,), ("not reserved", "reserve")),
    Row(EXCHANGE, _LOCKED, ("replace", "hold", "prebind", "follow")),
    Row(EXCHANGE, (REPLACING,), ("same exchange", "cordon", "relock")),
    Row(EXCHANGE, (RELEASING,), ("untie", "vacate", "forget")),
    Row(CLAIM_EXCHANGE, (ABSENT,), ("fit", "cordon", "adopt", "heir")),
    Row(CLAIM_EXCHANGE, (SELECTED,), ("fit", "cordon", "not reserved")),
    Row(CLAIM_EXCHANGE, _LOCKED, ("fit", "replace")),
    Row(CLAIM_EXCHANGE, (REPLACING,), ("fit", "cordon", "rename", "take off", "adopt", "heir")),
    Row(CLAIM_EXCHANGE, (RELEASING,), ("fit", "cordon", "untie", "forget")),
    Row(ASKED, (SELECTED,), ("release",)),
    Row(ASKED, (*_LOCKED, REPLACING), ("keep",)),
    Row(ASKED, (RELEASING,), ("untie", "vacate", "forget")),
    Row(GONE, (ABSENT,), ("nothing",)),
    Row(GONE, (SELECTED, *_LOCKED), ("release",)),
    Row(GONE, (REPLACING,), ("let claim's be", "release")),
    Row(GONE, (RELEASING,), ("untie", "forget")),
    Row(LOST, (ABSENT,), ("cordon kept", "select")),
    Row(LOST, (SELECTED, *_LOCKED), ("abandon",)),
    Row(LOST, (REPLACING,), ("finish exchange",)),
    Row(LOST, (RELEASING,), ("untie", "bury", "forget")),
    Row(LEFT, (ABSENT,), ("cordon kept", "select")),
    Row(LEFT, (SELECTED, *_LOCKED), ("leave",)),
    Row(LEFT, (REPLACING,), ("finish exchange",)),
    Row(LEFT, (RELEASING,), ("untie", "vacate", "forget")),
    Row(PARTING, RECORDED, ("part",)),
    Row(UNREADABLE, (ABSENT, *RECORDED), ("wait for class",)),
)

#: The same by phase and situation. A Berth that is not there was neither asked to go nor released from berth.
DUE: Mapping[tuple[str, str], tuple[str, ...]] = {
    (phase, row.situation): row.steps for row in TABLE for phase in row.phases
}


def phase_of(view: View) -> str:
    """The phase that the Berth is in; ABSENT where there is none."""
    return ABSENT if view.berth is None else recorded(view.berth)


def situation_of(view: View) -> str:
    """The one that decides, of all that are so."""
    record, exchange = view.berth, view.exchange
    if view.lost:
        return UNREADABLE
    if exchange is not None and exchange.of is not None:
        return CLAIM_EXCHANGE
    if record is None:
        return _without_berth(view)
    if view.leaves and not way_out.begun(record):
        return PARTING
    if view.loss is not None and view.loss.takes(record):
        return LEFT if view.loss.left else LOST
    if view.owner is None:
        return GONE
    if going(record):
        return ASKED
    return WANTED if exchange is None else EXCHANGE


def _without_berth(view: View) -> str:
    """A disk that is nobody's is made ready to be exchanged, whoever it is for."""
    if view.exchange is not None:
        return EXCHANGE
    if view.owner is None:
        return GONE
    if view.loss is not None:
        return LEFT if view.loss.left else LOST
    return WANTED


def table() -> str:
    """For the documentation: every row, then what its words mean that are not in states.py."""
    lines = ["| situation | phase | steps, the first that is due |", "|---|---|---|"]
    lines += [f"| {row.situation} | {', '.join(row.phases)} | {', '.join(row.steps)} |" for row in TABLE]
    for word, meanings in (("situation", SITUATIONS), ("step that is not in the table of steps", BESIDE)):
        lines += ["", f"| {word} | what it means |", "|---|---|"]
        lines += [f"| {name} | {meaning} |" for name, meaning in meanings.items()]
    return "\n".join(lines) + "\n"
