"""Reserved -> Bound -> Created -> Running: volumes and claims, the workload, and the record of what is Ready.

Every object is created once and found again by whoever comes next; what is there and is another's is never touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from berth_core.app import manifests
from berth_core.app.compare import differences
from berth_core.app.given_beside import BESIDE
from berth_core.app.observed import ready
from berth_core.app.plan import strategy_patch
from berth_core.app.restart_backoff import counted, is_counted
from berth_core.app.wanted import POD as POD_WORKLOAD
from berth_core.errors import ConflictError
from berth_core.lifecycle import states
from berth_core.lifecycle.driving import refuse
from berth_core.lifecycle.forward import differs, waits
from berth_core.lifecycle.history import noted
from berth_core.lifecycle.step import REPLACE, Write
from berth_core.lifecycle.view import View, disks_of, going, recorded
from berth_core.model.resources import BERTH, NODE, POD, SERVICE, STATEFUL_SET
from berth_kube.clocks import stamp, utc_now

from .requests import ACTOR
from .run import SOON, Later, Run

#: How often the StatefulSet is written that somebody writes without changing what matters here, such as its status.
_TRIES = 8


class Builder:
    """Of one look."""

    def __init__(self, run: Run) -> None:
        self._run = run

    async def prebind(self) -> None:
        """Volumes and claims of every berth that lacks them."""
        plan = self._run.plan
        for ordinal in sorted({*plan.select, *(plan.advance or {}), *plan.tie}):
            view = await self._run.complete(self._run.views[ordinal])
            await self._drive(ordinal, replace(view, hostname=await self._hostname(view)))

    async def _drive(self, ordinal: int, view: View, **facts: Any) -> None:
        """As far as the berth comes with what is known of its workload."""
        driven = await self._run.driver.drive(replace(view, owner=self._run.owner(ordinal, **facts)))
        self._run.views[ordinal] = driven.view
        self._run.stopped(ordinal, driven.step)

    async def _hostname(self, view: View) -> str | None:
        """The label that the volumes name; None where all of them are there, or the node is not."""
        record = view.berth
        if record is None:
            return None
        names = {manifests.volume_of(record, each) for each in disks_of(record)}
        if names <= set(view.volumes):
            return None
        node = record["spec"]["nodeName"]
        known = self._run.world.nodes if self._run.world is not None else await self._run.api.list(NODE)
        found = [item for item in known if item["metadata"]["name"] == node]
        return manifests.hostname_of(found[0]) if found else None

    async def create(self) -> None:
        """What the workload needs, the workload, then the records: the StatefulSet is told of its new size when all
        its berths are Bound."""
        api, plan = self._run.api, self._run.plan
        for body in plan.beside:
            await api.apply(BESIDE[body["kind"]], body)
        if plan.service:
            await api.apply(SERVICE, plan.service)
        for ordinal in plan.refresh:
            record = self._run.record(ordinal)
            step = Write(REPLACE, BERTH, manifests.refreshed(self._run.app, ordinal, record), manifests.REFRESHED)
            await self._run.replace_berth(ordinal, noted(step, record, ACTOR, stamp(utc_now())).body)
        if plan.stateful_set:
            await self._apply_stateful_set(plan.stateful_set)
        if self._run.app.suspended:
            await self._stop()
            return
        if self._run.app.workload == POD_WORKLOAD:
            await self._create_pods()
        for ordinal in (*(plan.advance or {}), *plan.select):
            await self._drive(ordinal, self._run.views[ordinal], told=True)

    async def _apply_stateful_set(self, desired: Mapping[str, Any]) -> None:
        """By compare-and-swap: what somebody has changed in it since it was seen is not taken back unseen."""
        api, app, live = self._run.api, self._run.app, self._run.seen.stateful_set
        planned, patch = live, strategy_patch(desired, live)
        if patch:
            live = await api.patch(STATEFUL_SET, app.name, app.namespace, patch)
        for _number in range(_TRIES):
            if planned is not None and (live is None or live["spec"]["template"] != planned["spec"]["template"]):
                break
            version = {"resourceVersion": live["metadata"]["resourceVersion"]} if live is not None else {}
            try:
                written = await api.apply(STATEFUL_SET, {**desired, "metadata": {**desired["metadata"], **version}})
                self._run.seen = replace(self._run.seen, stateful_set=written)
                return
            except ConflictError:
                live = await api.find(STATEFUL_SET, app.name, app.namespace)
        raise Later("Working", f"StatefulSet {app.name} has changed while it was looked at", SOON / 4)

    async def _stop(self) -> None:
        """The pods of a suspended app go, and their berths keep everything."""
        left = [self._run.app.berth_name(ordinal) for ordinal in self._run.plan.stop]
        for ordinal in self._run.plan.stop if self._run.app.workload == POD_WORKLOAD else ():
            if not going(self._run.seen.pod(ordinal)):
                await self._delete_pod(ordinal)
        if left:
            raise Later("Stopping", f"waits for pods to stop: {', '.join(left)}", SOON)

    async def _create_pods(self) -> None:
        """Those that are missing. One that has ended goes, and is made anew by the next look, when it is gone."""
        seen, plan = self._run.seen, self._run.plan
        for ordinal in range(self._run.app.replicas):
            if seen.pod(ordinal) is None and ordinal not in plan.later:
                await self.create_pod(ordinal)
        for ordinal in plan.restart:
            await self._count_end(ordinal)
            await self._delete_pod(ordinal)

    async def _count_end(self, ordinal: int) -> None:
        """Written before the pod goes: with the pod its end is forgotten, and the next look makes another one."""
        pod, record = self._run.seen.pods[self._run.app.berth_name(ordinal)], self._run.record(ordinal)
        if not is_counted(pod, record):
            await self._run.replace_berth(ordinal, counted(pod, record, ACTOR, stamp(utc_now())))

    async def create_pod(self, ordinal: int) -> None:
        """Create it, or find that it is there. Its metadata tells the app's pod from another's."""
        run = self._run
        body = manifests.pod(run.app, ordinal, run.record(ordinal)["spec"]["nodeName"])
        name = body["metadata"]["name"]
        try:
            await run.api.create(POD, body)
            return
        except ConflictError:
            live = await run.api.find(POD, name, run.app.namespace)
        if live is None or going(live):
            raise Later("PodGoing", waits(POD, live).message if live else f"pod {name} to be made", SOON)
        wrong = differences({"metadata": body["metadata"]}, live)
        if wrong:
            refuse(run.title(ordinal), differs(POD, live, wrong))

    async def _delete_pod(self, ordinal: int) -> None:
        pod = self._run.seen.pods[self._run.app.berth_name(ordinal)]
        meta = pod["metadata"]
        await self._run.api.delete(POD, meta["name"], meta["namespace"], uid=meta["uid"])

    async def run(self) -> None:
        """Record Running of each replica whose pod is Ready."""
        for ordinal in range(self._run.app.replicas):
            view = self._run.views.get(ordinal)
            if view is None or view.berth is None or recorded(view.berth) != states.CREATED:
                continue
            if ready(self._run.seen.pod(ordinal)):
                await self._drive(ordinal, view, told=True, ready=True)
