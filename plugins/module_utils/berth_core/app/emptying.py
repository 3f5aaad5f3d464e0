# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which replicas of a node that is maintained wait for it, and which move away: by rules for applications.

Called by the module host_maintenance. A replica moves as leaving.py says; here it is only said whose do. Pure.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from ..errors import InputError, StateError
from ..lifecycle.states import RELEASING
from ..lifecycle.view import disks_of, recorded
from ..model.berth import CLAIM_APP
from ..model.names import is_label, shown
from .host_maintenance import Held
from .next_commands import uncordon
from .stateful_app_object import CONTROLLER
from .stateful_app_status import NODE_LOST

HOLD, MOVE = "hold", "move"
POLICIES = (HOLD, MOVE)
#: Options of stateful_app that host_maintenance says itself.
OURS = ("name", "namespace", "state", "driver", "until", "wait", "leave_nodes", "leave_data")
_REPLICA = re.compile(r"(?:(?P<namespace>[^/]+)/)?(?P<app>[^/]+)-(?P<ordinal>0|[1-9][0-9]*)")
#: But for leave_data: [db-1@n2].
_DATA = re.compile(r"leave_data(?!: \[[^\]]*@)")
_WILD = re.compile(r"[*?\[]")
Object = Mapping[str, Any]


class App(NamedTuple):
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Rule(NamedTuple):
    """``pattern``: over NAMESPACE/NAME. ``data``: replicas (NAMESPACE/NAME-N) whose data may be given up.

    ``options``: of stateful_app, for an application that a playbook carries out; None: not given.
    """

    pattern: str
    policy: str
    data: tuple[str, ...]
    options: Mapping[str, Any] | None
    where: str

    @property
    def app(self) -> App | None:
        """The one application that it names; None of a pattern."""
        return None if _WILD.search(self.pattern) else App(*self.pattern.split("/", 1))

    def data_of(self, app: App) -> list[str]:
        """The replicas of the app that it names, as leave_data has them."""
        found = [_REPLICA.fullmatch(one) for one in self.data]
        return [
            f"{one['app']}-{one['ordinal']}"
            for one in found
            if one is not None and (one["namespace"] or app.namespace, one["app"]) == app
        ]


def rules_of(given: Iterable[Mapping[str, Any]] | None) -> list[Rule]:
    """The option ``apps``, checked; the first rule that an application matches decides. Raises InputError."""
    return [_rule(one, f"apps[{index}]") for index, one in enumerate(given or ())]


def _rule(told: Mapping[str, Any], where: str) -> Rule:
    pattern, policy = str(told["app"]), told.get("policy") or MOVE
    data, options = tuple(told.get("data") or ()), told.get("options")
    parts = pattern.split("/")
    named = not _WILD.search(pattern)
    if len(parts) != 2 or not all(parts) or (named and not all(map(is_label, parts))):
        raise InputError(f"{where}.app is {shown(pattern)}: expected NAMESPACE/NAME, where * and ? match, or [ab]")
    for index, one in enumerate(data):
        if not _REPLICA.fullmatch(one):
            raise InputError(f"{where}.data[{index}] is {shown(one)}: expected a replica, as db-2 or default/db-2")
    if policy == HOLD and (data or options is not None):
        raise InputError(f"{where} ({pattern}): data and options are of replicas that move, and policy is hold")
    if options is not None and not named:
        raise InputError(f"{where}.options are those of one application, and {shown(pattern)} is a pattern: name it")
    ours = [name for name in OURS if (options or {}).get(name) is not None]
    if ours:
        raise InputError(f"{where}.options: {', '.join(ours)} cannot stand here: host_maintenance says it itself")
    return Rule(pattern, policy, data, options, where)


def rule_for(rules: Sequence[Rule], app: App) -> Rule | None:
    """The first that matches, if its replicas are to move."""
    found = next((one for one in rules if fnmatchcase(str(app), one.pattern)), None)
    return found if found is not None and found.policy == MOVE else None


def apps_that_move(
    rules: Sequence[Rule], berths: Iterable[Object], known: Iterable[Object], ours: str
) -> list[tuple[App, Rule]]:
    """Whose replicas leave. ``berths``: those of the node. ``known``: all StatefulApps.

    Of an application that is named, and of one that ``ours`` (a field manager) has asked to leave, a run that died may
    have given up the last berth here already: they are always looked at.
    """
    found = {_holder_of(one) for one in berths}
    found |= {one.app for one in rules if one.app is not None and one.options is not None}
    found |= {app_of(one) for one in known if asked_by(one, ours)}
    named = sorted(app for app in found if not app.name.startswith(CLAIM_APP))
    pairs = [(app, rule_for(rules, app)) for app in named]
    return [(app, rule) for app, rule in pairs if rule is not None]


def app_of(body: Object) -> App:
    """Of a StatefulApp."""
    return App(str(body["metadata"]["namespace"]), str(body["metadata"]["name"]))


def _holder_of(berth: Object) -> App:
    return App(str(berth["metadata"]["namespace"]), str(berth["spec"]["app"]))


def berths_of(app: App, berths: Iterable[Object]) -> list[Object]:
    """Those that are the app's."""
    return [one for one in berths if _holder_of(one) == app]


