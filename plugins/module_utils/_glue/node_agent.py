# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module node_agent: what the agents need in the cluster (account, rights, policy, and where wanted the DaemonSet).

Called by plugins/modules/node_agent.py and plugins/action/node_agent.py. The manifests are the collection's own
(deploy/agent). Everything is read, and every refusal made, before the first write.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from ..berth_core.app.compare import differences, prune
from ..berth_core.app.node_agents import (
    DEFAULT_FILE,
    FILE_SUFFIX,
    LEASE_PREFIX,
    NAMESPACE,
    agent_of,
    asked_before,
    held_disks,
    next_steps,
    not_rolled_out,
)
from ..berth_core.errors import InputError, LockError, NotFoundError, StateError, TimeoutExpired
from ..berth_core.model import resources
from ..berth_core.model.names import check_image, check_subdomain
from ..berth_core.model.resources import CONFIG_MAP, DAEMON_SET, LEASE, LOCAL_DISK, Resource
from ..berth_core.model.resources import SECURITY_CONTEXT_CONSTRAINTS as SCC
from ..berth_core.model.taint import parse_tolerations
from .agent_config import check_configurations
from .base import Context, Operation, check_seconds
from .crds import bring
from .objects import diff_entry, label_map, poll, text_map
from .tried import Change, put, try_all

#: The DaemonSet's configuration files, one per node; a node without one of its own has the default.
_CONFIGURATION = {"name": "berth-agent", "namespace": NAMESPACE, "labels": {"app.kubernetes.io/part-of": "berth"}}
#: Kinds that API servers before Kubernetes 1.36 do not serve.
_NEWER = (resources.MUTATING_ADMISSION_POLICY, resources.MUTATING_ADMISSION_POLICY_BINDING)


def prepare(arguments: dict[str, Any]) -> dict[str, Any]:
    return bring(arguments, "manifests", "agent")


def run(context: Context) -> dict[str, Any]:
    manifests = context.params["manifests"]
    if not manifests:
        raise InputError("node_agent: there are no manifests; run it as a task (its action plugin brings them)")
    _check(context.params)
    wanted = [(_kind(body), body) for body in manifests]
    if context.params["state"] == "absent":
        return _absent(context, wanted)
    rights = [(kind, body) for kind, body in wanted if kind not in (DAEMON_SET, SCC)]
    return _present(context, rights + _daemonset(context, wanted))


def _check(params: Mapping[str, Any]) -> None:
    """Raises InputError that names the option."""
    if params["node_name"]:
        check_subdomain(params["node_name"], "node_name")
    asked = params["daemonset"]
    if not asked:
        return
    check_image(asked["image"], "daemonset.image")
    check_seconds(asked["wait_timeout"], "daemonset.wait_timeout")
    label_map("daemonset.node_selector", asked["node_selector"])
    parse_tolerations({"tolerations": asked["tolerations"]}, "daemonset.tolerations")
    configurations = text_map("daemonset.configurations", asked["configurations"])
    for node in configurations:
        check_subdomain(node, "daemonset.configurations: the name of a node")
    check_configurations(asked["default_configuration"], configurations)


def _kind(body: Mapping[str, Any]) -> Resource:
    found = resources.BY_KIND.get((str(body.get("apiVersion")), str(body.get("kind"))))
    if found is None:
        raise InputError(
            f"node_agent: manifests: {body.get('apiVersion')} {body.get('kind')} is no kind that this module installs"
        )
    return found


def _daemonset(
    context: Context, wanted: list[tuple[Resource, dict[str, Any]]]
) -> list[tuple[Resource, dict[str, Any]]]:
    """The ConfigMap, the DaemonSet and what OpenShift asks for it; none where the options want none."""
    asked = context.params["daemonset"]
    if not asked:
        return []
    files = {f"{node}{FILE_SUFFIX}": text for node, text in sorted((asked["configurations"] or {}).items())}
    files[DEFAULT_FILE] = asked["default_configuration"]
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _CONFIGURATION, "data": files}
    made: list[tuple[Resource, dict[str, Any]]] = [(CONFIG_MAP, config)]
    if _is_openshift(context):
        made += [(kind, body) for kind, body in wanted if kind is SCC]
    before = len(made)
    for kind, body in wanted:
        if kind is DAEMON_SET:
            body = copy.deepcopy(body)
            pod = body["spec"]["template"]["spec"]
            for container in [*pod["containers"], *pod.get("initContainers", ())]:
                container["image"] = asked["image"]
            if asked["node_selector"]:
                pod["nodeSelector"] = asked["node_selector"]
            if asked["tolerations"] is not None:
                pod["tolerations"] = asked["tolerations"]
            made.append((kind, body))
    if len(made) == before:
        raise InputError("node_agent: daemonset is asked for, and the manifests hold none")
    return made


def _is_openshift(context: Context) -> bool:
    try:
        context.client.list(SCC)
    except NotFoundError:
        return False
    return True


