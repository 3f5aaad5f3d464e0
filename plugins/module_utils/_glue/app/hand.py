# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one run has in hand: the application, what was seen of it, what is to be done, and the berths as they are now.

Shared by the steps of the flow (selecting, reserving, building), which change nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Callable, NamedTuple

from ...berth_core.app.choose import World
from ...berth_core.app.leave_rules import LeaveRules
from ...berth_core.app.node_loss import LossRules
from ...berth_core.app.observed import Observed, selector_of, with_locks
from ...berth_core.app.observing import view_of
from ...berth_core.app.plan import Plan
from ...berth_core.app.replace_request import answered
from ...berth_core.app.wanted import AppWanted
from ...berth_core.errors import ConflictError
from ...berth_core.lifecycle.left_volumes import with_volumes
from ...berth_core.lifecycle.lost import Loss
from ...berth_core.lifecycle.replica import ReplicaOwner
from ...berth_core.lifecycle.view import Objects, View, devices_of, disks_of
from ...berth_core.model.resources import BERTH, LOCAL_DEVICE, LOCAL_DISK, Resource
from ..base import Context
from ..client import ApiClient
from .driver import Driver

Object = dict[str, Any]
#: Tries of one write of a Berth, which few others write.
_TRIES = 10


class Rules(NamedTuple):
    """What a task says of replicas that are to have another berth."""

    loss: LossRules
    leave: LeaveRules


@dataclass
class Hand:
    """``views``: ordinal -> what there is of its berth, as last read or written. ``losses``: of nodes, by ordinal; what
    ``loss_rules`` and ``leave_rules`` say of data that is found on lost or left nodes later is added. ``behind``: the
    disks with it. ``written``: the StatefulSet as the API server has answered it, once this run has applied it."""

    context: Context
    app: AppWanted
    seen: Observed
    plan: Plan
    timeout: float
    views: dict[int, View] = field(default_factory=dict)
    losses: dict[int, Loss] = field(default_factory=dict)
    behind: dict[int, list[Mapping[str, Any]]] = field(default_factory=dict)
    loss_rules: LossRules = field(default_factory=LossRules)
    leave_rules: LeaveRules = field(default_factory=LeaveRules)
    written: Object | None = None

    @classmethod
    def of(
        cls,
        context: Context,
        app: AppWanted,
        seen: Observed,
        plan: Plan,
        rules: Rules,
        losses: Mapping[int, Loss],
    ) -> Hand:
        """A run's beginning."""
        timeout = context.params["wait_timeout"]
        hand = cls(context, app, seen, plan, timeout, losses=dict(losses))
        hand.loss_rules, hand.leave_rules = rules.loss, rules.leave
        hand.views = {ordinal: view_of(seen, ordinal) for ordinal in seen.berths}
        return hand

    @property
    def client(self) -> ApiClient:
        return self.context.client

    @property
    def driver(self) -> Driver:
        return Driver(self.context, self.context.progress, self.timeout)

    def record(self, ordinal: int) -> Object:
        """The Berth of a replica that has one."""
        record = self.views[ordinal].berth
        if record is None:
            raise AssertionError(f"{self.title(ordinal)} has no berth")
        return dict(record)

    def rewrite(self, ordinal: int, change: Callable[[Object], Object | None]) -> None:
        """Write a replica's Berth as ``change`` makes it of the one that is there; None: it stays as it is.

        Compare-and-swap. Raises ConflictError where somebody else writes it without pause, and where it is gone, or
        another one of its name is there.
        """
        record = self.record(ordinal)
        for _number in range(_TRIES):
            wanted = change(record)
            if wanted is None:
                self.views[ordinal] = self.views[ordinal].having(BERTH, record)
                return
            try:
                written = self.client.replace(BERTH, wanted)
            except ConflictError:
                meta = record["metadata"]
                live = self.client.find(BERTH, meta["name"], meta["namespace"])
                if live is None or live["metadata"]["uid"] != meta["uid"]:
                    raise
                record = live
                continue
            self.views[ordinal] = self.views[ordinal].having(BERTH, written)
            return
        raise ConflictError(
            f"berth {self.title(ordinal)} changed before the write {_TRIES} times in a row", 409, "Conflict"
        )

    def title(self, ordinal: int) -> str:
        """The replica's name for people."""
        return f"{self.app.namespace}/{self.app.berth_name(ordinal)}"

    def owner(self, ordinal: int, **facts: Any) -> ReplicaOwner:
        """The replica, for next_step; ``facts`` are ReplicaOwner's."""
        replaced = answered(self.leave_rules.replaced, ordinal, self.seen.berths.get(ordinal))
        return ReplicaOwner(self.app, ordinal, selector=selector_of(self.seen), replaced=replaced, **facts)

    def given_up(self, ordinal: int, view: View) -> None:
        """What was seen, without what went with the berth that was given up, its locks among it: the next one of its
        name is made anew, and may be given the same disks."""
        claims = {self.app.claim_name(each, ordinal) for each in self._claim_names()}
        name, seen = self.app.berth_name(ordinal), with_locks(self.seen, view.disks, view.devices)
        self.seen = replace(
            seen,
            claims=_of_view(seen.claims, view.claims, claims),
            device_claims=_of_view(seen.device_claims, view.device_claims, claims),
            volumes={key: one for key, one in seen.volumes.items() if key in view.volumes},
            pods=_of_view(seen.pods, view.pods, {name}),
        )

    def _claim_names(self) -> list[str]:
        return [*(disk.name for disk in self.app.disks), *(device.name for device in self.app.devices)]

    def complete(self, view: View, world: World | None) -> View:
        """The view with all disks and devices that its berth names: from the world where there is one, else read. With
        a world also the volumes over them, whoever they were made for."""
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
        return with_volumes(view, world.volumes if world is not None else ())

    def _with(self, view: View, resource: Resource, name: str, named: Mapping[str, Any]) -> View:
        found = named.get(name) or self.client.find(resource, name)
        return view if found is None else view.having(resource, found)


def _of_view(before: Objects, now: Objects, names: Collection[str]) -> Objects:
    """Of these names what the view has; the others as before."""
    return {
        **{key: one for key, one in before.items() if key not in names},
        **{key: one for key, one in now.items() if key in names},
    }
