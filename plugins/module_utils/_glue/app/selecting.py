# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Select node and select resource: reads the world once, refuses what cannot be, and chooses. Never writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...berth_core.app import choose
from ...berth_core.app.choose import Choice, World
from ...berth_core.errors import InputError, UnschedulableError
from ...berth_core.lifecycle import states
from ...berth_core.lifecycle.locks import unlock_device, unlock_disk
from ...berth_core.lifecycle.view import recorded
from ..unreadable import warn_of_unreadable
from .hand import Hand
from .observe import load_world


class Selector:
    """``world`` is what the last choice was made from; None where nothing had to be chosen or checked."""

    def __init__(self, hand: Hand) -> None:
        self._hand = hand
        self.world: World | None = None

    def select(self, explain: bool) -> list[Choice]:
        """Choices for all ordinals that need one, or UnschedulableError; nothing is written."""
        hand = self._hand
        grown = [ordinal for ordinal in hand.plan.refresh if recorded(hand.record(ordinal)) != states.SELECTED]
        if not hand.plan.select and not self._unsettled() and not grown:
            return []
        world = self._look()
        self._check_classes(world)
        self._check_namespace(world)
        for ordinal in grown:
            self._check_grown(world, ordinal)
        choices = choose.choose(hand.app, world, hand.plan.select, explain) if hand.plan.select else []
        warn_of_unreadable(hand.context, choices[0].left_out if choices else ())
        return choices

    def again(self, ordinals: Sequence[int]) -> list[Choice]:
        """Look anew and choose anew for those that lost a race."""
        world = self._look()
        return choose.choose(self._hand.app, world, sorted(ordinals)) if ordinals else []

    def _look(self) -> World:
        self.world = self._without_discards(load_world(self._hand.client, self._hand.app))
        return self.world

    def _unsettled(self) -> list[int]:
        """Berths that were written down by a run that is not (or not yet) done with them."""
        advance = self._hand.plan.advance or {}
        return [ordinal for ordinal in advance if recorded(self._hand.record(ordinal)) == states.SELECTED]

    def _without_discards(self, world: World) -> World:
        """The world as it will be when this run has given up what it is going to give up."""
        seen, plan = self._hand.seen, self._hand.plan
        going = {seen.berths[ordinal]["metadata"]["uid"] for ordinal in (*plan.discard, *plan.release)}
        going |= {disk["spec"]["claimRef"]["uid"] for disk in seen.stale_disks()}
        going |= {uid for _device, uid in seen.stale_devices()}
        disks, devices = list(world.disks), list(world.devices)
        for uid in going:
            disks = [unlock_disk(disk, uid, keep_data=True) or disk for disk in disks]
            devices = [unlock_device(device, uid) or device for device in devices]
        berths = [record for record in world.berths if record["metadata"]["uid"] not in going]
        return replace(world, disks=disks, devices=devices, berths=berths)

    def _check_classes(self, world: World) -> None:
        unknown = choose.unknown_storage_classes(self._hand.app, world)
        if unknown:
            known = ", ".join(sorted(item["metadata"]["name"] for item in world.storage_classes)) or "none"
            raise InputError(f"StorageClass {', '.join(unknown)} does not exist; the cluster has: {known}")

    def _check_namespace(self, world: World) -> None:
        if not world.namespaces:
            raise InputError(f"namespace {self._hand.app.namespace} does not exist; create it first")

    def _check_grown(self, world: World, ordinal: int) -> None:
        """An existing berth whose replica will ask for something else than is written down must still fit its node."""
        record = self._hand.record(ordinal)
        others = [other for other in world.berths if other["metadata"]["uid"] != record["metadata"]["uid"]]
        outcome = choose.still_fits(self._hand.app, replace(world, berths=others), record)
        if outcome.placement is None:
            raise UnschedulableError(
                f"the new template of {self._hand.title(ordinal)} does not fit its node {record['spec']['nodeName']}: "
                f"{outcome.diagnosis.message()} Its data is there, so it is not moved.",
                ordinal=ordinal,
                explanation=choose.explain(outcome),
            )
