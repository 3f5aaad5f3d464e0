# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pull pod: it has the kubelet of a replica's node pull the new images while the old pod still serves. Pure.

It asks for no room and no scheduler, mounts nothing, and its command exists in no image: all that its kubelet gets done
is the pull. Its owner is the replica's pod. Whether it is there, and what its status says, is all that a driver
remembers of it. app.update says when one is made and deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ..model.times import age
from .helper_pods import COMMON, NOTHING, Verdict, helper_pod, replica_of
from .helper_pods import PULL as KIND
from .not_ready import IMAGE_REASONS
from .observed import ended

Object = Mapping[str, Any]
#: Seconds after which a kubelet that could not pull has tried it about three times: it may have been the registry.
TRIED = 30.0
#: Seconds after which the kubelet ends a pull pod whatever it does.
_DEADLINE = 3600
#: In no image; its absence is found when the container is started, which is after the pull.
_COMMAND = "/berth.dev/pull-only"
#: What of the template's spec decides whether the pod is admitted, and with which rights and runtime it pulls.
_TAKEN = ("imagePullSecrets", "serviceAccountName", "securityContext", "runtimeClassName", "hostUsers", "os")
#: Waiting reasons of a container that its kubelet has not come to yet, and of one that it has pulled the image of.
_BEFORE = ("", "ContainerCreating", "PodInitializing")
_BEHIND = (
    *("CreateContainerConfigError", "CreateContainerError", "PreCreateHookError", "PreStartHookError", "StartError"),
    *("RunContainerError", "PostStartHookError", "CrashLoopBackOff"),
)
PULLING, PULLED, FAILED, EXPIRED, REFUSED = "pulling", "pulled", "failed", "expired", "refused"


@dataclass(frozen=True)
class Pulls:
    """``pods``: an app's pull pods, by name. ``without``: ordinals that are updated without one, for it was refused."""

    pods: Mapping[str, Object] = field(default_factory=dict)
    without: frozenset[int] = frozenset()


NO_PULLS = Pulls()


# -- what is to be pulled


def new_images(pod: Object, template: Object, anew: bool) -> list[str]:
    """The images that the node of ``pod`` may have to pull for it. ``anew``: another pod is made from the template."""
    return [str(one["image"]) for one in _containers(pod, template, anew)]


def pull_pod(app: str, ordinal: int, pod: Object, template: Object, anew: bool) -> dict[str, Any] | None:
    """The pull pod for the replica of which ``pod`` is; None where nothing is new."""
    containers = [_pulling(one) for one in _containers(pod, template, anew)]
    if not containers:
        return None
    meta, given = pod["metadata"], template["spec"]
    spec: dict[str, Any] = {
        "nodeName": pod["spec"].get("nodeName"),
        "containers": containers,
        "tolerations": [{"operator": "Exists"}],
        **COMMON,
        "activeDeadlineSeconds": _DEADLINE,
        **{key: given[key] for key in _TAKEN if given.get(key)},
    }
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}
    return helper_pod(app, ordinal, KIND, pod, spec, owner)


def _containers(pod: Object, template: Object, anew: bool) -> list[Object]:
    """The template's containers, init containers too, whose images are new: one for each image.

    A container that pulls Always is one whenever it is going to be started. What the running pod has is on its node.
    """
    there = {one["name"]: one["image"] for one in _all(pod)}
    found: dict[str, Object] = {}
    for one in _all(template):
        image, always = one["image"], _policy(one) == "Always"
        started = anew or there.get(one["name"]) != image
        if (image not in there.values() or (always and started)) and (image not in found or always):
            found[image] = one
    return list(found.values())


def _all(thing: Object) -> Iterator[Object]:
    for key in ("initContainers", "containers"):
        yield from thing["spec"].get(key) or ()


def _policy(container: Object) -> str:
    """As the API server fills it in: a template of bare pods is as its author wrote it."""
    given = container.get("imagePullPolicy")
    if given:
        return str(given)
    image = str(container["image"])
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if "@" not in image and tag in ("", "latest") else "IfNotPresent"


def _pulling(container: Object) -> dict[str, Any]:
    return {
        "name": container["name"],
        "image": container["image"],
        "imagePullPolicy": _policy(container),
        "command": [_COMMAND],
        "resources": {"requests": NOTHING, "limits": NOTHING},
        **{key: container[key] for key in ("securityContext",) if container.get(key)},
    }


# -- what became of it


def verdict(pod: Object, now: datetime) -> Verdict:
    """What a pull pod's status says of its images: words of the kubelet."""
    told = {one["name"]: one for one in (pod.get("status") or {}).get("containerStatuses") or ()}
    left = [(one["name"], told.get(one["name"]) or {}) for one in pod["spec"]["containers"]]
    left = [(name, status) for name, status in left if not _pulled(status)]
    if not left:
        return Verdict(PULLED)
    over = ended(pod)
    if over:
        reason = (pod.get("status") or {}).get("reason")
        return Verdict(EXPIRED if reason in (None, "DeadlineExceeded") else REFUSED, over)
    for name, status in left:
        waiting = (status.get("state") or {}).get("waiting") or {}
        reason = waiting.get("reason") or ""
        if reason not in _BEFORE:
            words = f"container {name}: {reason}: {waiting.get('message', '')}".rstrip(": ")
            rest = TRIED - (age(str(pod["metadata"].get("creationTimestamp")), now) or 0.0)
            if reason in IMAGE_REASONS or rest <= 0:
                return Verdict(FAILED, words)
            return Verdict(PULLING, words, rest)
    return Verdict(PULLING)


def _pulled(status: Object) -> bool:
    """Whether the kubelet has come to the container's start, which is behind its pull. ``status``: of the container."""
    state = status.get("state") or {}
    if status.get("imageID") or "running" in state:
        return True
    if "terminated" in state:
        return bool(state["terminated"].get("reason") != "ContainerStatusUnknown")
    return (state.get("waiting") or {}).get("reason") in _BEHIND


def cannot_pull(pod: Object, words: str) -> str:
    """The message for a verdict that has failed."""
    meta, node = pod["metadata"], pod["spec"]["nodeName"]
    images = ", ".join(str(one["image"]) for one in pod["spec"]["containers"])
    return (
        f"pod {replica_of(meta['name'])} is not updated: node {node} cannot pull {images} ({words}); it was not "
        "touched, and keeps what it has. Mend image, registry or imagePullSecrets: the next run, or berth-controller "
        f"by itself, goes on then. The events of pod {meta['name']} say more"
    )


def goes_on_without(name: str, why: str) -> str:
    """The warning about a replica for which no pull pod could be made, or none was admitted by its node."""
    return (
        f"pod {name} is updated without its new images being pulled on the node first: {why}; mend that, or say "
        "pre_pull: false"
    )


def troubled(pod: Object, now: datetime) -> bool:
    """Whether its kubelet could not pull so far: whoever begins anew has it tried anew."""
    found = verdict(pod, now)
    return found.state in (FAILED, EXPIRED) or bool(found.words and found.state == PULLING)
