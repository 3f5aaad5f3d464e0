# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An application that a playbook carries out, written down as a StatefulApp: the spec before the run's first write of
its own, the status when the run has ended. A run that dies in between leaves a spec that no status speaks of.

Called by stateful_app, around the flow. What is said, berth_core.app.playbook_object decides. Nothing here fails a run
that would do without it: whoever may not write StatefulApps is warned, and goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any, NamedTuple

from ...berth_core.app import overtaken, playbook_object
from ...berth_core.app.observed import Observed
from ...berth_core.app.observing import Question, own_pods
from ...berth_core.app.revisions import of_set
from ...berth_core.app.stateful_app_status import Outcome, status_of, unchanged
from ...berth_core.app.wanted import POD as POD_WORKLOAD
from ...berth_core.app.wanted import AppWanted
from ...berth_core.errors import ApiError, BerthError, ConflictError, ForbiddenError, NotFoundError, UnavailableError
from ...berth_core.lifecycle import states
from ...berth_core.model.api_errors import not_served
from ...berth_core.model.resources import POD, STATEFUL_APP, STATEFUL_SET
from ..base import Context
from ..objects import poll
from . import flow, revisions
from .by_controller import brief
from .hand import Hand, Rules

Object = dict[str, Any]
#: How often it is written while others write it, too, such as its status.
_TRIES = 8
#: For how long a run that has waited for its pods waits for the StatefulSet's controller to name their revision.
_SECONDS = 5.0


class Found(NamedTuple):
    """The StatefulApp of a run's application; ``why``: in its place, why it cannot be looked at."""

    live: Object | None
    why: str = ""


def look(context: Context) -> Found:
    """One GET, whatever is there."""
    try:
        return Found(context.client.get(STATEFUL_APP, context.params["name"], context.params["namespace"]))
    except ForbiddenError as exc:  # an account of before there were StatefulApps: as it was then
        return Found(None, exc.message)
    except NotFoundError as exc:
        return Found(None, exc.message if not_served(STATEFUL_APP) in exc.message else "")


def present(context: Context, app: AppWanted, rules: Rules, template: Any, found: Found) -> dict[str, Any]:
    """Bring the application to what is asked for, and write both down."""
    written = _Written(context, app, playbook_object.body_of(context.params, template, app.replicas), found)
    try:
        result = flow.present(context, app, rules, begin=written.begin)
    except UnavailableError:
        raise
    except BerthError as exc:
        written.failed(exc)
        raise
    return written.ended(result)


