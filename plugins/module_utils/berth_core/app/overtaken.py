# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether somebody has given an app something else to become while a run carries it out. Pure.

What decides is one object that each driver writes before it touches a pod: the StatefulSet, or, of bare pods, their
Berths; and the StatefulApp, which names its driver. Of two runs the one that wrote it last goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..errors import StateError
from . import by_hand
from .pod_revision import HASH
from .revisions import images
from .stateful_app_object import CONTROLLER
from .wanted import REVISION_ANNOTATION, AppWanted

Object = Mapping[str, Any]


def set_taken(app: AppWanted, live: Object | None) -> str:
    """Who has given the StatefulSet another revision, and which; empty where it has the app's."""
    if live is None:
        return f"StatefulSet {app.namespace}/{app.name} was deleted"
    revision = _revision(live)
    if revision != app.set_revision:
        return f"StatefulSet {app.namespace}/{app.name} was given revision {revision or '(none)'} by {writer(live)}"
    return ""


def set_changed(app: AppWanted, ours: Object, live: Object) -> str:
    """Who has written another template into the StatefulSet, by the fields; empty where nobody has.

    ``ours``: the StatefulSet as the API server had it when this run had written its own. ``live``: as it is now.
    """
    before, now = ({"spec": {"template": one["spec"]["template"]}} for one in (ours, live))
    changes = [] if before == now else by_hand.changed(before, now, live)
    return f"StatefulSet {app.namespace}/{app.name} was changed: {by_hand.told(changes)}" if changes else ""


def set_moved(app: AppWanted, seen: Object, live: Object) -> str:
    """Likewise before this run writes its own: whether the StatefulSet has another revision than it was planned for."""
    if _revision(live) in (_revision(seen), app.set_revision):
        return ""  # nobody has given it one, or another run with the same template
    by = writer(live, "f:template")
    return f"StatefulSet {app.namespace}/{app.name} was given revision {_revision(live) or '(none)'} by {by}"


def set_changed_meanwhile(app: AppWanted, seen: Object, live: Object) -> str:
    """Before this run writes its own: whether a hand has changed the template that it was planned for."""
    as_asked = not by_hand.differing({"template": app.template}, {"template": live["spec"]["template"]})
    return "" if as_asked else set_changed(app, seen, live)


def berths_taken(app: AppWanted, berths: Iterable[Object], replacing: Sequence[int] = ()) -> str:
    """Who has recorded another revision in a Berth of a bare pod; empty where all have the app's."""
    for record in berths:
        spec = record["spec"]
        ours = spec.get("app") == app.name and spec["ordinal"] < app.replicas and spec["ordinal"] not in replacing
        if ours and spec.get("revision") != app.revision:
            name = record["metadata"]["name"]
            return f"Berth {app.namespace}/{name} was given revision {spec.get('revision')} by {writer(record)}"
    return ""


def handed_over(app: AppWanted, kept: Object | None) -> str:
    """Whether the StatefulApp of that name is the controller's by now."""
    if kept is None or kept["spec"].get("driver") != CONTROLLER:
        return ""
    generation = kept["metadata"].get("generation")
    return (
        f"StatefulApp {app.namespace}/{app.name} (generation {generation}) has driver {CONTROLLER} since: "
        "berth-controller carries the application out"
    )


def error(app: AppWanted, why: str, changed: bool = True) -> StateError:
    """For whoever is overtaken. ``changed``: it has written something before."""
    return StateError(
        f"{why}, while this run was bringing revision {app.revision} to the pods: it is overtaken and has ended, "
        "nothing was taken back, and whoever wrote last goes on; run this task again only if what it asks for is still "
        "what is wanted",
        changed=changed,
    )


def changed_by_hand(app: AppWanted, why: str, pods: Iterable[Object]) -> StateError:
    """For a run that a hand at the StatefulSet has overtaken: unlike another run, a hand brings nothing to the pods."""
    revisions: dict[str, list[str]] = {}
    for pod in sorted(pods, key=lambda one: str(one["metadata"]["name"])):
        bears = f"{', '.join(images(pod).values())} (revision {HASH.of(pod) or 'none'})"
        revisions.setdefault(bears, []).append(str(pod["metadata"]["name"]))
    mixed = "; ".join(f"{', '.join(names)}: {bears}" for bears, names in revisions.items()) or "there are none"
    return StateError(
        f"{why}, while this run was bringing revision {app.revision} to the pods: it is overtaken and has ended, "
        f"nothing was taken back, and nobody goes on by himself. The pods as they are: {mixed}. Run this task again, "
        "which takes back what was done to the fields that it names, and finishes its update; to keep that, put it "
        "into the task first",
        changed=True,
    )


def writer(live: Object, part: str = "") -> str:
    """The field manager that wrote last, and when; of those that have ``part`` in their fields, where any has."""
    entries = [one for one in live["metadata"].get("managedFields") or () if not one.get("subresource")]
    entries = [one for one in entries if part in str(one.get("fieldsV1"))] or entries
    if not entries:
        return "somebody"
    last = max(entries, key=lambda one: str(one.get("time") or ""))
    own = " (another run of stateful_app, or berth-controller)" if last.get("manager") == by_hand.OURS else ""
    return f"{last.get('manager')}{own} at {last.get('time')}"


def _revision(live: Object) -> str:
    return str((live["metadata"].get("annotations") or {}).get(REVISION_ANNOTATION) or "")
