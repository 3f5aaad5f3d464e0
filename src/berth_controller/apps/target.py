"""Where an update goes: the revision and template that pods are brought to, and the templates that they may have.

Called by rolling.py, by leaving.py where a changed template costs replicas their places, by kept.py for the revisions
that there are, and by visit.py for the way back to one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from berth_core.app import manifests, revisions, trial
from berth_core.app.observed import Observed
from berth_core.app.plan import OWN
from berth_core.app.pod_change import with_running_fields
from berth_core.app.pod_revision import Target
from berth_core.app.revisions import of_set
from berth_core.app.stateful_app_object import in_fields
from berth_core.app.wanted import APP_LABEL, AppWanted
from berth_core.app.wanted import POD as POD_WORKLOAD
from berth_core.errors import BerthError, ForbiddenError
from berth_core.model.resources import CONTROLLER_REVISION, STATEFUL_SET

from .requests import Obj, Requests

#: The mark of a revision that the StatefulSet's controller has not named yet.
_NEW = "(new)"


async def kept_revisions(api: Requests, app: AppWanted, seen: Observed, needed: bool) -> list[Obj] | None:
    """The ControllerRevisions of the app's own StatefulSet, the oldest first; None: they may not be read.

    Raises ForbiddenError where they are ``needed``.
    """
    if app.workload == POD_WORKLOAD or seen.stateful_set is None:
        return []
    try:
        kept = await _listed(api, app)
    except ForbiddenError:
        if needed:
            raise
        return None
    return [dict(one) for one in of_set(kept, seen.stateful_set)]


def rolled_back(app: AppWanted, asked: str | None, seen: Observed, kept: Sequence[Obj]) -> AppWanted:
    """The app with the template that ``spec.rollbackTo`` asks for, where it does. Raises InputError, StateError."""
    if asked is None:
        return app
    try:
        revisions.check_rollback(asked, app.workload, app.name)
        return revisions.rolled_back(app, asked, seen.stateful_set, kept)
    except BerthError as exc:
        exc.message = in_fields(exc.message)
        raise


async def read_target(api: Requests, app: AppWanted, seen: Observed) -> Target | None:
    """As what is written has it. None: the StatefulSet's controller has not seen its template yet, or somebody has
    changed it since: the next look takes that back, and no pod gets it."""
    if app.workload == POD_WORKLOAD:
        return Target(app.revision, app.template, _bare_templates(app, seen), OWN, comes_back=False)
    live = await api.get(STATEFUL_SET, app.name, app.namespace)
    status: Mapping[str, Any] = live.get("status") or {}
    current = int(status.get("observedGeneration") or 0) >= int(live["metadata"]["generation"])
    moved = seen.stateful_set is not None and live["spec"]["template"] != seen.stateful_set["spec"]["template"]
    if not current or not status.get("updateRevision") or moved:
        return None
    return Target(str(status["updateRevision"]), live["spec"]["template"], await _revisions(api, app))


async def foreseen_target(api: Requests, app: AppWanted, seen: Observed) -> Target | None:
    """As a StatefulSet that is still to be written would have it: by a dry run."""
    for resource, body in trial.workload(app, seen):
        if resource == STATEFUL_SET:
            tried = await api.apply(STATEFUL_SET, body, dry_run=True)
            return Target(_NEW, tried["spec"]["template"], await _revisions(api, app))
    return await read_target(api, app, seen)


async def _revisions(api: Requests, app: AppWanted) -> dict[str, Obj]:
    return {one["metadata"]["name"]: one["data"]["spec"]["template"] for one in await _listed(api, app)}


async def _listed(api: Requests, app: AppWanted) -> list[Obj]:
    return await api.list(CONTROLLER_REVISION, app.namespace, labels=f"{APP_LABEL}={app.name}")


def _bare_templates(app: AppWanted, seen: Observed) -> dict[str, Obj]:
    """The templates of bare pods that differ from the new one in nothing but what a running pod takes."""
    found: dict[str, Obj] = {}
    for pod in seen.pods.values():
        if (pod["metadata"].get("annotations") or {}).get(manifests.BASE_ANNOTATION) == app.base:
            found[OWN.of(pod) or ""] = with_running_fields(app.template, pod)
    return found
