# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Select node and select resource: reads the world once, refuses what cannot be, and chooses. Never writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...berth_core.app import choose, leaving, rescheduling
from ...berth_core.app.choice_check import check_grown, check_world, without_discards
from ...berth_core.app.choose import Choice, World
from ...berth_core.app.node_loss import left_behind
from ...berth_core.errors import UnschedulableError
from ...berth_core.lifecycle import states
from ...berth_core.lifecycle.lost import keeps
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
        check_world(hand.app, world)
        for ordinal in grown:
            check_grown(hand.app, world, hand.record(ordinal))
        choices = self._choose(world, hand.plan.select, explain) if hand.plan.select else []
        warn_of_unreadable(hand.context, choices[0].left_out if choices else ())
        return choices

    def again(self, ordinals: Sequence[int]) -> list[Choice]:
        """Look anew and choose anew for those that lost a race."""
        world = self._look()
        return self._choose(world, sorted(ordinals)) if ordinals else []

    def _choose(self, world: World, ordinals: Sequence[int], explain: bool = False) -> list[Choice]:
        """Never a node that replicas are to leave."""
        rules = self._hand.leave_rules
        try:
            return choose.choose(self._hand.app, choose.without_nodes(world, rules.nodes), ordinals, explain)
        except UnschedulableError as exc:
            raise leaving.nowhere(rules, exc) if rules.nodes else exc from None

    def _look(self) -> World:
        world = without_discards(load_world(self._hand.client, self._hand.app), self._hand.seen, self._hand.plan)
        world = self._without_lost_data(world)
        left = [ordinal for ordinal, loss in self._hand.losses.items() if loss.left]
        world = leaving.without_kept(world, self._hand.seen, left)
        self.world = rescheduling.without_left(world, self._hand.seen, self._hand.losses, self._hand.plan)
        return self.world

    def _unsettled(self) -> list[int]:
        """Berths that were written down by a run that is not (or not yet) done with them, and those of them that this
        run has lost since."""
        advance, views = self._hand.plan.advance or {}, self._hand.views
        records = {ordinal: views[ordinal].berth if ordinal in views else None for ordinal in advance}
        return [ordinal for ordinal, one in records.items() if one is None or recorded(one) == states.SELECTED]

    def _without_lost_data(self, world: World) -> World:
        """The world without the disks on lost nodes whose data was given up: else a replica's data is where it goes."""
        hand = self._hand
        fresh = [ordinal for ordinal in (*hand.plan.select, *self._unsettled()) if ordinal not in hand.losses]
        behind = left_behind(world.disks, world.nodes, hand.loss_rules, hand.seen, fresh)
        behind.update(leaving.left_data(hand.app, world.disks, hand.leave_rules, hand.seen, fresh))
        for ordinal, (loss, disks) in behind.items():
            hand.losses[ordinal], hand.behind[ordinal] = loss, disks
        lost = list(hand.losses.values())
        return replace(world, disks=[disk for disk in world.disks if not any(keeps(disk, loss) for loss in lost)])
