# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""pause_on_failure: when a replica's update has failed, the roll-out pauses, for both drivers and all later runs. Pure.

The failure is written in the replica's Berth, which outlives the pod, with the revision that it is of. Another template
ends the pause, and so does a person's word (``paused: false``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from ..errors import StateError
from ..model.times import age
from . import resize_wait
from .observed import Observed, ready
from .pod_revision import Target, not_begun, updating
from .update_rules import Failure, UpdateRules
from .wanted import AppWanted

#: On a Berth: how the update of its replica has failed, as JSON.
FAILED = "berth.dev/update-failed"
#: Waiting reasons of a container whose image cannot be had. The words of the first ones name the image.
_PULLS = ("ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull")
#: Of a container that has its image, and cannot be started or does not stay.
_STARTS = ("CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "RunContainerError")
#: What of a cause is kept: an annotation is read by people.
_LONGEST = 400
Object = Mapping[str, Any]


class Verdict(NamedTuple):
    """``why`` the replica's update has failed; empty: it has not, or not yet: ask again after ``again`` seconds (0: a
    change of the pod alone makes it another answer)."""

    why: str = ""
    again: float = 0.0


# -- what a pod tells


def verdict(pod: Object | None, target: Target, seconds: float, now: datetime) -> Verdict:
    """Of a pod that has the new template, or is on its way to it. ``seconds``: for which it may be not Ready."""
    if pod is None or pod["metadata"].get("deletionTimestamp"):
        return Verdict()
    to = updating(pod)
    if (to or {}).get("to") != target.revision and (to is not None or target.mark.of(pod) != target.revision):
        return Verdict()
    if ready(pod):
        return _not_resized(pod, seconds, now)
    why = _hopeless(pod)
    if why:
        return Verdict(f"pod {pod['metadata']['name']}: {why}")
    down = min((told for told in (age(one, now) for one in _since(pod)) if told is not None), default=0.0)
    if down >= seconds:
        return Verdict(f"pod {pod['metadata']['name']} was not Ready for {seconds:g} s")
    return Verdict(again=seconds - max(0.0, down))


def _not_resized(pod: Object, seconds: float, now: datetime) -> Verdict:
    """Of a pod that is Ready as it was, and whose node has not given it another size yet."""
    waiting = resize_wait.waiting(pod)
    since = age(waiting.since, now) if waiting is not None else None
    if waiting is None or since is None:
        return Verdict()
    if since >= seconds:
        return Verdict(f"pod {pod['metadata']['name']} was not resized for {seconds:g} s: {waiting.why}")
    return Verdict(again=seconds - max(0.0, since))


def _hopeless(pod: Object) -> str:
    """What a container of the new template waits for; that of the old one, which is still to be ended, says nothing."""
    status, old = pod.get("status") or {}, not_begun(pod)
    images = {one["name"]: str(one.get("image")) for one in _containers(pod["spec"], "initContainers", "containers")}
    for one in _containers(status, "initContainerStatuses", "containerStatuses"):
        waiting = (one.get("state") or {}).get("waiting") or {}
        reason, message = waiting.get("reason"), str(waiting.get("message", ""))
        of_image = reason in _PULLS and (one["name"] not in old or images.get(one["name"], "") in message)
        if of_image or (reason in _STARTS and one["name"] not in old):
            return f"container {one['name']}: {reason}: {message}".rstrip(": ")
    return ""


def _containers(thing: Object, *keys: str) -> list[Any]:
    return [one for key in keys for one in thing.get(key) or ()]


def _since(pod: Object) -> Iterable[str]:
    """Times at which something happened that the pod may need time after: the latest of them counts."""
    yield str(pod["metadata"].get("creationTimestamp") or "")
    status = pod.get("status") or {}
    for one in status.get("conditions") or ():
        if one["type"] == "Ready":
            yield str(one.get("lastTransitionTime") or "")
    for one in status.get("containerStatuses") or ():
        yield str(((one.get("state") or {}).get("running") or {}).get("startedAt") or "")


# -- what a Berth tells


def failure_of(record: Object | None) -> Failure | None:
    """What is written there; None: nothing that can be read."""
    text = ((record or {"metadata": {}})["metadata"].get("annotations") or {}).get(FAILED)
    try:
        told = json.loads(text or "null")
        generation = told.get("generation")
        return Failure(
            str(told["pod"]),
            str(told["revision"]),
            str(told["why"]),
            str(told["since"]),
            generation if isinstance(generation, int) else None,
        )
    except (ValueError, KeyError, AttributeError):
        return None


def with_failure(record: Object, failure: Failure | None) -> dict[str, Any]:
    """The Berth that tells of it, or, with None, of none any more."""
    meta = dict(record["metadata"])
    annotations = {key: value for key, value in (meta.pop("annotations", None) or {}).items() if key != FAILED}
    if failure is not None:
        annotations[FAILED] = json.dumps(failure._asdict(), sort_keys=True)
    return {**record, "metadata": {**meta, **({"annotations": annotations} if annotations else {})}}


def noted(app: AppWanted, ordinal: int, why: str, now: str) -> Failure:
    """The failure as it is to be written. ``now``: as the API server writes times."""
    generation = app.update.generation if app.update is not None else None
    return Failure(app.berth_name(ordinal), app.revision, why[:_LONGEST], now, generation)


# -- what follows from it


def paused_by_failure(app: AppWanted, observed: Observed) -> AppWanted:
    """The app whose rules say that its update is paused, where a failure of this very template holds."""
    rules = app.update
    if rules is None or rules.deadline is None:
        return app
    for _ordinal, failure in _known(app, observed):
        if failure.revision == app.revision and not _resumed(failure, rules):
            return replace(app, update=replace(rules, paused=True, failure=failure))
    return app


def settled(app: AppWanted, observed: Observed, left: Iterable[int]) -> tuple[int, ...]:
    """Ordinals whose Berths tell of failures that are over. ``left``: who has another template than the app's."""
    rules, open_ = app.update, bool(tuple(left))

    def over(ordinal: int, failure: Failure) -> bool:
        if rules is None or rules.deadline is None or failure.revision != app.revision or _resumed(failure, rules):
            return True
        return not open_ and ready(observed.pod(ordinal))

    return tuple(ordinal for ordinal, failure in _known(app, observed) if over(ordinal, failure))


def _known(app: AppWanted, observed: Observed) -> list[tuple[int, Failure]]:
    found = [(ordinal, failure_of(observed.berths.get(ordinal))) for ordinal in reversed(range(app.replicas))]
    return [(ordinal, failure) for ordinal, failure in found if failure is not None]


def _resumed(failure: Failure, rules: UpdateRules) -> bool:
    """A task says it for itself; a StatefulApp that has not changed since the failure has said it before."""
    if not rules.resumed:
        return False
    return None in (rules.generation, failure.generation) or (failure.generation or 0) < (rules.generation or 0)


# -- words


def row(failure: Failure) -> dict[str, Any]:
    """For results."""
    return {"pod": failure.pod, "why": failure.why, "since": failure.since}


def words(app: AppWanted, failure: Failure, left: Iterable[int]) -> str:
    """What is said while the pause holds."""
    names = ", ".join(app.berth_name(ordinal) for ordinal in left)
    others = f" {names} keep the template that they have." if names else ""
    return (
        f"the update of {app.namespace}/{app.name} is paused (pause_on_failure) since {failure.since}: {failure.why}."
        f"{others} No replica is begun until the template changes or somebody resumes: mend the cause, then say "
        "paused: false once (in the task, or in spec.updateStrategy of the StatefulApp)"
    )


def refuse(app: AppWanted, left: Iterable[int], changed: bool) -> None:
    """Raise StateError where an update would go on if it were not paused. ``left``: who has another template."""
    rules, names = app.update, tuple(ordinal for ordinal in left)
    if rules is None or rules.failure is None:
        return
    names = tuple(ordinal for ordinal in names if not rules.keeps(ordinal))
    if names:
        raise StateError(words(app, rules.failure, names), changed=changed, update_paused=row(rules.failure))


def told_by_berths(berths: Mapping[int, Object]) -> dict[str, Any] | None:
    """The failure that holds, as Berths alone tell it, without anybody's rules; None: there is none."""
    for _ordinal, record in sorted(berths.items(), reverse=True):
        failure = failure_of(record)
        if failure is not None and failure.revision == record["spec"].get("revision"):
            return row(failure)
    return None