def held_now(held: Iterable[Held], moving: Iterable[App]) -> tuple[Held, ...]:
    """Those of the pods that wait for the node."""
    gone = set(moving)
    return tuple(one for one in held if App(one.key.namespace, one.app) not in gone)


def by_controller(app: App, rule: Rule, known: Iterable[Object], node: str) -> Object | None:
    """The StatefulApp that berth-controller carries out; None where a playbook does, whose options are given.

    Raises StateError where nobody here knows what the application asks for.
    """
    body = next((one for one in known if app_of(one) == app), None)
    driven = body is not None and body["spec"].get("driver") == CONTROLLER
    if driven and rule.options is not None:
        raise StateError(
            f"application {app} has a StatefulApp that berth-controller carries out: leave {rule.where}.options out"
        )
    if driven or rule.options is not None:
        return body if driven else None
    raise StateError(
        f"application {app} is carried out by a playbook, and all that it asks for stands in its task alone: give its "
        f"options to {rule.where}.options of a rule with app: {app}, or run stateful_app with leave_nodes: [{node}] "
        "first, or let it wait with policy: hold"
    )


# -- what berth-controller is asked for: items of lists that are sets, each by whoever asks for it


def manager_of(node: str) -> str:
    """The field manager of what a node's maintenance asks for; it has at most 128 characters."""
    name = f"berth-maintenance-{node}"
    return name if len(name) <= 128 else f"berth-maintenance-{hashlib.sha256(node.encode()).hexdigest()[:16]}"


def asked_by(body: Object, manager: str) -> bool:
    """Whether the StatefulApp has fields of that manager."""
    told = body["metadata"].get("managedFields") or ()
    return any(one.get("manager") == manager and one.get("operation") == "Apply" for one in told)


def asking(body: Object, node: str, data: Sequence[str]) -> dict[str, Any]:
    """What is applied for its replicas to leave the node."""
    return {**_named(body), "spec": {"leaveNodes": [node], **({"leaveData": sorted(data)} if data else {})}}


def asking_no_more(body: Object) -> dict[str, Any]:
    """What is applied when the node is cordoned: what others ask for stays."""
    return _named(body)


def _named(body: Object) -> dict[str, Any]:
    meta = body["metadata"]
    return {"metadata": {key: meta[key] for key in ("name", "namespace", "uid")}}


def half_way(
    asked: Iterable[App], of_playbooks: Iterable[App], berths: Iterable[Object], node: str, foreseen: bool = False
) -> list[str]:
    """What is said of replicas that were leaving when nobody asks for it any more, or, ``foreseen``, will.

    ``asked``: whose StatefulApp was asked for that; ``of_playbooks``: whose task was run. ``berths``: those of the
    node. What a replica has not finished giving up is given up by nobody who does not name it: its disk is cordoned by
    then.
    """
    by_task, found = set(of_playbooks), []
    apps = {*asked, *by_task}
    for one in berths:
        disks, app = [str(each["name"]) for each in disks_of(one)], _holder_of(one)
        if app not in apps or recorded(one) != RELEASING or not disks:
            continue
        pod, cordons = str(one["metadata"]["name"]), "; ".join(map(uncordon, disks))
        own = " and run its own task" if app in by_task else ""
        found.append(
            f"replica {app.namespace}/{pod} was leaving Node {node}, and "
            f"{'would wait then' if foreseen else 'waits now'}: its berth is being given up, and its data is on "
            f"LocalDisk {', '.join(disks)}, which is cordoned. Run this again with state: begun and the same apps to "
            f"have it go on; or take the cordon off{own}, and it comes back to its data: {cordons}"
        )
    return found


def in_rule(message: str, rule: Rule) -> str:
    """A refusal of stateful_app that names leave_data, with the rule's own name for it. A replica with its node
    (NAME@NODE), which leaves another place beside, has no place in a rule: its own task says that."""
    return _DATA.sub(f"{rule.where}.data", message)


def still_here(body: Object | None, node: str, berths: Iterable[Object]) -> list[str]:
    """What is waited for of a StatefulApp whose replicas leave. Raises StateError for what its driver refuses."""
    if body is None:
        return []
    status, name = body.get("status") or {}, str(app_of(body))
    if status.get("observedGeneration") != body["metadata"].get("generation"):
        return [f"berth-controller to look at StatefulApp {name}"]
    told = {str(one.get("type")): one for one in status.get("conditions") or ()}
    stalled = told.get("Stalled", {})
    if (
        stalled.get("status") == "True" and stalled.get("reason") != NODE_LOST
    ):  # another one's node, which may come back
        raise StateError(f"StatefulApp {name}: {told['Stalled'].get('message')}; Node {node} was not cordoned")
    left = [
        f"replica {one['metadata']['namespace']}/{one['metadata']['name']} to leave"
        for one in berths_of(app_of(body), berths)
    ]
    ready = told.get("Ready", {})
    if not left and ready.get("status") != "True":
        left = [f"StatefulApp {name} to be Ready"]
    return [f"{line} ({ready.get('reason')}: {ready.get('message')})" for line in left]
