# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a pod says of the template that it was made from or is on its way to, and the patches that bring it there. Pure.

Called by app.update, which decides the order, and by the plan, which asks whose pods are outdated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .compare import differences
from .pod_change import RESTARTED, RESTARTED_FIELD, PodChange, Template, changed_contents, pod_change

#: On a pod that is being updated in place: the revision it is going to have, and the containers that it waits for.
UPDATING = "berth.dev/updating"
#: There: it is being resized, and has nothing else of the new template yet.
RESIZING = "resizing"
Object = Mapping[str, Any]


class Mark(NamedTuple):
    """Where a pod bears its revision: ``part`` of the metadata, and the key."""

    part: str
    key: str

    def of(self, pod: Object) -> str | None:
        found = (pod["metadata"].get(self.part) or {}).get(self.key)
        return None if found is None else str(found)


#: Of a StatefulSet's pods, written by its controller; of bare pods, by the module.
HASH = Mark("labels", "controller-revision-hash")


@dataclass(frozen=True)
class Target:
    """Where an update goes. ``revision``: the mark of a pod that is there. ``template``: as the API server has it.

    ``templates``: those of earlier revisions, by mark; what is not there is not known any more. ``comes_back``: a pod
    that is deleted is made anew by its StatefulSet.
    """

    revision: str
    template: Template
    templates: Mapping[str, Template]
    mark: Mark = HASH
    comes_back: bool = True


def updating(pod: Object) -> Mapping[str, Any] | None:
    """What an update in place has written on the pod; of a text that is no such thing, an update to nowhere."""
    text = (pod["metadata"].get("annotations") or {}).get(UPDATING)
    if text is None:
        return None
    try:
        told = json.loads(text)
    except ValueError:
        return {}
    return told if isinstance(told, Mapping) else {}


def change_of(pod: Object, target: Target) -> PodChange:
    """What the update changes of this pod."""
    revision = target.mark.of(pod)
    old = target.templates.get(revision or "")
    asked = _restarted(target.template)
    if old is None and asked is not None and asked != _restarted(pod):
        return PodChange(forced=(RESTARTED_FIELD,))
    contents = changed_contents(pod, target.template) if old is None else []
    if contents:
        return PodChange(forced=tuple(contents))
    if old is None:
        return PodChange(forced=(f"the template of its revision {revision or '(none)'} is not known any more",))
    return pod_change(old, target.template)


def _restarted(thing: Object) -> str | None:
    return ((thing.get("metadata") or {}).get("annotations") or {}).get(RESTARTED)


def outdated(pod: Object, revision: str, mark: Mark = HASH) -> bool:
    """Whether the pod has another revision, or is on its way to one."""
    return mark.of(pod) != revision or updating(pod) is not None


def begin_body(target: Target) -> dict[str, Any]:
    """The patch before a resize: the pod says that it has left its revision, before it has another size."""
    told = json.dumps({"to": target.revision, RESIZING: True}, sort_keys=True)
    return {"metadata": {"annotations": {UPDATING: told}}}


def resize_body(pod: Object, template: Template) -> dict[str, Any] | None:
    """The patch of the subresource ``resize``; None where the pod asks for that already."""
    wanted = {one["name"]: _amounts(one) for one in template["spec"]["containers"]}
    containers = [dict(one) for one in pod["spec"]["containers"]]
    changed = False
    for one in containers:
        want = wanted.get(one["name"]) or {}
        if differences({"resources": want}, {"resources": one.get("resources") or {}}):
            have = one.get("resources") or {}
            one["resources"] = {**have, **{kind: {**(have.get(kind) or {}), **want[kind]} for kind in want}}
            changed = True
    return {"spec": {"containers": containers}} if changed else None


def _amounts(container: Object) -> dict[str, dict[str, Any]]:
    """cpu and memory of a container, requests as the API server completes them from the limits."""
    resources = container.get("resources") or {}
    found = {}
    for kind in ("requests", "limits"):
        amounts = (
            {**(resources.get("limits") or {}), **(resources.get(kind) or {})}
            if kind == "requests"
            else (resources.get(kind) or {})
        )
        kept = {name: amounts[name] for name in ("cpu", "memory") if name in amounts}
        if kept:
            found[kind] = kept
    return found


