"""One look at a StatefulApp: what is asked for, what is there, the writes that are due, and what is told of it.

Called by the queue of watch.Apps with (namespace, name). It waits for nothing: what is not there yet ends the look, and
a change or time brings the next one.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from berth_core.app import by_hand, ended_pods, scale_down
from berth_core.app.choose import Choice
from berth_core.app.in_service import GATE
from berth_core.app.not_ours import refuse_foreign
from berth_core.app.not_ready import why_not_ready
from berth_core.app.observed import Observed, ready
from berth_core.app.observing import Question
from berth_core.app.plan import Plan, hand_made, make_plan, needs_former, removal_plan
from berth_core.app.restarts import restarted
from berth_core.app.revisions import applied_last
from berth_core.app.stateful_app_object import CONTROLLER, FINALIZER, options_of, wanted_of
from berth_core.app.stateful_app_status import (
    BLOCKED,
    BY_PLAYBOOK,
    NODE_LOST,
    REFUSED,
    RUNNING,
    STALLED,
    SUSPENDED,
    UNSCHEDULABLE,
    UPDATE_PAUSED,
    Outcome,
    condition,
    status_of,
    unchanged,
    with_rollback,
)
from berth_core.app.update_failure import paused_by_failure
from berth_core.app.wanted import STATEFUL_SET, AppWanted
from berth_core.errors import (
    AdmissionError,
    ApiError,
    BerthError,
    ConflictError,
    ForbiddenError,
    InputError,
    NotFoundError,
    StateError,
    UnavailableError,
    UnschedulableError,
)
from berth_core.lifecycle.view import going
from berth_core.model.resources import DEVICE_CLASS, LOCAL_DEVICE, MUTATING_ADMISSION_POLICY, SECRET, STATEFUL_APP
from berth_kube.client import KubeClient
from berth_kube.clocks import utc_now

from ..reports import Reports
from . import leaving, pausing
from .building import Builder
from .downtimes import Downtimes
from .kept import Kept
from .losing import NodeOf
from .observe import counted, observe, with_beside
from .releasing import Release
from .requests import Obj, Requests
from .reserving import Reservation, discard, select, waiting
from .rolling import Roller, delete_helper_pods, priorities
from .run import LATER, SOON, Later, Run
from .serving import open_gates
from .target import kept_revisions, rolled_back
from .trying import Trial

_log = logging.getLogger(__name__)

#: The reason of a conflict with what is there and is not the app's: no other look ends it.
IN_THE_WAY = "AlreadyExists"
#: Seconds until what a person has to mend is looked at again.
STALLED_SECONDS = 15.0
#: Seconds until an app at rest is looked at again whose ConfigMaps and Secrets count: a watch would need the right to
#: list all of them.
CONTENT_SECONDS = 60.0


class AppKey(NamedTuple):
    """One StatefulApp."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass
class Found:
    """What a look came to: for the status, and when the next one is due. ``app``, ``seen`` and its
    ControllerRevisions, as soon as known. ``lost``: who waits for a node that is lost, whatever else is in the way;
    ``not_smaller``: why the app is not made smaller."""

    outcome: Outcome = RUNNING
    seconds: float = LATER
    app: AppWanted | None = None
    seen: Observed | None = None
    kept: list[Obj] | None = None
    lost: Sequence[str] = ()
    not_smaller: str = ""
    gone: bool = False


