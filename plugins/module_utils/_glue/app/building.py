# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reserved -> Bound -> Created -> Running: volumes and claims, then the workload, then the wait for its pods.

Every object is created once and found again by whoever comes next; what is there and is not berth's is never touched.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...berth_core.app import manifests
from ...berth_core.app.choose import World
from ...berth_core.app.compare import differences
from ...berth_core.app.ended_pods import in_order
from ...berth_core.app.given_beside import BESIDE
from ...berth_core.app.manifests import volume_of
from ...berth_core.app.plan import strategy_patch
from ...berth_core.app.wanted import APP_LABEL
from ...berth_core.app.wanted import POD as POD_WORKLOAD
from ...berth_core.errors import ConflictError
from ...berth_core.lifecycle.driving import refuse
from ...berth_core.lifecycle.forward import differs, waits
from ...berth_core.lifecycle.view import View, disks_of, going
from ...berth_core.model.resources import NODE, POD, SERVICE, STATEFUL_SET
from . import overtaking, restarting, wait
from .hand import Hand
from .selecting import Selector


class Builder:
    """What the selector has read of the world, where it has, spares a GET for each node."""

    def __init__(self, hand: Hand, selector: Selector) -> None:
        self._hand = hand
        self._selector = selector

    @property
    def _world(self) -> World | None:
        return self._selector.world

    def prebind(self) -> None:
        """Volumes and claims of every berth that lacks them."""
        plan = self._hand.plan
        for ordinal in sorted({*plan.select, *(plan.advance or {}), *plan.tie}):
            view = self._hand.complete(self._hand.views[ordinal], self._world)
            self._drive(ordinal, replace(view, hostname=self._hostname(view)))

    def _drive(self, ordinal: int, view: View, **facts: Any) -> None:
        """As far as the berth comes with what is known of its workload."""
        driven = self._hand.driver.drive(replace(view, owner=self._hand.owner(ordinal, **facts)))
        refuse(self._hand.title(ordinal), driven.step)
        self._hand.views[ordinal] = driven.view

    def _hostname(self, view: View) -> str | None:
        """The label that the volumes name; None where all of them are there."""
        record = view.berth
        if record is None:
            return None
        names = {volume_of(record, each) for each in disks_of(record)}
        if names <= set(view.volumes):
            return None
        node = record["spec"]["nodeName"]
        found = [item for item in self._world.nodes if item["metadata"]["name"] == node] if self._world else []
        live = found[0] if found else self._hand.client.get(NODE, node)
        return manifests.hostname_of(live)

    def create(self) -> None:
        """What the workload needs, the workload, then the records: the StatefulSet is told of its new size when all
        its berths are Bound."""
        for body in self._hand.plan.beside:
            self._hand.client.apply(BESIDE[body["kind"]], body)
        if self._hand.plan.service:
            self._hand.client.apply(SERVICE, self._hand.plan.service)
        for ordinal in self._hand.plan.refresh:
            overtaking.refresh(self._hand, ordinal)
        if self._hand.plan.stateful_set:
            self._apply_stateful_set(self._hand.plan.stateful_set)
        if self._hand.app.suspended:
            self._stop()
            return
        if self._hand.app.workload == POD_WORKLOAD:
            self._create_pods()
        for ordinal in (*(self._hand.plan.advance or {}), *self._hand.plan.select):
            self._drive(ordinal, self._hand.views[ordinal], told=True)
        for ordinal in in_order(self._hand.plan):
            # A pod that went with a berth that was given up has been made anew above.
            if self._hand.seen.pod(ordinal) is not None and restarting.begin(self._hand, ordinal):
                self._pod_goes(ordinal)
                self.create_pod(ordinal)

    def _apply_stateful_set(self, desired: Mapping[str, Any]) -> None:
        app, live = self._hand.app, self._hand.seen.stateful_set
        patch = strategy_patch(desired, live)
        if patch:
            live = self._hand.client.patch(STATEFUL_SET, app.name, app.namespace, patch)
        overtaking.apply_set(self._hand, desired, live)

    def _stop(self) -> None:
        """The pods go, and their berths keep everything."""
        names = [self._hand.app.berth_name(ordinal) for ordinal in self._hand.plan.stop]
        if self._hand.app.workload == POD_WORKLOAD:
            for name in names:
                uid = self._hand.seen.pods[name]["metadata"]["uid"]
                self._hand.client.delete(POD, name, self._hand.app.namespace, uid=uid)
        if names:
            self.wait_pods(wait.pods_gone(names), "the pods to stop")

    def _create_pods(self) -> None:
        for ordinal in range(self._hand.app.replicas):
            if self._hand.seen.pod(ordinal) is None and ordinal not in self._hand.plan.later:
                self.create_pod(ordinal)

    def create_pod(self, ordinal: int) -> None:
        """Create it, or find that it is there (an earlier run's, or this run's whose answer was lost).

        Its metadata tells berth's pod from another's: admission adds to the lists of the whole.
        """
        body = manifests.pod(self._hand.app, ordinal, self._hand.record(ordinal)["spec"]["nodeName"])
        name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
        deadline = time.monotonic() + self._hand.timeout
        while True:
            try:
                self._hand.client.create(POD, body)
                return
            except ConflictError:
                live = self._hand.client.find(POD, name, namespace)
            if live is None:
                continue
            if not going(live):
                wrong = differences({"metadata": body["metadata"]}, live)
                if wrong:
                    refuse(self._hand.title(ordinal), differs(POD, live, wrong))
                return
            if time.monotonic() > deadline:
                raise ConflictError(waits(POD, live).message, 409, "AlreadyExists")
            time.sleep(0.1)

    def _pod_goes(self, ordinal: int) -> None:
        name = self._hand.app.berth_name(ordinal)
        self._hand.client.delete(POD, name, self._hand.app.namespace, uid=self._hand.seen.pods[name]["metadata"]["uid"])
        self.wait_pods(wait.pods_gone([name]), f"pod {name} to stop")

    def run(self) -> None:
        """Wait until every pod is Ready, and record it."""
        names = [self._hand.app.berth_name(ordinal) for ordinal in range(self._hand.app.replicas)]
        self.wait_pods(wait.pods_ready(names), "all pods to be Ready")
        for ordinal in range(self._hand.app.replicas):
            if ordinal not in (*self._hand.plan.replacing, *self._hand.plan.later):
                self._drive(ordinal, self._hand.views[ordinal], told=True, ready=True)

    def wait_pods(self, missing: wait.Missing, goal: str) -> None:
        labels = f"{APP_LABEL}={self._hand.app.name}"
        wait.until(
            self._hand.client,
            POD,
            self._hand.app.namespace,
            labels,
            self._hand.timeout,
            missing,
            goal,
            self._hand.context.progress,
        )
