"""What one look at an app has in hand, and the way in which it ends before everything is done.

Shared by the parts of a look (reserving, releasing, building, rolling), which change nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from berth_core.app.choose import World
from berth_core.app.observed import Observed, selector_of
from berth_core.app.observing import view_of
from berth_core.app.plan import Plan
from berth_core.app.replace_request import answered
from berth_core.app.wanted import AppWanted
from berth_core.lifecycle.driving import refuse
from berth_core.lifecycle.left_volumes import with_volumes
from berth_core.lifecycle.lost import Loss
from berth_core.lifecycle.replica import ReplicaOwner
from berth_core.lifecycle.step import Step, Wait
from berth_core.lifecycle.view import View, devices_of, disks_of
from berth_core.model.resources import BERTH, LOCAL_DEVICE, LOCAL_DISK, Resource

from .drive import Driver
from .leaving import Leaving
from .requests import Obj, Requests

#: Seconds until the next look where nothing tells of a change.
SOON, LATER = 1.0, 15.0


class Later(Exception):
    """Nothing more can be done now. ``reason`` is one word of the condition; ``seconds``: until the next look."""

    def __init__(self, reason: str, message: str, seconds: float = LATER) -> None:
        super().__init__(message)
        self.reason, self.message, self.seconds = reason, message, seconds


@dataclass
class Run:
    """``views``: ordinal -> what there is of its berth, as last read or written. ``world``: as it was read last.

    ``leaving``: who leaves a node. ``behind``: disks that keep data on such nodes, by ordinal. ``begun`` is told
    of each ordinal whose pod an update is going to write, and whether it is Ready.
    """

    api: Requests
    app: AppWanted
    seen: Observed
    plan: Plan
    views: dict[int, View] = field(default_factory=dict)
    world: World | None = None
    leaving: Leaving = field(default_factory=Leaving)
    behind: dict[int, tuple[Loss, list[Mapping[str, Any]]]] = field(default_factory=dict)
    begun: Callable[[int, bool], None] = lambda _ordinal, _ready: None

    @classmethod
    def of(cls, api: Requests, app: AppWanted, seen: Observed, plan: Plan, leaving: Leaving) -> Run:
        """The beginning of a look."""
        views = {ordinal: view_of(seen, ordinal) for ordinal in seen.berths}
        return cls(api, app, seen, leaving.into(plan), views, leaving=leaving)

    @property
    def driver(self) -> Driver:
        return Driver(self.api)

    def record(self, ordinal: int) -> Obj:
        """The Berth of a replica that has one."""
        record = self.views[ordinal].berth
        if record is None:
            raise AssertionError(f"{self.title(ordinal)} has no berth")
        return dict(record)

    async def replace_berth(self, ordinal: int, body: Mapping[str, Any]) -> None:
        """Write a replica's Berth. Raises ConflictError where somebody has changed it meanwhile."""
        written = await self.api.replace(BERTH, body)
        self.views[ordinal] = self.views[ordinal].having(BERTH, written)

    def title(self, ordinal: int) -> str:
        """The replica's name for people."""
        return f"{self.app.namespace}/{self.app.berth_name(ordinal)}"

    def owner(self, ordinal: int, **facts: Any) -> ReplicaOwner:
        """The replica, for next_step; ``facts`` are ReplicaOwner's."""
        replaced = answered(self.leaving.rules.replaced, ordinal, self.seen.berths.get(ordinal))
        return ReplicaOwner(self.app, ordinal, selector=selector_of(self.seen), replaced=replaced, **facts)

    def stopped(self, ordinal: int, step: Step) -> None:
        """Raise where the berth cannot go on by itself (StateError), or not yet (Later)."""
        refuse(self.title(ordinal), step)
        if isinstance(step, Wait) and step.on is not None:
            raise Later(step.reason, step.message, SOON)

    async def complete(self, view: View) -> View:
        """The view with all disks and devices that its berth names: from the world where there is one, else read. With
        a world also the volumes over them, whoever they were made for."""
        if view.berth is None:
            return view
        disks, devices = (self.world.disks, self.world.devices) if self.world is not None else ((), ())
        for resource, entries, there, known in (
            (LOCAL_DISK, disks_of(view.berth), view.disks, disks),
            (LOCAL_DEVICE, devices_of(view.berth), view.devices, devices),
        ):
            named = {each["metadata"]["name"]: each for each in known}
            for name in dict.fromkeys(str(each["name"]) for each in entries):
                if name not in there:
                    view = await self._with(view, resource, name, named)
        return with_volumes(view, self.world.volumes if self.world is not None else ())

    async def _with(self, view: View, resource: Resource, name: str, named: Mapping[str, Any]) -> View:
        found = named.get(name) or await self.api.find(resource, name)
        return view if found is None else view.having(resource, found)
