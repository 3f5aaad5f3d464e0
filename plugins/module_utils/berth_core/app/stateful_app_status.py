# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status of a StatefulApp: counts, revisions and conditions, from what is there and how the last look ended. Pure.

Ready: everything is as asked for, and every pod is Ready. Progressing: something is on its way by itself. Stalled: a
person has to act, or something else in the cluster to change.

Written by berth-controller, or by a run of stateful_app (playbook_object).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .observed import Observed, ready
from .plan import OWN
from .pod_revision import HASH, Mark, outdated
from .revisions import status_rows
from .stateful_app_object import PLAYBOOK
from .wanted import APP_LABEL, POD, AppWanted

READY, PROGRESSING, STALLED = "Ready", "Progressing", "Stalled"
#: Reasons of Stalled: only another spec mends it (or what admission says); no node and disk fits.
REFUSED, UNSCHEDULABLE = "Refused", "Unschedulable"
#: What is there is in the way.
BLOCKED = "Blocked"
#: Likewise: an update has failed, and pauses until somebody says otherwise (app.update_failure).
UPDATE_PAUSED = "UpdatePaused"
#: A replica whose node is lost is to be rebuilt, and may not be yet.
NODE_LOST = "NodeLost"
#: What fits into a condition.
_LONGEST = 1024
Object = Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """How a look at an app ended: at rest, on its way, or stalled. ``reason`` is one word."""

    reason: str
    message: str = ""
    done: bool = False
    stalled: bool = False


RUNNING = Outcome("Running", "every replica is there, as asked for, and Ready", done=True)
SUSPENDED = Outcome("Suspended", "no pod runs, as asked for; the replicas keep all that they have", done=True)
#: From when berth-controller has let it go until a playbook has run.
BY_PLAYBOOK = Outcome("DrivenByPlaybook", "driver is playbook: the module stateful_app carries it out, and nobody else")
#: Said in place of a status that speaks of a spec before: nobody looks until then.
_DUE = "its spec has changed since stateful_app ran last: a run of it is due, and what its task says counts"


def with_rollback(outcome: Outcome, asked: str | None) -> Outcome:
    """Where all is as asked for, it is said that this is not ``spec.template``. ``asked``: ``spec.rollbackTo``."""
    if asked is None or not outcome.done:
        return outcome
    told = f"{outcome.message}; the pods have the template of rollbackTo {asked}, and that in template is not looked at"
    return replace(outcome, message=told)


#: What stays as it was told last where it could not be looked at.
_STAY = ("replicas", "readyReplicas", "updatedReplicas", "currentRevision", "updateRevision", "revisions", "selector")


def status_of(
    body: Object,
    outcome: Outcome,
    now: str,
    app: AppWanted | None,
    seen: Observed | None,
    kept: Sequence[Object] | None = None,
) -> dict[str, Any]:
    """The whole status. Without ``app`` or ``seen`` the counts stay as they were told last, and the revisions without
    ``kept``, the ControllerRevisions of the app's own StatefulSet."""
    old = body.get("status") or {}
    status: dict[str, Any] = {"replicas": 0, **{key: old[key] for key in _STAY if key in old}}
    status["observedGeneration"] = body["metadata"]["generation"]
    status["selector"] = f"{APP_LABEL}={body['metadata']['name']}"
    if app is not None and seen is not None:
        status.update(_counts(app, seen))
    if kept is not None:
        status["revisions"] = status_rows(kept)
    status["conditions"] = _conditions(body, outcome, now)
    return status


def unchanged(body: Object, status: Mapping[str, Any]) -> bool:
    """Whether the StatefulApp says all of it already."""
    old = body.get("status") or {}
    told = {one["type"]: one for one in old.get("conditions") or ()}
    same = {one["type"]: one for one in status["conditions"]} == told
    return same and all(old.get(key) == value for key, value in status.items() if key != "conditions")


def _counts(app: AppWanted, seen: Observed) -> dict[str, Any]:
    mark, revision = revision_of(app, seen)
    pods = [pod for ordinal in range(app.replicas) if (pod := seen.pod(ordinal)) is not None]
    updated = [pod for pod in pods if revision and not outdated(pod, revision, mark)]
    found: dict[str, Any] = {
        "replicas": len(seen.pods),
        "readyReplicas": sum(ready(pod) for pod in seen.pods.values()),
        "updatedReplicas": len(updated),
    }
    if revision:
        before = [mark.of(pod) for pod in pods if outdated(pod, revision, mark)]
        found["updateRevision"] = revision
        found["currentRevision"] = next((one for one in before if one), revision) if before else revision
    return found


def revision_of(app: AppWanted, seen: Observed) -> tuple[Mark, str]:
    """Where pods bear their revision, and the one that is asked for; empty where it is not known yet."""
    if app.workload == POD:
        return OWN, app.revision
    return HASH, str(((seen.stateful_set or {}).get("status") or {}).get("updateRevision") or "")


def _conditions(body: Object, outcome: Outcome, now: str) -> list[dict[str, Any]]:
    if outcome == BY_PLAYBOOK:
        states = {READY: "Unknown"}
    else:
        states = {
            READY: str(outcome.done),
            PROGRESSING: str(not outcome.done and not outcome.stalled),
            STALLED: str(outcome.stalled),
        }
    old = {one["type"]: one for one in (body.get("status") or {}).get("conditions") or ()}
    return [
        {
            "type": kind,
            "status": status,
            "reason": outcome.reason,
            "message": outcome.message[:_LONGEST],
            "observedGeneration": body["metadata"]["generation"],
            "lastTransitionTime": _since(old.get(kind), status, now),
        }
        for kind, status in states.items()
    ]


def _since(old: Object | None, status: str, now: str) -> str:
    if old is not None and old.get("status") == status and not str(old["lastTransitionTime"]).startswith("1970"):
        return str(old["lastTransitionTime"])
    return now


def condition(body: Object, kind: str) -> Object:
    """The condition of that type; empty where it is not told."""
    return next((one for one in (body.get("status") or {}).get("conditions") or () if one["type"] == kind), {})


def row_of(body: Object) -> dict[str, Any]:
    """A StatefulApp in one flat row, as ``kubectl berth apps`` shows it.

    ``state`` is the reason of its Ready condition, or Outdated where that speaks of a spec before; ``updated`` is None
    where nobody has counted.
    """
    spec, status = body["spec"], body.get("status") or {}
    told, generation = condition(body, READY), body["metadata"]["generation"]
    old = bool(told) and told.get("observedGeneration", generation) != generation
    due = old and spec.get("driver") == PLAYBOOK
    return {
        "namespace": body["metadata"]["namespace"],
        "name": body["metadata"]["name"],
        "driver": spec.get("driver"),
        "replicas": spec.get("replicas"),
        "ready": status.get("readyReplicas", 0),
        "updated": status.get("updatedReplicas"),
        "revision": status.get("updateRevision"),
        "revisions": status.get("revisions") or [],
        "ready_condition": told.get("status", "Unknown"),
        "stalled": condition(body, STALLED).get("status") == "True",
        "state": "Outdated" if old else told.get("reason", "Unknown"),
        "message": _DUE if due else told.get("message", ""),
    }
