# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who changed a berth, when, why, from what to what: noted in the very write that makes the change, and bounded.

Drivers pass each write through `noted`. A change of the status is told in ``status.history``, one of the spec in an
annotation, as one request cannot write both. When a disk is given up, what is known by then goes to it with its lock
(`carried`), and stays as long as the disk keeps the replica's data (docs/decisions/0042). Who reads trusts nothing.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..model.resources import BERTH
from . import states
from .step import CREATE, REPLACE, STATUS, Write
from .view import Object, disks_of, recorded

#: Entries that are kept of each list: the latest. Also maxItems in deploy/crds/berths.berth.dev.yaml.
MOST = 20
#: JSON list of entries: on a Berth the changes of its spec, on a LocalDisk what its berths were.
ANNOTATION = "berth.dev/history"
#: Characters of each field of an entry; longer ones are cut. Also maxLength in the schema.
LENGTHS = {"time": 32, "from": 128, "to": 128, "why": 256}
#: Likewise of ``by``.
WHO = {"component": 64, "user": 256, "playbook": 128, "task": 128, "host": 128, "commit": 64}
#: A text that is longer was not written by berth, and is not read.
_LARGEST = 256 * 1024

Entry = dict[str, Any]


class Actor(NamedTuple):
    """Who acts. ``component``: the module or daemon; ``user``: of the API; ``host``: where Ansible ran.

    ``commit``: of the playbook's folder. What is not known is empty. Holds nothing secret.
    """

    component: str
    user: str = ""
    playbook: str = ""
    task: str = ""
    host: str = ""
    commit: str = ""


def noted(write: Write, before: Object | None, actor: Actor, time: str) -> Write:
    """The same write with the entry that tells of it; unchanged where it changes no berth.

    ``before``: the Berth as it was read. ``time``: RFC 3339.
    """
    if write.resource != BERTH or write.do not in (CREATE, STATUS, REPLACE):
        return write
    change = _change(write, before)
    if change is None:
        return write
    told = {key: value for key, value in change._asdict().items() if value}
    entry = _clean({"time": time, "by": actor._asdict(), "from": told.pop("before", ""), **told})
    body = copy.deepcopy(write.body)
    if write.do == STATUS:
        body["status"]["history"] = append(read_list((body["status"] or {}).get("history")), entry)
    else:
        _annotate(body, append(_of_annotation(body), entry))
    return write._replace(body=body)


def tells(record: Object, to: str, why: str) -> bool:
    """Whether the Berth tells of that already; the two together name the occasion."""
    sought = (cut(to, LENGTHS["to"]), cut(why, LENGTHS["why"]))
    return any((one.get("to"), one.get("why")) == sought for one in _of_annotation(record))


def remarked(record: Object, to: str, why: str, actor: Actor, time: str) -> dict[str, Any]:
    """The Berth with an entry about what is done to its pod: no change of its own, so a write of its own."""
    body = copy.deepcopy(dict(record))
    _annotate(body, append(_of_annotation(record), _clean({"time": time, "by": actor._asdict(), "to": to, "why": why})))
    return body


def append(entries: Sequence[Entry], entry: Entry) -> list[Entry]:
    """The entries and one more, the latest last, at most MOST. The same change again by the same actor is counted."""
    last = entries[-1] if entries else {}
    if last and _but_when(last) == _but_when(entry):
        again = {**last, "time": entry["time"], "count": int(last.get("count", 1)) + 1}
        return [*entries[:-1], again][-MOST:]
    return [*entries, entry][-MOST:]


def carried(disk: dict[str, Any], record: Object) -> dict[str, Any]:
    """The unlocked disk; where it keeps the replica's data, with the history of the berth that gives it up."""
    if "retainedFor" not in disk["spec"]:
        return disk
    changed = copy.deepcopy(disk)
    _annotate(changed, merged([_of_annotation(disk), of_berth(record)])[-MOST:])
    return changed


def dropped(disk: dict[str, Any]) -> None:
    """Take the history off a disk that is locked anew and kept nobody's data: it was another's."""
    annotations = disk["metadata"].get("annotations") or {}
    if ANNOTATION in annotations:
        disk["metadata"]["annotations"] = {key: value for key, value in annotations.items() if key != ANNOTATION}


