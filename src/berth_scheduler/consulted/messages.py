"""Questions to an extender and its answers (k8s.io/kube-scheduler/extender/v1): Go's field names, as Go reads them.

Called by opinions.py. Pure. An answer is somebody else's word: what cannot be meant is an ExtenderError.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from berth_core.errors import BerthError
from berth_core.framework.contract import Status, unresolvable, unschedulable
from berth_core.framework.extended import SCALE
from berth_core.model.preemption import Candidate, VictimFacts, importance

Obj = dict[str, Any]
#: Nobody counts further; kube-scheduler's numbers have 64 bits.
MOST = 1 << 48
LEFT_OUT = unresolvable("node(s) were left out by an extender")


class ExtenderError(BerthError):
    """An extender gave no answer, or none that can be used."""


class Nodes(NamedTuple):
    """Who is asked about. ``whole``: the objects, for an extender that has no cache of its own."""

    names: Sequence[str]
    whole: Sequence[Obj] | None


def question(pod: Obj, nodes: Nodes) -> Obj:
    """ExtenderArgs."""
    if nodes.whole is None:
        return {"Pod": pod, "Nodes": None, "NodeNames": list(nodes.names)}
    return {"Pod": pod, "Nodes": {"metadata": {}, "items": list(nodes.whole)}, "NodeNames": None}


def binding(pod: Mapping[str, Any], node: str) -> Obj:
    """ExtenderBindingArgs."""
    meta = pod["metadata"]
    return {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": meta["uid"], "Node": node}


def preemption(pod: Obj, candidates: Iterable[Candidate], whole: Mapping[str, Obj] | None) -> Obj:
    """ExtenderPreemptionArgs. ``whole``: victims by uid, for an extender that has no cache of its own."""
    field = "NodeNameToMetaVictims" if whole is None else "NodeNameToVictims"

    def pods(one: Candidate) -> list[Obj]:
        return [{"UID": pod.uid} if whole is None else whole[pod.uid] for pod in one.victims]

    asked = {one.node: {"Pods": pods(one), "NumPDBViolations": one.violations} for one in candidates}
    return {"Pod": pod, field: asked}


def decode(body: bytes) -> Any:
    """Raises ExtenderError."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise ExtenderError(f"the answer is not JSON: {exc}") from exc


def passing(answer: Any, nodes: Nodes) -> tuple[list[str], dict[str, Status]]:
    """Of an ExtenderFilterResult: the nodes that pass, in the order asked, and what is said of the others."""
    found = _fields(answer, "an ExtenderFilterResult")
    _raise(found)
    passed = set(_passed(found, nodes.whole is None))
    unknown = sorted(passed.difference(nodes.names))
    if unknown:
        raise ExtenderError(f"it lets pass node {unknown[0]!r}, about which it was not asked")
    failed = {name: unschedulable(text) for name, text in _texts(found, "failednodes").items()}
    failed.update((name, unresolvable(text)) for name, text in _texts(found, "failedandunresolvablenodes").items())
    refused = {name: failed.get(name, LEFT_OUT) for name in nodes.names if name not in passed}
    return [name for name in nodes.names if name in passed], refused


def _passed(found: Obj, by_name: bool) -> list[str]:
    names, listed = found.get("nodenames"), found.get("nodes")
    if by_name and names is not None:
        return _list(names, "NodeNames", str)
    if listed is None:
        return []
    items = _list(_fields(listed, "Nodes").get("items") or [], "Nodes.items", dict)
    return [str((one.get("metadata") or {}).get("name")) for one in items]


def scores(answer: Any, weight: int) -> dict[str, int]:
    """Of a HostPriorityList: what is added to the total of each node."""
    found: dict[str, int] = {}
    for index, one in enumerate(_list(answer or [], "HostPriorityList", dict)):
        given = _fields(one, f"[{index}]")
        host, score = given.get("host"), given.get("score", 0)
        if not isinstance(host, str) or not isinstance(score, int) or abs(score) * weight > MOST:
            raise ExtenderError(f"[{index}]: expected a Host and a Score from 0 to 10, got {host!r} and {score!r}")
        found[host] = found.get(host, 0) + score * weight * SCALE
    return found


def bound(answer: Any) -> None:
    """An ExtenderBindingResult. Raises ExtenderError with what it says."""
    _raise(_fields(answer, "an ExtenderBindingResult"))


def candidates(answer: Any, known: Mapping[str, Mapping[str, VictimFacts]]) -> list[Candidate]:
    """Of an ExtenderPreemptionResult: the nodes that would do, and who has to go there.

    ``known``: by node, then uid, the pods that may be chosen.
    """
    listed = _fields(answer, "an ExtenderPreemptionResult").get("nodenametometavictims")
    found = []
    for node, one in _object(listed or {}, "NodeNameToMetaVictims").items():
        given = _fields(one, f"NodeNameToMetaVictims[{node}]")
        pods = [_fields(pod, "Pods").get("uid") for pod in _list(given.get("pods") or [], "Pods", dict)]
        on_node = known.get(node, {})
        strange = [uid for uid in pods if uid not in on_node]
        if strange:
            raise ExtenderError(f"it wants pod {strange[0]!r} to leave node {node!r}, which is none that could")
        violations = given.get("numpdbviolations") or 0
        if not isinstance(violations, int):
            raise ExtenderError(f"NumPDBViolations: expected a number, got {violations!r}")
        victims = tuple(sorted({on_node[str(uid)] for uid in pods}, key=importance))
        found.append(Candidate(node, victims, violations))
    return found


def _raise(found: Obj) -> None:
    if found.get("error"):
        raise ExtenderError(str(found["error"]))


def _fields(given: Any, what: str) -> Obj:
    """An object's fields by their names in small letters: Go does not look at case, so nobody had to."""
    return {key.lower(): value for key, value in _object(given, what).items()}


def _object(given: Any, what: str) -> Obj:
    if not isinstance(given, dict):
        raise ExtenderError(f"{what}: expected an object, got {type(given).__name__}")
    return given


def _texts(found: Obj, field: str) -> dict[str, str]:
    given = _object(found.get(field) or {}, field)
    return {name: str(text) for name, text in given.items()}


def _list(given: Any, what: str, kind: type) -> list[Any]:
    if not isinstance(given, list) or not all(isinstance(one, kind) for one in given):
        raise ExtenderError(f"{what}: expected a list of {'names' if kind is str else 'objects'}")
    return given
