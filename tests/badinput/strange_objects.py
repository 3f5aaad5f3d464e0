"""Strategies of whole objects, right and wrong: custom resources by their schemas, volumes, pods and nodes beside.

tests/daemons/scheduler/test_strange_objects.py throws them at a cluster.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from tests.badinput.schemas import SEEN, STRANGE_TEXTS, WHOLE, changed, fields, named, schema_of, within

Strategy = st.SearchStrategy[Any]
TEXTS = st.sampled_from([text for name, text in STRANGE_TEXTS.items() if name != "too long"]) | st.text(max_size=12)
NUMBERS = st.sampled_from([-(1 << 63), -1, 0, 1, 1 << 31, (1 << 63) - 1]) | st.integers(-(1 << 63), (1 << 63) - 1)
QUANTITIES = st.sampled_from(
    ["0", "1", "100m", "1Gi", "7E", "9223372036854775807", "1e12", "1n", "0.5", "-1", "lots", ""]
)
_BOUNDS = (
    *("x-kubernetes-validations", "enum", "minimum", "maximum", "minLength", "maxLength", "pattern"),
    *("maxItems", "maxProperties"),
)


def relaxed(schema: Any) -> Any:
    """The schema as an older release could have had it: types and what is required stay, each bound and rule goes."""
    if isinstance(schema, list):
        return [relaxed(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    kept = {key: one for key, one in schema.items() if key not in _BOUNDS or isinstance(one, Mapping)}
    return {key: relaxed(one) for key, one in kept.items()}


def of_schema(schema: Mapping[str, Any]) -> Strategy:
    """Anything of the types that the schema names."""
    kind = schema["type"]
    if kind == "string":
        known = [SEEN] if schema.get("format") else list(schema.get("enum") or ())
        return st.sampled_from(known) if schema.get("format") else TEXTS | st.sampled_from([*known, "db", "db-0", "n"])
    if kind == "integer":
        return NUMBERS
    if kind == "boolean":
        return st.booleans()
    if kind == "array":
        return st.lists(of_schema(schema["items"]), max_size=3)
    if "additionalProperties" in schema:
        return st.dictionaries(st.text(max_size=8), TEXTS | QUANTITIES, max_size=3)
    inner = {name: of_schema(one) for name, one in (schema.get("properties") or {}).items()}
    needed = {name: inner.pop(name) for name in schema.get("required") or ()}
    return st.fixed_dictionaries(needed, optional=inner)


@st.composite
def _turned(draw: st.DrawFn, good: dict[str, Any], schema: Mapping[str, Any]) -> Any:
    """What is as it should be, with some fields of other values."""
    made = copy.deepcopy(good)
    every = list(fields(schema))
    for way, field in draw(st.lists(st.sampled_from(every), max_size=4)):
        try:
            within(made, way)
        except (KeyError, IndexError, StopIteration, TypeError):
            continue
        made = changed(made, named(way, made), draw(of_schema(field)))
    return made


@st.composite
def custom(draw: st.DrawFn, nodes: Sequence[str]) -> dict[str, Any]:
    """``{kind, spec, status}`` of a LocalDisk, a LocalDevice or a Berth, mostly of one of these nodes."""
    kind = draw(st.sampled_from(sorted(WHOLE)))
    schema, (specs, status) = schema_of(kind), WHOLE[kind]
    spec = draw(st.sampled_from(specs).flatmap(lambda one: _turned(one, schema["spec"])) | of_schema(schema["spec"]))
    spec["nodeName"] = draw(st.sampled_from(nodes) | TEXTS)
    return {"kind": kind, "spec": spec, "status": draw(st.none() | _turned(status, schema["status"]))}


LABELS = st.dictionaries(
    st.sampled_from(["app", "berth.dev/app", "app.kubernetes.io/managed-by", "kubernetes.io/hostname", "zone"]),
    st.sampled_from(["", "berth", "db", "a", "A_b.c"]),
    max_size=3,
)
NOTES = st.dictionaries(
    st.sampled_from(
        ["berth.dev/berth-uid", "berth.dev/local-disk", "pv.kubernetes.io/provisioned-by", "berth.dev/berth"]
    ),
    TEXTS | st.sampled_from(["u-1", "local.berth.dev", "db-0"]),
    max_size=4,
)
_SELECTOR = st.fixed_dictionaries({"matchLabels": LABELS})
_TERM = st.fixed_dictionaries(
    {"topologyKey": st.sampled_from(["kubernetes.io/hostname", "zone", "none"]), "labelSelector": _SELECTOR}
)


@st.composite
def volume(draw: st.DrawFn, nodes: Sequence[str]) -> dict[str, Any]:
    """A PersistentVolume, perhaps one that says it is berth's."""
    term = {"key": "kubernetes.io/hostname", "operator": "In", "values": [draw(st.sampled_from(nodes))]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}}
    sources = ({"local": {"path": draw(st.sampled_from(["/mnt/x", "/", "../x"]))}}, {"hostPath": {"path": "/x"}})
    claim = {"namespace": "default", "name": draw(st.sampled_from(["data-db-0", "none"])), "uid": draw(TEXTS)}
    spec = {
        **draw(st.sampled_from([*sources, {"csi": {"driver": "local.berth.dev", "volumeHandle": "x"}}])),
        "capacity": {"storage": draw(QUANTITIES)},
        "accessModes": draw(st.sampled_from([["ReadWriteOnce"], ["ReadWriteMany"], []])),
        "storageClassName": draw(st.sampled_from(["", "fast", "none"])),
        "nodeAffinity": draw(st.sampled_from([affinity, None])),
        "claimRef": draw(st.sampled_from([claim, None])),
        "volumeMode": draw(st.sampled_from(["Filesystem", "Block"])),
    }
    return {"kind": "PersistentVolume", "annotations": draw(NOTES), "labels": draw(LABELS), "spec": spec}


