"""Replicas whose node is lost: which of them get another berth, where the StatefulApp asks for that, and who waits.

Called by leaving.py before anything is written. The decision is berth_core.app.node_loss's; the berths are given up and
chosen anew by reserving.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from berth_core.app import node_loss
from berth_core.app.maintenance_mark import in_maintenance, occasion
from berth_core.app.node_loss import KEEP, LossRules
from berth_core.app.observed import Observed
from berth_core.app.stateful_app_object import in_fields
from berth_core.app.wanted import AppWanted
from berth_core.lifecycle.lost import Loss
from berth_core.model.resources import NODE

from .requests import Obj, Requests

#: The Node of that name as the watch told it last; None: there is no such Node.
NodeOf = Callable[[str], Obj | None]


@dataclass(frozen=True)
class Losing:
    """``losses``: of who gets another berth, by ordinal. ``waits``: why others do not, in the words of the kind.

    ``away``: who waits for a node that is in maintenance: it is not lost, although it may look so. ``left``: whose
    berths are left alone as they are, although that they are given up was begun.
    """

    rules: LossRules = field(default_factory=LossRules)
    losses: Mapping[int, Loss] = field(default_factory=dict)
    waits: Sequence[str] = ()
    away: Sequence[str] = ()
    left: tuple[int, ...] = ()


async def look(api: Requests, options: Mapping[str, Any], app: AppWanted, seen: Observed, node_of: NodeOf) -> Losing:
    """Costs a LIST of nodes where replicas are to be rebuilt and a pod is not Ready.

    Where they wait for their nodes anyway, nothing is given up by what is found: the watch is good enough for that.
    """
    rules = replace(node_loss.loss_rules(options, app.replicas), by_task=False)
    keep = rules.policy == KEEP
    doubts = {} if keep and app.suspended else node_loss.doubtful(seen, app.workload, app.replicas)
    if not doubts:
        return Losing(rules)
    if keep:
        nodes = {name: node_of(name) or await _asked(api, name) for name in doubts.values()}
        return _waiting(rules, app, seen, doubts, nodes)
    there = {item["metadata"]["name"]: item for item in await api.list(NODE)}
    nodes = {name: there.get(name) for name in doubts.values()}
    lost = node_loss.find_lost(seen, doubts, nodes, rules)
    chosen, waits = node_loss.decide_what_is_proven(rules, lost, seen, app.replicas)
    told, left = [in_fields(line) for line in waits], node_loss.not_ended(lost, seen)
    return Losing(rules, node_loss.losses(seen, chosen), told, left=left)


async def _asked(api: Requests, name: str) -> Obj | None:
    """A Node of which the watch has told nothing: it may be new, and that is no loss."""
    return next(iter(await api.list(NODE, fields=f"metadata.name={name}")), None)


def _waiting(
    rules: LossRules, app: AppWanted, seen: Observed, doubts: Mapping[int, str], nodes: Mapping[str, Obj | None]
) -> Losing:
    lost = node_loss.find_lost(seen, doubts, nodes, rules)
    held = {name: occasion(node) for name, node in nodes.items() if node is not None and in_maintenance(node)}
    away = [f"pod {one.pod} waits for its node ({held[one.node]})" for one in lost if one.node in held]
    told = node_loss.told_of_kind([one for one in lost if one.node not in held], app.namespace)
    return Losing(rules, waits=[told] if told else (), away=away, left=node_loss.not_ended(lost, seen))
