# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The templates that an application has had, as the ControllerRevisions of its StatefulSet keep them, and the way back.

Called by stateful_app_info, which lists them, by stateful_app for ``rollback_to``, and by berth-controller for the
status and ``spec.rollbackTo`` of a StatefulApp. Bare pods have no history: what there is of it, the pods bear.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..errors import InputError, StateError
from ..model.names import shown
from ..model.times import age
from .observed import Observed
from .plan import OWN
from .pod_change import CONTENTS, Template, pod_change, without_annotation
from .pod_revision import HASH, updating
from .restarts import without_restart
from .wanted import POD, REVISION_ANNOTATION, AppWanted, digest

PREVIOUS = "previous"
#: On the StatefulSet: what was asked for, the ControllerRevision that this meant, and a hash of its template. Numbers
#: change with a rollback; and while the request stands, restarts and contents make so many revisions that the one which
#: was meant is forgotten: a later one of that template takes its place.
ROLLED_BACK = "berth.dev/rolled-back"
#: How many revisions the status of a StatefulApp has, of how many containers, and how much of an image's name.
MOST, MOST_IMAGES, LONGEST_IMAGE = 20, 32, 512
Object = Mapping[str, Any]


def template_of(revision: Object) -> dict[str, Any]:
    """The pod template that a ControllerRevision keeps, as a manifest has it."""
    kept = revision["data"]["spec"]["template"]
    metadata = {key: dict(value) for key, value in (kept.get("metadata") or {}).items() if isinstance(value, Mapping)}
    return {"metadata": metadata, "spec": dict(kept["spec"])}


def of_set(kept: Iterable[Object], live: Object | None) -> list[Object]:
    """Those of this very StatefulSet, the oldest first."""
    uid = live["metadata"]["uid"] if live is not None else None
    own = [
        one
        for one in kept
        if uid in {owner.get("uid") for owner in one["metadata"].get("ownerReferences") or ()} - {None}
    ]
    return sorted(own, key=lambda one: int(one["revision"]))


def applied_last(kept: Iterable[Object], live: Object | None) -> dict[str, Any] | None:
    """The template that berth gave the StatefulSet last, whatever others have made of it since; None: it is not known.

    A ControllerRevision gets the annotations that the StatefulSet has when it is made: those of a hand's templates have
    the same ``berth.dev/revision`` as the one that berth had applied, which is the oldest.
    """
    given = ((live or {"metadata": {}})["metadata"].get("annotations") or {}).get(REVISION_ANNOTATION)
    for one in of_set(kept, live):
        if given and (one["metadata"].get("annotations") or {}).get(REVISION_ANNOTATION) == given:
            return template_of(one)
    return None


def set_rows(kept: Sequence[Object], observed: Observed, now: datetime) -> list[dict[str, Any]]:
    """A row for each revision of a StatefulSet, the oldest first. ``kept``: of this very set (of_set)."""
    live = observed.stateful_set
    if live is None:
        return []
    new, found = live["spec"]["template"], []
    for one in kept:
        name, change = one["metadata"]["name"], pod_change(template_of(one), new)
        row = _row(name, str(one["metadata"].get("creationTimestamp") or ""), template_of(one), now)
        fields = [*change.forced, *(field for field in change.fields if field not in change.forced)]
        pods = [pod for pod in observed.pods.values() if HASH.of(pod) == name]
        found.append(
            {**row, "number": int(one["revision"]), "current": not fields, **_pods(pods)}
            | {"differs": fields, "in_place": change.in_place}
        )
    return found


def status_rows(kept: Sequence[Object]) -> list[dict[str, Any]]:
    """The revisions for the status of a StatefulApp: the newest, the oldest of these first. ``kept``: of this very set
    (of_set)."""
    return [
        {
            "name": one["metadata"]["name"],
            "number": int(one["revision"]),
            "created": one["metadata"]["creationTimestamp"],
            "images": {
                name: image[:LONGEST_IMAGE] for name, image in [*images(template_of(one)).items()][:MOST_IMAGES]
            },
        }
        for one in kept[-MOST:]
    ]


def bare_rows(observed: Observed, now: datetime) -> list[dict[str, Any]]:
    """A row for each revision that bare pods bear. Nobody numbers them, and nobody keeps their templates."""
    wanted = {record["spec"].get("revision") for record in observed.berths.values()}
    pods: dict[str, list[Object]] = {}
    for _name, pod in sorted(observed.pods.items()):
        pods.setdefault(OWN.of(pod) or "", []).append(pod)
    found = []
    for name, bearing in pods.items():
        made = min(str(pod["metadata"].get("creationTimestamp") or "") for pod in bearing)
        row = _row(name, made, bearing[0], now)
        found.append(
            {**row, "number": None, "current": name in wanted, **_pods(bearing), "differs": None, "in_place": None}
        )
    return sorted(found, key=lambda row: str(row["created"]))


