# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way forward: select, reserve, prebind, create, in the state table's order, for all ordinals of one application.

Everything is chosen before anything is written. Whoever loses a race undoes its own, looks again and chooses again;
a run that
cannot place all its replicas gives up the berths that it made itself. What is already there is helped along, whoever
began it.
"""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...berth_core.app import choose, lock, manifests, states
from ...berth_core.app.choose import Choice, World
from ...berth_core.app.compare import differences
from ...berth_core.app.observed import Observed, recorded
from ...berth_core.app.plan import Plan
from ...berth_core.app.wanted import APP_LABEL, AppWanted
from ...berth_core.app.wanted import POD as POD_WORKLOAD
from ...berth_core.errors import (
    BerthError,
    ConflictError,
    ForbiddenError,
    InputError,
    LockError,
    NotFoundError,
    StateError,
    UnschedulableError,
)
from ..base import Context
from ..resources import BERTH, NAMESPACE, NODE, POD, PV, PVC, SERVICE, STATEFUL_SET, Resource
from . import steps, wait
from .observe import load_world

#: Rounds of choosing again. Every lost round means that another run has won something, so a busy cluster still
#: converges.
ROUNDS = 40
Object = dict[str, Any]


@dataclass
class Progress:
    """What this run has in hand. ``made``: ordinals whose berth was created here, and is undone here if the run
    cannot go on."""

    records: dict[int, Object] = field(default_factory=dict)
    disks: dict[int, dict[str, Object]] = field(default_factory=dict)
    made: list[int] = field(default_factory=list)
    lost: dict[int, str] = field(default_factory=dict)


class Flow:
    def __init__(self, context: Context, app: AppWanted, observed: Observed, plan: Plan, wait_timeout: float) -> None:
        self._context = context
        self._client = context.client
        self._app = app
        self._seen = observed
        self._plan = plan
        self._timeout = wait_timeout
        self._world: World | None = None
        self._hand = Progress(
            records={ordinal: copy.deepcopy(dict(record)) for ordinal, record in observed.berths.items()}
        )

    # -- select ----------------------------------------------------------------------------------------------------

    def select(self, explain: bool) -> list[Choice]:
        """Choices for all ordinals that need one, or UnschedulableError; nothing is written."""
        unsettled = self._unsettled()
        if not self._plan.select and not unsettled and not self._grown():
            return []
        self._world = self._without_discards(load_world(self._client, self._app))
        unknown = choose.unknown_storage_classes(self._app, self._world)
        if unknown:
            known = ", ".join(sorted(item["metadata"]["name"] for item in self._world.storage_classes)) or "none"
            raise InputError(f"StorageClass {', '.join(unknown)} does not exist; the cluster has: {known}")
        self._check_namespace()
        self._check_grown(self._world)
        return choose.choose(self._app, self._world, self._plan.select, explain) if self._plan.select else []

    def _unsettled(self) -> list[int]:
        """Berths that were written down by a run that is not (or not yet) done with them."""
        advance = self._plan.advance or {}
        return [ordinal for ordinal in advance if recorded(self._hand.records[ordinal]) == states.SELECTED]

    def _without_discards(self, world: World) -> World:
        """The world as it will be when this run has given up what it is going to give up."""
        going = {
            self._seen.berths[ordinal]["metadata"]["uid"] for ordinal in (*self._plan.discard, *self._plan.release)
        }
        going |= {disk["spec"]["claimRef"]["uid"] for disk in self._seen.stale_disks()}
        going |= {uid for _device, uid in self._seen.stale_devices()}
        disks, devices = list(world.disks), list(world.devices)
        for uid in going:
            disks = [lock.unlock_disk(disk, uid, keep_data=True) or disk for disk in disks]
            devices = [lock.unlock_device(device, uid) or device for device in devices]
        berths = [record for record in world.berths if record["metadata"]["uid"] not in going]
        return replace(world, disks=disks, devices=devices, berths=berths)

    def _check_namespace(self) -> None:
        try:
            if self._client.find(NAMESPACE, self._app.namespace) is None:
                raise InputError(f"namespace {self._app.namespace} does not exist; create it first")
        except ForbiddenError:
            return  # may well be allowed inside it: the first write tells

    def _grown(self) -> list[int]:
        """Existing berths whose replica will ask for something else than is written down."""
        return [ordinal for ordinal in self._plan.refresh if recorded(self._hand.records[ordinal]) != states.SELECTED]

    def _check_grown(self, world: World) -> None:
        for ordinal in self._grown():
            record = self._hand.records[ordinal]
            others = [other for other in world.berths if other["metadata"]["uid"] != record["metadata"]["uid"]]
            outcome = choose.still_fits(self._app, replace(world, berths=others), record)
            if outcome.placement is None:
                name, node = record["metadata"]["name"], record["spec"]["nodeName"]
                raise UnschedulableError(
                    f"the new template of {self._app.namespace}/{name} does not fit its node {node}: "
                    f"{outcome.diagnosis.message()}; "
                    "its data is there, so it is not moved",
                    ordinal=ordinal,
                    explanation=choose.explain(outcome),
                )

    # -- reserve ---------------------------------------------------------------------------------------------------

    def discard(self) -> None:
        for ordinal in self._plan.discard:
            steps.unreserve(self._client, self._hand.records.pop(ordinal), keep_data=False)

    def reserve(self, choices: Sequence[Choice]) -> None:
        """Every ordinal Reserved, or none that this run began."""
        pending = [ordinal for ordinal, phase in (self._plan.advance or {}).items() if phase == states.SELECTED]
        try:
            self._reserve(list(choices), pending)
        except BerthError:
            self._undo()
            raise

    def _reserve(self, choices: list[Choice], pending: list[int]) -> None:
        for attempt in range(ROUNDS):
            for choice in choices:
                self._write_down(choice)
            waiting = sorted({*pending, *(choice.ordinal for choice in choices)})
            if not waiting:
                return
            pending = []
            self._hand.lost = {}
            self._settle(waiting, resumed=[o for o in waiting if o not in self._hand.made])
            if not self._hand.lost:
                return
            self._context.progress(f"lost a race for {self._hand.lost}; choosing again")
            # Two losers should not meet again in step; nothing secret depends on the number.
            time.sleep(random.uniform(0, 0.02 * 2 ** min(attempt, 5)))  # noqa: S311
            self._world = self._without_discards(load_world(self._client, self._app))
            choices = choose.choose(self._app, self._world, sorted(self._hand.lost))
        reasons = "; ".join(
            f"{self._app.berth_name(ordinal)}: {why}" for ordinal, why in sorted(self._hand.lost.items())
        )
        raise LockError(f"lost the race for disks or nodes {ROUNDS} times in a row, and gave up: {reasons}")

    def _write_down(self, choice: Choice) -> None:
        """Create the Berth, or take the one that another run of this app has just created."""
        body = manifests.berth(self._app, choice.ordinal, choice.node, choice.disks, choice.devices)
        try:
            self._hand.records[choice.ordinal] = self._client.create(BERTH, body)
            self._hand.made.append(choice.ordinal)
        except ConflictError:
            self._hand.records[choice.ordinal] = self._client.get(BERTH, body["metadata"]["name"], self._app.namespace)

    def _settle(self, waiting: Sequence[int], resumed: Sequence[int]) -> None:
        """Decide each berth that is written down: its locks and its Reserved record, or lost and forgotten."""
        known = {record["metadata"]["uid"] for record in self._world.berths} if self._world else set()
        now = self._client.list(BERTH)
        own = {record["metadata"]["uid"] for record in self._hand.records.values()}
        strangers = [record for record in now if record["metadata"]["uid"] not in known | own]
        by_uid = {record["metadata"]["uid"]: record for record in now}
        seen = {disk["metadata"]["name"]: disk for disk in self._world.disks} if self._world else dict(self._seen.disks)
        for ordinal in waiting:
            record = by_uid.get(self._hand.records[ordinal]["metadata"]["uid"])
            if record is None:
                self._lose(ordinal, "its berth was given up by another run of this app")
                continue
            self._hand.records[ordinal] = record
            fresh = recorded(record) == states.SELECTED
            if fresh and self._world and (strangers or ordinal in resumed):
                outcome = choose.still_fits(self._app, replace(self._world, berths=now), record)
                if outcome.placement is None:
                    self._lose(ordinal, outcome.diagnosis.message())
                    continue
            self._lock(ordinal, record, seen, fresh)

    def _lock(self, ordinal: int, record: Object, seen: Mapping[str, Mapping[str, Any]], fresh: bool) -> None:
        try:
            self._hand.disks[ordinal] = steps.reserve(self._client, self._app, record, seen)
        except LockError as exc:
            if not fresh:
                raise StateError(
                    f"berth {self._app.namespace}/{record['metadata']['name']} has lost a lock: {exc.message}; "
                    "find out who gave it away before anything else is done with this app"
                ) from exc
            self._lose(ordinal, exc.message)
        except NotFoundError as exc:
            self._lose(ordinal, exc.message)

    def _lose(self, ordinal: int, why: str) -> None:
        self._hand.lost[ordinal] = why
        record = self._hand.records.pop(ordinal)
        steps.unreserve(self._client, record, keep_data=False)
        if ordinal in self._hand.made:
            self._hand.made.remove(ordinal)

    def _undo(self) -> None:
        """Give up what this run has made, highest ordinal first. Whatever cannot be undone now is continued by the
        next run."""
        for ordinal in sorted(self._hand.made, reverse=True):
            record = self._hand.records.get(ordinal)
            if record is not None:
                try:
                    steps.unreserve(self._client, record, keep_data=False)
                except BerthError as exc:
                    self._context.warn(
                        f"berth {self._app.namespace}/{record['metadata']['name']} could not be given up: {exc.message}"
                    )

    # -- prebind and create ----------------------------------------------------------------------------------------

    def prebind(self) -> None:
        """Volumes and claims of every berth that lacks them."""
        for ordinal in range(self._app.replicas):
            record = self._hand.records[ordinal]
            if states.reached((self._plan.advance or {}).get(ordinal, states.SELECTED), states.BOUND) or self._is_bound(
                ordinal
            ):
                continue
            for disk in record["spec"].get("disks") or ():
                self._bind_disk(ordinal, record, disk)
            steps.record_phase(self._client, record, states.BOUND)

    def _is_bound(self, ordinal: int) -> bool:
        """Neither selected nor advanced in this run: the plan found it complete."""
        return ordinal not in (self._plan.advance or {}) and ordinal not in self._plan.select

    def _bind_disk(self, ordinal: int, record: Object, entry: Mapping[str, Any]) -> None:
        claim = entry["claim"]
        disk = self._hand.disks.get(ordinal, {}).get(claim) or self._seen.disks[entry["name"]]
        volume = manifests.volume(self._app, record, claim, disk, self._hostname(record["spec"]["nodeName"]))
        if volume["metadata"]["name"] not in self._seen.volumes:
            self._create_same(PV, volume)
        body = manifests.claim(self._app, record, claim, disk)
        if body["metadata"]["name"] not in self._seen.claims:
            self._create_same(PVC, body)

    def _hostname(self, node: str) -> str:
        found = [item for item in self._world.nodes if item["metadata"]["name"] == node] if self._world else []
        live = found[0] if found else self._client.get(NODE, node)
        return str((live["metadata"].get("labels") or {}).get(manifests.HOSTNAME_LABEL) or node)

    def _create_same(
        self, resource: Resource, body: Mapping[str, Any], telling: Mapping[str, Any] | None = None
    ) -> None:
        """Create it, or find that it is already just so (an earlier run's, or our own whose answer was lost).

        ``telling``: the part that tells ours from another's, where admission adds to the lists of the whole.
        """
        name, namespace = body["metadata"]["name"], body["metadata"].get("namespace")
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                self._client.create(resource, body)
                return
            except ConflictError:
                live = self._client.find(resource, name, namespace)
            if live is None:
                continue
            if not live["metadata"].get("deletionTimestamp"):
                wrong = differences(body if telling is None else telling, live)
                if not wrong:
                    return
                raise ConflictError(
                    f"{resource.describe(name, namespace)} is there already and is not what this berth needs (it "
                    f"differs in {', '.join(wrong)}): "
                    "delete it or give the app another name; its data was not touched",
                    409,
                    "AlreadyExists",
                )
            if time.monotonic() > deadline:
                raise ConflictError(
                    f"{resource.describe(name, namespace)} is being deleted and does not go; its finalizers hold it",
                    409,
                    "AlreadyExists",
                )
            time.sleep(0.1)

    def create(self) -> None:
        """Service and workload, then the records: the StatefulSet is told of its new size when all its berths are
        Bound."""
        if self._plan.service:
            self._client.apply(SERVICE, self._plan.service)
        for ordinal in self._plan.refresh:
            self._refresh(ordinal)
        if self._plan.stateful_set:
            self._client.apply(STATEFUL_SET, self._plan.stateful_set)
        if self._app.workload == POD_WORKLOAD:
            self._create_pods()
        for ordinal in (*(self._plan.advance or {}), *self._plan.select):
            record = self._hand.records[ordinal]
            if not states.reached(recorded(record), states.CREATED):
                steps.record_phase(self._client, record, states.CREATED, self._app.berth_name(ordinal))

    def _refresh(self, ordinal: int) -> None:
        """Write the template's new facts (requests, labels, ports, revision) into the berth."""
        record = self._hand.records[ordinal]
        facts = manifests.berth_facts(self._app, manifests.scheduling_pod(self._app, ordinal))
        fields = {"podLabels": None, "requests": None, "hostPorts": None, **facts}
        spec = {key: value for key, value in record["spec"].items() if key not in fields}
        spec.update({key: value for key, value in fields.items() if value is not None})
        self._hand.records[ordinal] = self._client.replace(BERTH, {**record, "spec": spec})

    def _create_pods(self) -> None:
        replaced = self._plan.replace_pods
        for ordinal in range(self._app.replicas):
            if self._seen.pod(ordinal) is None:
                self._create_pod(ordinal)
        for ordinal in replaced:
            self._replace_pod(ordinal)

    def _create_pod(self, ordinal: int) -> None:
        body = manifests.pod(self._app, ordinal, self._hand.records[ordinal]["spec"]["nodeName"])
        self._create_same(POD, body, telling={"metadata": body["metadata"]})

    def _replace_pod(self, ordinal: int) -> None:
        """The pod of an old revision goes and comes back to its own node: nothing is scheduled, its berth is kept
        all the while."""
        name = self._app.berth_name(ordinal)
        self._client.delete(POD, name, self._app.namespace, uid=self._seen.pods[name]["metadata"]["uid"])
        self.wait_pods(wait.pods_gone([name]), f"pod {name} to stop")
        self._create_pod(ordinal)
        self.wait_pods(wait.pods_ready([name]), f"pod {name} to be Ready again")

    # -- run -------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Wait until every pod is Ready, and record it."""
        names = [self._app.berth_name(ordinal) for ordinal in range(self._app.replicas)]
        self.wait_pods(wait.pods_ready(names), "all pods to be Ready")
        for ordinal in range(self._app.replicas):
            steps.record_phase(self._client, self._hand.records[ordinal], states.RUNNING, self._app.berth_name(ordinal))

    def wait_pods(self, missing: wait.Missing, goal: str) -> None:
        labels = f"{APP_LABEL}={self._app.name}"
        wait.until(self._client, POD, self._app.namespace, labels, self._timeout, missing, goal, self._context.progress)

    @property
    def records(self) -> Mapping[int, Object]:
        return self._hand.records
