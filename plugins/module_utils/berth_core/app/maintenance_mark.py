# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a Node says of its maintenance: an annotation that names who began it, when, and whose the cordon is.

It is written together with the cordon and taken off when all pods are home, so that a run which died is continued by
the next one, and a cordon of somebody else is left alone. Pure: the caller has the clock, and writes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import StateError
from ..model.fields import boolean, mapping

#: On a Node, as JSON.
ANNOTATION = "berth.dev/maintenance"
#: Pods go, or have gone; the host is worked on.
BEGUN = "begun"
#: The node is open again; its pods are waited for.
RETURNING = "returning"
#: What the history of a berth is told, as its pod is asked to go and when it is back.
HELD, HOME = "held for maintenance", "home"
Object = Mapping[str, Any]


class Mark(NamedTuple):
    """``cordoned``: the cordon is the maintenance's own, which takes it off again."""

    by: str
    since: str
    cordoned: bool
    state: str

    def text(self) -> str:
        return json.dumps(self._asdict(), sort_keys=True)


def mark_of(node: Object) -> Mark | None:
    """The node's mark; None where no maintenance was begun. Raises StateError for one that cannot be read."""
    name = node["metadata"]["name"]
    text = mapping(mapping(node, "metadata"), "annotations").get(ANNOTATION)
    if text is None:
        return None
    try:
        told = json.loads(text)
        mark = Mark(str(told["by"]), str(told["since"]), told["cordoned"] is True, str(told["state"]))
    except (ValueError, TypeError, KeyError, IndexError):
        mark = None
    if mark is None or mark.state not in (BEGUN, RETURNING):
        raise StateError(
            f"Node {name}: annotation {ANNOTATION} is {text!r}, which this release has not written; see who works on "
            f"the host, take it off (kubectl annotate node {name} {ANNOTATION}-), and run the task again"
        )
    return mark


def in_maintenance(node: Object) -> bool:
    """Whether the node has a mark that can be read: who only tells of it stops for no other."""
    try:
        return mark_of(node) is not None
    except StateError:
        return False


def cordoned(node: Object) -> bool:
    """Whether pods are kept off the node, by whomever."""
    return boolean(mapping(node, "spec"), "unschedulable", "spec.unschedulable")


def begin(node: Object, by: str, now: str) -> dict[str, Any] | None:
    """The merge patch that cordons the node and says who works on it; None where both are so already.

    A cordon that is there is its cordoner's, and stays when the maintenance ends.
    """
    mark, closed = mark_of(node), cordoned(node)
    begun = mark is not None and mark.state == BEGUN
    if begun and closed:
        return None
    told = Mark(mark.by, mark.since, True, BEGUN) if mark is not None and begun else Mark(by, now, not closed, BEGUN)
    return _patch(node, told.text(), {} if closed else {"unschedulable": True})


def let_home(node: Object) -> dict[str, Any] | None:
    """The patch that opens the node for its pods; None where nothing was begun, or it is open for them already.

    The cordon goes if it is the maintenance's own.
    """
    mark = mark_of(node)
    if mark is None or mark.state == RETURNING:
        return None
    opened = {"unschedulable": None} if mark.cordoned and cordoned(node) else {}
    return _patch(node, mark._replace(state=RETURNING).text(), opened)


def end(node: Object) -> dict[str, Any] | None:
    """The patch that ends the maintenance; None where there is none."""
    return None if mark_of(node) is None else _patch(node, None, {})


def _patch(node: Object, text: str | None, spec: dict[str, Any]) -> dict[str, Any]:
    """On the very version that was read: of two who begin, one is refused and looks again."""
    meta = node["metadata"]
    seen = {key: meta[key] for key in ("uid", "resourceVersion") if key in meta}
    return {"metadata": {**seen, "annotations": {ANNOTATION: text}}, **({"spec": spec} if spec else {})}


def shown(node: Object, patch: Mapping[str, Any] | None, pods: Sequence[str]) -> dict[str, Any]:
    """The node after the patch, with pods on it, for a diff."""
    before, told = mapping(node, "metadata"), patch or {}
    marks = {**mapping(before, "annotations"), **mapping(mapping(told, "metadata"), "annotations")}
    closed = {"unschedulable": cordoned(node), **mapping(told, "spec")}
    return {"unschedulable": bool(closed["unschedulable"]), "maintenance": marks.get(ANNOTATION), "pods": sorted(pods)}


def occasion(node: Object) -> str:
    """The maintenance that is under way, in words for the histories of berths; it names no other one."""
    mark = mark_of(node)
    return f"maintenance of Node {node['metadata']['name']} since {mark.since if mark is not None else 'now'}"
