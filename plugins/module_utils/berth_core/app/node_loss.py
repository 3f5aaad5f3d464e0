# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replicas whose node is lost: which they are, what is known of the node, and what was decided about their data.

By default they wait, for the data comes back with the node. Nothing is given up before it is proven that nothing of the
replica runs there any more: a kubelet that cannot be reached proves nothing, and neither does a Node that is deleted.
Pure; carried out by lifecycle/lost.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import InputError, StateError
from ..lifecycle import states
from ..lifecycle.lost import Loss, was_run_in
from ..lifecycle.view import disks_of, recorded
from ..model.fields import mapping, objects
from ..model.names import check_subdomain
from .observed import Object, Observed, phase, ready
from .plan import Plan

KEEP, RELEASE, REBUILD = "keep", "release", "rebuild"
POLICIES = (KEEP, RELEASE, REBUILD)
#: What a StatefulApp may say. To give data up by ordinal takes a person who looks at this very loss.
STANDING = (KEEP, REBUILD)
#: Whoever puts it on a node says that the machine is off. Kubernetes takes the node's pods away by force then.
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


@dataclass(frozen=True)
class LossRules:
    """``ordinals``: whose data may be given up. ``fenced``: nodes of which a person says that nothing runs there.

    ``inventory``: the nodes that the inventory has hosts for; None: nobody has told, so that the cluster alone says
    which nodes are lost.
    ``quorum``: how many replicas have to be Ready for a rebuild; None: more than half. ``by_task``: the words of a task
    can be told, else those of a StatefulApp.
    """

    policy: str = KEEP
    ordinals: tuple[int, ...] = ()
    fenced: tuple[str, ...] = ()
    inventory: frozenset[str] | None = None
    quorum: int | None = None
    by_task: bool = True

    def loss_of(self, name: str, node: Object | None) -> tuple[str, str] | None:
        """(why a node is lost, since when); None for one that is not. ``node``: None where there is no such Node."""
        told = loss_of(node)
        if told is None and self.inventory is not None and name not in self.inventory:
            return "the inventory has no host for it", ""
        return told

    def asks_for(self, ordinal: int) -> bool:
        """Whether this replica is to get another berth where its node is lost."""
        return self.policy == REBUILD or (self.policy == RELEASE and ordinal in self.ordinals)


def loss_rules(options: Mapping[str, Any], replicas: int) -> LossRules:
    """The options of stateful_app, checked. Raises InputError."""
    policy = options.get("on_node_loss") or KEEP
    ordinals, fenced = options.get("release_ordinals") or (), options.get("confirm_fenced") or ()
    if policy == RELEASE and not ordinals:
        raise InputError(
            "on_node_loss is release, and release_ordinals is empty: name the ordinals whose data is given up, for "
            "example release_ordinals: [2]; nothing was changed"
        )
    if policy != RELEASE and ordinals:
        raise InputError(
            f"release_ordinals is given, and on_node_loss is {policy}: it has a meaning with release alone"
        )
    if policy == KEEP and fenced:
        raise InputError("confirm_fenced is given, and on_node_loss is keep: nothing is given up, so it has no meaning")
    for ordinal in ordinals:
        if not 0 <= ordinal < replicas:
            raise InputError(f"release_ordinals names {ordinal}: expected ordinals from 0 to {replicas - 1}")
    for index, node in enumerate(fenced):
        check_subdomain(node, f"confirm_fenced[{index}]")
    inventory, quorum = inventory_of(options), options.get("quorum")
    return LossRules(policy, tuple(sorted(set(ordinals))), tuple(fenced), inventory, quorum)


