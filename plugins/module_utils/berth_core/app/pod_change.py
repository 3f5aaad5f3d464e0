# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which fields differ between two pod templates, and whether a running pod can take the new ones. Pure.

A running pod takes labels, annotations, images, and the cpu and memory of its containers (subresource ``resize``), as
Kubernetes' validation of pod updates says. Everything else needs a new pod.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .compare import differences, means_absent

Template = Mapping[str, Any]
#: What ``resize`` changes.
_RESIZED = ("cpu", "memory")
#: The annotation of a template by which people ask for new pods; of the pods that have it no other is asked.
RESTARTED = "kubectl.kubernetes.io/restartedAt"
RESTARTED_FIELD = f"metadata.annotations[{RESTARTED}]"
#: The annotation of a template that says, by a hash for each, what the ConfigMaps and Secrets hold that it names.
CONTENTS = "berth.dev/contents"


@dataclass(frozen=True)
class PodChange:
    """``fields``: the paths that a running pod takes. ``forced``: the paths that need a new pod.

    Where somebody has asked for it, ``pulled``: the images that the pod's node pulls before that (app.pre_pull), and
    ``held``: whether a hold pod keeps its room while there is no pod; ``room``: who does, also where nobody asked for
    it; empty: it keeps its pod, or gets another place (app.update_hold).
    ``gated``: whether it leaves its Services before a container is ended (app.in_service). ``forbidden``: the
    PodDisruptionBudgets that do not allow it now (app.update_budgets).
    """

    fields: tuple[str, ...] = ()
    forced: tuple[str, ...] = ()
    pulled: tuple[str, ...] = ()
    held: bool = False
    room: str = ""
    gated: bool = False
    forbidden: tuple[str, ...] = ()

    @property
    def in_place(self) -> bool:
        return not self.forced

    @property
    def same(self) -> bool:
        """Whether nothing differs at all."""
        return not (self.fields or self.forced)


def pod_change(old: Template, new: Template) -> PodChange:
    """What makes ``new`` out of ``old``; both are whole templates, as the API server stores them."""
    fields: list[str] = []
    forced: list[str] = []
    for path, running in _changes(old, new):
        (fields if running else forced).append(path)
    if not forced and qos_class(old["spec"]) != qos_class(new["spec"]):  # validation refuses it
        forced = [f"spec (QoS class {qos_class(old['spec'])} becomes {qos_class(new['spec'])})"]
    return PodChange(tuple(fields), tuple(forced))


def _changes(old: Template, new: Template) -> Iterator[tuple[str, bool]]:
    """(path, whether a running pod takes it)."""
    for key in ("labels", "annotations"):
        had, has = _meta(old, key), _meta(new, key)
        if key == "annotations" and has.get(RESTARTED) not in (None, had.get(RESTARTED)):
            yield RESTARTED_FIELD, False
            had[RESTARTED] = has[RESTARTED]
        if key == "annotations" and has.get(CONTENTS) not in (None, had.get(CONTENTS)):
            for field in changed_contents(old, new):
                yield field, False
            had[CONTENTS] = has[CONTENTS]
        if had != has:
            yield f"metadata.{key}", True
    before, after = old["spec"], new["spec"]
    for key in sorted({*before, *after} - {"containers", "initContainers"}):
        if not _same(key, before.get(key), after.get(key)):
            yield f"spec.{key}", False
    for key in ("initContainers", "containers"):
        yield from _container_changes(key, before.get(key) or (), after.get(key) or ())


def _container_changes(key: str, old: Sequence[Template], new: Sequence[Template]) -> Iterator[tuple[str, bool]]:
    if [one["name"] for one in old] != [one["name"] for one in new]:
        yield f"spec.{key}", False
        return
    for before, after in zip(old, new):
        where = f"spec.{key}[{after['name']}]"
        for field in sorted({*before, *after}):
            if _same(field, before.get(field), after.get(field)):
                continue
            if field == "resources":
                yield from _resource_changes(f"{where}.resources", key, before.get(field) or {}, after.get(field) or {})
            else:
                yield f"{where}.{field}", field == "image"


def _resource_changes(where: str, key: str, old: Template, new: Template) -> Iterator[tuple[str, bool]]:
    """Of init containers none is resized; what a container asks for may change, and not be taken back."""
    for kind in sorted({*old, *new}):
        before, after = old.get(kind) or {}, new.get(kind) or {}
        if kind not in ("requests", "limits"):
            if not _same(kind, before, after):
                yield f"{where}.{kind}", False
            continue
        for name in sorted({*before, *after}):
            if not _same_amount(before.get(name), after.get(name)):
                yield f"{where}.{kind}.{name}", key == "containers" and name in _RESIZED and name in after


