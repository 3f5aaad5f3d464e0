# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operation behind placement_info: one LIST per kind, then the engine's answer for a pod or an app. Never writes.

Run by the module's shell and by its action plugin.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..berth_core.app import choose, what_if
from ..berth_core.app.wanted import POD as POD_WORKLOAD
from ..berth_core.app.wanted import parse_app
from ..berth_core.config.configuration import SchedulerConfiguration
from ..berth_core.errors import InputError
from ..berth_core.framework.profile import Profile
from ..berth_core.model import resources as kinds
from ..berth_core.model.names import check_label, check_subdomain
from ..berth_core.model.pod import PodInfo
from ..berth_core.model.volume import ClaimInfo
from ..berth_core.plugins.table import DEFAULT_PROFILE
from .app.observe import load_world
from .app.options import OPTIONS as APP_OPTIONS
from .app.sources import load_template
from .base import Context, Operation
from .unreadable import warn_of_unreadable

_OF_APPS = ("disks", "devices", "topology_spread_constraints")
_MOST = 1000


def run(context: Context) -> dict[str, Any]:
    params = context.params
    _check_count(1 if params["replicas"] is None else params["replicas"])
    check_label(params["namespace"], "namespace")
    if params["pod_name"]:
        check_subdomain(params["pod_name"], "pod_name")
    profile = _profile(params["configuration"], params["scheduler_name"])
    given = load_template(params["template"], params["src"])
    pod = params["pod"] if given is None else given
    if params["pod_name"] or (isinstance(pod, Mapping) and pod.get("kind") == POD_WORKLOAD) or params["pod"]:
        _refuse_app_options(params)
        rows = _of_pod(context, profile, pod)
    else:
        rows = _of_app(context, profile, pod)
    fitting = sum(row["fits"] for row in rows)
    return {"changed": False, "fits": fitting == len(rows), "fitting": fitting, "placements": rows}


def _check_count(replicas: int) -> None:
    if not 1 <= replicas <= _MOST:
        raise InputError(f"replicas is {replicas}: expected 1 to {_MOST}")


def _profile(configuration: Mapping[str, Any] | None, name: str | None) -> Profile:
    if configuration is None:
        if name:
            raise InputError(f"scheduler_name is {name}: it names a profile of configuration, which is not given")
        return DEFAULT_PROFILE
    profiles = SchedulerConfiguration.parse(configuration).profiles
    names = [one.scheduler_name for one in profiles]
    if name and name not in names:
        raise InputError(f"scheduler_name is {name}: expected a profile of configuration: {', '.join(names)}")
    return profiles[names.index(name) if name else 0].build()


def _refuse_app_options(params: Mapping[str, Any]) -> None:
    given = [option for option in _OF_APPS if params[option]]
    if given:
        raise InputError(f"{', '.join(given)}: only for an app (template); a pod asks by its own spec and claims")


def _of_pod(context: Context, profile: Profile, pod: Any) -> list[dict[str, Any]]:
    params = context.params
    if pod is not None:
        if not isinstance(pod, Mapping) or not all(isinstance(pod.get(part), Mapping) for part in ("metadata", "spec")):
            raise InputError("pod: expected a manifest with metadata and spec")
        pod = {**pod, "metadata": {"namespace": params["namespace"], **pod["metadata"]}}
        PodInfo.from_manifest(pod)  # raises InputError
    extra = [_claim(index, one, params["namespace"]) for index, one in enumerate(params["claims"] or ())]
    client = context.client
    lists = {kind.kind: client.list(kind, fields=kinds.LIVING if kind is kinds.POD else None) for kind in what_if.KINDS}
    lists[kinds.PVC.kind] += extra
    if pod is None:
        pod = _named(lists[kinds.POD.kind], params["pod_name"], params["namespace"])
    if what_if.asks_for_devices(profile, pod):
        lists.update({kind.kind: client.list(kind) for kind in what_if.DEVICE_KINDS})
    if what_if.asks_for_capacity(lists, pod):
        lists.update({kind.kind: client.list(kind) for kind in what_if.CAPACITY_KINDS})
    known = what_if.beside(lists, pod)
    warn_of_unreadable(context, known.snapshot.problems())
    return what_if.judge_pod(profile, known, pod, 1 if params["replicas"] is None else params["replicas"])


def _named(pods: list[dict[str, Any]], name: str, namespace: str) -> dict[str, Any]:
    for pod in pods:
        if (pod["metadata"]["namespace"], pod["metadata"]["name"]) == (namespace, name):
            return pod
    raise InputError(f"pod_name: there is no pod {namespace}/{name} that has not ended; give the manifest as pod")


def _claim(index: int, claim: Any, namespace: str) -> dict[str, Any]:
    """A claim that would be made with the pod, as if it were there."""
    meta = claim.get("metadata") if isinstance(claim, Mapping) else None
    if not isinstance(meta, Mapping) or not meta.get("name") or not claim.get("spec"):
        raise InputError(f"claims[{index}]: expected a PersistentVolumeClaim with metadata.name and spec")
    named = {"namespace": namespace, "uid": f"claim-{index}", "resourceVersion": "0", **meta}
    api = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    manifest = {**api, **claim, "metadata": named, "status": {"phase": "Pending"}}
    ClaimInfo.from_object(manifest)  # raises InputError: what a user wrote is refused, not left out
    return manifest


def _of_app(context: Context, profile: Profile, template: Any) -> list[dict[str, Any]]:
    params = context.params
    if not params["name"]:
        raise InputError("name is missing: an app needs its name, as its replicas' data and spreading go by it")
    if params["claims"]:
        raise InputError("claims: only for a pod; an app asks for disks")
    # Nobody is updated here: what a manifest that is OnDelete waits for is stateful_app's to be told.
    app = parse_app({**params, "template": template, "workload": None, "paused": True})
    _check_count(app.replicas)
    world = load_world(context.client, app)
    unknown = choose.unknown_storage_classes(app, world)
    if unknown:
        known = ", ".join(sorted(item["metadata"]["name"] for item in world.storage_classes)) or "none"
        raise InputError(f"StorageClass {', '.join(unknown)} does not exist; the cluster has: {known}")
    snapshot = choose.snapshot_of(world)
    warn_of_unreadable(context, snapshot.problems())
    return what_if.judge_app(profile, world, app, snapshot)


def _prepare(arguments: dict[str, Any]) -> dict[str, Any]:
    """On the controller: read ``src`` there, for whoever runs the module where that file is not."""
    src = arguments.get("src")
    if not isinstance(src, str) or any(arguments.get(one) is not None for one in ("template", "pod", "pod_name")):
        return arguments
    others = {key: value for key, value in arguments.items() if key != "src"}
    return {**others, "template": load_template(None, src)}


OPERATION = Operation(
    "placement_info",
    {
        "pod": {"type": "dict"},
        "pod_name": {"type": "str"},
        "claims": {"type": "list", "elements": "dict"},
        "name": {"type": "str"},
        "configuration": {"type": "dict"},
        "scheduler_name": {"type": "str"},
        **{key: APP_OPTIONS[key] for key in ("namespace", "replicas", "template", "src", *_OF_APPS)},
    },
    run,
    mutually_exclusive=(("pod", "pod_name", "template", "src"),),
    required_one_of=(("pod", "pod_name", "template", "src"),),
    controller_files=("src",),
    prepare=_prepare,
)
