# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rights an account needs to install or remove parts of berth, from the objects of deploy/ themselves.

Called by the module installation_check, which asks the API server for each. What a module does with an object of its
manifests is in `_VERBS`, what it reads and writes besides in `_BESIDE`: tests/apiserver/test_installation_check.py
runs the modules under an account that has these rights and no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable, NamedTuple

from ..model import resources as kinds
from ..model.names import first
from ..model.resources import BY_KIND, Resource
from .compare import differences
from .node_agents import NAMESPACE as OF_AGENTS
from .scheduler_install import SHIPPED as SCHEDULER
from .shipped import SHIPPED_NAMESPACE

Object = Mapping[str, Any]
PARTS = (
    *("crds", "storage_classes", "controller", "agents_hosts", "agents_daemonset", "scheduler", "extender"),
    "task_backend",
)
AGENTS = ("agents_hosts", "agents_daemonset")
#: part -> the folders of deploy/ that hold its objects.
FOLDERS: Mapping[str, tuple[str, ...]] = {
    "crds": ("crds", "policies"),
    "controller": ("controller",),
    "agents_hosts": ("agent",),
    "agents_daemonset": ("agent",),
    "scheduler": ("scheduler",),
    "extender": ("extender",),
    "task_backend": ("tasks",),
}


class Right(NamedTuple):
    """A verb on a kind; ``resource`` may be one with a subresource. Without a namespace in all of them."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        """As a refusal of the API server names it."""
        what = f"{self.resource}.{self.group}" if self.group else self.resource
        name = f" {self.name}" if self.name else ""
        return f"{self.verb} {what}{name}" + (f" in namespace {self.namespace}" if self.namespace else "")

    def review(self) -> dict[str, Any]:
        """The SelfSubjectAccessReview that asks for it."""
        resource, _slash, subresource = self.resource.partition("/")
        asked = {"verb": self.verb, "group": self.group, "resource": resource, "subresource": subresource}
        more = {"namespace": self.namespace, "name": self.name}
        given = {key: value for key, value in {**asked, **more}.items() if value}
        return {"metadata": {}, "spec": {"resourceAttributes": given}}


#: By which a right is asked for. It is an answer alone: nobody can list or read one.
REVIEW = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False)
#: Who has it has all others: cluster-admin.
EVERYTHING = Right("*", "*", "*")


class Grant(NamedTuple):
    """A role that is made: who has not all of its ``rights`` needs those of ``over``."""

    kind: Resource
    name: str
    namespace: str
    rights: tuple[Right, ...]
    over: tuple[Right, ...]

    def __str__(self) -> str:
        return self.kind.describe(self.name, self.namespace)


class Needed(NamedTuple):
    """What a run needs."""

    rights: tuple[Right, ...]
    grants: tuple[Grant, ...] = ()


#: What is done with each object of a part that server-side apply writes, and of one that is replaced as a whole.
_VERBS = {"present": ("get", "create", "patch"), "absent": ("get", "delete")}
_EXACT = {"present": ("list", "get", "create", "update"), "absent": ("list", "get", "delete")}
#: Kinds that nobody reads before they are asked for.
_ON_DEMAND = {"agents_hosts": (kinds.DAEMON_SET, kinds.SECURITY_CONTEXT_CONSTRAINTS)}

_OWN, _AGENTS, _ALL = "own", "agents", "all"
_Beside = tuple[str, Resource, str]


def _each(verbs: str, where: str, *of: Resource) -> tuple[_Beside, ...]:
    return tuple((verb, kind, where) for kind in of for verb in verbs.split())


_PODS = (*_each("get", _ALL, kinds.PRIORITY_CLASS, kinds.CRD), *_each("list", _OWN, kinds.POD))
_GONE = (*_each("get delete", _OWN, kinds.LEASE), *_each("list", _OWN, kinds.POD))
_POLICIES = (kinds.MUTATING_ADMISSION_POLICY, kinds.MUTATING_ADMISSION_POLICY_BINDING)
_NO_AGENTS = (
    *_each("get delete", _AGENTS, kinds.LEASE, kinds.CONFIG_MAP, kinds.DAEMON_SET),
    *_each("list", _AGENTS, kinds.LEASE),
    *_each("list", _ALL, kinds.LOCAL_DISK),
)
#: What a part's module does beside the objects of its manifests.
_BESIDE: Mapping[str, Mapping[str, tuple[_Beside, ...]]] = {
    "present": {
        "storage_classes": _each("list create patch", _ALL, kinds.STORAGE_CLASS),
        "controller": (*_PODS, *_each("get", _OWN, kinds.LEASE)),
        "scheduler": (*_PODS, *_each("get", _OWN, kinds.LEASE)),
        "extender": (*_PODS, *_each("get create patch", _OWN, kinds.SECRET)),
        # Bindings in namespaces of tasks are tried by the module itself, which knows which these are.
        "task_backend": (*_PODS, *_each("get", _OWN, kinds.LEASE), *_each("list", _ALL, kinds.ROLE_BINDING)),
        "agents_hosts": (*_each("get", _ALL, kinds.NODE), *_each("list", _AGENTS, kinds.LEASE)),
        "agents_daemonset": (
            *_each("get create patch", _AGENTS, kinds.CONFIG_MAP),
            *_each("list", _AGENTS, kinds.LEASE, kinds.POD),
            *_each("list", _ALL, kinds.SECURITY_CONTEXT_CONSTRAINTS),
        ),
    },
    "absent": {
        # Free LocalDisks go before their definition.
        "crds": _each("delete", _ALL, kinds.LOCAL_DISK),
        "storage_classes": (*_each("list delete", _ALL, kinds.STORAGE_CLASS), *_each("list", _ALL, kinds.PVC)),
        "controller": (
            *_GONE,
            *_each("list", _ALL, kinds.PVC, kinds.STORAGE_CLASS, kinds.PV, kinds.STATEFUL_APP),
            *_each("list delete", _OWN, kinds.CSI_STORAGE_CAPACITY),
        ),
        "scheduler": (*_GONE, *_each("list", _ALL, kinds.POD), *_each("list get delete", _ALL, *_POLICIES)),
        "extender": (*_each("list", _ALL, kinds.POD), *_each("get delete", _OWN, kinds.SECRET)),
        "task_backend": (
            *_GONE,
            *_each("list get delete", _ALL, kinds.ROLE_BINDING),
            *_each("list", _ALL, kinds.TASK, kinds.TASK_BATCH),
        ),
        "agents_hosts": _NO_AGENTS,
        "agents_daemonset": _NO_AGENTS,
    },
}


class Run(NamedTuple):
    """What is to be done with which parts, where. ``namespaces``: those that are there, by name; ``openshift``: whether
    the API server serves OpenShift's own kinds; ``scheduler``: the scheduler's name."""

    state: str
    parts: Sequence[str]
    namespace: str = SHIPPED_NAMESPACE
    namespaces: Mapping[str, Object] = {}
    openshift: bool = False
    scheduler: str = SCHEDULER


def needed(run: Run, shipped: Mapping[str, Sequence[Object]]) -> Needed:
    """All rights of a run, each once. ``shipped``: the objects of each folder of deploy/, as they are there."""
    rights: dict[Right, None] = {}
    grants: dict[tuple[str, str, str], Grant] = {}
    for part in run.parts:
        for folder in FOLDERS.get(part, ()):
            for body in shipped[folder]:
                rights.update(dict.fromkeys([*_for_object(run, part, folder, body), *_of_a_definition(run, body)]))
                grant = _grant(run, folder, body)
                if grant is not None:
                    grants[grant.kind.kind, grant.name, grant.namespace] = grant
        rights.update(dict.fromkeys(_beside(run, part)))
    return Needed(tuple(rights), tuple(grants.values()))


def _for_object(run: Run, part: str, folder: str, body: Object) -> Iterable[Right]:
    kind, meta = BY_KIND[body["apiVersion"], body["kind"]], body["metadata"]
    if run.state == "present" and kind in _ON_DEMAND.get(part, ()):
        return ()
    verbs = (_EXACT if folder in FOLDERS["crds"] else _VERBS)[run.state]
    if kind is kinds.PRIORITY_CLASS and folder in FOLDERS["crds"]:
        verbs = tuple(verb for verb in verbs if verb != "update")  # one that is there stays as it is
    if kind is kinds.NAMESPACE:
        verbs = _verbs_of_a_namespace(run, folder, body)
    elif kind is kinds.SECURITY_CONTEXT_CONSTRAINTS and not run.openshift:
        verbs = ("get",) if run.state == "absent" else ()
    return (_right(verb, kind, _place(run, folder, meta.get("namespace"))) for verb in verbs)


def _of_a_definition(run: Run, body: Object) -> Iterable[Right]:
    """One that goes takes its objects along: they are looked for first."""
    if run.state == "absent" and BY_KIND[body["apiVersion"], body["kind"]] is kinds.CRD:
        yield Right("list", body["spec"]["group"], body["spec"]["names"]["plural"])


def _verbs_of_a_namespace(run: Run, folder: str, body: Object) -> tuple[str, ...]:
    """It stays, whoever made it; only the agents' module labels one that is there."""
    if run.state == "absent":
        return ()
    live = run.namespaces.get(_place(run, folder, body["metadata"]["name"]))
    if live is None:
        return _VERBS["present"]
    return ("get", "patch") if folder == "agent" and differences(body, live) else ("get",)


