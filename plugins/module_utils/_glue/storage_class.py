# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operation behind the module storage_class: one StorageClass, by default one for local disks.

Reads all classes with one LIST (it must know whether another one is the default, too), writes at most one. What a
removal leaves behind is told by berth_core/app/class_removal.py, from one LIST of all claims.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..berth_core.app import class_removal
from ..berth_core.app.compare import differences, prune
from ..berth_core.errors import InputError, StateError
from ..berth_core.model.labels import is_label_key
from ..berth_core.model.names import check_subdomain, first, shown
from ..berth_core.model.resources import PVC, STORAGE_CLASS
from ..berth_core.model.volume import LOCAL_PROVISIONER
from .base import Context, Operation
from .objects import diff_entry, label_map, text_map

DEFAULT_ANNOTATION = "storageclass.kubernetes.io/is-default-class"
#: field of the object -> option; the API server never changes these
_IMMUTABLE = {
    "provisioner": "provisioner",
    "reclaimPolicy": "reclaim_policy",
    "volumeBindingMode": "volume_binding_mode",
    "parameters": "parameters",
}
#: what a class has that does not say otherwise
_SERVER_DEFAULTS = {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}


def run(context: Context) -> dict[str, Any]:
    check_subdomain(context.params["name"], "name")
    desired = wanted(context.params)
    live = {item["metadata"]["name"]: item for item in context.client.list(STORAGE_CLASS)}
    if context.params["state"] == "absent":
        return _absent(context, live.get(context.params["name"]))
    if context.params["default"]:
        _warn_of_other_defaults(context, live)
    return _present(context, desired, live.get(context.params["name"]))


def wanted(params: Mapping[str, Any]) -> dict[str, Any]:
    """The object that the options describe; what they leave out, it leaves out."""
    if not is_label_key(params["provisioner"]):
        raise InputError(
            f"provisioner is {shown(params['provisioner'])}: expected the name of one, as {LOCAL_PROVISIONER}"
        )
    annotations = text_map("annotations", params["annotations"])
    if params["default"] is not None:
        annotations[DEFAULT_ANNOTATION] = "true" if params["default"] else "false"
    maps = {"labels": label_map("labels", params["labels"]), "annotations": annotations}
    metadata = {"name": params["name"], **{key: value for key, value in maps.items() if value}}
    body = {
        "metadata": metadata,
        "provisioner": params["provisioner"],
        "reclaimPolicy": params["reclaim_policy"],
        "volumeBindingMode": params["volume_binding_mode"],
        "parameters": text_map("parameters", params["parameters"]) or None,
        "allowVolumeExpansion": params["allow_volume_expansion"],
        "mountOptions": params["mount_options"],
    }
    return {key: value for key, value in body.items() if value is not None}


def refuse_immutable(desired: Mapping[str, Any], live: Mapping[str, Any]) -> None:
    """StateError naming every field that the API server would not change, and what to do."""
    have = {**_SERVER_DEFAULTS, **live}
    wrong = [
        f"{option} is {have.get(field)!r}, wanted {desired[field]!r}"
        for field, option in _IMMUTABLE.items()
        if field in desired and (have.get(field) or None) != desired[field]
    ]
    if wrong:
        raise StateError(
            f"{STORAGE_CLASS.describe(desired['metadata']['name'])} cannot be changed so: {'; '.join(wrong)}. "
            "Kubernetes never changes these fields; "
            f"{_as_it_is(desired, have)}remove the class first (state: absent: existing volumes stay), "
            "or choose another name",
            storage_class=desired["metadata"]["name"],
        )


def _as_it_is(desired: Mapping[str, Any], live: Mapping[str, Any]) -> str:
    """How a class with another provisioner is left as it is: the default is wanted by nobody who did not name it."""
    if live["provisioner"] == desired["provisioner"]:
        return ""
    return f"to leave it as it is say provisioner: {live['provisioner']}; else "


