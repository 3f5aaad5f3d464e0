# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two halves of a node's maintenance: its pods leave, its pods return. Reads, evicts, waits; decides nothing.

Everything is read anew in each round, so a run that died is continued by the next one, wherever it stopped.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Callable

from ..berth_core.app.budgets import Budget, budgets_of
from ..berth_core.app.disruption import Around, Refusal, gives_way, refusals
from ..berth_core.app.emptying import App, held_now
from ..berth_core.app.host_maintenance import (
    Home,
    Key,
    Sorted,
    berths_home,
    check_disks,
    comes_back,
    home,
    key_of,
    node_ready,
    sort_pods,
)
from ..berth_core.app.maintenance_mark import HELD, HOME, begin, cordoned, end, let_home, mark_of, occasion
from ..berth_core.app.not_ready import why_not_ready
from ..berth_core.app.wanted import APP_LABEL
from ..berth_core.errors import ConflictError, StateError, TimeoutExpired
from ..berth_core.lifecycle.history import tells
from ..berth_core.lifecycle.view import going
from ..berth_core.model.berth import CLAIM_APP
from ..berth_core.model.resources import BERTH, LOCAL_DISK, NODE, POD, POD_DISRUPTION_BUDGET, STATEFUL_SET
from .base import Context
from .evicting import evict
from .objects import poll
from .telling import History

Object = dict[str, Any]
#: Seconds between two rounds.
_MOST = 2.0
#: Rounds of a write that somebody else's changes of the Node are in the way of.
_SWAPS = 20


@dataclass(frozen=True)
class Seen:
    """``others``: pods without a berth that are to go, too."""

    node: Object
    pods: Sorted
    others: tuple[Mapping[str, Any], ...]
    around: Around

    @property
    def name(self) -> str:
        return str(self.node["metadata"]["name"])

    def without(self, moving: Iterable[App]) -> Seen:
        """What is to be done with those that wait for the node."""
        return replace(self, pods=replace(self.pods, held=held_now(self.pods.held, moving)))

    @property
    def going(self) -> list[Mapping[str, Any]]:
        """All pods that are to go."""
        return [*(one.pod for one in self.pods.held), *self.others]

    def budgets_of(self, pod: Mapping[str, Any]) -> list[str]:
        """The names of the budgets that have a say about the pod."""
        return [one.key.name for one in budgets_of(pod, [Budget.of(each) for each in self.around.budgets])]

    def refusals(self, most_away: int) -> list[Refusal]:
        """Why they may not go now."""
        return refusals(self.node, self.pods.held, self.others, self.around, most_away)


