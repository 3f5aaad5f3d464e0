# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carries out what berth_core.lifecycle.next_step says of a replica's berth. Decides nothing.

Called by the flow (reserving, building, release) and by disk_replace. What is refused, because somebody was faster, is
read anew, and next_step is asked again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable

from ...berth_core.app.wanted import OURS
from ...berth_core.errors import ConflictError, NotFoundError, TimeoutExpired
from ...berth_core.lifecycle.back import left_locks, release
from ...berth_core.lifecycle.driving import LOST, STEPS, Driven, Until, berth_of, status_patch
from ...berth_core.lifecycle.history import noted
from ...berth_core.lifecycle.left_volumes import anew, asks_anew
from ...berth_core.lifecycle.next_step import next_step
from ...berth_core.lifecycle.step import CREATE, FORCE, PATCH, REMOVE, STATUS, Look, Ref, Wait, Write
from ...berth_core.lifecycle.view import View, devices_of, disks_of
from ...berth_core.model.resources import BERTH, LOCAL_DEVICE, LOCAL_DISK, NAMESPACE, PV
from ...berth_core.model.tenant import Tenant
from ..acting import now
from ..base import Context
from ..objects import poll
from . import wait

Object = dict[str, Any]


class Driver:
    """``seconds``: how long one object is waited for that was asked to go. ``progress`` is told of each wait."""

    def __init__(self, context: Context, progress: Callable[[str], None], seconds: float) -> None:
        self._context, self._client = context, context.client
        self._progress, self._seconds = progress, seconds

    def drive(self, view: View, until: Until = lambda _view, _step: False) -> Driven:
        """Write until there is a choice to be made, or something to be waited for that does not go by itself.

        Raises ConflictError where somebody writes without pause, TimeoutExpired.
        """
        done: list[Write] = []
        fresh = False
        for _number in range(STEPS):
            step = next_step(view)
            if isinstance(step, Wait) and step.reason in LOST and not fresh:
                view, fresh = self._locks_anew(view), True  # another run may have locked since they were read
                continue
            if until(view, step):
                return Driven(view, step, done, True)
            if isinstance(step, Write):
                view, accepted = self._write(view, step)
                done += [step] if accepted else []
            elif isinstance(step, Look):
                found = self._client.find(NAMESPACE, step.namespace)
                view = replace(view, tenant=Tenant.in_namespace(found))
            elif isinstance(step, Wait) and step.on is not None:
                view = self._await(view, step)
            else:
                return Driven(view, step, done)
        raise ConflictError(
            f"berth {view.key} changed before the write {STEPS} times in a row: somebody writes it without pause",
            409,
            "Conflict",
        )

    def _write(self, view: View, step: Write) -> tuple[View, bool]:
        """The view after one write, or after a new look where somebody was faster."""
        try:
            answer = self._send(view, step)
        except (ConflictError, NotFoundError):
            return self._read_anew(view, step), False
        if answer is None:
            return view.lacking(step.resource, step.ref.name), True
        return view.having(step.resource, answer), True

    def give_up(self, view: View, why: str) -> None:
        """Undo a berth that this run made and does not carry further.

        Nothing is done where another run of the same app has changed it since: it is theirs to carry on.
        """
        record = view.berth
        if record is None:
            return
        step = release(view, record, why)
        try:
            view = view.having(BERTH, self._send(view, step) or record)
        except ConflictError:
            return
        except NotFoundError:  # gone already: what it had locked must go too
            self._read_anew(view, step)
            return
        self.drive(replace(view, owner=None))

    def _send(self, view: View, step: Write) -> Object | None:
        """The object as it was answered; None: it is gone. Of a berth's change who made it is written with it."""
        if step.resource == BERTH and step.do != REMOVE:
            step = noted(step, berth_of(view, step), self._context.actor, now())
        client, ref, body = self._client, step.ref, step.body
        if step.do == REMOVE:
            client.delete(*ref, uid=body["metadata"]["uid"])
            if step.resource == BERTH and body["metadata"].get("finalizers"):
                return client.find(*ref)  # a claim's: its finalizer is taken off next, by compare-and-swap
            # Who has finalizers is going, and is looked at again before anything is done that needs it gone.
            going = {**body, "metadata": {**body["metadata"], "deletionTimestamp": "now"}}
            return going if body["metadata"].get("finalizers") else None
        if step.do == FORCE:
            client.delete(*ref, uid=body["metadata"]["uid"], grace=0)
            return client.find(*ref) if body["metadata"].get("finalizers") else None
        if step.do == CREATE:
            return client.create(step.resource, body)
        if step.do == PATCH:
            return client.patch(*ref, body)
        if step.do == STATUS:
            return client.patch(*ref, status_patch(view, step), "status")
        return client.replace(step.resource, body)

    def _read_anew(self, view: View, step: Write) -> View:
        """What the step wrote, and the berth. A berth that went, or was made anew, leaves none of its locks behind."""
        before = view.records()
        if asks_anew(step.ref):  # before the disk: a lock that came meanwhile is seen with its volume
            view = anew(view, step.ref.name, self._client.list(PV, labels=OURS))
        view = self.look(view, step.ref)
        for record in before:
            name = record["metadata"]["name"]
            if (step.resource, step.ref.name) != (BERTH, name):
                view = self.look(view, Ref.of(BERTH, record))
            now = next((one for one in view.records() if one["metadata"]["name"] == name), None)
            if now is not None and now["metadata"]["uid"] == record["metadata"]["uid"]:
                continue
            for left in left_locks(view, record, now):
                view = self._freed(view, left)
            view = view.lacking(BERTH, name)
        return view

    def _freed(self, view: View, left: Write) -> View:
        try:
            return view.having(left.resource, self._client.replace(left.resource, left.body))
        except (ConflictError, NotFoundError):
            return self.look(view, left.ref)  # somebody has touched it since: it is theirs

    def _locks_anew(self, view: View) -> View:
        for record in view.records():
            for entry in disks_of(record):
                view = self.look(view, Ref(LOCAL_DISK, entry["name"]))
            for entry in devices_of(record):
                view = self.look(view, Ref(LOCAL_DEVICE, entry["name"]))
        return view

    def look(self, view: View, ref: Ref) -> View:
        """The view with that object as it is now."""
        found = self._client.find(*ref)
        return view.lacking(ref.resource, ref.name) if found is None else view.having(ref.resource, found)

    def _await(self, view: View, step: Wait) -> View:
        """Until the object that the step names has changed as it asks."""
        ref = step.on
        if ref is None:
            raise AssertionError("the caller has looked")
        latest = {"view": view}

        def changed() -> bool | None:
            latest["view"] = self.look(view, ref)
            now = next_step(latest["view"])
            return True if not isinstance(now, Wait) or (now.reason, now.on) != (step.reason, ref) else None

        if changed() is None:
            self._progress(f"waiting for {step.message}")
            if not poll(changed, self._seconds, most=1.0):
                raise self._late(step, latest["view"])
        return latest["view"]

    def _late(self, step: Wait, view: View) -> TimeoutExpired:
        ref = step.on
        now = next_step(view)
        message = now.message if isinstance(now, Wait) else step.message
        if ref is not None and step.reason.endswith("Going"):
            found = self._client.find(*ref)
            told = wait.objects_gone(ref.resource.kind, [ref.name])({ref.name: found} if found else {})
            message = f"{message}; still missing: {'; '.join(told)}"
        return TimeoutExpired(f"waited {self._seconds:g} s: {message}; run the task again to go on", changed=True)
