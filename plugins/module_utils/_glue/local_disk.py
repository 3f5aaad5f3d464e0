# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module local_disk: LocalDisks as declared, and what their host reports; one LIST, and no write without need.

Called by plugins/modules/local_disk.py and plugins/action/local_disk.py. What may change is decided in
berth_core.app.disk_change, the status in disk_status; every write is a compare-and-swap, a lost one is decided again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple

from ..berth_core.app.disk_acts import cordoned_disk, released_disk
from ..berth_core.app.disk_change import (
    changed_disk,
    check_delete,
    merge_refusals,
    new_disk,
)
from ..berth_core.app.disk_status import beside_others, disk_status
from ..berth_core.errors import BerthError, ConflictError, NotFoundError
from ..berth_core.model.resources import BERTH, LOCAL_DISK
from .base import Context, Operation
from .client import ApiClient
from .disk_options import DISK, SETTINGS, WIPE
from .local_disk_items import read_elsewhere, read_items, read_live, refuse_contradiction
from .local_disk_wipe import run_wipe

#: How often a lost compare-and-swap is decided again; each time somebody else has got on.
_ATTEMPTS = 8


class Step(NamedTuple):
    """One LocalDisk: what is there (``before``, None: nothing), what should be (``after``, None: nothing)."""

    name: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None

    def action(self) -> str:
        """created, updated, observed (the status alone), deleted, unchanged."""
        if self.before is None:
            return "created" if self.after is not None else "unchanged"
        if self.after is None:
            return "deleted"
        if not _same_declaration(self.before, self.after):
            return "updated"
        return "unchanged" if self.before.get("status") == self.after.get("status") else "observed"


Decide = Callable[["dict[str, Any] | None"], Step]


def run(context: Context) -> dict[str, Any]:
    """Decide on every disk, and only when none is refused write anything."""
    if context.params["wipe"]:
        return run_wipe(context)
    items = read_items(context.params)
    refuse_contradiction(context.params["state"], items)
    live = read_live(context, items)
    if context.params["state"] in ("present", "reserved"):
        live.update(read_elsewhere(context, items, live))
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    state, force = context.params["state"], bool(context.params["force_retained"])

    def decide(name: str, item: Mapping[str, Any], there: dict[str, Any] | None) -> Step:
        if state == "absent":
            return _decide_absent(name, there, force)
        if state == "released":
            return _decide_released(context.client, name, there, force)
        wanted = {**item, "reserved": True} if state == "reserved" else item
        return _decide_present(name, wanted, there, now, context.params["cordon"])

    steps = _decide_all(items, live, decide)
    done = []
    for step, (name, item) in zip(steps, items.items()):
        if not context.check_mode:
            step = _write(context.client, step, lambda there, n=name, i=item: decide(n, i, there))  # type: ignore[misc]
        done.append(step)
    return _result(done)


def _decide_all(
    items: Mapping[str, Mapping[str, Any]],
    live: Mapping[str, dict[str, Any]],
    decide: Callable[[str, Mapping[str, Any], dict[str, Any] | None], Step],
) -> list[Step]:
    """All decisions; every refusal is told, not the first alone."""

    def attempt(name: str, item: Mapping[str, Any]) -> Step | BerthError:
        try:
            return decide(name, item, live.get(name))
        except BerthError as exc:
            return exc

    decided = [attempt(name, item) for name, item in items.items()]
    refused = [each for each in decided if isinstance(each, BerthError)]
    if len(refused) == 1:
        raise refused[0]
    if refused:
        raise type(refused[0])(merge_refusals(refused), refusals=[each.message for each in refused])
    return [each for each in decided if isinstance(each, Step)]


def _decide_present(
    name: str, item: Mapping[str, Any], there: dict[str, Any] | None, now: str, cordon: bool | None
) -> Step:
    where = f"LocalDisk {name}"
    after = new_disk({**item, "name": name}, where) if there is None else changed_disk(there, item, where)
    after = cordoned_disk(after, cordon)
    if item.get("observed") is not None:
        made = disk_status(after, item["observed"], now)
        after["status"] = beside_others(after.get("status") or {}, made)
    return Step(name, there, after)