def _present(context: Context, desired: dict[str, Any], live: Mapping[str, Any] | None) -> dict[str, Any]:
    name = desired["metadata"]["name"]
    if live is None:
        result = desired if context.check_mode else context.client.create(STORAGE_CLASS, {**_TYPE, **desired})
        return _result(result, [diff_entry(STORAGE_CLASS, name, None, desired)])
    refuse_immutable(desired, live)
    if not differences(desired, live):
        return {"changed": False, "storage_class": _clean(live), "diff": []}
    diff = diff_entry(STORAGE_CLASS, name, prune(live, desired), desired)
    if context.check_mode:
        return _result(desired, [diff])
    guard = {key: live["metadata"][key] for key in ("uid", "resourceVersion")}
    body = {**desired, "metadata": {**desired["metadata"], **guard}}
    return _result(context.client.patch(STORAGE_CLASS, name, None, body), [diff])


def _absent(context: Context, live: Mapping[str, Any] | None) -> dict[str, Any]:
    if live is None:
        return {"changed": False, "storage_class": None, "claims": [], "diff": []}
    name = live["metadata"]["name"]
    claims = _left_behind(context, name)
    if not context.check_mode:
        context.client.delete(STORAGE_CLASS, name, uid=live["metadata"]["uid"])
    diff = diff_entry(STORAGE_CLASS, name, _clean(live), None, absent=True)
    return {"changed": True, "storage_class": None, "claims": claims, "diff": [diff]}


def _left_behind(context: Context, name: str) -> list[str]:
    """The claims that wait for the class, which keep it there unless forced (StateError). Others are warned of."""
    found, what = context.client.list(PVC), STORAGE_CLASS.describe(name)
    claims = class_removal.waiting(found, [name])
    if claims and not context.params["force"]:
        raise StateError(
            f"{what} is not removed while claims that are not bound name it: {first(claims)}. Nobody would bind them; "
            "delete them first, or set force: true, with which they wait until there is a class of this name again",
            claims=claims,
        )
    bound = class_removal.bound(found, [name])
    if bound:
        context.warn(
            f"{what}: claims keep their volumes without it ({first(bound)}); they cannot grow, and new claims of the "
            "class, as of a StatefulSet that is scaled, wait until there is a class of this name again"
        )
    return claims


def _warn_of_other_defaults(context: Context, live: Mapping[str, Mapping[str, Any]]) -> None:
    name = context.params["name"]
    others = [
        other
        for other, body in sorted(live.items())
        if other != name and (body["metadata"].get("annotations") or {}).get(DEFAULT_ANNOTATION) == "true"
    ]
    if others:
        context.warn(
            f"StorageClass {', '.join(others)} is a default too; the newest one fills claims that name no class"
        )


def _result(body: Mapping[str, Any], diff: list[dict[str, Any]]) -> dict[str, Any]:
    return {"changed": True, "storage_class": _clean(body), "diff": diff}


def _clean(body: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {
        key: value for key, value in body["metadata"].items() if key in ("name", "labels", "annotations", "uid")
    }
    return {**_TYPE, **body, "metadata": metadata}


_TYPE = {"apiVersion": STORAGE_CLASS.api_version, "kind": STORAGE_CLASS.kind}

OPERATION = Operation(
    name="storage_class",
    options={
        "name": {"type": "str", "required": True},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "default": {"type": "bool"},
        "provisioner": {"type": "str", "default": LOCAL_PROVISIONER},
        "parameters": {"type": "dict"},
        "reclaim_policy": {"type": "str", "choices": ["Retain", "Delete"], "default": "Retain"},
        "volume_binding_mode": {
            "type": "str",
            "choices": ["WaitForFirstConsumer", "Immediate"],
            "default": "WaitForFirstConsumer",
        },
        "allow_volume_expansion": {"type": "bool"},
        "mount_options": {"type": "list", "elements": "str"},
        "labels": {"type": "dict"},
        "annotations": {"type": "dict"},
        "force": {"type": "bool", "default": False},
    },
    run=run,
)
