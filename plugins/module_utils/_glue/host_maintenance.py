# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module host_maintenance: the pods with a berth leave a node, and come home to it.

Called by plugins/modules/host_maintenance.py and plugins/action/host_maintenance.py. Which pods go and what forbids it
is decided in berth_core.app.host_maintenance and disruption; maintenance.py reads, evicts and waits.
"""

from __future__ import annotations

import getpass
import socket
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from ..berth_core.app.claim_pods import workload_of
from ..berth_core.app.emptying import MOVE, POLICIES, rules_of
from ..berth_core.app.host_maintenance import Home, comes_back, key_of, pod_row
from ..berth_core.app.maintenance_mark import begin, end, let_home, mark_of, shown
from ..berth_core.errors import InputError, StateError
from ..berth_core.model.names import check_subdomain
from ..berth_core.model.resources import NODE
from . import emptying
from .base import Context, Operation
from .emptying import Emptying
from .maintenance import Leaving, Returning, Seen
from .objects import diff_entry

_BEGUN, _ENDED = "begun", "ended"
_APP = {
    "app": {"type": "str", "required": True},
    "policy": {"type": "str", "choices": list(POLICIES), "default": MOVE},
    "data": {"type": "list", "elements": "str"},
    "options": {"type": "dict"},
}
OPTIONS: dict[str, dict[str, Any]] = {
    "node": {"type": "str", "required": True},
    "state": {"type": "str", "choices": [_BEGUN, _ENDED], "default": _BEGUN},
    "apps": {"type": "list", "elements": "dict", "options": _APP},
    "max_unavailable": {"type": "int", "default": 1},
    "evict_others": {"type": "bool", "default": False},
    "wait_timeout": {"type": "int", "default": 600},
}


def run(context: Context) -> dict[str, Any]:
    params = context.params
    check_subdomain(params["node"], "node")
    if params["max_unavailable"] < 0:
        raise InputError(
            f"max_unavailable is {params['max_unavailable']}: expected how many replicas of an application may be away "
            "at once, 0 or more"
        )
    rules_of(params["apps"])
    return _ended(context) if params["state"] == _ENDED else _begun(context)


def _begun(context: Context) -> dict[str, Any]:
    by, now = f"{getpass.getuser()}@{socket.gethostname()}", datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    moves = Emptying(context)
    moves.look()
    work = Leaving(context, by, now)
    seen = work.look().without(moves.apps)
    mark, patch = mark_of(seen.node), begin(seen.node, by, now)
    if mark is not None and mark.by != by:
        context.warn(
            f"maintenance of Node {seen.name} was begun by {mark.by} at {mark.since}; this run goes on with it"
        )
    _tell_who_stays(context, seen)
    changed = patch is not None or bool(seen.going) or moves.pending
    pods = [*(str(key_of(pod)) for pod in seen.going), *(f"{row['namespace']}/{row['pod']}" for row in moves.rows)]
    result = {
        "changed": changed,
        "node": seen.name,
        "pods": [{**pod_row(one), "budgets": seen.budgets_of(one.pod)} for one in seen.pods.held],
        "moved": moves.rows,
        "others": [_other(pod, pod in seen.others) for pod in seen.pods.others],
        "diff": [_diff(seen.node, patch, pods)] if changed else [],
    }
    if not context.check_mode:
        _empty(context, moves, seen, (by, now))
        return {**result, "refused": []}
    refused = [*moves.refused, *(one.text for one in seen.refusals(context.params["max_unavailable"]))]
    refused = refused or work.refused_by_the_api_server(seen)
    for text in refused:
        context.warn(f"Node {seen.name} could not be emptied now: {text}")
    return {**result, "refused": refused}


def _empty(context: Context, moves: Emptying, seen: Seen, who: tuple[str, str]) -> None:
    """Some move, the others wait. What no waiting mends is refused before the first of them moves."""
    lasting = [one.text for one in seen.refusals(context.params["max_unavailable"]) if not one.passing]
    if moves.refused or (moves.leavers and lasting):
        raise StateError(
            f"Node {seen.name} cannot be emptied: {'; '.join([*moves.refused, *lasting])}. Nothing was changed"
        )
    moves.carry_out()
    work = Leaving(context, *who)  # its time begins now
    work.carry_out(work.look())
    moves.end()


def _ended(context: Context) -> dict[str, Any]:
    """Who has moved stays where he is; of ``apps`` alone what a run that died has left is taken back."""
    node = context.client.get(NODE, context.params["node"])
    name, patch = node["metadata"]["name"], end(node)
    moves = Emptying(context)
    moves.look_behind()
    for text in moves.half_way():
        context.warn(text)
    if patch is None and not moves.pending:
        return {"changed": False, "node": name, "pods": [], "left": [], "diff": []}
    work, found = Returning(context), Home((), (), ())
    if patch is not None:
        found = work.look() if context.check_mode else work.carry_out()
    if not context.check_mode:
        moves.end()
    for key in found.left:
        context.warn(f"pod {key} is a bare pod, which nobody makes anew by itself: run stateful_app of its application")
    return {
        "changed": True,
        "node": name,
        "pods": list(found.rows),
        "left": [str(key) for key in found.left],
        "diff": [_diff(node, {**(let_home(node) or {}), **(patch or {})}, ())],
    }


def _tell_who_stays(context: Context, seen: Seen) -> None:
    bare = [str(one.key) for one in seen.pods.held if not comes_back(one.pod)]
    if bare:
        context.warn(f"bare pods are away until stateful_app of their application runs again: {', '.join(bare)}")
    stay = [str(key_of(pod)) for pod in seen.pods.others if pod not in seen.others]
    if stay:
        context.warn(f"pods without a berth stay on Node {seen.name}: {', '.join(stay)}")


def _other(pod: Mapping[str, Any], goes: bool) -> dict[str, Any]:
    key = key_of(pod)
    return {"namespace": key.namespace, "pod": key.name, "workload": workload_of(pod) or None, "evicted": goes}


def _diff(node: Mapping[str, Any], patch: Mapping[str, Any] | None, pods: Sequence[str]) -> dict[str, Any]:
    """The node, and the pods that go from it."""
    return diff_entry(NODE, node["metadata"]["name"], shown(node, None, pods), shown(node, patch, ()))


OPERATION = Operation("host_maintenance", OPTIONS, run, prepare=emptying.prepare)
