# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module installation_check: whether a cluster and an inventory fit a run of the role berth. Never writes.

Called by plugins/modules/installation_check.py and plugins/action/installation_check.py. What is wrong is decided in
berth_core/app/install_check.py and beside it; all of it is told at once. One LIST for each kind; no request for a node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timezone
from typing import Any

from ..berth_core.app import (
    class_removal,
    extender_install,
    install_check,
    install_needs,
    install_rights,
    kube_schedulers,
    scheduler_install,
    service_install,
)
from ..berth_core.app.crd_plan import check_definitions
from ..berth_core.app.crd_schemas import SCHEMAS
from ..berth_core.app.install_check import HANDLING, Asked, Findings, Seen
from ..berth_core.app.install_found import SELECTOR, installed, scheduler_names
from ..berth_core.app.install_needs import Holdings
from ..berth_core.app.install_rights import AGENTS, FOLDERS, PARTS, Needed, Right, Run
from ..berth_core.app.node_agents import LEASE_PREFIX, agent_of
from ..berth_core.app.node_agents import NAMESPACE as OF_AGENTS
from ..berth_core.app.shipped import SHIPPED_NAMESPACE
from ..berth_core.errors import ForbiddenError, InputError, NotFoundError, StateError
from ..berth_core.model import resources as kinds
from ..berth_core.model.names import check_image, check_label, check_names, check_subdomain
from ..berth_core.model.resources import Resource
from . import assigning, storage_class
from .base import Context, Operation
from .crds import read_definitions
from .rights import may

Object = dict[str, Any]
_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


def prepare(arguments: dict[str, Any]) -> dict[str, Any]:
    """The manifests of all parts travel with the arguments, as those of a module that installs them do."""
    if arguments.get("manifests") is not None:
        return arguments
    folders = sorted({folder for several in FOLDERS.values() for folder in several})
    return {**arguments, "manifests": {folder: read_definitions(folder) for folder in folders}}


def run(context: Context) -> dict[str, Any]:
    asked = _asked(context.params)
    shipped = _shipped(context.params["manifests"], asked.parts)
    classes = _classes(context.params["storage_classes"] or (), asked.name("storage_classes"))
    reader = _Reader(context)
    seen = _look(reader, asked)
    found = install_check.check(asked, seen, shipped.get("crds", ()))
    if classes:
        found.problems += _other_classes(asked, classes, reader.list(kinds.STORAGE_CLASS))
    if context.params["assign_pods"] and asked.state == "present" and not reader.serves(assigning.POLICY):
        found.problems.append(assigning.too_old(asked.schedulers[0]))
    if asked.state == "absent":
        holdings = _holdings(reader, asked, classes)
        found.problems += install_needs.needs(asked.parts, holdings)
        found.warnings += [text for text in [install_needs.kept(holdings.disks)] if text]
    lacks = _missing_rights(context, reader, asked, shipped)
    return _told(context, reader, found, seen, lacks)


# -- what is asked -------------------------------------------------------------------------------------------------


def _asked(params: Mapping[str, Any]) -> Asked:
    """Raises InputError that names the option."""
    said = {key: str(value) for key, value in (params["option_names"] or {}).items()}
    check_label(params["namespace"], said.get("namespace", "namespace"))
    check_names(params["node_names"], "node_names")
    if params["image"]:
        check_image(params["image"], said.get("image", "image"))
    if params["scheduler_name"]:
        check_subdomain(params["scheduler_name"], said.get("scheduler_name", "scheduler_name"))
    own = [params["scheduler_name"]] if params["scheduler_name"] else [scheduler_install.SHIPPED]
    given = ("state", "namespace", "parts", "node_names", "nodes_without_host")
    asked = Asked(
        **{key: params[key] for key in given},
        image=params["image"] or "",
        schedulers=(*own, extender_install.SHIPPED),
        said=said,
    )
    install_check.check_asked(asked)
    return asked


def _shipped(manifests: Mapping[str, Any] | None, parts: Iterable[str]) -> dict[str, list[Object]]:
    """The objects of the parts, by folder. Raises InputError where they are not there, or not berth's to install."""
    if not manifests:
        raise InputError("installation_check: there are no manifests; run it as a task (its action plugin brings them)")
    found: dict[str, list[Object]] = {}
    for folder in dict.fromkeys(folder for part in parts for folder in FOLDERS.get(part, ())):
        bodies = manifests.get(folder)
        if not isinstance(bodies, list) or not all(_is_ours(body) for body in bodies):
            raise InputError(f"manifests.{folder}: expected the list of objects of deploy/{folder}")
        found[folder] = bodies
    check_definitions(found.get("crds", ()))
    return found


def _is_ours(body: Any) -> bool:
    if not isinstance(body, Mapping) or not isinstance(body.get("metadata"), Mapping):
        return False
    return bool(body["metadata"].get("name")) and (body.get("apiVersion"), body.get("kind")) in kinds.BY_KIND


