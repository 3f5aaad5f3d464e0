"""The extender API (k8s.io/kube-scheduler/extender/v1) as JSON: Go's field names at the top, the API's own inside.

Called by command.py between the listener and who decides. Pure. What cannot be read is refused with the field's path.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, NoReturn

from berth_core.errors import InputError
from berth_core.model.names import check_label, check_subdomain

Obj = dict[str, Any]


class Refused(Exception):
    """A request that is answered with an HTTP status and a reason, and nothing else happens."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class Asked(NamedTuple):
    """ExtenderArgs. ``nodes``: the objects, where kube-scheduler sends them whole (nodeCacheCapable false)."""

    pod: Obj
    names: list[str]
    nodes: list[Obj] | None


class BindAsked(NamedTuple):
    """ExtenderBindingArgs."""

    name: str
    namespace: str
    uid: str
    node: str


class Preempting(NamedTuple):
    """ExtenderPreemptionArgs. ``victims``: by node, as MetaVictims."""

    pod: Obj
    victims: dict[str, Obj]


def decode(body: bytes) -> Obj:
    """Raises Refused for what is no JSON object."""
    try:
        found = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError) as exc:
        raise Refused(400, f"the body is not JSON: {exc}") from exc
    if not isinstance(found, dict):
        raise Refused(400, f"the body is a JSON {type(found).__name__}: expected an object")
    return found


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def asked(document: Obj) -> Asked:
    """ExtenderArgs of filter and prioritize."""
    pod, listed, names = _pod(document), document.get("Nodes"), document.get("NodeNames")
    if listed is not None:
        items = listed.get("items") if isinstance(listed, dict) else listed
        nodes = _list(items or [], "Nodes.items", dict)
        return Asked(pod, [_name(node, f"Nodes.items[{index}]") for index, node in enumerate(nodes)], nodes)
    if names is None:
        raise Refused(400, "neither Nodes nor NodeNames is given: expected one of them")
    return Asked(pod, _list(names, "NodeNames", str), None)


def bind_asked(document: Obj) -> BindAsked:
    """ExtenderBindingArgs."""
    values = [document.get(field) for field in ("PodName", "PodNamespace", "PodUID", "Node")]
    for field, value in zip(("PodName", "PodNamespace", "PodUID", "Node"), values, strict=True):
        if not isinstance(value, str) or not value:
            raise Refused(400, f"{field}: expected a text, got {value!r}")
    question = BindAsked(*[str(value) for value in values])
    try:
        check_subdomain(question.name, "PodName")
        check_label(question.namespace, "PodNamespace")
        check_subdomain(question.node, "Node")
    except InputError as exc:
        raise Refused(400, exc.message) from exc
    return question


def preempting(document: Obj) -> Preempting:
    """ExtenderPreemptionArgs, whether its victims are whole pods or only their uids."""
    pod, short, whole = _pod(document), document.get("NodeNameToMetaVictims"), document.get("NodeNameToVictims")
    field, given = ("NodeNameToMetaVictims", short) if short is not None else ("NodeNameToVictims", whole)
    if not isinstance(given, dict):
        raise Refused(400, f"{field}: expected victims by node, got {given!r}")
    return Preempting(pod, {node: _victims(one, f"{field}[{node}]", short is not None) for node, one in given.items()})


def _victims(source: Any, path: str, short: bool) -> Obj:
    if not isinstance(source, dict):
        raise Refused(400, f"{path}: expected victims, got {source!r}")
    pods = _list(source.get("Pods") or [], f"{path}.Pods", dict)
    uids = [one.get("UID") if short else _uid(one.get("metadata")) for one in pods]
    violations = source.get("NumPDBViolations") or 0
    if not all(isinstance(uid, str) for uid in uids) or isinstance(violations, bool) or not isinstance(violations, int):
        raise Refused(400, f"{path}: expected pods with uids, and a number NumPDBViolations")
    return {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations}


def _uid(meta: Any) -> Any:
    return meta.get("uid") if isinstance(meta, dict) else None


def filtered(question: Asked, passing: Collection[str], failed: Mapping[str, str]) -> Obj:
    """ExtenderFilterResult. Nobody who leaves a node gives a disk back, so no refusal is one that preemption mends."""
    answer: Obj = {"Nodes": None, "NodeNames": None, "FailedNodes": {}, "Error": ""}
    answer["FailedAndUnresolvableNodes"] = dict(failed)
    if question.nodes is None:
        answer["NodeNames"] = [name for name in question.names if name in passing]
    else:
        kept = [node for name, node in zip(question.names, question.nodes, strict=True) if name in passing]
        answer["Nodes"] = {"metadata": {}, "items": kept}
    return answer


def prioritized(question: Asked, scores: Mapping[str, int]) -> list[Obj]:
    """HostPriorityList."""
    return [{"Host": name, "Score": scores.get(name, 0)} for name in question.names]


def preempted(question: Preempting, passing: Collection[str]) -> Obj:
    """ExtenderPreemptionResult: of the nodes those that would do."""
    return {"NodeNameToMetaVictims": {node: one for node, one in question.victims.items() if node in passing}}


def _pod(document: Obj) -> Obj:
    pod = document.get("Pod")
    if not isinstance(pod, dict):
        raise Refused(400, f"Pod: expected a pod, got {type(pod).__name__}")
    _name(pod, "Pod")
    return pod


def _name(thing: Obj, path: str) -> str:
    meta = thing.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    if not isinstance(name, str) or not name:
        raise Refused(400, f"{path}.metadata.name: expected a name, got {name!r}")
    return name


def _list(given: Any, path: str, kind: type) -> list[Any]:
    if not isinstance(given, list) or not all(isinstance(one, kind) for one in given):
        raise Refused(400, f"{path}: expected a list of {'names' if kind is str else 'objects'}")
    return given