def _place(run: Run, folder: str, namespace: str | None) -> str:
    """Agents have a namespace of their own: their policy names it."""
    if not namespace or folder == "agent":
        return namespace or ""
    return run.namespace if namespace == SHIPPED_NAMESPACE else namespace


def _grant(run: Run, folder: str, body: Object) -> Grant | None:
    kind = BY_KIND[body["apiVersion"], body["kind"]]
    if run.state != "present" or kind not in (kinds.CLUSTER_ROLE, kinds.ROLE):
        return None
    place = _place(run, folder, body["metadata"].get("namespace"))
    rights = tuple(right for rule in body["rules"] for right in _of_rule(rule, place))
    name = str(body["metadata"]["name"])
    name = run.scheduler if name == SCHEDULER else name
    return Grant(kind, name, place, rights, tuple(_over(kind, name, place, bound=folder not in FOLDERS["crds"])))


def _over(kind: Resource, name: str, place: str, bound: bool) -> Iterable[Right]:
    """To make the role, and its binding where it has one. One that is posted has no name when the right is judged."""
    yield Right("escalate", kind.group, kind.plural, place, name if bound else "")
    if bound:
        yield Right("bind", kind.group, kind.plural, place, name)


def _of_rule(rule: Object, namespace: str) -> Iterable[Right]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                for name in rule.get("resourceNames") or ("",):
                    yield Right(verb, group, resource, namespace, name)


