# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replicas that leave a place which is well: which they are, in which order, and whose data may be given up for it.

They leave the nodes that a task names, or their own berths: because of a changed template (app.rescheduling), or as
somebody asks (app.replace_request).

Nothing is given up that is not named, and one replica leaves at a time: when the others are Ready. Pure; a berth is
given up by lifecycle/lost.py, and chosen anew as every other one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ..errors import BerthError, InputError, StateError
from ..lifecycle import evidence, states
from ..lifecycle.lost import ANY_BERTH, NO_BERTH, Loss, keeps, was_run_in
from ..lifecycle.view import disks_of, recorded
from . import replace_request, rescheduling
from .budgets import Budget, budgets_of
from .choose import Choice, World, without_disks
from .leave_rules import LeaveRules
from .node_loss import loss_of, with_losses
from .observed import Object, Observed, ready
from .observing import view_of
from .plan import Plan
from .pod_revision import not_begun
from .update_budgets import line
from .update_step import rest
from .wanted import AppWanted

#: ordinal -> the fields of the template because of which its replica is placed anew.
Due = Mapping[int, Sequence[str]]


@dataclass(frozen=True)
class Move:
    """A replica that leaves ``node``. ``disks``: its LocalDisks there; ``data``: they may carry its data.

    ``uid``: of its berth there. ``begun``: a run before has begun to give that up. ``why``: the fields of the template
    because of which it is placed anew; None: it leaves a node that a task names. ``asked``: it is placed anew because
    somebody asks for that. ``home``: nobody asks for it any more, and its berth goes because that was begun: its data
    is where it goes.
    """

    ordinal: int
    pod: str
    node: str
    disks: tuple[str, ...]
    data: bool
    uid: str
    begun: bool = False
    why: tuple[str, ...] | None = None
    asked: bool = False
    home: bool = False


def find_moves(app: AppWanted, observed: Observed, rules: LeaveRules, due: Due | None = None) -> list[Move]:
    """The replicas on those nodes, in the order in which they leave: highest ordinal first, a primary last.

    ``due``: who is placed anew, beside; None: nobody ever is.
    """
    found = []
    for ordinal, record in sorted(observed.berths.items(), reverse=True):
        node, begun = str(record["spec"]["nodeName"]), recorded(record) == states.RELEASING
        asked = node not in rules.nodes and replace_request.is_open(rules.replaced, record)
        why = None
        if (asked or due is not None) and node not in rules.nodes:
            mine = was_run_in(record) if begun else asked or ordinal in (due or ())
            why = tuple((due or {}).get(ordinal, ())) if mine else None
        if ordinal >= app.replicas or (node not in rules.nodes and why is None):
            continue
        data = bool(evidence.of_berth(view_of(observed, ordinal), record))
        found.append(replace(_move(app, record, data), begun=begun, why=why, asked=asked))
    return in_order(app, observed, found)


def find_begun(app: AppWanted, observed: Observed, moves: Iterable[Move]) -> list[Move]:
    """Beside those ``moves``: replicas whose berths a run before has begun to give up, and whose pods are there still.

    Nobody asks for that now, and no berth comes back from there. So the pod ends in its turn, by the rules by which it
    would have left, and the replica is placed anew: where its data is, or nowhere.
    """
    found, others = [], {move.ordinal for move in moves}
    for ordinal, record in observed.berths.items():
        node, pod = str(record["spec"]["nodeName"]), observed.pod(ordinal)
        there = pod is not None and (pod.get("spec") or {}).get("nodeName") == node
        if ordinal in others or ordinal >= app.replicas or recorded(record) != states.RELEASING or not there:
            continue
        if was_run_in(record):
            found.append(replace(_move(app, record, data=True), begun=True, home=True))
    return found


def _move(app: AppWanted, record: Object, data: bool) -> Move:
    """``data``: whether its disks, where it has any, may carry the replica's."""
    ordinal, disks = record["spec"]["ordinal"], tuple(str(each["name"]) for each in disks_of(record))
    uid = str(record["metadata"]["uid"])
    return Move(ordinal, app.berth_name(ordinal), str(record["spec"]["nodeName"]), disks, data and bool(disks), uid)


def is_up(observed: Observed, move: Move) -> bool:
    """Whether one that is Ready is taken down by it."""
    return ready(observed.pod(move.ordinal))


def into(plan: Plan, gone: Iterable[int], later: Iterable[int]) -> Plan:
    """The plan in which the berths of ``gone`` go first and are chosen anew, and those of ``later`` are left alone:
    they are being given up, and their turn has not come."""
    left = {*later, *plan.later}
    plan = with_losses(plan, {*gone, *left})
    select, discard = (tuple(one for one in part if one not in left) for part in (plan.select, plan.discard))
    return replace(plan, select=select, discard=discard, later=tuple(sorted(left)))


