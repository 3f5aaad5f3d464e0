"""LocalDisks of this node: created where the configuration asks for it, their status kept equal to what is seen.

Run by `agent`: one pass whenever the Look, an object, the configuration or a finding changed. The decisions are those
of berth_core.app.agent_plan. Writes nothing that is there already, never a spec, and never deletes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

import jmespath

from berth_core.app.agent_plan import (
    NOT_COMPARED,
    Declarations,
    agent_status,
    is_same_status,
    plan_declarations,
)
from berth_core.app.drift import swapped_for
from berth_core.app.sharing import Neighbour
from berth_core.errors import BerthError, ConflictError, NotFoundError
from berth_core.model.resources import LOCAL_DISK

from .neighbours import Neighbours
from .report import DISKS, Report
from .seams import DiskWork, Look, Object, Record, Tools

LOG = logging.getLogger("berth_agent.publish")
#: Writes under way at once, when many disks change together.
_AT_ONCE = 8
_SETTLE = 0.05
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0


class Publisher:
    """One node's LocalDisks. ``published(look)`` is called when everything of a Look is at the API server."""

    def __init__(
        self,
        tools: Tools,
        work: DiskWork | None,
        neighbours: Neighbours,
        report: Report,
        published: Callable[[int], None] | None = None,
    ) -> None:
        self.tools, self.work, self.neighbours, self.report = tools, work, neighbours, report
        self.published = published or (lambda _number: None)
        self._asked = asyncio.Event()
        #: LocalDisk -> (resourceVersions that the agent wrote over, what the API server answered last)
        self._answers: dict[str, tuple[frozenset[str], Object]] = {}

    def wake(self) -> None:
        """Look whether there is something to write. Returns at once."""
        self._asked.set()

    async def run(self) -> None:
        """Until cancelled. What fails is tried again, later each time."""
        pause = _FIRST_PAUSE
        while True:
            await self._asked.wait()
            await asyncio.sleep(_SETTLE)
            self._asked.clear()
            try:
                await self.publish()
                pause = _FIRST_PAUSE
            except BerthError as exc:
                LOG.warning("not everything is published: %s; trying again in %.0f s", exc.message, pause)
                self._asked.set()
                await asyncio.sleep(pause)
                pause = min(_LONGEST_PAUSE, 2 * pause)

    async def publish(self) -> None:
        """One pass. Raises the first BerthError, after everything was tried."""
        look = self.tools.look()
        if look is None:
            return
        disks = self.disks()
        declarations = self._declare(look, list(disks.values()))
        todo = [self._create(disk) for disk in declarations.create]
        todo += [self._update(disk, look, declarations.standing.get(name)) for name, disk in disks.items()]
        errors = await _all(todo)
        if errors:
            raise errors[0]
        if not declarations.create:
            self.published(look.number)

    def disks(self) -> Mapping[str, Object]:
        """The node's LocalDisks, with the agent's own last writes where the watch has not brought them yet."""
        found = {}
        for name, disk in self.tools.disks().items():
            before, answer = self._answers.get(name, (frozenset(), disk))
            if disk["metadata"]["resourceVersion"] in before:
                found[name] = answer
            else:
                self._answers.pop(name, None)
                found[name] = disk
        return found

    def listed(self) -> None:
        """Everything was read anew: of an etcd restored from a backup, as it was before the agent wrote over it."""
        self._answers.clear()

    def _declare(self, look: Look, existing: list[Object]) -> Declarations:
        settings = self.tools.settings()
        if not settings.policies.declare:
            return Declarations([], {}, [])
        found = plan_declarations(
            self.tools.node, settings.disks, settings.disk_selectors, look.devices, existing, _evaluate
        )
        if found.refused:
            told = "; ".join(found.refused)
            if self.report.set(DISKS, "False", "Refused", told):
                LOG.error("disks of the configuration are refused: %s", told)
        else:
            self.report.set(DISKS, "True", "Accepted")
        return found

    async def _create(self, disk: Mapping[str, Any]) -> None:
        name = disk["metadata"]["name"]
        self.tools.check()
        try:
            await self.tools.client.create(LOCAL_DISK, disk)
            LOG.info("LocalDisk %s is created", name)
        except ConflictError as exc:
            there = await self.tools.client.find(LOCAL_DISK, name)
            if there is not None and there["spec"]["nodeName"] != self.tools.node:
                raise BerthError(
                    f"LocalDisk {name} is a disk of node {there['spec']['nodeName']}: {exc.message}"
                ) from exc

    async def _update(self, disk: Object, look: Look, standing: tuple[str, str, str] | None) -> None:
        device, ambiguous = look.find_or_problem(disk)
        swapped = swapped_for(disk, look.whole) if device is None and not ambiguous else ""
        seen, now = self._with_findings(disk, device), self.tools.now()

        def status(other: Neighbour | None) -> dict[str, Any]:
            return agent_status(disk, seen, now, ambiguous, standing, swapped, other)

        if self.neighbours.is_new(disk, device):
            # Shown before it is asked who else shows it: of two that begin at once, one finds the other.
            disk = await self._write(disk, status(None))
        await self._write(disk, status(await self.neighbours.find(disk, device)))

    async def _write(self, disk: Object, status: Mapping[str, Any]) -> Object:
        """The LocalDisk with that status; as it was, where it has become another one."""
        name = str(disk["metadata"]["name"])
        if is_same_status(disk, status):
            return disk
        self.tools.check()
        # The uid keeps a status from landing on another LocalDisk of the same name, made meanwhile.
        body = {"metadata": {"name": name, "uid": disk["metadata"]["uid"]}, "status": status}
        try:
            answer = await self.tools.client.apply(LOCAL_DISK, body, subresource="status")
        except (NotFoundError, ConflictError) as exc:
            LOG.info("LocalDisk %s is another one now: %s", name, exc.message)
            return disk
        before, _answer = self._answers.get(name, (frozenset(), answer))
        self._answers[name] = (before | {str(disk["metadata"]["resourceVersion"])}, answer)
        self._tell(disk, status)
        return answer

    def _with_findings(self, disk: Object, device: Record | None) -> Record | None:
        if device is None or self.work is None:
            return device
        return {**device, **self.work.findings(disk, device)}

    def _tell(self, disk: Object, status: Mapping[str, Any]) -> None:
        """A log line and an Event for what turned bad or good again."""
        before = {each["type"]: each for each in (disk.get("status") or {}).get("conditions") or ()}
        for each in status["conditions"]:
            was = before.get(each["type"]) or {}
            if NOT_COMPARED in (each["reason"], was.get("reason")) and each["status"] != "False":
                continue  # for a moment, while a disk is new
            if each["type"] not in ("Matched", "Declared") or was.get("status") == each["status"]:
                continue
            if each["status"] == "True" and not was:
                continue
            bad = each["status"] == "False"
            note = each.get("message") or f"{each['type']} is {each['status']}"
            LOG.log(logging.WARNING if bad else logging.INFO, "LocalDisk %s: %s", disk["metadata"]["name"], note)
            self.tools.recorder.event(disk, "Warning" if bad else "Normal", each["reason"], note, action="Observe")


def _evaluate(query: str, data: list[Any]) -> Any:
    try:
        return jmespath.search(query, data)
    except (jmespath.exceptions.JMESPathError, TypeError, ValueError) as exc:
        raise BerthError(f"query {query!r} does not fit the data: {' '.join(str(exc).split())}") from exc


async def _all(todo: list[Any]) -> list[BerthError]:
    """Run all, a few at once; the errors. Anything that is no BerthError is raised."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(work: Any) -> BerthError | None:
        async with gate:
            try:
                await work
            except BerthError as exc:
                return exc
            return None

    return [error for error in await asyncio.gather(*map(one, todo)) if error is not None]