def _row(name: str, created: str, template: Template, now: datetime) -> dict[str, Any]:
    seconds = age(created, now)
    return {
        "name": name,
        "created": created,
        "age": None if seconds is None else max(0, int(seconds)),
        "images": images(template),
    }


def _pods(pods: Sequence[Object]) -> dict[str, list[str]]:
    """``updating``: those of them that are on their way to another revision."""
    return {
        "pods": sorted(pod["metadata"]["name"] for pod in pods),
        "updating": sorted(pod["metadata"]["name"] for pod in pods if updating(pod) is not None),
    }


def images(template: Template) -> dict[str, str]:
    """container -> image."""
    spec = template["spec"]
    return {
        one["name"]: str(one.get("image", ""))
        for key in ("initContainers", "containers")
        for one in spec.get(key) or ()
    }


def check_rollback(asked: str | None, workload: str, app: str) -> None:
    """Raise InputError for what is no revision of an app of that name, before anything is read."""
    if asked is None:
        return
    if asked != PREVIOUS and not _is_number(asked) and not asked.startswith(f"{app}-"):
        raise InputError(
            f"rollback_to is {shown(asked)}: expected the number of a revision, its name ({app}-...), or {PREVIOUS}"
        )
    if workload == POD:
        raise InputError(
            "rollback_to is given, and workload is Pod: nobody keeps the former templates of bare pods; give the "
            "former template itself"
        )


def _is_number(asked: str) -> bool:
    return asked.isascii() and asked.isdigit() and int(asked) > 0


def rolled_back(app: AppWanted, asked: str, live: Object | None, kept: Sequence[Object]) -> AppWanted:
    """The app with the template that it had. ``kept``: of this very set (of_set). Raises InputError, StateError."""
    if live is None:
        raise StateError(
            f"StatefulSet {app.namespace}/{app.name} is not there: there is nothing that rollback_to could go back to; "
            "leave rollback_to out"
        )
    found = _meant(app, asked, live, kept)
    template = _own(template_of(found))
    meant = {"asked": asked, "revision": found["metadata"]["name"], "template": digest(template)}
    mark = json.dumps(meant, sort_keys=True)
    own = app.given.metadata
    metadata = replace(own, annotations={**own.annotations, ROLLED_BACK: mark})
    # of restarts the latest counts, and of contents what is there now, whatever the template: both are added later
    return replace(app, template=template, given=replace(app.given, metadata=metadata))


def _own(template: Object) -> dict[str, Any]:
    """The template without what is asked for beside it: a restart, and contents, which no revision brings back."""
    return without_annotation(without_restart(template), CONTENTS)


def _meant(app: AppWanted, asked: str, live: Object, kept: Sequence[Object]) -> Object:
    """The revision that is asked for; for a second time, that which it was for the first time."""
    same = _done(asked, live, kept)
    if same is not None:
        return same
    template = _own(live["spec"]["template"])
    others = [one for one in kept if not pod_change(_own(template_of(one)), template).same]
    meant = others[-1:] if asked == PREVIOUS else [one for one in kept if _is_called(one, asked)]
    if meant:
        return meant[0]
    known = ", ".join(_told(one, one not in others) for one in kept) or "none"
    raise InputError(
        f"rollback_to is {asked}, and StatefulSet {app.namespace}/{app.name} has no such revision: known are {known} "
        "(its revisionHistoryLimit says how many are kept)"
    )


def _is_called(revision: Object, asked: str) -> bool:
    return asked == revision["metadata"]["name"] or (_is_number(asked) and int(asked) == int(revision["revision"]))


def _done(asked: str, live: Object, kept: Sequence[Object]) -> Object | None:
    """What the same request has meant before; None: it is a new one."""
    mark = _mark(live)
    if mark.get("asked") != asked:
        return None
    named = [one for one in kept if one["metadata"]["name"] == mark.get("revision")]
    alike = named or [one for one in kept if digest(_own(template_of(one))) == mark.get("template")]
    return alike[-1] if alike else None


def _mark(live: Object) -> Mapping[str, Any]:
    try:
        found = json.loads((live["metadata"].get("annotations") or {}).get(ROLLED_BACK) or "null")
    except ValueError:
        found = None
    return found if isinstance(found, Mapping) else {}


def _told(revision: Object, current: bool) -> str:
    told = [*images(template_of(revision)).values(), *(["current"] if current else [])]
    return f"{revision['revision']} = {revision['metadata']['name']} ({', '.join(told)})"