def _beside(run: Run, part: str) -> Iterable[Right]:
    places = {_OWN: run.namespace, _AGENTS: OF_AGENTS, _ALL: ""}
    for verb, kind, where in _BESIDE[run.state].get(part, ()):
        yield _right(verb, kind, places[where])
    if part == "agents_hosts" and run.state == "present":  # each host's token
        yield Right("create", "", "serviceaccounts/token", OF_AGENTS)


def _right(verb: str, kind: Resource, namespace: str) -> Right:
    return Right(verb, kind.group, kind.plural, namespace if kind.namespaced else "")


def missing(wanted: Needed, may: Callable[[Right], bool]) -> list[str]:
    """Every right that is not there, as a person asks for it. ``may`` asks the API server."""
    if may(EVERYTHING):
        return []
    asked: dict[Right, bool] = {}

    def has(right: Right) -> bool:
        if right not in asked:
            asked[right] = may(right)
        return asked[right]

    found = [str(right) for right in wanted.rights if not has(right)]
    return found + [text for text in (_over_rights(grant, has) for grant in wanted.grants) if text]


def _over_rights(grant: Grant, has: Callable[[Right], bool]) -> str:
    """Why the API server would not let a role be made; empty where it would. Who has all its rights needs no others."""
    lacks = [right for right in grant.over if not has(right)]
    rights = [str(right) for right in grant.rights if not has(right)] if lacks else []
    if not rights:
        return ""
    what = lacks[0]._replace(verb=" and ".join(right.verb for right in lacks))
    return f"{what} (or what {grant} gives: {first(rights)})"
