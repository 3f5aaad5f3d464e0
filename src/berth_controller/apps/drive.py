"""Carries out what berth_core.lifecycle.next_step says of a replica's berth. Decides nothing, and waits for nothing.

Called by reserving, releasing and building. What is refused, because somebody was faster, is read anew, and next_step
is asked again.
"""

from __future__ import annotations

from dataclasses import replace

from berth_core.app.wanted import OURS
from berth_core.errors import ConflictError, NotFoundError
from berth_core.lifecycle.back import left_locks
from berth_core.lifecycle.driving import LOST, STEPS, Driven, Until, berth_of, status_patch
from berth_core.lifecycle.history import noted
from berth_core.lifecycle.left_volumes import anew, asks_anew
from berth_core.lifecycle.next_step import next_step
from berth_core.lifecycle.step import CREATE, FORCE, PATCH, REMOVE, STATUS, Look, Ref, Wait, Write
from berth_core.lifecycle.view import View, devices_of, disks_of
from berth_core.model.resources import BERTH, LOCAL_DEVICE, LOCAL_DISK, NAMESPACE, PV
from berth_core.model.tenant import Tenant
from berth_kube.clocks import stamp, utc_now

from .requests import ACTOR, Obj, Requests


class Driver:
    """``api`` makes the requests."""

    def __init__(self, api: Requests) -> None:
        self._api = api

    async def drive(self, view: View, until: Until = lambda _view, _step: False) -> Driven:
        """Write until there is a choice to be made, or something to be waited for.

        Raises ConflictError where somebody writes without pause.
        """
        done: list[Write] = []
        fresh = False
        for _number in range(STEPS):
            step = next_step(view)
            if isinstance(step, Wait) and step.reason in LOST and not fresh:
                view, fresh = await self._locks_anew(view), True  # somebody may have locked since they were read
                continue
            if until(view, step):
                return Driven(view, step, done, True)
            if isinstance(step, Write):
                view, accepted = await self._write(view, step)
                done += [step] if accepted else []
            elif isinstance(step, Look):
                found = await self._api.find(NAMESPACE, step.namespace)
                view = replace(view, tenant=Tenant.in_namespace(found))
            else:
                return Driven(view, step, done)
        raise ConflictError(f"berth {view.key} changed {STEPS} times in a row: somebody writes it without pause", 409)

    async def _write(self, view: View, step: Write) -> tuple[View, bool]:
        """The view after one write, or after a new look where somebody was faster."""
        try:
            answer = await self._send(view, step)
        except (ConflictError, NotFoundError):
            return await self._read_anew(view, step), False
        if answer is None:
            return view.lacking(step.resource, step.ref.name), True
        return view.having(step.resource, answer), True

    async def _send(self, view: View, step: Write) -> Obj | None:
        """The object as it was answered; None: it is gone."""
        step = noted(step, berth_of(view, step), ACTOR, stamp(utc_now()))
        api, ref, body = self._api, step.ref, step.body
        if step.do == REMOVE:
            await api.delete(*ref, uid=body["metadata"]["uid"])
            return await api.find(*ref) if body["metadata"].get("finalizers") else None
        if step.do == FORCE:
            await api.delete(*ref, uid=body["metadata"]["uid"], grace=0)
            return await api.find(*ref) if body["metadata"].get("finalizers") else None
        if step.do == CREATE:
            return await api.create(step.resource, body)
        if step.do == PATCH:
            return await api.patch(*ref, body)
        if step.do == STATUS:
            return await api.patch(*ref, status_patch(view, step), "status")
        return await api.replace(step.resource, body)

    async def _read_anew(self, view: View, step: Write) -> View:
        """What the step wrote, and the berth. A berth that went, or was made anew, leaves no lock of its own behind."""
        before = view.records()
        if asks_anew(step.ref):  # before the disk: a lock that came meanwhile is seen with its volume
            view = anew(view, step.ref.name, await self._api.list(PV, labels=OURS))
        view = await self._look(view, step.ref)
        for record in before:
            name = record["metadata"]["name"]
            if (step.resource, step.ref.name) != (BERTH, name):
                view = await self._look(view, Ref.of(BERTH, record))
            now = next((one for one in view.records() if one["metadata"]["name"] == name), None)
            if now is not None and now["metadata"]["uid"] == record["metadata"]["uid"]:
                continue
            for left in left_locks(view, record, now):
                view = await self._freed(view, left)
            view = view.lacking(BERTH, name)
        return view

    async def _freed(self, view: View, left: Write) -> View:
        try:
            return view.having(left.resource, await self._api.replace(left.resource, left.body))
        except (ConflictError, NotFoundError):
            return await self._look(view, left.ref)  # somebody has touched it since: it is theirs

    async def _locks_anew(self, view: View) -> View:
        for record in view.records():
            for entry in disks_of(record):
                view = await self._look(view, Ref(LOCAL_DISK, entry["name"]))
            for entry in devices_of(record):
                view = await self._look(view, Ref(LOCAL_DEVICE, entry["name"]))
        return view

    async def _look(self, view: View, ref: Ref) -> View:
        """The view with that object as it is now."""
        found = await self._api.find(*ref)
        return view.lacking(ref.resource, ref.name) if found is None else view.having(ref.resource, found)