class Leaving:
    """``by`` and ``now``: who begins, and when."""

    def __init__(self, context: Context, by: str, now: str) -> None:
        self._context, self._client = context, context.client
        self._name, self._by, self._now = context.params["node"], by, now
        self._deadline = time.monotonic() + context.params["wait_timeout"]
        self._told, self._marked, self._history = "", False, History(context)
        self._others: set[str] = set()

    def look(self) -> Seen:
        """The node, its pods, and what has a say about them."""
        client, name = self._client, self._name
        node = client.get(NODE, name)
        pods = client.list(POD, fields=f"spec.nodeName={name}")
        found = sort_pods(pods, client.list(BERTH, fields=f"spec.nodeName={name}"))
        others = [pod for pod in found.others if self._context.params["evict_others"] and comes_back(pod)]
        # Those of the first look alone: what comes after them is tied to the node by its template, and comes for ever.
        self._others = self._others or {pod["metadata"]["uid"] for pod in others}
        others = [pod for pod in others if pod["metadata"]["uid"] in self._others]
        return Seen(node, found, tuple(others), self._around(found, others))

    def _around(self, found: Sorted, others: Iterable[Mapping[str, Any]]) -> Around:
        client = self._client
        held = sorted({one.key.namespace for one in found.held})
        spaces = sorted({*held, *(key_of(pod).namespace for pod in others)})
        budgets = [one for space in spaces for one in client.list(POD_DISRUPTION_BUDGET, space)]
        pods = [one for space in held for one in client.list(POD, space)]
        apps = sorted({(one.key.namespace, one.app) for one in found.held if one.app})
        berths = [one for space, app in apps for one in client.list(BERTH, space, labels=f"{APP_LABEL}={app}")]
        names = {one["spec"].get("nodeName") for one in (*pods, *berths)} - {None, self._name}
        nodes = [node for node in (client.find(NODE, name) for name in sorted(names)) if node is not None]
        return Around(budgets, pods, berths, nodes)

    def refused_by_the_api_server(self, seen: Seen) -> list[str]:
        """The evictions that it would refuse now, one by one; nothing goes."""
        tried = ((pod, evict(self._client, pod, dry_run=True)) for pod in seen.going if not going(pod))
        return [f"pod {key_of(pod)}: {why}" for pod, why in tried if why]

    def carry_out(self, seen: Seen) -> None:
        """Until the last of the pods is gone. Raises StateError, TimeoutExpired with what is in the way."""
        while True:
            refused = seen.refusals(self._context.params["max_unavailable"])
            lasting = [one.text for one in refused if not one.passing]
            if lasting:
                self._take_back()
                raise StateError(f"Node {self._name} cannot be emptied: {'; '.join(lasting)}; nothing was evicted now")
            if refused:
                if gives_way(seen.node, seen.around.nodes):
                    self._take_back()
                self._pause(seen, [one.text for one in refused])
            elif begin(seen.node, self._by, self._now) is not None:
                node = write_node(self._context, self._name, lambda node: begin(node, self._by, self._now))
                mark = mark_of(node)
                self._marked = mark is not None and (mark.by, mark.since) == (self._by, self._now)
            elif not seen.going:
                return
            else:
                self._pause(seen, self._evict_all(seen))
            seen = self.look()

    def _evict_all(self, seen: Seen) -> list[str]:
        """Ask all to go that were not asked yet; what is waited for then."""
        waits = []
        fresh = [record for one in seen.pods.held if not going(one.pod) for record in one.berths]
        self._history.tell(fresh, HELD, occasion(seen.node))  # before: what is told afterwards may be lost with the run
        for pod in seen.going:
            why = "" if going(pod) else evict(self._client, pod)
            if not going(pod) and not why:
                self._marked = False  # from now on nothing is taken back
            waits.append(f"pod {key_of(pod)}: {why}" if why else f"pod {key_of(pod)} to stop")
        return waits

    def _take_back(self) -> None:
        """The cordon of this run, under which nothing has gone yet."""
        if not self._marked:
            return
        self._marked = False
        write_node(self._context, self._name, let_home)
        write_node(self._context, self._name, end)

    def _pause(self, seen: Seen, waits: list[str]) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            self._take_back()
            raise TimeoutExpired(
                f"waited {self._context.params['wait_timeout']:g} s for the pods of Node {self._name} to go; still in "
                f"the way: {'; '.join(waits)}. Run the task again to go on, or with state: ended to bring back what "
                "has gone",
                missing=waits,
            )
        self._progress(waits)
        gone = {key_of(pod): pod["metadata"]["uid"] for pod in seen.going if going(pod)}
        poll(lambda: self._some_gone(gone), min(left, _MOST), most=0.5)

    def _some_gone(self, gone: Mapping[Key, str]) -> bool | None:
        """Whether there is something new to be seen: asked often, so it costs one LIST of one node."""
        if not gone:
            return None
        now = {pod["metadata"]["uid"] for pod in self._client.list(POD, fields=f"spec.nodeName={self._name}")}
        return True if not now.issuperset(gone.values()) else None

    def _progress(self, waits: list[str]) -> None:
        told = "; ".join(waits)
        if told != self._told:
            self._context.progress(f"maintenance of Node {self._name}: waiting for {told}")
            self._told = told