def _decide_released(client: ApiClient, name: str, there: dict[str, Any] | None, forget: bool) -> Step:
    if there is None:
        raise NotFoundError(
            f"LocalDisk {name}: there is no such LocalDisk, so there is nothing to release", 404, "NotFound"
        )
    ref = there["spec"].get("claimRef")
    berth = client.find(BERTH, ref["name"], ref["namespace"]) if ref else None
    lives = berth is not None and ref is not None and berth["metadata"]["uid"] == ref["uid"]
    return Step(name, there, released_disk(there, lives, forget))


def _decide_absent(name: str, there: dict[str, Any] | None, force: bool) -> Step:
    if there is not None:
        check_delete(there, force)
    return Step(name, there, None)


def _write(client: ApiClient, step: Step, decide: Decide) -> Step:
    """Carry a step out. Whoever wrote in between has changed what is there: read it, decide again."""
    created = step.before is None
    for _attempt in range(_ATTEMPTS - 1):
        try:
            step = _write_once(client, step)
            return step._replace(before=None) if created else step
        except ConflictError:  # noqa: PERF203 - the retry is the loop
            step = decide(client.find(LOCAL_DISK, step.name))
    return _write_once(client, step)


def _write_once(client: ApiClient, step: Step) -> Step:
    before, after = step.before, step.after
    if after is None:
        if before is not None:
            _delete(client, before)
        return step
    status = after.get("status")
    stored = before
    if before is None:
        stored = client.create(LOCAL_DISK, {key: value for key, value in after.items() if key != "status"})
    elif not _same_declaration(before, after):
        stored = client.replace(LOCAL_DISK, after)
    if stored is not None and status is not None and stored.get("status") != status:
        stored = client.replace(LOCAL_DISK, {**stored, "status": status}, subresource="status")
    return step._replace(after=stored)


def _delete(client: ApiClient, disk: Mapping[str, Any]) -> None:
    """What keeps data is deleted by nobody (policy berth-disks): first it is forgotten whose it is."""
    if disk["spec"].get("retainedFor"):
        spec = {key: value for key, value in disk["spec"].items() if key != "retainedFor"}
        disk = client.replace(LOCAL_DISK, {**disk, "spec": spec})
    meta = disk["metadata"]
    client.delete(LOCAL_DISK, meta["name"], uid=meta["uid"], version=meta["resourceVersion"])


def _same_declaration(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    labels = [(each.get("metadata") or {}).get("labels") or {} for each in (before, after)]
    return bool(before["spec"] == after["spec"] and labels[0] == labels[1])


def _result(steps: Sequence[Step]) -> dict[str, Any]:
    actions = {step.name: step.action() for step in steps}
    return {
        "changed": any(action != "unchanged" for action in actions.values()),
        "actions": actions,
        "local_disks": [readable(step.after) for step in steps if step.after is not None],
        "diff": [_diff(step) for step in steps if actions[step.name] != "unchanged"],
    }


def readable(disk: Mapping[str, Any]) -> dict[str, Any]:
    """The object without managedFields: longer than all the rest, and nobody's business."""
    metadata = {key: value for key, value in disk["metadata"].items() if key != "managedFields"}
    return {**disk, "metadata": metadata}


def _diff(step: Step) -> dict[str, Any]:
    header = f"LocalDisk {step.name}"
    return {"before_header": header, "after_header": header, "before": _shown(step.before), "after": _shown(step.after)}


def _shown(disk: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a person wants to see of a disk: no bookkeeping of the server, no times."""
    if disk is None:
        return {}
    shown: dict[str, Any] = {"spec": disk["spec"]}
    if disk["metadata"].get("labels"):
        shown["labels"] = disk["metadata"]["labels"]
    status = copy.deepcopy(disk.get("status") or {})
    for condition in status.get("conditions") or ():
        condition.pop("lastTransitionTime", None)
    return {**shown, "status": status} if status else shown


OPERATION = Operation(
    name="local_disk",
    options={
        "state": {"type": "str", "choices": ["present", "absent", "reserved", "released"], "default": "present"},
        **DISK,
        "disks": {"type": "list", "elements": "dict", "options": DISK},
        "force_retained": {"type": "bool", "default": False},
        "cordon": {"type": "bool"},
        "wipe": {"type": "dict", "options": WIPE},
        "wait": {"type": "bool", "default": True},
        "wait_timeout": {"type": "int", "default": 3600},
    },
    run=run,
    mutually_exclusive=(
        *((option, "disks") for option in DISK if option != "node_name"),
        *(("wipe", option) for option in ("disks", "cordon", "observed", *SETTINGS)),
    ),
    required_one_of=(("name", "identity", "disks"),),
)