def _present(context: Context, wanted: list[tuple[Resource, dict[str, Any]]]) -> dict[str, Any]:
    asked = context.params["daemonset"]
    there = {kind: _find(context, kind, body) for kind, body in wanted if kind in (DAEMON_SET, CONFIG_MAP)}
    previous = asked_before(there.get(DAEMON_SET), there.get(CONFIG_MAP))
    found = []
    for kind, body in wanted:
        live = there[kind] if kind in there else _find(context, kind, body)
        if live is None or differences(body, live):
            found.append(Change(kind, body, live))
    left = try_all(context, found)
    diff = []
    for change in found:
        kind, body, live = change
        meta = body["metadata"]
        if context.check_mode or _put(context, change, left):
            before = prune(live, body) if live else None
            diff.append(diff_entry(kind, meta["name"], before, body, meta.get("namespace")))
    if asked and asked.get("wait") and not context.check_mode:
        _wait(context, asked["wait_timeout"], previous)
    return {"changed": bool(diff), "diff": diff, **({"previous": previous} if asked else {})}


def _find(context: Context, kind: Resource, body: Mapping[str, Any]) -> dict[str, Any] | None:
    return context.client.find(kind, body["metadata"]["name"], body["metadata"].get("namespace"))


def _wait(context: Context, seconds: int, previous: Mapping[str, Any] | None) -> None:
    """Until Kubernetes has replaced every pod, one after the other. Raises TimeoutExpired that says where it stands."""
    problem, seen = "", []

    def pods() -> list[dict[str, Any]]:
        nonlocal seen
        seen = context.client.list(resources.POD, NAMESPACE, labels="app.kubernetes.io/name=berth-agent")
        return seen

    def look() -> bool | None:
        nonlocal problem
        problem = not_rolled_out(context.client.get(DAEMON_SET, "berth-agent", NAMESPACE), pods)
        return None if problem else True

    if not poll(look, seconds):
        steps = next_steps(seen, _leases(context), datetime.now(timezone.utc))
        raise TimeoutExpired(
            f"node_agent: not every agent runs and is Ready after {seconds} s: {problem}; {steps}", previous=previous
        )


def _leases(context: Context) -> list[dict[str, Any]]:
    """Of the agents."""
    return [each for each in context.client.list(LEASE, NAMESPACE) if _is_agents(each)]


def _put(context: Context, change: Change, left: list[Change]) -> bool:
    """False, with a warning, for what an older API server does not serve and agents can do without."""
    try:
        put(context, change, left)
    except NotFoundError as exc:
        if change.kind not in _NEWER:
            raise
        context.warn(f"left out, devices are locked and not handed to the containers of StatefulSets: {exc.message}")
        return False
    return True


def _absent(context: Context, wanted: list[tuple[Resource, dict[str, Any]]]) -> dict[str, Any]:
    """Of one node its Lease, else everything but the namespace: others live there too."""
    node, force = context.params["node_name"], context.params["force"]
    held = _held(context, [node] if node else None)
    if held and not force:
        told = ", ".join(f"{row['name']} (by {row['holder']})" for row in held)
        raise LockError(
            f"node_agent: the agent of {node or 'every node'} is not removed while disks are held: {told}. Without it "
            "nobody mounts, watches or releases them; remove those replicas first, or set force: true",
            held=held,
        )
    if node:
        going: list[tuple[Resource, Mapping[str, Any]]] = [(LEASE, _meta(f"{LEASE_PREFIX}{node}"))]
    else:
        _refuse_living(context, force)
        going = [(DAEMON_SET, _meta("berth-agent")), (CONFIG_MAP, _meta("berth-agent"))]
        going += [(kind, body) for kind, body in wanted if kind not in (resources.NAMESPACE, DAEMON_SET)]
    diff = []
    for kind, body in going:
        name, namespace = body["metadata"]["name"], body["metadata"].get("namespace")
        if context.client.find(kind, name, namespace) is None:
            continue
        diff.append(diff_entry(kind, name, {"metadata": {"name": name}}, None, namespace, absent=True))
        if not context.check_mode:
            context.client.delete(kind, name, namespace)
    return {"changed": bool(diff), "diff": diff, "held": held}


def _meta(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": NAMESPACE}}


def _held(context: Context, nodes: list[str] | None) -> list[dict[str, str]]:
    try:
        return held_disks(context.client.list(LOCAL_DISK), nodes)
    except NotFoundError:  # the CRDs are gone: nothing can be held
        return []


def _refuse_living(context: Context, force: bool) -> None:
    """Agents on hosts go first: without their account they would go on, and fail."""
    if force or context.client.find(DAEMON_SET, "berth-agent", NAMESPACE):
        return
    now = datetime.now(timezone.utc)
    alive = [agent["node"] for agent in (agent_of(each, now) for each in _leases(context)) if agent["alive"]]
    if alive:
        raise StateError(
            f"node_agent: the agents of {', '.join(sorted(alive))} live; remove them first (role node_agent, "
            "node_agent_state: absent), or set force: true",
            alive=sorted(alive),
        )


def _is_agents(lease: Mapping[str, Any]) -> bool:
    return str(lease["metadata"]["name"]).startswith(LEASE_PREFIX)


OPERATION = Operation(
    name="node_agent",
    options={
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "node_name": {"type": "str"},
        "force": {"type": "bool", "default": False},
        "manifests": {"type": "list", "elements": "dict"},
        "daemonset": {
            "type": "dict",
            "options": {
                "image": {"type": "str", "required": True},
                "default_configuration": {"type": "str", "default": "{}\n"},
                "configurations": {"type": "dict"},
                "node_selector": {"type": "dict"},
                "tolerations": {"type": "list", "elements": "dict"},
                "wait": {"type": "bool", "default": False},
                "wait_timeout": {"type": "int", "default": 300},
            },
        },
    },
    run=run,
    prepare=prepare,
)