def _classes(given: Iterable[Mapping[str, Any]], option: str) -> dict[str, Object]:
    """The StorageClasses that are asked for, by name. Raises InputError that names the entry of ``option``."""
    found: dict[str, Object] = {}
    for index, params in enumerate(given):
        try:
            check_subdomain(params["name"], "name")
            wanted = storage_class.wanted(params)
        except InputError as exc:
            raise InputError(f"{option}[{index}]: {exc.message}") from exc
        if params["name"] in found:
            raise InputError(f"{option}[{index}]: {params['name']} is given twice; keep one")
        found[params["name"]] = wanted
    return found


# -- what is there -------------------------------------------------------------------------------------------------


class _Reader:
    """Reads lists, and remembers what it may not read: that is told with everything else."""

    def __init__(self, context: Context) -> None:
        self.client = context.client
        #: without these nothing can be said of the run
        self.lacks: dict[Resource, Right] = {}
        #: without these something is not known
        self.unread: list[str] = []

    def list(self, kind: Resource, namespace: str | None = None, needed: bool = True, **selectors: str) -> list[Object]:
        """The objects of a kind; none where the API server does not know it."""
        try:
            return self.client.list(kind, namespace, **selectors)
        except NotFoundError:
            return []
        except ForbiddenError:
            right = Right("list", kind.group, kind.plural, namespace or "")
            if needed:
                self.lacks[kind] = right
            else:
                self.unread.append(str(right))
            return []

    def serves(self, kind: Resource) -> bool:
        """Whether the API server knows a kind; one that may not be listed is known."""
        try:
            self.client.list(kind)
        except NotFoundError:
            return False
        except ForbiddenError:
            self.lacks[kind] = Right("list", kind.group, kind.plural)
        return True

    def find(self, kind: Resource, name: str, namespace: str | None = None) -> Object | None:
        """One object; None where there is none."""
        try:
            return self.client.find(kind, name, namespace)
        except ForbiddenError:
            self.lacks[kind] = Right("get", kind.group, kind.plural, namespace or "")
            return None


def _look(reader: _Reader, asked: Asked) -> Seen:
    deployments = reader.list(kinds.DEPLOYMENT, needed=False, labels=SELECTOR)
    sets = reader.list(kinds.DAEMON_SET, needed=False, labels=SELECTOR)
    bindings = reader.list(kinds.CLUSTER_ROLE_BINDING, needed=False, labels=SELECTOR)
    leases = reader.list(kinds.LEASE, OF_AGENTS, needed=asked.with_any(*AGENTS))
    now = datetime.now(timezone.utc)
    agents = [agent_of(each, now) for each in leases if str(each["metadata"]["name"]).startswith(LEASE_PREFIX)]
    definitions = _definitions(reader)
    nodes = reader.list(kinds.NODE, needed=asked.node_names is not None)
    return Seen(
        nodes=nodes,
        definitions=definitions,
        deployments=deployments,
        daemon_sets=sets,
        installed=installed(definitions, [*deployments, *sets], bindings, agents),
        agents=agents,
        unread=tuple(reader.lacks),
    )


def _definitions(reader: _Reader) -> dict[str, Object]:
    found = {body["metadata"]["name"]: body for body in reader.list(kinds.CRD, labels=SELECTOR)}
    for name in SCHEMAS:  # those without berth's label may be anybody's, or of a hand that took it off
        body = None if name in found or kinds.CRD in reader.lacks else reader.find(kinds.CRD, name)
        if body is not None:
            found[name] = body
    return {name: found[name] for name in SCHEMAS if name in found}


def _holdings(reader: _Reader, asked: Asked, going: Collection[str]) -> Holdings:
    """What may need the parts: a kind is read where one of them is what it needs."""
    holding = asked.with_any("crds", "controller", "storage_classes", *AGENTS)
    of = (kinds.BERTH, kinds.LOCAL_DISK, kinds.PVC, kinds.STORAGE_CLASS, kinds.PV)
    berths, disks, claims, classes, volumes = (reader.list(kind) if holding else [] for kind in of)
    applications = reader.list(kinds.STATEFUL_APP) if asked.with_any("crds", "controller") else []
    of_tasks = (kinds.TASK, kinds.TASK_BATCH) if asked.with_any("crds", "task_backend") else ()
    tasks = [body for kind in of_tasks for body in reader.list(kind)]
    queues = reader.list(kinds.TASK_QUEUE) if asked.with_any("crds") else []
    return Holdings(
        *(berths, disks, claims, classes, volumes, applications, tasks, queues),
        pods=_pods(reader, asked),
        waiting=_waiting(reader, asked),
        asking=_asking(reader, asked),
        unbound=class_removal.waiting(claims, going),
    )


