# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one run has in hand: the application, what was seen of it, what is to be done, and the berths as they are now.

Shared by the steps of the flow (selecting, reserving, building), which change nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...berth_core.app.choose import World
from ...berth_core.app.observed import Observed
from ...berth_core.app.observing import view_of
from ...berth_core.app.plan import Plan
from ...berth_core.app.wanted import AppWanted
from ...berth_core.lifecycle.replica import ReplicaOwner
from ...berth_core.lifecycle.view import View, devices_of, disks_of
from ...berth_core.model.resources import LOCAL_DEVICE, LOCAL_DISK, Resource
from ..base import Context
from ..client import ApiClient
from .driver import Driver

Object = dict[str, Any]


@dataclass
class Hand:
    """``views``: ordinal -> what there is of its berth, as last read or written."""

    context: Context
    app: AppWanted
    seen: Observed
    plan: Plan
    timeout: float
    views: dict[int, View] = field(default_factory=dict)

    @classmethod
    def of(cls, context: Context, app: AppWanted, seen: Observed, plan: Plan) -> Hand:
        """A run's beginning."""
        hand = cls(context, app, seen, plan, context.params["wait_timeout"])
        hand.views = {ordinal: view_of(seen, ordinal) for ordinal in seen.berths}
        return hand

    @property
    def client(self) -> ApiClient:
        return self.context.client

    @property
    def driver(self) -> Driver:
        return Driver(self.context.client, self.context.progress, self.timeout)

    def record(self, ordinal: int) -> Object:
        """The Berth of a replica that has one."""
        record = self.views[ordinal].berth
        if record is None:
            raise AssertionError(f"{self.title(ordinal)} has no berth")
        return dict(record)

    def title(self, ordinal: int) -> str:
        """The replica's name for people."""
        return f"{self.app.namespace}/{self.app.berth_name(ordinal)}"

    def owner(self, ordinal: int, **facts: Any) -> ReplicaOwner:
        """The replica, for next_step; ``facts`` are ReplicaOwner's."""
        return ReplicaOwner(self.app, ordinal, **facts)

    def complete(self, view: View, world: World | None) -> View:
        """The view with all disks and devices that its berth names: from the world where there is one, else read."""
        if view.berth is None:
            return view
        world_disks, world_devices = (world.disks, world.devices) if world is not None else ((), ())
        for resource, entries, there, known in (
            (LOCAL_DISK, disks_of(view.berth), view.disks, world_disks),
            (LOCAL_DEVICE, devices_of(view.berth), view.devices, world_devices),
        ):
            named = {each["metadata"]["name"]: each for each in known}
            for name in dict.fromkeys(str(each["name"]) for each in entries):
                if name not in there:
                    view = self._with(view, resource, name, named)
        return view

    def _with(self, view: View, resource: Resource, name: str, named: Mapping[str, Any]) -> View:
        found = named.get(name) or self.client.find(resource, name)
        return view if found is None else view.having(resource, found)
