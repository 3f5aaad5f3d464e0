"""Where an update goes: the revision and template that pods are brought to, and the templates that they may have.

Called by rolling.py, and by leaving.py where a changed template costs replicas their places.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berth_core.app import manifests, trial
from berth_core.app.observed import Observed
from berth_core.app.plan import OWN
from berth_core.app.pod_change import with_running_fields
from berth_core.app.pod_revision import Target
from berth_core.app.wanted import APP_LABEL, AppWanted
from berth_core.app.wanted import POD as POD_WORKLOAD
from berth_core.model.resources import CONTROLLER_REVISION, STATEFUL_SET

from .requests import Obj, Requests

#: The mark of a revision that the StatefulSet's controller has not named yet.
_NEW = "(new)"


async def read_target(api: Requests, app: AppWanted, seen: Observed) -> Target | None:
    """As what is written has it. None: the StatefulSet's controller has not seen its template yet."""
    if app.workload == POD_WORKLOAD:
        return Target(app.revision, app.template, _bare_templates(app, seen), OWN, comes_back=False)
    live = await api.get(STATEFUL_SET, app.name, app.namespace)
    status: Mapping[str, Any] = live.get("status") or {}
    current = int(status.get("observedGeneration") or 0) >= int(live["metadata"]["generation"])
    if not current or not status.get("updateRevision"):
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
    kept = await api.list(CONTROLLER_REVISION, app.namespace, labels=f"{APP_LABEL}={app.name}")
    return {one["metadata"]["name"]: one["data"]["spec"]["template"] for one in kept}


def _bare_templates(app: AppWanted, seen: Observed) -> dict[str, Obj]:
    """The templates of bare pods that differ from the new one in nothing but what a running pod takes."""
    found: dict[str, Obj] = {}
    for pod in seen.pods.values():
        if (pod["metadata"].get("annotations") or {}).get(manifests.BASE_ANNOTATION) == app.base:
            found[OWN.of(pod) or ""] = with_running_fields(app.template, pod)
    return found
