# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""pre_pull: new images are pulled on a replica's node before its pod is touched, by a short-lived pod there. Pure.

Its containers have the new images and a command that no image has: the kubelet pulls, and then cannot start them. So
nothing of the images runs, and what it says of the containers tells whether they are there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .not_ready import IMAGE_REASONS
from .observed import ended
from .pod_change import Template

Object = Mapping[str, Any]
#: Label of such a pod: the app whose replica it pulls for. It has no other label, so that no Service, budget or
#: StatefulSet takes it for a replica.
PULLS_FOR = "berth.dev/pulls-for"
_COMMAND = "/berth-pulls-and-runs-nothing"
#: Waiting reasons of a container whose image is not there; the kubelet tries again, and says the same.
NOT_PULLED = (*IMAGE_REASONS, "ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable")
#: Those of one whose image is there: the kubelet pulls before it makes a container.
_PULLED = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CrashLoopBackOff", "StartError")
#: It runs nothing. Not 0: a quota or a LimitRange may ask for some of each.
_RESOURCES = {"requests": {"cpu": "1m", "memory": "1Mi"}, "limits": {"cpu": "100m", "memory": "32Mi"}}
_OF_POD = ("imagePullSecrets", "serviceAccountName", "tolerations", "runtimeClassName", "securityContext", "os")


class Pull(NamedTuple):
    """How far it has come. ``failed``: what the node says against an image; ``waits``: for what; both empty: done."""

    failed: str = ""
    waits: str = ""


def images(pod: Object, template: Template) -> list[dict[str, Any]]:
    """The containers of the template whose images the pod does not have, one for each image that may be pulled."""
    found: dict[str, dict[str, Any]] = {}
    for key in ("initContainers", "containers"):
        live = {one["name"]: one["image"] for one in pod["spec"].get(key) or ()}
        for one in template["spec"].get(key) or ():
            if live.get(one["name"]) != one["image"] and one.get("imagePullPolicy") != "Never":
                found.setdefault(one["image"], one)
    return list(found.values())


def name(pod: Object) -> str:
    """Of the pod that pulls for this one: a run after the one that made it finds it."""
    return f"{pod['metadata']['name']}-pull"


def puller(app: str, pod: Object, template: Template) -> dict[str, Any]:
    """The pod that pulls the template's images where ``pod`` runs. It goes with whoever owns that, or with it.

    It names its node itself: it has no claims, and a scheduler would have nothing to choose.
    """
    meta, spec = pod["metadata"], template["spec"]
    owner = next((one for one in meta.get("ownerReferences") or () if one.get("controller")), None)
    owner = owner or {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
    return {
        "metadata": {
            "name": name(pod),
            "namespace": meta["namespace"],
            "labels": {PULLS_FOR: app},
            "ownerReferences": [{key: owner[key] for key in ("apiVersion", "kind", "name", "uid")}],
        },
        "spec": {
            **{key: spec[key] for key in _OF_POD if spec.get(key)},
            "nodeName": pod["spec"]["nodeName"],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "containers": [_container(number, one) for number, one in enumerate(images(pod, template))],
        },
    }


def _container(number: int, of: Object) -> dict[str, Any]:
    kept = {key: of[key] for key in ("image", "imagePullPolicy", "securityContext") if of.get(key)}
    return {"name": f"image-{number}", "command": [_COMMAND], "resources": _RESOURCES, **kept}


def same_work(one: Object, other: Object) -> bool:
    """Whether two such pods pull the same on the same node."""
    return _work(one) == _work(other)


def _work(pod: Object) -> tuple[Any, ...]:
    return (pod["spec"].get("nodeName"), [one["image"] for one in pod["spec"]["containers"]])


def state(pod: Object | None) -> Pull:
    """What the kubelet says of the images."""
    if pod is None:
        return Pull(waits="the pod that pulls to be there")
    node = pod["spec"].get("nodeName")
    told = {one["name"]: one for one in (pod.get("status") or {}).get("containerStatuses") or ()}
    if not told and ended(pod):
        return Pull(failed=f"node {node} did not take pod {pod['metadata']['name']}: {ended(pod)}")
    waits = ""
    for container in pod["spec"]["containers"]:
        status = told.get(container["name"]) or {}
        reason = str((_of(status, "waiting")).get("reason") or "")
        if reason in NOT_PULLED:
            message = str(_of(status, "waiting").get("message") or "")
            return Pull(failed=f"image {container['image']}: {reason}: {message}".rstrip(": "))
        if not (status.get("imageID") or _of(status, "terminated") or _of(status, "running") or reason in _PULLED):
            waits = waits or f"image {container['image']} on node {node}{f' ({reason})' if reason else ''}"
    return Pull(waits=waits)


def _of(status: Object, state: str) -> Mapping[str, Any]:
    return (status.get("state") or {}).get(state) or {}


def could_not(pod: Object, failed: str) -> str:
    """Why an update stops before this replica."""
    meta = pod["metadata"]
    return (
        f"pod {meta['namespace']}/{meta['name']} is not updated, and runs as before: what its template asks for could "
        f"not be pulled on its node {pod['spec'].get('nodeName')} beforehand: {failed}; mend the image, its registry "
        "or its pull secret, or give the former template again"
    )