def in_order(app: AppWanted, observed: Observed, moves: Iterable[Move]) -> list[Move]:
    """As they leave: what was begun first, then the highest ordinal, a primary last. It may be another one by the time
    that the next one goes, so whoever has them leave one by one asks again each time."""
    return sorted(moves, key=lambda move: (_is_primary(app, observed.pod(move.ordinal)), not move.begun, -move.ordinal))


def _is_primary(app: AppWanted, pod: Object | None) -> bool:
    primary = app.update.primary if app.update is not None else None
    return primary is not None and pod is not None and primary.matches(pod["metadata"].get("labels") or {})


def check_moves(
    app: AppWanted, observed: Observed, rules: LeaveRules, moves: Sequence[Move], nodes: Mapping[str, Object | None]
) -> None:
    """``nodes``: those of the rules, by name; None: there is none. Raises BerthError where this may not be done."""
    for name in rules.nodes:
        if nodes[name] is None:
            raise InputError(f"leave_nodes names {name}, and the cluster has no Node of that name; nothing was changed")
    for move in moves:
        why = loss_of(nodes[move.node])
        if why is not None:
            raise StateError(
                f"replica {app.namespace}/{move.pod} cannot leave node {move.node}, for that is lost ({why[0]}): "
                "nobody there ends its pod. on_node_loss decides what becomes of it; nothing was changed"
            )
        told = (observed.berths[move.ordinal].get("status") or {}).get("replacing")
        if recorded(observed.berths[move.ordinal]) == states.REPLACING:
            raise StateError(
                f"replica {app.namespace}/{move.pod} cannot leave node {move.node} now: LocalDisk "
                f"{(told or {}).get('from')} is being exchanged for {(told or {}).get('to')}; run disk_replace again "
                "to finish that; nothing was changed"
            )
    held = [move for move in moves if move.data and not move.home and not rules.give_up(move.ordinal, move.node)]
    left = [(move.pod, move.node, move.disks) for move in held if move.why is None]
    anew = [(move.pod, move.node, move.disks) for move in held if move.why is not None and not move.begun]
    asked = [(move.pod, move.node, move.disks) for move in held if move.asked and not move.begun]
    if left:
        raise _with_data(app, left)
    if asked:
        raise replace_request.with_data(app.namespace, app.name, asked)
    if anew:
        raise rescheduling.with_data(app, anew)


def _with_data(app: AppWanted, held: Sequence[tuple[str, str, Sequence[str]]]) -> StateError:
    told = "; ".join(f"{pod} on node {node} (LocalDisk {', '.join(disks)})" for pod, node, disks in held)
    names = ", ".join(pod for pod, _node, _disks in held)
    return StateError(
        f"{app.namespace}/{app.name}: the data of these replicas is on disks of the nodes that they are to leave: "
        f"{told}. It does not come along: a replica begins empty where it goes. Where the app has it from its other "
        f"replicas, or from a backup, give it up by name with leave_data: [{names}]; the disks keep it. Nothing was "
        "changed"
    )


def losses(observed: Observed, moves: Iterable[Move]) -> dict[int, Loss]:
    """For next_step, by ordinal. Who is placed anew may come to the same node: its old berth alone goes. Nobody says of
    one whose berth goes because that was begun that it is to be elsewhere."""
    return {
        move.ordinal: _left(
            observed,
            move.node,
            move.ordinal,
            move.uid if move.why is not None else ANY_BERTH,
            replace_request.why(move.pod, move.node) if move.asked else "",
        )
        for move in moves
        if not move.home
    }


def _left(observed: Observed, node: str, ordinal: int, berth: str = ANY_BERTH, why: str = "") -> Loss:
    return Loss(node, "", observed.namespace, observed.name, ordinal, left=True, berth=berth, why=why)


def left_data(
    app: AppWanted, disks: Iterable[Object], rules: LeaveRules, observed: Observed, ordinals: Iterable[int]
) -> dict[int, tuple[Loss, list[Object]]]:
    """Ordinals without a berth whose data is on a node that is left: from before, or by a run that died.

    ``ordinals``: those that need a berth. Raises StateError for one whose data nobody gives up.
    """
    known = list(disks)
    found: dict[int, tuple[Loss, list[Object]]] = {}
    for ordinal in ordinals:
        for node in (*rules.nodes, *(node for whose, node in rules.places if whose == ordinal)):
            loss = _left(observed, node, ordinal, NO_BERTH)
            kept = [disk for disk in known if keeps(disk, loss)]
            if kept and not rules.give_up(ordinal, node):
                names = [str(disk["metadata"]["name"]) for disk in kept]
                raise _with_data(app, [(app.berth_name(ordinal), node, names)])
            if kept:
                found.setdefault(ordinal, (loss, kept))
    return found


