# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps parts of berth from being removed: apps, claims, held disks, pods that name its scheduler, tasks.

Called by the module installation_check. What a disk keeps for a replica that is gone stays there, and is told. Nothing
is read or written here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..model.names import first
from . import claims, controller_install, task_backend_install
from .install_rights import AGENTS
from .node_agents import held_disks

Object = Mapping[str, Any]
_GIVE_BACK = (
    "give each its own configuration back first (role scheduler on these hosts, scheduler_state: absent, "
    "scheduler_mode: extender, scheduler_kube_scheduler: true)"
)


class Holdings(NamedTuple):
    """What was read. ``tasks``: TaskBatches, too.

    ``pods``: ``namespace/name`` of those that name a scheduler of berth's and have not finished,
    ``waiting``: of those that wait for kube-scheduler with its extender; ``asking``: nodes whose kube-scheduler asks
    it; ``unbound``: of claims without a volume whose StorageClass is removed, whoever provisions it."""

    berths: Sequence[Object] = ()
    disks: Sequence[Object] = ()
    claims: Sequence[Object] = ()
    classes: Sequence[Object] = ()
    volumes: Sequence[Object] = ()
    applications: Sequence[Object] = ()
    tasks: Sequence[Object] = ()
    queues: Sequence[Object] = ()
    pods: Sequence[str] = ()
    waiting: Sequence[str] = ()
    asking: Sequence[str] = ()
    unbound: Sequence[str] = ()


def needs(parts: Sequence[str], found: Holdings) -> list[str]:
    """Why the parts are not removed yet, a line for each kind of reason."""
    apps, held = _apps(found.berths), _stale(found)
    of_claims = controller_install.needed_by(found.claims, found.classes, found.volumes)
    wanting = sorted({*of_claims, *_begun(found.berths), *found.unbound})
    disks = bool({"crds", *AGENTS} & {*parts})
    objects, of_tasks = _objects(parts, found.applications), _named([*found.tasks, *found.queues])
    running = task_backend_install.needed_by(found.tasks)
    said = [
        (objects, "StatefulApps are there", objects, "delete them first (kubectl delete statefulapps)"),
        (
            "crds" in parts and of_tasks,
            "Tasks, TaskBatches or TaskQueues are there",
            of_tasks,
            "delete them first (kubectl delete tasks,taskbatches,taskqueues)",
        ),
        (
            "task_backend" in parts and "crds" not in parts and running,
            "tasks have not ended",
            running,
            "wait for them, or end them (modules task and task_batch, state: killed)",
        ),
        (disks and apps, "apps have their berths", apps, "remove them first (stateful_app, state: absent)"),
        (
            (disks or bool({"controller", "storage_classes"} & {*parts})) and wanting,
            "claims have local disks or wait for one",
            wanting,
            "delete them first",
        ),
        (
            disks and held,
            "disks are locked for Berths that are gone",
            held,
            "give the locks up first (local_disk, state: released)",
        ),
        (
            "scheduler" in parts and found.pods,
            "pods name the scheduler and have not finished",
            list(found.pods),
            "remove them first, or make them without its schedulerName",
        ),
        (
            "extender" in parts and found.waiting,
            "pods wait for kube-scheduler to ask the extender",
            list(found.waiting),
            "remove them first",
        ),
        (
            "extender" in parts and found.asking,
            "the kube-schedulers of these nodes ask the extender",
            list(found.asking),
            _GIVE_BACK,
        ),
    ]
    return [f"{what}: {first(names)}; {remedy}" for counts, what, names, remedy in said if counts]


def kept(disks: Sequence[Object]) -> str:
    """Disks with data that a replica or claim has left; empty where there is none."""
    rows = [
        f"{disk['metadata']['name']} (of {ref['namespace']}/{ref['app']})"
        for disk in sorted(disks, key=lambda each: str(each["metadata"]["name"]))
        for ref in [disk["spec"].get("retainedFor")]
        if ref
    ]
    if not rows:
        return ""
    return (
        f"disks keep the data of replicas or claims that are gone: {first(rows)}. It stays on the disks; whose it is "
        "stands on the LocalDisk, and is lost with the custom resources"
    )


def _objects(parts: Sequence[str], applications: Sequence[Object]) -> list[str]:
    """The StatefulApps that go with their definition, or that nobody would carry out any more."""
    if "crds" in parts:
        return _named(applications)
    return controller_install.carried_out(applications) if "controller" in parts else []


def _named(bodies: Sequence[Object]) -> list[str]:
    return sorted(f"{body['metadata']['namespace']}/{body['metadata']['name']}" for body in bodies)


def _apps(berths: Sequence[Object]) -> list[str]:
    """``namespace/app`` with the number of its berths; those of claims are told as claims."""
    found = Counter(
        f"{body['metadata']['namespace']}/{body['spec']['app']}" for body in berths if claims.claim_of(body) is None
    )
    return [f"{app} ({count})" for app, count in sorted(found.items())]


def _begun(berths: Sequence[Object]) -> set[str]:
    """Claims that have a Berth, even while they go."""
    return {f"{one[0]}/{one[1]}" for one in map(claims.claim_of, berths) if one is not None}


def _stale(found: Holdings) -> list[str]:
    """Locks of Berths that are gone: agents and definitions are not removed over them."""
    uids = {str(body["metadata"]["uid"]) for body in found.berths}
    return [
        f"{row['name']} (for {row['holder']})"
        for row in held_disks(
            [disk for disk in found.disks if str((disk["spec"].get("claimRef") or {}).get("uid")) not in uids]
        )
    ]