class Visits:
    """``current(key)``: the StatefulApp as the watch told it last; ``node_of(name)``: so a Node.

    ``resync``: seconds between looks at an app at rest.
    """

    def __init__(
        self,
        client: KubeClient,
        reports: Reports,
        current: Callable[[AppKey], Obj | None],
        node_of: NodeOf,
        account: str,
        mount_root: str,
        resync: float,
    ) -> None:
        self._client, self._reports, self._current, self._node_of = client, reports, current, node_of
        self._account, self._mount_root, self._resync = account, mount_root, resync
        #: apps that found no place: a change of what they may be placed on has them looked at
        self.unplaced: set[AppKey] = set()
        #: how many such changes were told; one in the middle of a look may have come too late for it
        self.rooms = 0
        self._kept = Kept(resync)
        #: is told of the pods of apps
        self.downtimes = Downtimes()

    async def reconcile(self, key: AppKey) -> float | None:
        """Do what is due. Returns the seconds after which to look again; None: it is not the controller's, or gone."""
        rooms = self.rooms
        body = await self._client.find(STATEFUL_APP, key.name, key.namespace)
        self.unplaced.discard(key)
        if body is None:
            self._forget(key)
            return None
        if body["spec"].get("driver") != CONTROLLER:
            return await self._let_go(body)
        api, found = Requests(self._client, partial(self._still, key, body)), Found()
        if not going(body):
            body = await self._with_finalizer(body)
            await self._ended(body, found, self._carry_out(api, body, found))
        elif FINALIZER in (body["metadata"].get("finalizers") or ()):
            await self._ended(body, found, self._remove(api, body, found))
        else:
            return None  # who took it off keeps what is there
        if found.gone:
            return None
        await self._tell(body, found)
        if found.outcome.reason == UNSCHEDULABLE:
            self.unplaced.add(key)
            found.seconds = SOON if rooms != self.rooms else found.seconds
        return SOON / 4 if api.wrote else found.seconds

    def _forget(self, key: AppKey) -> None:
        self._kept.forget(*key)
        self.downtimes.forget(key)

    def _still(self, key: AppKey, body: Obj) -> None:
        """Raises ConflictError where the StatefulApp says something else by now: the next look goes by that."""
        now = self._current(key)
        if now is None:
            return  # the watch has not told of it yet
        same = now["metadata"]["uid"] == body["metadata"]["uid"]
        newer = int(now["metadata"]["generation"]) > int(body["metadata"]["generation"])
        if not same or newer:
            raise ConflictError(f"StatefulApp {key} has changed while it was carried out: it is looked at again", 409)

    async def _ended(self, body: Obj, found: Found, work: Awaitable[None]) -> None:
        """Refusals become the outcome. Raises what the queue has tried again: conflicts, no answer."""
        try:
            await work
        except Later as exc:
            found.outcome, found.seconds = Outcome(exc.reason, exc.message), exc.seconds
        except BerthError as exc:
            if isinstance(exc, UnavailableError) or (isinstance(exc, ConflictError) and exc.reason != IN_THE_WAY):
                raise
            _log.info("StatefulApp %s/%s: %s", body["metadata"]["namespace"], body["metadata"]["name"], exc.message)
            found.outcome = Outcome(_reason(exc), "; ".join([self._words(body, exc), *found.lost]), stalled=True)
            found.seconds = STALLED_SECONDS

    def _words(self, body: Obj, exc: BerthError) -> str:
        """What a person is told. Rights are given by who owns the namespace, or the devices."""
        if not isinstance(exc, ForbiddenError) or isinstance(exc, AdmissionError):
            return exc.message
        namespace, bearer = body["metadata"]["namespace"], f"--serviceaccount={self._account}"
        if f" {SECRET.plural}" in exc.message:
            return (
                f"berth-controller may not read the Secrets whose content counts (updateOn); give it the right to get "
                f"these alone: kubectl create role berth-controller-secrets --namespace {namespace} --verb=get "
                f"--resource=secrets --resource-name=NAME && kubectl create rolebinding berth-controller-secrets "
                f"--namespace {namespace} --role=berth-controller-secrets {bearer} ({exc.message})"
            )
        if "pods/status" in exc.message:
            return (
                f"berth-controller may not write the readiness gate {GATE} of the pods; give it the right: kubectl "
                f"create rolebinding berth-controller-hold --namespace {namespace} --clusterrole=berth-update-hold "
                f"{bearer} ({exc.message})"
            )
        command = (
            f"create rolebinding berth-controller --namespace {namespace} --clusterrole=berth-app-operator {bearer}"
        )
        if any(kind.plural in exc.message for kind in (LOCAL_DEVICE, DEVICE_CLASS, MUTATING_ADMISSION_POLICY)):
            command = f"create clusterrolebinding berth-controller-devices --clusterrole=berth-disk-user {bearer}"
        return f"berth-controller may not carry this out; give it the right: kubectl {command} ({exc.message})"

    # -- forward ---------------------------------------------------------------------------------------------------

    async def _carry_out(self, api: Requests, body: Obj, found: Found) -> None:
        app = found.app = wanted_of(body, self._mount_root)
        service = app.service_name if app.service else None
        asked = Question(app.name, app.namespace, app.workload, service, app.beside)
        seen = found.seen = await observe(api, asked, bool(app.handed))
        refuse_foreign(app, seen)
        app, found.not_smaller = scale_down.held_back(app, seen)
        options = options_of(body)
        counts, back = options["update_on"], options["rollback_to"]
        found.kept = await self._kept.of(api, app, seen, back)
        app = found.app = rolled_back(app, back, seen, found.kept or ())
        app = found.app = await counted(api, app, counts)
        app = found.app = paused_by_failure(restarted(app, body["spec"].get("restartedAt"), seen), seen)
        plan = ended_pods.into(make_plan(app, seen), seen, utc_now())
        run = Run.of(api, app, seen, plan, await leaving.look(api, body, app, seen, plan, self._node_of))
        found.lost = run.leaving.lost.waits
        run.begun = partial(self.downtimes.begin, _key_of(body))
        waits, again = await self._work(run, body)
        found.outcome, found.seconds = self._rest(
            run, [*waits, *run.leaving.waits, *run.leaving.lost.away], found.not_smaller
        )
        if found.outcome.done:
            self._tell_of_update(body, run)
        found.outcome = with_rollback(found.outcome, back)
        found.seconds = min(found.seconds, again or found.seconds, CONTENT_SECONDS if counts else found.seconds)

    async def _work(self, run: Run, body: Obj) -> tuple[list[str], float | None]:
        """The state table, forward; what has to go goes first. Returns what is waited for, and for how long at most."""
        waits: list[str] = []
        again = None
        warn = partial(self._warn, body)
        await open_gates(run)
        values = await priorities(run, warn)
        if not run.plan.empty:
            trial = Trial(run)
            await trial.objects()
            choices = await self._choices(run)
            await trial.quotas(choices)
            release = Release(run.api, run.seen, run.plan)
            await release.clear_stale()
            await delete_helper_pods(run.api, run.plan.helpers)
            await pausing.settle(run)
            await release.scale_down(run.app.replicas)
            await discard(run, run.plan.discard)
            await Reservation(run).reserve(choices)
        builder = Builder(run)
        if not run.plan.empty:
            await self._tell_what_is_undone(run, body)
            await builder.prebind()
            await builder.create()
            if run.app.update is not None and (run.plan.update or run.plan.held):
                lines, again = await Roller(run, builder, run.app.update, values, warn).step()
                waits += lines
        if not run.app.suspended:
            await builder.run()
        return waits, again

    def _tell_of_update(self, body: Obj, run: Run) -> None:
        told = self.downtimes.ended(_key_of(body), run)
        if told:
            self._reports.event(body, "Normal", "Updated", told, "CarryOut")

    async def _tell_what_is_undone(self, run: Run, body: Obj) -> None:
        """Nobody's change of the StatefulSet is taken back in silence."""
        former = None
        if needs_former(run.app, run.seen, run.plan):
            kept = await kept_revisions(run.api, run.app, run.seen, needed=False)
            former = applied_last(kept or (), run.seen.stateful_set)
        undone = hand_made(run.app, run.seen, run.plan, former)
        if undone and run.seen.stateful_set is not None:
            text = (
                f"StatefulSet {run.app.name} was changed by others, and is made what the StatefulApp says; change the "
                f"StatefulApp instead: {by_hand.told_back(undone, when=False)}"
            )
            for about in (dict(run.seen.stateful_set), body):
                self._warn(about, text, "Undone")

    async def _choices(self, run: Run) -> list[Choice]:
        """A place for each that needs one, or none is held: others may have use for what would only be half."""
        try:
            return await select(run)
        except UnschedulableError:
            await discard(run, waiting(run))
            raise

    def _rest(self, run: Run, waits: list[str], not_smaller: str) -> tuple[Outcome, float]:
        """How the app is, when nothing more could be done. ``not_smaller``: why it keeps its size, or empty."""
        if run.api.wrote:
            return Outcome("Working", "; ".join(waits) or _doing(run.plan)), SOON
        lost = "; ".join(run.leaving.lost.waits)
        causes = ((UPDATE_PAUSED, pausing.told(run)), (NODE_LOST, lost), (BLOCKED, not_smaller))
        stalled = {reason: words for reason, words in causes if words}
        if stalled:
            return Outcome(next(iter(stalled)), "; ".join([*stalled.values(), *waits]), stalled=True), STALLED_SECONDS
        if run.plan.replacing:
            names = ", ".join(run.app.berth_name(ordinal) for ordinal in run.plan.replacing)
            waits.append(f"a disk of {names} is being exchanged: run disk_replace again to finish it")
        pods = {ordinal: run.seen.pod(ordinal) for ordinal in range(0 if run.app.suspended else run.app.replicas)}
        held = ended_pods.left(run.plan)
        waits += ended_pods.told(run.app, held)
        waits += [
            f"pod {run.app.berth_name(ordinal)} {why_not_ready(pod)}"
            for ordinal, pod in pods.items()
            if ordinal not in held and not ready(pod)
        ]
        if waits:
            reason = "Updating" if run.plan.update or run.plan.held else "WaitsForPods"
            return Outcome(reason, "; ".join(waits)), min([LATER, *(one.seconds for one in held.values())])
        if not run.plan.empty:
            return Outcome("Working", _doing(run.plan)), SOON
        return SUSPENDED if run.app.suspended else RUNNING, self._resync

    # -- back ------------------------------------------------------------------------------------------------------

    async def _remove(self, api: Requests, body: Obj, found: Found) -> None:
        """Everything goes, the data stays on its disks; then the StatefulApp."""
        spec, meta = body["spec"], body["metadata"]
        service = (spec.get("service") or {}).get("name") or meta["name"]
        asked = Question(meta["name"], meta["namespace"], spec.get("workload") or STATEFUL_SET, service)
        seen = await with_beside(api, asked, await observe(api, asked))
        plan = removal_plan(seen)
        release = Release(api, seen, plan)
        await release.clear_stale()
        await delete_helper_pods(api, plan.helpers)
        await release.remove()
        if not seen.empty:
            raise Later("Deleting", "berths are given up; the disks keep their data", SOON / 4)
        await self._finalizers(body, [one for one in meta["finalizers"] if one != FINALIZER])
        found.gone = True

    async def _let_go(self, body: Obj) -> float | None:
        """A playbook carries it out: what is there stays as it is, and of what becomes of it the playbook tells.

        That it is not the controller's any more is told once: before the finalizer goes, by which a look knows that,
        and unless a run was faster and has told of it already.
        """
        self._forget(_key_of(body))
        finalizers = body["metadata"].get("finalizers") or []
        if FINALIZER in finalizers:
            told = (body.get("status") or {}).get("observedGeneration") == body["metadata"]["generation"]
            if not (told or going(body)):
                body = await self._tell(body, Found(BY_PLAYBOOK))
            await self._finalizers(body, [one for one in finalizers if one != FINALIZER])
        return None

    async def _with_finalizer(self, body: Obj) -> Obj:
        finalizers = body["metadata"].get("finalizers") or []
        return body if FINALIZER in finalizers else await self._finalizers(body, [*finalizers, FINALIZER])

    async def _finalizers(self, body: Obj, finalizers: list[str]) -> Obj:
        meta = body["metadata"]
        seen = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"], "finalizers": finalizers}
        return await self._client.patch(STATEFUL_APP, meta["name"], meta["namespace"], {"metadata": seen})

    # -- telling ---------------------------------------------------------------------------------------------------

    async def _tell(self, body: Obj, found: Found) -> Obj:
        """The status, where it says something else; an event for a new cause of being stalled. Returns the object."""
        now = utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")
        status = status_of(body, found.outcome, now, found.app, found.seen, found.kept)
        if unchanged(body, status):
            return body
        if found.outcome.stalled and condition(body, STALLED).get("message") != found.outcome.message[:1024]:
            self._warn(body, found.outcome.message, found.outcome.reason)
        meta = {key: body["metadata"][key] for key in ("name", "namespace")}
        try:
            return await self._client.apply(STATEFUL_APP, {"metadata": meta, "status": status}, subresource="status")
        except NotFoundError:
            return body

    def _warn(self, body: Obj, text: str, reason: str = "Updating") -> None:
        self._reports.event(body, "Warning", reason, text, "CarryOut")


def _key_of(body: Obj) -> AppKey:
    return AppKey(body["metadata"]["namespace"], body["metadata"]["name"])


def _reason(exc: BerthError) -> str:
    """One word for a refusal."""
    for kind, word in (
        (UnschedulableError, UNSCHEDULABLE),
        (InputError, REFUSED),
        (ConflictError, BLOCKED),
        (AdmissionError, REFUSED),
        (ForbiddenError, "Forbidden"),
        (StateError, BLOCKED),
        (ApiError, REFUSED),
    ):
        if isinstance(exc, kind):
            return word
    return "Failed"


def _doing(plan: Plan) -> str:
    parts = (
        ("gives up", plan.release),
        ("places", plan.select),
        ("brings on", tuple(plan.advance or ())),
        ("updates", plan.update),
        ("makes anew", plan.restart),
    )
    told = [f"{words} replica {', '.join(str(ordinal) for ordinal in which)}" for words, which in parts if which]
    return "; ".join(told) or "writes the workload"
