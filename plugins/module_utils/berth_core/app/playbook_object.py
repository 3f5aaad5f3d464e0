# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A StatefulApp with driver playbook: what a run of stateful_app says in it, and whether one says it already. Pure.

Its status is of the moment in which the last run ended, and its words say so: nobody looks at the application until the
next one. Called by _glue.app.as_object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..errors import BerthError, InputError, StateError
from . import ended_pods
from .compare import differences
from .in_service import gated
from .node_loss import KEEP, RELEASE
from .not_ready import why_not_ready
from .observed import Observed, ready
from .plan import Plan
from .stateful_app_object import PLAYBOOK, manifest_of, options_of, wanted_of
from .stateful_app_status import BLOCKED, UPDATE_PAUSED, Outcome, with_rollback
from .wanted import AppWanted, digest

#: Who writes the status, whichever driver does: with two names, a condition that one of them leaves out would stay as
#: the other's, without the fields that it has to have.
STATUS_MANAGER = "berth-controller"
#: The schema's: a StatefulSet's name has no more, that of an app of bare pods may.
_LONGEST_NAME = 52
#: Reason of a run that failed.
RUN_FAILED = "RunFailed"
_AT_THE_END = "when stateful_app ran last"
Object = Mapping[str, Any]


def has_a_place(name: str) -> bool:
    """Whether a StatefulApp may be called like the application."""
    return len(name) <= _LONGEST_NAME


def body_of(params: Object, template: Any, replicas: int) -> dict[str, Any]:
    """The StatefulApp of a task. ``replicas``: as the run makes them; nobody else's number counts there.

    What is said of one run alone, or of one loss, has no field (stateful_app_object.OF_A_RUN).
    """
    standing = KEEP if params["on_node_loss"] == RELEASE else params["on_node_loss"]
    said = {**params, "template": template, "replicas": replicas, "on_node_loss": standing}
    body: dict[str, Any] = json.loads(json.dumps(manifest_of(said, PLAYBOOK), default=str))
    return body


def changes(live: Object | None, body: Object) -> list[str]:
    """The options of which the live StatefulApp says something else: both are read as the driver would read them."""
    if live is None:
        return sorted(name for name, value in _options(body).items() if value is not None)
    ours, there = _options(body), _options(live)
    paths = [*differences(ours, there), *differences(there, ours)]
    return sorted({re.split(r"[.\[]", path)[0] for path in paths})


def diff_of(live: Object | None, body: Object, names: list[str]) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Before and after, of these options; a template by its hash: what it changes stands beside it."""
    return (_shown(live, names) if live is not None else None), _shown(body, names)


def _options(body: Object) -> dict[str, Any]:
    found = options_of(body)
    return {name: value for name, value in found.items() if name not in ("name", "namespace", "generation")}


def _shown(body: Object, names: list[str]) -> dict[str, Any]:
    found = {name: value for name, value in _options(body).items() if name in names}
    return {name: f"revision {digest(value)}" if name == "template" else value for name, value in found.items()}


def gate_was_opened(live: Object | None) -> bool:
    """Whether the StatefulApp has pods with the gate of in_service: a run of stateful_app writes none such that
    berth-controller has not had before, and may have again."""
    if live is None:
        return False
    try:
        return gated(wanted_of(live).template)
    except InputError:
        return False


# -- the status


def outcome_of(app: AppWanted, seen: Observed, plan: Plan, rollback_to: str | None) -> Outcome:
    """How the app was at the end of a run that has not failed."""
    try:
        waits = _waits(app, seen, plan)
    except StateError as exc:
        return Outcome(BLOCKED, f"{_AT_THE_END}: {exc.message}", stalled=True)
    if waits:
        reason = "Updating" if plan.update or plan.held else "WaitsForPods"
        return Outcome(reason, f"{_AT_THE_END}: {'; '.join(waits)}")
    done = Outcome("Running", f"{_AT_THE_END}, every replica was there, as asked for, and Ready", done=True)
    if app.suspended:
        told = f"{_AT_THE_END}, no pod ran, as asked for; the replicas keep all that they have"
        done = replace(done, reason="Suspended", message=told)
    return with_rollback(done, rollback_to)


def _waits(app: AppWanted, seen: Observed, plan: Plan) -> list[str]:
    """What was missing. Raises StateError for what no waiting mends."""
    names = ", ".join(app.berth_name(ordinal) for ordinal in plan.replacing)
    waits = [f"a disk of {names} is being exchanged: run disk_replace again to finish it"] if names else []
    held = ended_pods.left(plan)
    waits += ended_pods.told(app, held)
    pods = {ordinal: seen.pod(ordinal) for ordinal in range(0 if app.suspended else app.replicas)}
    return waits + [
        f"pod {app.berth_name(ordinal)} {why_not_ready(pod)}"
        for ordinal, pod in pods.items()
        if ordinal not in held and (pod is None or not ready(pod))
    ]


def failed(exc: BerthError) -> Outcome:
    """How a run ended that failed when it had begun."""
    reason = UPDATE_PAUSED if "update_paused" in exc.details else RUN_FAILED
    return Outcome(reason, f"the last run of stateful_app failed: {exc.message}", stalled=True)
