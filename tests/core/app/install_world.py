"""A cluster for the checks before an installation: nodes, what is installed, agents, apps and claims."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

from berth_core.app.install_check import Asked, Seen
from berth_core.app.install_found import installed

DEPLOY = Path(__file__).parents[3] / "deploy"
FOLDERS = ("agent", "controller", "crds", "extender", "policies", "scheduler", "tasks")
Object = dict[str, Any]


def documents(folder: str) -> list[Object]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = [yaml.load(path.read_text(), Loader=loader) for path in sorted((DEPLOY / folder).glob("*.yaml"))]
    return [one for body in found for one in (body["items"] if body["kind"] == "List" else [body])]


SHIPPED = {folder: documents(folder) for folder in FOLDERS}


def shipped(folder: str, kind: str, namespace: str = "berth-system", image: str = "") -> Object:
    """One of the shipped objects, in a namespace."""
    body = copy.deepcopy(next(one for one in SHIPPED[folder] if one["kind"] == kind))
    if body["metadata"].get("namespace"):
        body["metadata"]["namespace"] = namespace
    for subject in body.get("subjects") or ():
        subject["namespace"] = namespace
    if image:
        body["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return body


def node(name: str, taint: str = "", labels: dict[str, str] | None = None) -> Object:
    taints = [{"key": taint, "effect": "NoSchedule"}] if taint else []
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {"taints": taints}}


def agent(name: str, version: str = "0.2.0", alive: bool = True) -> Object:
    return {"node": name, "alive": alive, "version": version}


def definitions(**schemas: int) -> dict[str, Object]:
    """The custom resources as this release has them, or with another number: localdisks=5."""
    found = {body["metadata"]["name"]: copy.deepcopy(body) for body in SHIPPED["crds"]}
    for plural, number in schemas.items():
        found[f"{plural}.berth.dev"]["metadata"]["annotations"]["berth.dev/schema"] = str(number)
    return found


def asked(*parts: str, **more: Any) -> Asked:
    given: Object = {"state": "present", "namespace": "berth-system", "node_names": None, "image": ""}
    own = {"schedulers": ("berth-scheduler", "berth-scheduler-extender"), "nodes_without_host": "warn"}
    return Asked(parts=parts, **{**given, **own, **more})


def seen(**more: Any) -> Seen:
    lists: Object = {"nodes": [], "deployments": [], "daemon_sets": [], "agents": [], "definitions": {}, "bindings": []}
    lists.update(more)
    bindings = lists.pop("bindings")
    workloads = [*lists["deployments"], *lists["daemon_sets"]]
    return Seen(installed=installed(lists["definitions"], workloads, bindings, lists["agents"]), **lists)