def patch_body(pod: Object, target: Target) -> dict[str, Any]:
    """A JSON merge patch: images, labels and annotations of the new template, and what is waited for afterwards."""
    spec: dict[str, Any] = {}
    for key in ("initContainers", "containers"):
        live = pod["spec"].get(key) or []
        dressed = [{**one, "image": _image(target.template, key, one)} for one in live]
        if dressed != live:
            spec[key] = dressed
    metadata = _metadata(pod, target)
    told = json.dumps({"to": target.revision, "was": _running_before(pod, target)}, sort_keys=True)
    metadata["annotations"] = {**metadata.get("annotations", {}), UPDATING: told}
    return {**({"spec": spec} if spec else {}), "metadata": metadata}


def _image(template: Template, key: str, container: Object) -> str:
    images = {one["name"]: one["image"] for one in template["spec"].get(key) or ()}
    return str(images.get(container["name"], container["image"]))


def _running_before(pod: Object, target: Target) -> dict[str, dict[str, str]]:
    """The containers that the kubelet is going to end: name -> their id, and the image that they were started with.

    An earlier update that it has not begun with leaves a container with its image of before: going back to that one,
    nothing is ended.
    """
    before = (updating(pod) or {}).get("was")
    found = {}
    ids = {one["name"]: one.get("containerID") for one in _statuses(pod)}
    for key, container in _lasting(pod):
        name, running = container["name"], ids.get(container["name"])
        known = before.get(name) if isinstance(before, Mapping) else None
        same = isinstance(known, Mapping) and known.get("id") == running
        image = str(known.get("image")) if same and isinstance(known, Mapping) else container["image"]
        if running and image != _image(target.template, key, container):
            found[name] = {"id": running, "image": image}
    return found


def _lasting(pod: Object) -> Iterator[tuple[str, Object]]:
    """The containers that run as long as the pod, and the lists in which they stand: sidecars are init containers."""
    for key in ("initContainers", "containers"):
        for container in pod["spec"].get(key) or ():
            if key == "containers" or container.get("restartPolicy") == "Always":
                yield key, container


def _statuses(pod: Object) -> list[Object]:
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def ends_for(pod: Object, target: Target) -> bool:
    """Whether the kubelet ends a container for the images of the new template."""
    return bool(_running_before(pod, target))


def may_end_for(pod: Object, target: Target) -> bool:
    """Likewise, where the pod does not tell which container runs: one with another image then counts as ended."""
    known = {one["name"] for one in _statuses(pod) if one.get("containerID")}
    images = ((one, _image(target.template, key, one)) for key, one in _lasting(pod))
    return ends_for(pod, target) or any(one["name"] not in known and one["image"] != image for one, image in images)


def not_begun(pod: Object) -> list[str]:
    """The containers that still are those which the update is to end."""
    was = (updating(pod) or {}).get("was")
    known = was if isinstance(was, Mapping) else {}
    return [
        one["name"]
        for one in _statuses(pod)
        if isinstance(known.get(one["name"]), Mapping) and known[one["name"]].get("id") == one.get("containerID")
    ]


def _metadata(pod: Object, target: Target) -> dict[str, Any]:
    """Labels and annotations that come, change, or go (None)."""
    before = [target.templates[mark] for mark in _marks(pod, target) if mark in target.templates]
    found: dict[str, Any] = {}
    for part in ("labels", "annotations"):
        new = (target.template.get("metadata") or {}).get(part) or {}
        have = pod["metadata"].get(part) or {}
        gone = {key for one in before for key in (one.get("metadata") or {}).get(part) or {}} - set(new)
        changed = {key: value for key, value in new.items() if have.get(key) != value}
        changed.update({key: None for key in sorted(gone) if key in have})
        if changed:
            found[part] = changed
    return found


def _marks(pod: Object, target: Target) -> list[str]:
    """The revisions whose labels the pod may bear: the one it has, and the one it was on its way to."""
    return [str(one) for one in (target.mark.of(pod), (updating(pod) or {}).get("to")) if one]


def mark_body(target: Target) -> dict[str, Any]:
    """The patch that ends an update in place."""
    body: dict[str, Any] = {"annotations": {UPDATING: None}}
    body.setdefault(target.mark.part, {})[target.mark.key] = target.revision
    return {"metadata": body}