def inventory_of(options: Mapping[str, Any]) -> frozenset[str] | None:
    """The option ``inventory_nodes``; None where it is not given. Raises InputError."""
    nodes = options.get("inventory_nodes")
    if nodes is None:
        return None
    if not nodes:
        raise InputError(
            "inventory_nodes is empty, by which every node would be lost: expected the nodes of all hosts of the "
            "inventory; leave it out where the cluster alone is to say which nodes are lost. Nothing was changed"
        )
    for index, node in enumerate(nodes):
        check_subdomain(node, f"inventory_nodes[{index}]")
    return frozenset(nodes)


@dataclass(frozen=True)
class Lost:
    """A replica whose node is lost. ``why`` the node is; ``since``: when that was told. ``proof`` that nothing of the
    replica runs there, or empty; then ``missing`` says what would prove it. ``deleted``: there is no such Node."""

    ordinal: int
    pod: str
    node: str
    why: str
    since: str
    proof: str
    missing: str
    deleted: bool = False


def doubtful(observed: Observed, workload: str, replicas: int) -> dict[int, str]:
    """Ordinal -> node of the berths whose pod is not Ready: their nodes are to be looked at."""
    return {
        ordinal: str(record["spec"]["nodeName"])
        for ordinal, record in sorted(observed.berths.items())
        if ordinal < replicas and phase(ordinal, observed, workload) not in (states.RUNNING, states.REPLACING)
    }


def find_lost(
    observed: Observed, doubts: Mapping[int, str], nodes: Mapping[str, Object | None], rules: LossRules
) -> list[Lost]:
    """``nodes``: by name; None: there is no such Node."""
    found = []
    for ordinal, name in doubts.items():
        told = rules.loss_of(name, nodes[name])
        if told is None:
            continue
        proof, missing = _proof(name, nodes[name], rules)
        found.append(Lost(ordinal, f"{observed.name}-{ordinal}", name, *told, proof, missing, nodes[name] is None))
    return found


def loss_of(node: Object | None) -> tuple[str, str] | None:
    """What the cluster says: (why a node is lost, since when); None for one that is not."""
    if node is None:
        return "its Node is deleted", ""
    for taint in objects(mapping(node, "spec"), "taints"):
        if taint.get("key") == OUT_OF_SERVICE:
            return f"it has the taint {OUT_OF_SERVICE}", str(taint.get("timeAdded") or "")
    for one in objects(mapping(node, "status"), "conditions"):
        if one.get("type") == "Ready" and one.get("status") != "True":
            return f"Ready is {one.get('status')} ({one.get('reason', '')})", str(one.get("lastTransitionTime") or "")
    return None


def _proof(name: str, node: Object | None, rules: LossRules) -> tuple[str, str]:
    """(proof, "") or ("", what would be one).

    That a Node is deleted proves nothing: the containers run on where its machine has only lost its connection, and
    Kubernetes takes the objects of their pods away all the same.
    """
    if name in rules.fenced:
        return "confirm_fenced says so", ""
    if node is not None and any(one.get("key") == OUT_OF_SERVICE for one in objects(mapping(node, "spec"), "taints")):
        return f"the taint {OUT_OF_SERVICE}", ""
    said = [taint_command(name)] if node is not None else []
    if rules.by_task:
        said.append(f"confirm_fenced: [{name}]")
    elif node is None:
        said.append(stand_in(name))
    return "", f"switch the machine off, and say so: {', or '.join(said)}"


def taint_command(name: str) -> str:
    """By which a person says of a Node that is there that its machine is off."""
    return f"kubectl taint node {name} {OUT_OF_SERVICE}=nodeshutdown:NoExecute"


def stand_in(name: str) -> str:
    """The command by which a person says of a deleted Node that its machine is off, to who is not told by a task.

    It makes a Node of that name that has the taint. So nothing can be scheduled to a machine that registers under the
    name later, and its pods are evicted, for as long as the word holds. ``create``: refused where one has come back.
    """
    taint = {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"taints": [taint]}}
    return f"echo '{json.dumps(body)}' | kubectl create --filename -"


