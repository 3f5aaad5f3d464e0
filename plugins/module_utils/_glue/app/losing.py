# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replicas whose node is lost: reads their nodes, and tells the user and the plan what was decided.

Called by stateful_app before anything is written. The decision is berth_core.app.node_loss's; the berths are given up
by reserving.py, as every other one that is chosen anew.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...berth_core.app import leaving, node_loss
from ...berth_core.app.node_loss import LossRules, Lost
from ...berth_core.app.observed import Observed
from ...berth_core.app.plan import Plan
from ...berth_core.app.wanted import AppWanted
from ...berth_core.lifecycle.lost import Loss
from ...berth_core.model.resources import NODE
from ..base import Context


class Losses(NamedTuple):
    """``chosen``: those of ``lost`` that get another berth. ``left``: whose berths are left alone as they are."""

    rules: LossRules
    lost: list[Lost]
    chosen: list[Lost]
    by_ordinal: dict[int, Loss]
    left: tuple[int, ...] = ()

    def into(self, plan: Plan) -> Plan:
        """The plan in which the berths of lost nodes go first and are chosen anew."""
        return leaving.into(plan, self.by_ordinal, self.left) if self.by_ordinal or self.left else plan

    def told(self, observed: Observed) -> dict[str, Any]:
        """For the result: nothing where nothing is lost."""
        berths = observed.berths  # as they were
        rows = [node_loss.row(one, self.rules, self.chosen, berths.get(one.ordinal)) for one in self.lost]
        return {"lost": rows} if rows else {}


def look(context: Context, app: AppWanted, observed: Observed, rules: LossRules) -> Losses:
    """What is lost, and what becomes of it. Raises StateError. Costs a GET for each node whose pod is not Ready."""
    lost = _found(context, observed, app.workload, app.replicas, rules)
    chosen = node_loss.decide(rules, lost, observed, app.replicas)
    for one in lost:
        if one not in chosen:
            context.warn(node_loss.told(one, app.namespace))
    return Losses(rules, lost, chosen, node_loss.losses(observed, chosen), node_loss.not_ended(lost, observed))


def seen(context: Context, observed: Observed, workload: str, rules: LossRules) -> list[dict[str, Any]]:
    """What is lost, for who only looks. The same requests."""
    lost = _found(context, observed, workload, max(observed.berths, default=-1) + 1, rules)
    return [node_loss.row(one, rules, (), observed.berths.get(one.ordinal)) for one in lost]


def _found(context: Context, observed: Observed, workload: str, replicas: int, rules: LossRules) -> list[Lost]:
    doubts = node_loss.doubtful(observed, workload, replicas)
    nodes = {name: context.client.find(NODE, name) for name in sorted(set(doubts.values()))}
    return node_loss.find_lost(observed, doubts, nodes, rules)