class _Written:
    """What this run has written of it. Silent where nothing can be: ``_live`` is None then."""

    def __init__(self, context: Context, app: AppWanted, body: Object, found: Found) -> None:
        self._context, self._client, self._app, self._body = context, context.client, app, body
        self._live, self._why = found.live, found.why
        self._hand: Hand | None = None
        self._asked = 0
        self._changed: list[str] = []
        self._before = found.live

    def begin(self, hand: Hand) -> None:
        """The spec, where it says something else; in check mode it is only tried."""
        self._hand = hand
        if self._why:
            self._leave(self._why)
        elif playbook_object.has_a_place(self._app.name) and playbook_object.changes(self._live, self._body):
            self._write()
        self._asked = self._requests()

    def ended(self, result: dict[str, Any]) -> dict[str, Any]:
        """The status, where it says something else; and the result, with what was written."""
        if self._hand is not None:
            self._tell(None)
        if self._changed:
            self._into(result["diff"])
            result["changed"] = True
        return {**result, "stateful_app": brief(self._live)} if self._live is not None else result

    def failed(self, exc: BerthError) -> None:
        """The status of a run that had begun; one that was refused before has not touched the application."""
        if self._changed and not self._context.check_mode:
            exc.details["changed"] = True  # whatever else it has left as it was
        if self._hand is not None:
            self._tell(playbook_object.failed(exc))

    # -- the spec

    def _write(self) -> None:
        try:
            made = self._applied()
        except (ConflictError, UnavailableError):
            raise
        except ApiError as exc:  # no right, or the schema or somebody's webhook refuses it
            self._live = None
            self._leave(exc.message)
            return
        before = self._before
        if before is None or before["metadata"].get("generation") != made["metadata"].get("generation"):
            self._changed = playbook_object.changes(before, self._body)
        self._live = made

    def _applied(self, tries: int = _TRIES) -> Object:
        """Compare-and-swap: what somebody has written since this run looked is looked at first."""
        try:
            return self._once()
        except ConflictError:
            self._live = self._before = self._again()
            if tries == 1:
                raise
        return self._applied(tries - 1)

    def _once(self) -> Object:
        """Applied, as driver: controller applies it. What others have added to it does not go by that: it is replaced
        then, for the task's options to be all that it says."""
        meta, spec = dict(self._body["metadata"]), dict(self._body["spec"])
        if self._live is not None:
            meta["resourceVersion"] = self._live["metadata"]["resourceVersion"]
        else:  # playbook is the default: the driver of one that somebody makes at this moment is not taken back
            del spec["driver"]
        check = self._context.check_mode
        made = self._client.apply(STATEFUL_APP, {"metadata": meta, "spec": spec}, dry_run=check)
        self._refuse(made)
        if self._live is not None and playbook_object.changes(made, self._body):
            made = self._client.replace(STATEFUL_APP, {**made, "spec": self._body["spec"]}, dry_run=check)
        return made

    def _again(self) -> Object | None:
        live = self._client.find(STATEFUL_APP, self._app.name, self._app.namespace)
        self._refuse(live)
        return live

    def _refuse(self, live: Mapping[str, Any] | None) -> None:
        why = overtaken.handed_over(self._app, live)
        if why:
            raise overtaken.error(self._app, why, changed=False)

    def _leave(self, why: str) -> None:
        self._context.warn(
            f"stateful_app {self._app.namespace}/{self._app.name} goes on without its StatefulApp, which kubectl get "
            f"sapp shows: {why}"
        )

    def _into(self, diff: dict[str, Any]) -> None:
        before, after = playbook_object.diff_of(self._before, self._body, self._changed)
        title = STATEFUL_APP.describe(self._app.name, self._app.namespace)
        if before is not None:
            diff["before"]["objects"][title] = before
        diff["after"]["objects"][title] = after

    # -- the status

    def _tell(self, failure: Outcome | None) -> None:
        """Never fails a run that has done its work. One that was to stop half-way leaves the status to the next."""
        hand = self._hand
        unasked = self._context.check_mode or self._context.params["until"] != states.CREATED
        if hand is None or self._live is None or unasked:
            return
        try:
            self._told(hand, failure)
        except ConflictError:
            return  # another run, or who handed it over since: theirs to tell
        except BerthError as exc:
            self._context.warn(
                f"the status of StatefulApp {self._app.namespace}/{self._app.name} is of an earlier run: {exc.message}"
            )

    def _told(self, hand: Hand, failure: Outcome | None) -> None:
        live = self._live
        seen = self._seen(hand)
        kept = self._kept(seen)
        outcome = failure or playbook_object.outcome_of(hand.app, seen, hand.plan, self._context.params["rollback_to"])
        for left in reversed(range(_TRIES)):
            if live is None or overtaken.handed_over(hand.app, live):
                return
            now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
            status = status_of(live, outcome, now, hand.app, seen, kept)
            if unchanged(live, status):
                return
            meta = {key: live["metadata"][key] for key in ("name", "namespace", "resourceVersion")}
            body = {"metadata": meta, "status": status}
            try:
                self._live = self._client.apply(STATEFUL_APP, body, "status", manager=playbook_object.STATUS_MANAGER)
                return
            except ConflictError:
                live = self._same(live) if left else None

    def _same(self, before: Object) -> Object | None:
        """As it is now, where it still asks for what this run has carried out."""
        live = self._client.find(STATEFUL_APP, self._app.name, self._app.namespace)
        told = [one["metadata"].get(key) for one in (before, live or before) for key in ("uid", "generation")]
        return live if told[:2] == told[2:] else None

    def _seen(self, hand: Hand) -> Observed:
        """The pods and their revision as they are at the end: read anew where the run has asked for anything since."""
        app = hand.app
        if self._requests() == self._asked:
            return replace(hand.seen, stateful_set=_telling(hand.seen.stateful_set))
        live = self._stateful_set(app)
        labels = Question(app.name, app.namespace, app.workload, None).pod_labels
        pods = own_pods(self._client.list(POD, app.namespace, labels=labels), app.name)
        return replace(hand.seen, stateful_set=live, pods={pod["metadata"]["name"]: pod for pod in pods})

    def _stateful_set(self, app: AppWanted) -> Object | None:
        """As it is by now. A run that has waited for its pods waits for their revision to be named, too."""
        if app.workload == POD_WORKLOAD:
            return None
        latest: dict[str, Object | None] = {}

        def seen() -> bool | None:
            live = latest["live"] = self._client.find(STATEFUL_SET, app.name, app.namespace)
            return True if live is None or revisions.is_seen(live) else None

        poll(seen, _SECONDS if self._context.params["wait"] else 0)
        return _telling(latest["live"])

    def _kept(self, seen: Observed) -> list[Object] | None:
        """The ControllerRevisions, where the status does not tell of the newest yet; None: it tells of them, or they
        may not be read."""
        live, told = seen.stateful_set, (self._live or {}).get("status") or {}
        if live is None:
            return []
        now = (live.get("status") or {}).get("updateRevision")
        if "revisions" in told and told.get("updateRevision") == now:
            return None
        try:
            return [dict(one) for one in of_set(revisions.listed(self._client, seen.name, seen.namespace), live)]
        except ForbiddenError:
            return None

    def _requests(self) -> int:
        return sum(self._client.requests.values())


def _telling(live: Mapping[str, Any] | None) -> Object | None:
    """Without a status where its controller has not seen its template yet: what it tells is of the one before."""
    if live is None:
        return None
    return dict(live) if revisions.is_seen(live) else {**live, "status": {}}