def decide(rules: LossRules, lost: Sequence[Lost], observed: Observed, replicas: int) -> list[Lost]:
    """The replicas that get another berth. Raises StateError where that was asked for and may not be."""
    chosen = [one for one in lost if rules.asks_for(one.ordinal)]
    for one in chosen:
        if not one.proof:
            raise StateError(f"{_unproven(one, observed)}. Nothing was changed", ordinal=one.ordinal)
    if chosen and rules.policy == REBUILD:
        _check_quorum(lost, observed, replicas, rules)
    return chosen


def decide_what_is_proven(
    rules: LossRules, lost: Sequence[Lost], observed: Observed, replicas: int
) -> tuple[list[Lost], list[str]]:
    """As `decide`, for who looks again: (who gets another berth now, why others do not). A node that is silent for a
    moment holds nothing up."""
    waits = [_unproven(one, observed) for one in lost if rules.asks_for(one.ordinal) and not one.proof]
    proven = [one for one in lost if rules.asks_for(one.ordinal) and one.proof]
    if proven and rules.policy == REBUILD:
        try:
            _check_quorum(lost, observed, replicas, rules)
        except StateError as exc:
            return [], [*waits, exc.message]
    return proven, waits


def not_ended(lost: Iterable[Lost], observed: Observed) -> tuple[int, ...]:
    """Ordinals whose berths are being given up on a Node that is deleted, as long as nothing proves that it is off.

    Whoever has begun that waits for the end of the pod. Where its object is gone with the Node, that is none: neither
    the berth goes on, nor is the replica placed anew.
    """
    return tuple(
        one.ordinal
        for one in lost
        for record in [observed.berths[one.ordinal]]
        if one.deleted and not one.proof and recorded(record) == states.RELEASING and was_run_in(record)
    )


def _unproven(one: Lost, observed: Observed) -> str:
    return (
        f"replica {observed.namespace}/{one.pod}: its node {one.node} is lost ({one.why}), and nothing proves that the "
        "replica does not run there any more; a kubelet that cannot be reached is no proof, and neither is a Node that "
        f"is deleted. To go on, {one.missing}"
    )


def _check_quorum(lost: Sequence[Lost], observed: Observed, replicas: int, rules: LossRules) -> None:
    gone = {one.ordinal for one in lost}
    up = [ordinal for ordinal in range(replicas) if ordinal not in gone and ready(observed.pod(ordinal))]
    needed = replicas // 2 + 1 if rules.quorum is None else rules.quorum
    if len(up) >= needed:
        return
    names = ", ".join(f"{observed.name}-{ordinal}" for ordinal in up) or "none"
    words = "more than half" if rules.quorum is None else "quorum"
    other = "; or give the data up by name (on_node_loss: release, release_ordinals)" if rules.by_task else ""
    raise StateError(
        f"{observed.namespace}/{observed.name}: {', '.join(one.pod for one in lost)} cannot be rebuilt: of {replicas} "
        f"replicas {len(up)} are Ready ({names}), and {needed} have to be ({words}), for the data comes from them. "
        f"Bring others back first{other}. Nothing was changed"
    )


def losses(observed: Observed, chosen: Iterable[Lost]) -> dict[int, Loss]:
    """For next_step, by ordinal."""
    return {one.ordinal: Loss(one.node, one.proof, observed.namespace, observed.name, one.ordinal) for one in chosen}


def with_losses(plan: Plan, ordinals: Iterable[int]) -> Plan:
    """The plan in which these berths go first and are chosen anew."""
    gone = set(ordinals)

    def rest(kept: Iterable[int]) -> tuple[int, ...]:
        return tuple(ordinal for ordinal in kept if ordinal not in gone)

    return replace(
        plan,
        select=tuple(sorted({*plan.select, *gone})),
        discard=tuple(sorted({*plan.discard, *gone})),
        advance={ordinal: now for ordinal, now in (plan.advance or {}).items() if ordinal not in gone},
        refresh=rest(plan.refresh),
        tie=rest(plan.tie),
        restart=rest(plan.restart),
        backoff={ordinal: one for ordinal, one in plan.backoff.items() if ordinal not in gone},
        update=rest(plan.update),
        outdated=rest(plan.outdated),
        stop=rest(plan.stop),
        settled=rest(plan.settled),
    )


