"""Replicas whose node is lost: which of them get another berth, where the StatefulApp asks for that.

Called by leaving.py before anything is written. The decision is berth_core.app.node_loss's; the berths are given up and
chosen anew by reserving.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from berth_core.app import node_loss
from berth_core.app.node_loss import KEEP, LossRules
from berth_core.app.observed import Observed
from berth_core.app.stateful_app_object import in_fields
from berth_core.app.wanted import AppWanted
from berth_core.lifecycle.lost import Loss
from berth_core.model.resources import NODE

from .requests import Requests


@dataclass(frozen=True)
class Losing:
    """``losses``: of who gets another berth, by ordinal. ``waits``: why others do not, in the words of the kind."""

    rules: LossRules = field(default_factory=LossRules)
    losses: Mapping[int, Loss] = field(default_factory=dict)
    waits: Sequence[str] = ()


async def look(api: Requests, options: Mapping[str, Any], app: AppWanted, seen: Observed) -> Losing:
    """Costs a LIST of nodes where a pod is not Ready, and nothing where replicas wait for their nodes anyway."""
    rules = replace(node_loss.loss_rules(options, app.replicas), by_task=False)
    if rules.policy == KEEP:
        return Losing(rules)
    doubts = node_loss.doubtful(seen, app.workload, app.replicas)
    if not doubts:
        return Losing(rules)
    there = {item["metadata"]["name"]: item for item in await api.list(NODE)}
    nodes = {name: there.get(name) for name in doubts.values()}
    lost = node_loss.find_lost(seen, doubts, nodes, rules)
    chosen, waits = node_loss.decide_what_is_proven(rules, lost, seen, app.replicas)
    return Losing(rules, node_loss.losses(seen, chosen), [in_fields(line) for line in waits])
