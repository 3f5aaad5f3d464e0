# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The manifest of the option template or src: a pod template, or a StatefulSet and what stands beside it.

Called by wanted.py. Nothing of it is lost in silence: what is not taken is refused by name. Only what the API server
fills in itself (status, uid, resourceVersion and the like) is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..errors import InputError
from .given_beside import BESIDE, beside_of
from .given_set import SetGiven, set_of
from .template_shape import mapping

_T = TypeVar("_T")
_SET = "StatefulSet"
_EXPECTED = "expected exactly one StatefulSet, and any number of Services and ConfigMaps"


@dataclass(frozen=True)
class Given:
    """``template``: what has a pod template, for pod_template. ``beside``: Services and ConfigMaps to apply."""

    template: Any
    workload: SetGiven = field(default_factory=SetGiven)
    beside: tuple[dict[str, Any], ...] = ()


def read_given(source: Any, app: str, namespace: str, labels: Mapping[str, str]) -> Given:
    """Take apart what the option has. ``labels``: those that everything of the app carries. Raises InputError."""
    kind = source.get("kind") if isinstance(source, Mapping) else None
    if kind == _SET:
        return Given(source, set_of(source, app, namespace))
    if kind != "List":
        return Given(source)
    documents = list(_flat(source))
    sets = [one for one in documents if one["kind"] == _SET]
    if len(sets) != 1:
        names = ", ".join(_name(one) for one in sets) or "none"
        raise InputError(f"template: its documents have {len(sets)} StatefulSets ({names}): {_EXPECTED}")
    beside = tuple(beside_of(one, namespace, labels) for one in documents if one["kind"] in BESIDE)
    keys = [(one["kind"], one["metadata"]["name"]) for one in beside]
    for key in keys:
        if keys.count(key) > 1:
            raise InputError(f"template: {' '.join(key)} is in its documents twice: every object may stand there once")
    return Given(sets[0], set_of(sets[0], app, namespace), beside)


def agreed(option: str, asked: _T | None, field: str, told: _T | None, default: _T) -> _T:
    """What option and manifest say, where they do not contradict each other. Raises InputError."""
    if asked is not None and told is not None and asked != told:
        raise InputError(
            f"{option} is {asked}, and {field} of the StatefulSet in template or src is {told}: keep one of them, or "
            "make them agree"
        )
    return next((value for value in (asked, told) if value is not None), default)


def _flat(source: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The documents of a List, and of Lists in it. Each is of a kind that is taken."""
    items = source.get("items")
    if not isinstance(items, list):
        raise InputError("template.items: expected a list of objects, as a List of Kubernetes has")
    for index, item in enumerate(items):
        kind = mapping(item, f"template.items[{index}]").get("kind")
        if kind == "List":
            yield from _flat(item)
        elif kind in (_SET, *BESIDE):
            yield item
        elif not isinstance(kind, str):
            raise InputError(f"template: document {index + 1} has no kind: {_EXPECTED}")
        else:
            raise InputError(f"template: {_name(item)} is not taken: {_EXPECTED}; {_way_out(kind)}")


def _way_out(kind: str) -> str:
    if kind == "Secret":
        return "apply it beforehand, by itself, with no_log: here its values would be in diffs and in logs"
    if kind in ("Deployment", "DaemonSet", "ReplicaSet", "Pod", "Job", "CronJob"):
        return "it is another application: keep it in a file of its own"
    return "apply it beforehand, by itself (kubernetes.core.k8s, kubectl apply)"


def _name(document: Mapping[str, Any]) -> str:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return f"{document['kind']} {name or '(without a name)'}"