def row(one: Lost, rules: LossRules, chosen: Sequence[Lost], record: Object | None) -> dict[str, Any]:
    """A lost replica, for the result."""
    disks = [str(each["name"]) for each in disks_of(record)] if record is not None else []
    return {
        "ordinal": one.ordinal,
        "pod": one.pod,
        "node": one.node,
        "disks": disks,
        "why": one.why,
        "since": one.since or None,
        "fenced": one.proof or None,
        "decision": rules.policy if one in chosen else KEEP,
    }


def told(one: Lost, namespace: str) -> str:
    """What a task says of a replica that waits for its node, with the next step."""
    prove = f"{one.missing}; then " if one.missing else ""
    return (
        f"replica {namespace}/{one.pod} waits for its node {_lost_node(one)}. Its data comes back with the "
        f"node. To give it up, {prove}run this task with on_node_loss: release and release_ordinals: [{one.ordinal}], "
        "or with on_node_loss: rebuild where the other replicas have the data"
    )


def told_of_kind(lost: Sequence[Lost], namespace: str) -> str:
    """The same of a StatefulApp, all of them in one text, for a condition has room for so much: first who waits for
    which node, and why, then the ways out. Empty where nobody waits."""
    if not lost:
        return ""
    nodes: dict[str, list[Lost]] = {}
    for one in lost:
        nodes.setdefault(one.node, []).append(one)
    waits = [
        f"replica{'s' * (len(here) > 1)} {', '.join(f'{namespace}/{one.pod}' for one in here)} "
        f"wait{'s' * (len(here) == 1)} for node {_lost_node(here[0])}"
        for here in nodes.values()
    ]
    missing = dict.fromkeys(one.missing for one in lost if one.missing)
    prove = "".join(f"{line}; " for line in missing) + ("then " if missing else "")
    ordinals = ", ".join(str(one.ordinal) for one in lost)
    return (
        f"{'; '.join(waits)}. The data comes back with the node. To give it up, {prove}say spec.onNodeLoss: Rebuild "
        "where the other replicas have the data, or hand the application over to a playbook (spec.driver: playbook) "
        f"for a run with on_node_loss: release and release_ordinals: [{ordinals}]"
    )


def _lost_node(one: Lost) -> str:
    return f"{one.node}{f' since {one.since}' if one.since else ''}: {one.why}"


def left_behind(
    disks: Iterable[Object], nodes: Iterable[Object], rules: LossRules, observed: Observed, ordinals: Iterable[int]
) -> dict[int, tuple[Loss, list[Object]]]:
    """Ordinals without a berth whose data is on a lost node and was given up: from before, or by a run that died.

    ``ordinals``: those that need a berth. Only what a node proves counts: nobody holds these disks.
    """
    there = {str(node["metadata"]["name"]): node for node in nodes}
    found: dict[int, tuple[Loss, list[Object]]] = {}
    wanted = {ordinal for ordinal in ordinals if rules.asks_for(ordinal)}
    for disk in disks:
        spec = disk["spec"]
        kept, node = spec.get("retainedFor") or {}, str(spec["nodeName"])
        mine = (kept.get("namespace"), kept.get("app")) == (observed.namespace, observed.name)
        ordinal = kept.get("ordinal")
        if not mine or spec.get("claimRef") or ordinal not in wanted or rules.loss_of(node, there.get(node)) is None:
            continue
        loss = Loss(node, "its data is on a lost node", observed.namespace, observed.name, int(ordinal))
        found.setdefault(int(ordinal), (loss, []))[1].append(disk)
    return found