class Returning:
    """The node is opened, and its pods are waited for."""

    def __init__(self, context: Context) -> None:
        self._context, self._client = context, context.client
        self._name = context.params["node"]
        self._deadline = time.monotonic() + context.params["wait_timeout"]

    def look(self) -> Home:
        """Which pods are home. Raises StateError for one that no waiting brings home."""
        client, name = self._client, self._name
        berths = client.list(BERTH, fields=f"spec.nodeName={name}")
        spaces = sorted({key_of(one).namespace for one in berths})
        pods = [one for space in spaces for one in client.list(POD, space)]
        named = {(key_of(one).namespace, str(one["spec"]["app"])) for one in berths}
        apps = sorted(each for each in named if not each[1].startswith(CLAIM_APP))
        found = [client.find(STATEFUL_SET, app, space) for space, app in apps]
        return home(name, berths, pods, [one for one in found if one is not None], why_not_ready)

    def carry_out(self) -> Home:
        """Until all are home. Raises StateError, TimeoutExpired."""
        self._wait(self._node_ready, f"Node {self._name} to be Ready")
        berths = self._client.list(BERTH, fields=f"spec.nodeName={self._name}")
        check_disks(self._name, berths, self._client.list(LOCAL_DISK, fields=f"spec.nodeName={self._name}"))
        node = write_node(self._context, self._name, let_home)
        if cordoned(node):
            self._context.warn(
                f"Node {self._name} was cordoned by somebody else, and stays so; its pods wait until it is opened "
                f"(kubectl uncordon {self._name})"
            )
            found = self.look()
        else:
            found = self._wait_for_home()
        self._tell_who_is_home(found, occasion(node))
        write_node(self._context, self._name, end)
        return found

    def _tell_who_is_home(self, found: Home, why: str) -> None:
        """The histories that tell of the maintenance, and of no other berth: its pod was not asked to go."""
        berths = self._client.list(BERTH, fields=f"spec.nodeName={self._name}")
        held = [one for one in berths_home(found.rows, berths) if tells(one, HELD, why)]
        History(self._context).tell(held, HOME, why)

    def _node_ready(self) -> list[str]:
        why = node_ready(self._client.get(NODE, self._name))
        return [f"Node {self._name} is not Ready ({why})"] if why else []

    def _wait_for_home(self) -> Home:
        latest: dict[str, Home] = {}

        def missing() -> Iterable[str]:
            latest["home"] = self.look()
            return latest["home"].waits

        self._wait(missing, f"the pods of Node {self._name} to be home")
        return latest["home"]

    def _wait(self, missing: Callable[[], Iterable[str]], goal: str) -> None:
        latest: list[str] = []

        def nothing_missing() -> bool | None:
            before, latest[:] = list(latest), missing()
            if latest and latest != before:
                self._context.progress(f"waiting for {goal}: {'; '.join(latest)}")
            return None if latest else True

        if not poll(nothing_missing, max(0.0, self._deadline - time.monotonic()), first=0.1, most=_MOST):
            raise TimeoutExpired(
                f"waited {self._context.params['wait_timeout']:g} s for {goal}; still missing: {'; '.join(latest)}. "
                "Run the task again to go on",
                missing=list(latest),
            )


def write_node(context: Context, name: str, change: Callable[[Object], Object | None]) -> Object:
    """The Node after the change, which is made on the very version that was read."""
    for _number in range(_SWAPS):
        node = context.client.get(NODE, name)
        patch = change(node)
        if patch is None:
            return node
        try:
            return context.client.patch(NODE, name, None, patch)
        except ConflictError:
            continue  # its kubelet has written, or somebody who has it in hand, too
    raise ConflictError(f"Node {name} changed before the write {_SWAPS} times in a row", 409, "Conflict")