@st.composite
def pod(draw: st.DrawFn, nodes: Sequence[str], scheduler: str) -> dict[str, Any]:
    """A pod that waits for that scheduler, or is on one of these nodes."""
    amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "example.com/x", "ephemeral-storage"]), QUANTITIES)
    ports = st.lists(
        st.fixed_dictionaries({"containerPort": st.just(1), "hostPort": st.integers(0, 70000)}), max_size=2
    )
    requests, volumes = (
        draw(amounts),
        [
            {"name": "a", "persistentVolumeClaim": {"claimName": draw(st.sampled_from(["none", "data-db-0"]))}},
            {"name": "b", "emptyDir": {}},
        ],
    )
    container = {
        "name": "c",
        "image": "i",
        "resources": {"requests": requests, "limits": requests},
        "ports": draw(ports),
    }
    spread = {"maxSkew": draw(st.integers(0, 3)), "whenUnsatisfiable": "DoNotSchedule", **draw(_TERM)}
    spec = {
        "containers": [container],
        "schedulerName": scheduler,
        "nodeName": draw(st.sampled_from(["", *nodes])),
        "nodeSelector": draw(LABELS),
        "volumes": draw(st.sampled_from([volumes, volumes[1:], []])),
        "affinity": {
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": draw(st.lists(_TERM, max_size=2))},
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": draw(st.lists(_TERM, max_size=2))},
        },
        "topologySpreadConstraints": draw(st.sampled_from([[spread], []])),
        "resourceClaims": draw(st.sampled_from([[], [{"name": "gpu", "resourceClaimName": "none"}]])),
        "terminationGracePeriodSeconds": 0,
    }
    return {"kind": "Pod", "labels": draw(LABELS), "annotations": draw(NOTES), "spec": spec}


@st.composite
def node(draw: st.DrawFn) -> dict[str, Any]:
    """A node of which hardly anything is known."""
    taint = {
        "key": draw(st.sampled_from(["a", "node.kubernetes.io/x"])),
        "effect": draw(st.sampled_from(["NoSchedule", "Now"])),
    }
    amounts = draw(st.dictionaries(st.sampled_from(["cpu", "memory", "pods", "x"]), QUANTITIES))
    status = {"allocatable": amounts, "capacity": amounts, "addresses": [{"type": "Hostname", "address": draw(TEXTS)}]}
    spec = {"taints": draw(st.sampled_from([[taint], []])), "unschedulable": draw(st.booleans())}
    return {"kind": "Node", "labels": draw(LABELS), "annotations": draw(NOTES), "spec": spec, "status": status}


def some(nodes: Sequence[str], scheduler: str) -> Strategy:
    """A handful of them."""
    one = st.one_of(custom(nodes), custom(nodes), custom(nodes), volume(nodes), pod(nodes, scheduler), node())
    return st.lists(one, min_size=10, max_size=30)