def of_berth(record: Object) -> list[Entry]:
    """The history that a Berth tells, the latest last."""
    return merged([_of_annotation(record), read_list((record.get("status") or {}).get("history"))])


def of_disk(disk: Object) -> list[Entry]:
    """The history that a LocalDisk tells of the replica that holds it, or whose data it keeps."""
    return _of_annotation(disk) if disk["spec"].get("claimRef") or disk["spec"].get("retainedFor") else []


def merged(lists: Iterable[Sequence[Entry]]) -> list[Entry]:
    """Several histories as one, by time; what more than one of them tells is told once."""
    found: list[Entry] = []
    for entries in lists:
        found += [entry for entry in entries if entry not in found]
    return sorted(found, key=lambda entry: str(entry["time"]))


def read_list(value: Any) -> list[Entry]:
    """What of a value of the API are entries, each with its fields cut and without control characters."""
    if not isinstance(value, (list, tuple)):
        return []
    entries = [_clean(one) for one in value[-MOST:] if isinstance(one, Mapping)]
    return [entry for entry in entries if entry["time"]]


class _Change(NamedTuple):
    before: str
    to: str
    why: str


def _change(write: Write, before: Object | None) -> _Change | None:
    if write.do == CREATE or before is None:
        return _Change(states.ABSENT, states.SELECTED, write.why) if write.do == CREATE else None
    if write.do == STATUS:
        was, now = recorded(before), recorded(write.body)
        return _Change(was, now, _reason(write, now)) if was != now else None
    was, now = (str(one["spec"].get("revision") or "") for one in (before, write.body))
    if was != now:
        return _Change(f"revision {was}" if was else "", f"revision {now}", write.why)
    has, gets = (", ".join(each["name"] for each in disks_of(one)) for one in (before, write.body))
    return _Change(has, gets, write.why) if has != gets else None


def _reason(write: Write, phase: str) -> str:
    """Why it changes phase, where that is more than that the step before was done."""
    status = write.body["status"]
    if phase == states.REPLACING:
        told = status.get("replacing") or {}
        return f"LocalDisk {told.get('from')} is exchanged for {told.get('to')} (claim {told.get('claim')})"
    if phase == states.RELEASING:
        return f"{write.why}; data: {status.get('release')}"
    return "" if write.why == f"phase {phase}" else write.why


def _of_annotation(thing: Object) -> list[Entry]:
    text = (thing["metadata"].get("annotations") or {}).get(ANNOTATION)
    if not isinstance(text, str) or len(text) > _LARGEST:
        return []
    try:
        return read_list(json.loads(text))
    except (ValueError, RecursionError):
        return []


def _annotate(thing: dict[str, Any], entries: Sequence[Entry]) -> None:
    if entries:
        text = json.dumps(list(entries), separators=(",", ":"), sort_keys=True)
        thing["metadata"]["annotations"] = {**(thing["metadata"].get("annotations") or {}), ANNOTATION: text}


def _but_when(entry: Entry) -> Entry:
    return {key: value for key, value in entry.items() if key not in ("time", "count")}


def _clean(entry: Mapping[str, Any]) -> Entry:
    """An entry with the fields that it may have, each cut; those that are empty are left out, but for time and by."""
    said = entry.get("by")
    who = {key: cut(said.get(key), most) for key, most in WHO.items()} if isinstance(said, Mapping) else {}
    found: Entry = {key: cut(entry.get(key), most) for key, most in LENGTHS.items()}
    kept = {key: value for key, value in found.items() if value or key == "time"}
    count = entry.get("count")
    if isinstance(count, int) and not isinstance(count, bool) and 1 < count < 2**31:
        kept["count"] = count
    return {**kept, "by": {key: value for key, value in who.items() if value}}


def cut(value: Any, most: int) -> str:
    """A text on one line, of at most so many characters, without anything that a terminal would obey."""
    if not isinstance(value, str):
        return ""
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in value[: 4 * most]).split())
    return text if len(text) <= most else text[: most - 1] + "…"