def without_kept(world: World, observed: Observed, ordinals: Iterable[int]) -> World:
    """The world without the disks that keep what these replicas gave up before, elsewhere: cordoned, such a disk is no
    place for anybody, and its data would be where its replica goes."""
    whose = {(observed.namespace, observed.name, ordinal) for ordinal in ordinals}

    def given_up(disk: Object) -> bool:
        spec = disk["spec"]
        kept = spec.get("retainedFor") or {}
        mine = (kept.get("namespace"), kept.get("app"), kept.get("ordinal")) in whose
        return mine and bool(spec.get("unschedulable")) and not spec.get("claimRef")

    names = {disk["metadata"]["name"] for disk in world.disks if given_up(disk)} if whose else ()
    return without_disks(world, names) if names else world


def hindrances(
    app: AppWanted, observed: Observed, move: Move, budgets: Iterable[Object], now: datetime
) -> tuple[str, ...]:
    """What has to come before this replica may be taken down, a line each: by the rules of an update, and budgets.

    ``budgets``: PodDisruptionBudgets of the namespace. They are asked here, and the pod is then deleted, not evicted:
    its claims are deleted before it, which nothing undoes, and an eviction could be refused after that, for ever where
    the pod has several budgets. Evicted before its claims go, the pod would be made anew on them, in its old place.
    Whoever evicts another pod between this look and the deletion is therefore not kept from it.
    """
    pod = observed.pod(move.ordinal)
    if pod is None or not ready(pod):
        return ()  # it is no healthy one less
    unavailable, seconds = (app.update.unavailable, app.update.min_ready) if app.update is not None else (1, 0)
    busy = []
    for ordinal in range(app.replicas):
        other = observed.pod(ordinal)
        if ordinal != move.ordinal and (other is None or _is_down(other) or rest(other, seconds, now)):
            busy.append(app.berth_name(ordinal))
    lines = []
    if len(busy) >= unavailable:
        words = f"Ready for {seconds} s" if seconds else "Ready"
        lines.append(f"pod {', '.join(busy)} to be {words} (max_unavailable is {unavailable})")
    if app.update is None or app.update.budgets:
        full = [one for one in budgets_of(pod, [Budget.of(each) for each in budgets]) if one.allowed < 1]
        lines += [line(one, move.pod) for one in full]
    return tuple(lines)


def _is_down(pod: Object) -> bool:
    """Not Ready, or about to go down: an update has written new images into it, and its kubelet is to follow."""
    return not ready(pod) or bool(not_begun(pod))


def rows(moves: Iterable[Move], choices: Iterable[Choice]) -> list[dict[str, Any]]:
    """For the result, in their order. ``to`` is the node that is chosen now."""
    nodes = {choice.ordinal: choice.node for choice in choices}
    return [
        {
            "ordinal": move.ordinal,
            "pod": move.pod,
            "from": move.node,
            "to": nodes.get(move.ordinal),
            "disks": list(move.disks),
            "data": ("kept" if move.home else "given up") if move.data else "none",
            **({"fields": list(move.why)} if move.why is not None else {}),
            **({"replaced": True} if move.asked else {}),
            **({"begun": True} if move.home else {}),
        }
        for move in moves
    ]


def words(row: Mapping[str, Any]) -> str:
    """A row, in the diff."""
    if "begun" in row:
        data = f"; its data stays its own, on LocalDisk {', '.join(row['disks'])}" * (row["data"] != "none")
        why = "a run before has begun to give its berth up"
        return f"ends, because {why}: from node {row['from']} to node {row['to']}{data}"
    data = f"; its data on LocalDisk {', '.join(row['disks'])} is given up, and kept there" * (row["data"] != "none")
    if "replaced" in row:
        return f"replaced (as was asked for): from node {row['from']} to node {row['to']}{data}"
    if "fields" in row:
        why = ", ".join(row["fields"]) or "begun by a run before"
        return f"rescheduled ({why}): from node {row['from']} to node {row['to']}{data}"
    return f"moves from node {row['from']} to node {row['to']}{data}"


def nowhere(rules: LeaveRules, exc: BerthError) -> BerthError:
    """The refusal where no other node fits, with the nodes that were not asked."""
    exc.message += f" (Not looked at, by leave_nodes: {', '.join(rules.nodes)}.)"
    return exc