def changed_contents(old: Template, new: Template) -> list[str]:
    """The ConfigMaps and Secrets whose content counts in ``new`` and is another than in ``old``, or was not counted
    there: what a pod has read of it is not known then."""
    before, after = _contents(old), _contents(new)
    return [f"{name} (its content)" for name in sorted(after) if name not in before or before[name] != after[name]]


def _contents(template: Template) -> Template:
    try:
        told = json.loads(_meta(template, "annotations").get(CONTENTS) or "{}")
    except ValueError:
        return {}
    return told if isinstance(told, Mapping) else {}


def without_annotation(template: Template, key: str) -> dict[str, Any]:
    """The template as it would be if it never had that annotation."""
    annotations = _meta(template, "annotations")
    if key not in annotations:
        return dict(template)
    annotations.pop(key)
    metadata = {name: value for name, value in template["metadata"].items() if name != "annotations"}
    return {**template, "metadata": {**metadata, **({"annotations": annotations} if annotations else {})}}


def without_running_fields(template: Template) -> dict[str, Any]:
    """The template without images, and without cpu and memory of its containers."""
    spec = dict(template["spec"])
    for key in ("initContainers", "containers"):
        if spec.get(key):
            spec[key] = [_bare(one, key) for one in spec[key]]
    return {**template, "spec": spec}


def _bare(container: Template, key: str) -> dict[str, Any]:
    kept = {name: value for name, value in container.items() if name != "image"}
    if key == "containers" and kept.get("resources"):
        kept["resources"] = {
            kind: {name: each for name, each in amounts.items() if name not in _RESIZED}
            if kind in ("requests", "limits") and isinstance(amounts, Mapping)
            else amounts
            for kind, amounts in kept["resources"].items()
        }
    return kept


def with_running_fields(template: Template, pod: Template) -> dict[str, Any]:
    """The template with the images, cpu and memory that ``pod`` has: what it was made from, where the rest is alike."""
    spec = dict(template["spec"])
    for key in ("initContainers", "containers"):
        live = {one["name"]: one for one in pod["spec"].get(key) or ()}
        if spec.get(key):
            spec[key] = [_dressed(one, live.get(one["name"], one), key) for one in spec[key]]
    return {**template, "spec": spec}


def _dressed(container: Template, live: Template, key: str) -> dict[str, Any]:
    found = {**container, "image": live["image"]}
    if key == "containers" and container.get("resources"):
        found["resources"] = {
            kind: {**amounts, **{name: each for name, each in _part(live, kind).items() if name in _RESIZED}}
            if kind in ("requests", "limits")
            else amounts
            for kind, amounts in container["resources"].items()
        }
    return found


def _part(container: Template, kind: str) -> Template:
    return (container.get("resources") or {}).get(kind) or {}


def qos_class(spec: Template) -> str:
    """Guaranteed, Burstable or BestEffort, as Kubernetes' ``GetPodQOS`` computes it from cpu and memory."""
    amounts = [
        (_counted(one, "requests"), _counted(one, "limits"))
        for one in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    ]
    if not any(requests or limits for requests, limits in amounts):
        return "BestEffort"
    guaranteed = all(
        all(name in limits and _same_amount(requests.get(name, limits[name]), limits[name]) for name in _RESIZED)
        for requests, limits in amounts
    )
    return "Guaranteed" if guaranteed else "Burstable"


def _counted(container: Template, kind: str) -> dict[str, Any]:
    amounts = _part(container, kind)
    return {name: amounts[name] for name in _RESIZED if str(amounts.get(name, "0")) != "0"}


def _meta(template: Template, key: str) -> dict[str, str]:
    return dict((template.get("metadata") or {}).get(key) or {})


def _same(name: str, before: Any, after: Any) -> bool:
    """What is empty is left out of what the API server stores; false and 0 only where they are the default."""
    if before is not None and after is not None:
        return bool(before == after)
    value = after if before is None else before
    return value in ({}, [], "") or means_absent(name, value)


def _same_amount(before: Any, after: Any) -> bool:
    if before is None or after is None:
        return before is after
    return not differences({"requests": before}, {"requests": after})