def _pods(reader: _Reader, asked: Asked) -> list[str]:
    if not asked.with_any("scheduler"):
        return []
    scheduler = asked.schedulers[0]
    live = [
        reader.find(kinds.DEPLOYMENT, scheduler, asked.namespace),
        reader.find(kinds.ROLE, service_install.token_name(scheduler), asked.namespace),
    ]
    found = [
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        for name in scheduler_names([body for body in live if body], scheduler)
        for pod in reader.list(kinds.POD, fields=f"spec.schedulerName={name},{_UNFINISHED}")
        if not pod["metadata"].get("deletionTimestamp")
    ]
    return sorted(found)


def _waiting(reader: _Reader, asked: Asked) -> list[str]:
    if not asked.with_any("extender"):
        return []
    return extender_install.waiting_pods(reader.list(kinds.POD, fields="spec.nodeName=,status.phase=Pending"))


def _asking(reader: _Reader, asked: Asked) -> list[str]:
    if not asked.with_any("extender"):
        return []
    return kube_schedulers.asking(reader.list(kinds.POD, kube_schedulers.NAMESPACE, labels=kube_schedulers.LABELS))


def _other_classes(asked: Asked, wanted: Mapping[str, Object], found: Iterable[Object]) -> list[str]:
    """Classes of the same name that the run could not make its own, or would take from somebody else."""
    problems = []
    for body in found:
        name = body["metadata"]["name"]
        if name not in wanted:
            continue
        ours, theirs = wanted[name]["provisioner"], body.get("provisioner")
        if asked.state == "absent" and ours != theirs:
            problems.append(
                f"StorageClass {name} is of provisioner {theirs}, not {ours}: it is somebody else's and stays; "
                f"take it out of {asked.name('storage_classes')}, or give its provisioner"
            )
        elif asked.state == "present":
            try:
                storage_class.refuse_immutable(wanted[name], body)
            except StateError as exc:
                problems.append(exc.message)
    return problems


# -- rights --------------------------------------------------------------------------------------------------------


def _missing_rights(
    context: Context, reader: _Reader, asked: Asked, manifests: Mapping[str, list[Object]]
) -> list[str]:
    """Asked last: what could not be read is among them already."""
    agents = asked.with_any(*AGENTS)
    spaces = {asked.namespace, *([OF_AGENTS] if agents else [])}
    live = {name: _namespace(reader, name) for name in sorted(spaces)}
    there = {name: body for name, body in live.items() if body is not None}
    openshift = agents and _is_openshift(reader)
    run = Run(asked.state, asked.parts, asked.namespace, there, openshift, asked.schedulers[0])
    wanted = install_rights.needed(run, manifests)
    known = [right for right in reader.lacks.values() if right not in wanted.rights]
    return install_rights.missing(
        Needed((*known, *wanted.rights), wanted.grants), lambda right: may(context.client, right)
    )


def _namespace(reader: _Reader, name: str) -> Object | None:
    try:
        return reader.client.find(kinds.NAMESPACE, name)
    except ForbiddenError:
        return None


def _is_openshift(reader: _Reader) -> bool:
    """Who may not list them is not told whether they are there."""
    try:
        reader.client.list(kinds.SECURITY_CONTEXT_CONSTRAINTS)
    except (ForbiddenError, NotFoundError):
        return False
    return True


# -- what is told --------------------------------------------------------------------------------------------------


def _told(context: Context, reader: _Reader, found: Findings, seen: Seen, lacks: list[str]) -> dict[str, Any]:
    problems = list(found.problems)
    if lacks:
        problems.insert(
            0, f"the account lacks these rights: {'; '.join(lacks)}. Give them to it, or run as a cluster-admin"
        )
    if reader.unread:
        found.warnings.append(
            "whether berth is installed in other namespaces is not known: the account may not "
            + ", ".join(reader.unread)
        )
    for text in found.warnings:
        context.warn(text)
    result = {
        "missing_rights": lacks,
        "hosts_without_node": found.hosts_without_node,
        "nodes_without_host": found.nodes_without_host,
        "problems": problems,
        "parts": [each.row() for each in seen.installed],
    }
    if problems:
        numbered = " ".join(f"({number}) {text}." for number, text in enumerate(problems, 1))
        raise StateError(f"refused before anything was written, for {len(problems)} reason(s): {numbered}", **result)
    return {"changed": False, **result}


#: A removal of all parts is not forced.
_CLASS_OPTIONS = {key: spec for key, spec in storage_class.OPERATION.options.items() if key != "force"}

OPERATION = Operation(
    name="installation_check",
    options={
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "namespace": {"type": "str", "default": SHIPPED_NAMESPACE},
        "parts": {"type": "list", "elements": "str", "choices": list(PARTS), "required": True},
        "storage_classes": {"type": "list", "elements": "dict", "options": _CLASS_OPTIONS},
        "node_names": {"type": "list", "elements": "str"},
        "nodes_without_host": {"type": "str", "choices": list(HANDLING), "default": "warn"},
        "image": {"type": "str"},
        "scheduler_name": {"type": "str"},
        "assign_pods": {"type": "bool", "default": False},
        "option_names": {"type": "dict"},
        "manifests": {"type": "dict"},
    },
    run=run,
    prepare=prepare,
)
