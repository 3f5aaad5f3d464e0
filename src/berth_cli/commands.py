"""One function for each command: reads what it needs, and returns the answer as JSON has it, with an exit code.

Called by __main__. Nothing is decided here: what is free, what fits and what has drifted, berth_core.app says.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import yaml

from berth_core.app import berth_history, cluster_drift, overview, stateful_app_status, what_if
from berth_core.app.disk_change import check_declared
from berth_core.app.wanted import APP_LABEL
from berth_core.errors import BerthError, InputError
from berth_core.model import resources as kinds
from berth_core.plugins.table import DEFAULT_PROFILE
from berth_core.tasks.batch_told import told as told_batch
from berth_core.tasks.told import stuck, told
from berth_kube.client import KubeClient
from berth_kube.clocks import utc_now

from .reading import Lists, read

_LIVING = {kinds.POD.kind: kinds.LIVING}


class Answer(NamedTuple):
    """``good`` false: there is something to be done about it."""

    value: dict[str, Any]
    good: bool = True


async def show(client: KubeClient, options: argparse.Namespace) -> Answer:
    """Who holds what."""
    found = overview.overview(await read(client, overview.KINDS, _LIVING))
    space = _space(client, options)

    def mine(holder: Mapping[str, Any] | None) -> bool:
        """Whether a holder is what was asked for; with no question everything is."""
        if holder is None:
            return space is None and not options.app
        return space in (None, holder["namespace"]) and options.app in (None, holder.get("app", options.app))

    berths = [row for row in found["berths"] if mine(row)]
    named = {(row["namespace"], row["name"]) for row in berths}
    disks = [disk for disk in found["disks"] if mine(disk["holder"] or disk["retained_for"])]
    devices = [
        device
        for device in found["devices"]
        if mine(None) or any((one["namespace"], one["berth"]) in named for one in device["holders"])
    ]
    return Answer({"berths": berths, "disks": disks, "devices": devices})


async def apps(client: KubeClient, options: argparse.Namespace) -> Answer:
    """StatefulApps: who carries each out, how far it is, and what it waits for. Good where none is stalled."""
    space = _space(client, options)
    listed = (await read(client, (kinds.STATEFUL_APP,)))[kinds.STATEFUL_APP.kind]
    rows = [
        stateful_app_status.row_of(body)
        for body in listed
        if space in (None, body["metadata"]["namespace"]) and options.app in (None, body["metadata"]["name"])
    ]
    if options.app and not rows:
        where = f"namespace {space} has" if space else "the cluster has"
        raise InputError(
            f"{where} no StatefulApp {options.app} (-n names another namespace); "
            f"an app that a playbook carries out without one is shown by: kubectl berth show --app {options.app}"
        )
    return Answer({"apps": rows}, not any(row["stalled"] for row in rows))


async def tasks(client: KubeClient, options: argparse.Namespace) -> Answer:
    """Tasks and TaskBatches: how far each is and how fast, in the order in which they were made.

    Good where none waits for what never comes. Raises InputError where none has the name that was asked for.
    """
    space, name = _space(client, options), options.name
    asked = {"metadata.namespace": space, "metadata.name": name, "spec.queue": options.queue}
    chosen = ",".join(f"{field}={value}" for field, value in asked.items() if value)
    both = (kinds.TASK, kinds.TASK_BATCH)
    listed = await read(client, both, {kind.kind: chosen for kind in both})
    now = utc_now()
    rows = [_made(told(body), body) for body in listed[kinds.TASK.kind]]
    batches = [_made(told_batch(body, now), body) for body in listed[kinds.TASK_BATCH.kind]]
    if name and not rows and not batches:
        where = f"namespace {space} has" if space else "the cluster has"
        queue = f" in queue {options.queue}" if options.queue else ""
        raise InputError(f"{where} neither a Task nor a TaskBatch {name}{queue} (-n names another namespace)")
    for each in (rows, batches):
        each.sort(key=lambda row: (row["namespace"], str(row["created_at"]), row["name"]))
    return Answer({"tasks": rows, "batches": batches}, not any(stuck(row) for row in (*rows, *batches)))


def _made(row: dict[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "created_at": body["metadata"].get("creationTimestamp")}


async def top(client: KubeClient, _options: argparse.Namespace) -> Answer:
    """Disk room by node and by class."""
    found = overview.overview(await read(client, overview.KINDS, _LIVING))
    nodes = [{**node, "used_percent": _percent(node["disks"])} for node in found["nodes"]]
    by_class: dict[str, list[dict[str, Any]]] = {}
    for disk in found["disks"]:
        by_class.setdefault(disk["storage_class"], []).append(disk)
    classes = [{"storage_class": name, **_room(disks)} for name, disks in sorted(by_class.items())]
    return Answer({"nodes": nodes, "classes": classes, "totals": found["totals"]})


def _room(disks: Sequence[dict[str, Any]]) -> dict[str, int]:
    free = [disk["size"] for disk in disks if disk["free"]]
    counts = {"total": len(disks), "free": len(free), "bytes": sum(disk["size"] for disk in disks)}
    counts["free_bytes"] = sum(free)
    return {**counts, "used_percent": _percent(counts), "largest_free": max(free, default=0)}


def _percent(room: Mapping[str, int]) -> int:
    """Of the bytes; what is not free is used, whatever keeps it."""
    return round(100 * (room["bytes"] - room["free_bytes"]) / room["bytes"]) if room["bytes"] else 0


async def drift(client: KubeClient, options: argparse.Namespace) -> Answer:
    """What is not as it was declared. Good where nothing is found."""
    lists = await read(client, cluster_drift.KINDS)
    findings = cluster_drift.cluster_drift(lists, options.declared)
    return Answer({"findings": findings}, not findings)


async def history(client: KubeClient, options: argparse.Namespace) -> Answer:
    """Who changed the berths of an app, or that of one pod. Raises InputError where there is none."""
    lists = await read(client, berth_history.KINDS)
    space, name = options.namespace or client.namespace, options.name
    rows = [
        row
        for row in berth_history.rows(lists[kinds.BERTH.kind], lists[kinds.LOCAL_DISK.kind])
        if row["namespace"] == space and name in (row["app"], f"{row['app']}-{row['ordinal']}")
    ]
    if not rows:
        raise InputError(
            f"namespace {space} has no berth of an app or a pod {name}, and no disk keeps its data with a history "
            "(-n names another namespace)"
        )
    return Answer({"history": rows})


def read_declared(path: str) -> list[dict[str, Any]]:
    """The file of --declared. Raises InputError that names it and what is wrong."""
    try:
        with open(path, encoding="utf-8") as stream:
            content = yaml.safe_load(stream)
    except OSError as exc:
        raise InputError(f"--declared {path} cannot be read: {exc.strerror}; expected a file") from exc
    except (ValueError, yaml.YAMLError, RecursionError) as exc:
        raise InputError(f"--declared {path} cannot be read: {' '.join(str(exc).split())}; expected YAML") from exc
    if not isinstance(content, list):
        raise InputError(f"--declared {path}: expected a list of disks, as local_disk_plan returns it (declared)")
    try:
        check_declared(content, "disks")
    except BerthError as exc:
        raise InputError(f"--declared {path}: {exc.message}") from exc
    return content


async def explain(client: KubeClient, options: argparse.Namespace) -> Answer:
    """Why a pod waits, or the replicas of an app. Good where all have a place."""
    lists = await read(client, what_if.KINDS, _LIVING)
    space = options.namespace or client.namespace
    pods = [pod for pod in lists[kinds.POD.kind] if pod["metadata"]["namespace"] == space]
    chosen = [pod for pod in pods if pod["metadata"]["name"] == options.name]
    berths = [
        overview.berth_row(record)
        for record in lists[kinds.BERTH.kind]
        if record["metadata"]["namespace"] == space and not chosen and record["spec"]["app"] == options.name
    ]
    chosen = chosen or [pod for pod in pods if (pod["metadata"].get("labels") or {}).get(APP_LABEL) == options.name]
    if not chosen and not berths:
        raise InputError(f"namespace {space} has neither a pod nor an app {options.name} (-n names another namespace)")
    if any(what_if.asks_for_devices(DEFAULT_PROFILE, pod) for pod in chosen):
        lists.update(await read(client, what_if.DEVICE_KINDS))
    if any(what_if.asks_for_capacity(lists, pod) for pod in chosen):
        lists.update(await read(client, what_if.CAPACITY_KINDS))
    replicas = [_explained(lists, pod) for pod in sorted(chosen, key=lambda one: str(one["metadata"]["name"]))]
    named = {one["name"] for one in replicas}
    replicas += [_without_pod(row) for row in berths if row["name"] not in named]
    return Answer({"replicas": replicas}, all(one["fits"] for one in replicas))


def _explained(lists: Lists, pod: Mapping[str, Any]) -> dict[str, Any]:
    meta, node = pod["metadata"], pod["spec"].get("nodeName")
    row: dict[str, Any] = {"namespace": meta["namespace"], "name": meta["name"]}
    if node:
        phase = (pod.get("status") or {}).get("phase") or "Pending"
        return {**row, "fits": True, "node": node, "says": f"is on node {node} ({phase})"}
    (judged,) = what_if.judge_pod(DEFAULT_PROFILE, what_if.beside(lists, pod), pod)
    scheduler = pod["spec"].get("schedulerName") or "default-scheduler"
    says = f"would go to node {judged['node']}; it waits for {scheduler}" if judged["fits"] else judged["message"]
    return {**judged, **row, "says": says}


def _without_pod(row: Mapping[str, Any]) -> dict[str, Any]:
    disks = ", ".join(disk["name"] for disk in row["disks"]) or "none"
    says = f"has its place on node {row['node']} (berth {row['phase']}, disks {disks}) and no pod"
    return {"namespace": row["namespace"], "name": row["name"], "fits": True, "node": row["node"], "says": says}


def _space(client: KubeClient, options: argparse.Namespace) -> str | None:
    """The namespace that was asked for; None for all."""
    return None if options.all_namespaces else options.namespace or client.namespace
