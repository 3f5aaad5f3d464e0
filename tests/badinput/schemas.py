"""Every field of every custom resource, each with values that it should not have: made from deploy/crds, and pure.

test_generated_objects.py has the API server refuse them or every reader read them (tests/apiserver). What a field may
not hold follows from its type alone, so that a field without a bound is tried as hard as one that has one.
"""

from __future__ import annotations

import copy
import functools
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).resolve().parents[2]
Way = tuple[str | int, ...]

LOCK: dict[str, Any] = {
    "namespace": "default",
    "name": "db-0",
    "uid": "u-1",
    "app": "db",
    "ordinal": 0,
    "claim": "data",
    "dataUID": "u-1",
    "namespaceUID": "n-1",
    "podUID": "p-1",
    "filesystemUUID": "f-1",
    "volume": "pv-1",
    "mountPoint": "/mnt/d",
}
KEPT = {key: value for key, value in LOCK.items() if key not in ("name", "uid")}
IDENTITY = {"wwn": "0x1", "serial": "S1", "model": "M", "byPath": "pci-1", "size": 1024}
SEEN = "2026-01-01T00:00:00Z"
CONDITION = {
    "type": "Healthy",
    "status": "True",
    "reason": "Fine",
    "message": "m",
    "lastTransitionTime": SEEN,
    "observedGeneration": 1,
}
_DISK = {
    "nodeName": "n1",
    "identity": IDENTITY,
    "storageClassName": "fast",
    "volumeMode": "Filesystem",
    "fsType": "ext4",
    "mountOptions": ["noatime"],
    "reclaimPolicy": "Retain",
    "wipeMethod": "auto",
    "reserved": False,
    "unschedulable": False,
}
_WIPE = {
    "requestID": "r-1",
    "identity": IDENTITY,
    "method": "zero",
    "requestedBy": "ann",
    "filesystemUUID": "f-1",
}
_DISK_STATUS = {
    "phase": "Available",
    "capacity": "1Ki",
    "observed": {
        "devicePath": "/dev/sdb",
        "byId": "a",
        "wwn": "0x1",
        "serial": "S1",
        "model": "M",
        "byPath": "pci-1",
        "size": 1024,
        "rotational": False,
        "readOnly": False,
        "diskID": "0x1",
        "sharedWith": "n2",
        "health": "Healthy",
        "mounts": ["/mnt"],
        "partlyMounted": True,
        "holders": ["dm-0"],
        "filesystem": {"type": "ext4", "uuid": "f-1", "label": "l"},
    },
    "journal": {
        "step": "Mounted",
        "lockUID": "u-1",
        "dataUID": "u-1",
        "filesystemUUID": "f-1",
        "fsType": "ext4",
        "mountPoint": "/mnt/a",
    },
    "wipe": {
        "requestID": "r-1",
        "step": "Overwriting",
        "method": "zero",
        "offset": 1,
        "size": 1024,
        "bytesPerSecond": 1,
        "startTime": SEEN,
    },
    "lastWipe": {
        "requestID": "r-0",
        "result": "Succeeded",
        "message": "m",
        "method": "zero",
        "requestedBy": "ann",
        "dataUID": "u-1",
        "lockUID": "u-1",
        "bytes": 1,
        "startTime": SEEN,
        "completionTime": SEEN,
    },
    "health": {
        "state": "Healthy",
        "reason": "Fine",
        "message": "m",
        "since": SEEN,
        "smart": {
            "passed": True,
            "criticalWarning": 0,
            "mediaErrors": 0,
            "reallocatedSectors": 0,
            "pendingSectors": 0,
            "percentageUsed": 1,
        },
    },
    "conditions": [CONDITION],
}
_DEVICE = {
    "nodeName": "n1",
    "deviceClass": "gpu",
    "uuid": "G1",
    "reserved": False,
    "capacity": {"shares": 1000, "memory": "80Gi"},
    "claimRefs": [{"namespace": "default", "name": "db-0", "uid": "u-1", "claim": "gpu", "shares": 600}],
}
_BERTH = {
    "app": "db",
    "ordinal": 0,
    "nodeName": "n1",
    "revision": "r1",
    "quorum": 2,
    "disks": [{"claim": "data", "name": "d1", "size": 5, "volume": "pv-1"}],
    "devices": [{"claim": "gpu", "name": "g1", "shares": 10}],
    "requests": {"cpu": "500m"},
    "podLabels": {"app": "db"},
    "hostPorts": [{"port": 80, "protocol": "TCP", "hostIP": "0.0.0.0"}],
}
#: (plural, kind) -> specs that are as they should be, with all fields between them; and a status with all of its own.
WHOLE: dict[str, tuple[tuple[dict[str, Any], ...], dict[str, Any]]] = {
    "LocalDisk": (({**_DISK, "claimRef": LOCK}, {**_DISK, "retainedFor": KEPT, "wipe": _WIPE}), _DISK_STATUS),
    "LocalDevice": (
        (_DEVICE,),
        {
            "phase": "Available",
            "observed": {"devicePath": "/dev/a", "health": "Healthy", "model": "M", "driver": "gpu.example.com"},
            "conditions": [CONDITION],
        },
    ),
    "Berth": (
        (_BERTH,),
        {
            "phase": "Running",
            "podName": "db-0",
            "workload": "StatefulSet db",
            "release": "Retain",
            "replacing": {"claim": "data", "from": "d1", "to": "d2"},
            "history": [
                {
                    "time": "2026-01-01T00:00:00Z",
                    "from": "Created",
                    "to": "Running",
                    "why": "w",
                    "count": 2,
                    "by": {
                        "component": "stateful_app",
                        "user": "ops",
                        "playbook": "site.yml",
                        "task": "t",
                        "host": "h",
                        "commit": "c",
                    },
                }
            ],
            "conditions": [CONDITION],
        },
    ),
}


class Bad(NamedTuple):
    """An object with one strange value. ``part``: spec or status; ``way``: where in it; ``what``: the sort of value."""

    kind: str
    part: str
    way: Way
    what: str
    value: Any
    body: dict[str, Any]

    @property
    def path(self) -> str:
        """As the API server writes it: ``spec.disks[0].claim``."""
        text = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in self.way)
        return f"{self.part}{text}"


@functools.cache
def schema_of(kind: str) -> dict[str, Any]:
    """The schema of the kind's objects."""
    content = yaml.safe_load((ROOT / f"deploy/crds/{kind.lower()}s.berth.dev.yaml").read_text(encoding="utf-8"))
    return dict(content["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"])


def fields(schema: Mapping[str, Any], above: Way = ()) -> Iterator[tuple[Way, Mapping[str, Any]]]:
    """Every field below, as the way to it and its schema; of a list the first item, of a map each key as ``*``."""
    for name, inner in (schema.get("properties") or {}).items():
        yield (*above, name), inner
        yield from fields(inner, (*above, name))
    if "items" in schema:
        yield (*above, 0), schema["items"]
        yield from fields(schema["items"], (*above, 0))
    if isinstance(schema.get("additionalProperties"), Mapping):
        yield (*above, "*"), schema["additionalProperties"]


STRANGE_TEXTS = {
    "empty": "",
    "blank": " ",
    "unicode": "\u00e4\u2028\U0001f600",
    "a line break": "a\nb",
    "a path": "../..",
    "capitals": "Not A Name",
    "too long": "x" * 5000,
}
STRANGE_NUMBERS = {
    "negative": -1,
    "least": -(1 << 63),
    "most": (1 << 63) - 1,
    "too big": 1 << 63,
    "far too big": 10**30,
    "a fraction": 1.5,
}
OTHER_TYPES: dict[str, Any] = {
    "text": "text",
    "number": 7,
    "boolean": True,
    "list": ["a"],
    "object": {"strange": "a"},
    "null": None,
    "NaN": float("nan"),
}
_OWN = {"string": "text", "integer": "number", "boolean": "boolean", "array": "list", "object": "object"}


def strange(schema: Mapping[str, Any], good: Any) -> Iterator[tuple[str, Any]]:
    """Values by their sort that a field of that schema should not have, or hardly."""
    own = _OWN[schema["type"]]
    yield from ((name, value) for name, value in OTHER_TYPES.items() if name != own)
    if own == "text":
        yield from STRANGE_TEXTS.items()
    if own == "number":
        yield from STRANGE_NUMBERS.items()
    if own == "list":
        yield "empty", []
        yield "too many", [copy.deepcopy(good[0]) for _each in range(200)]
        yield "null inside", [None]
        yield "of another type", [[]]
    if own == "object":
        yield "empty", {}
        yield "another key", {**good, "strange": "a"}
        yield "too many keys", {**good, **{f"k{number}": "1" for number in range(200)}}
        yield "a key that is no name", {**good, "": "1"}
        yield "a key with a sign", {**good, "a b/c/\u00e4": "1"}


def within(value: Any, way: Way) -> Any:
    """What is there; KeyError where nothing is."""
    for step in way:
        if isinstance(step, int) or step in value:
            value = value[step]
        elif step == "*":
            value = next(iter(value.values()))
        else:
            raise KeyError(step)
    return value


def changed(value: Any, way: Way, new: Any) -> Any:
    """A copy with another value there."""
    made = copy.deepcopy(value)
    at = made
    for step in way[:-1]:
        at = at[step]
    at[next(iter(at)) if way[-1] == "*" else way[-1]] = new
    return made


def named(way: Way, good: Any) -> Way:
    """The way with the key that stands for ``*``."""
    return (*way[:-1], next(iter(within(good, way[:-1])))) if way[-1] == "*" else way


def generated() -> Iterator[Bad]:
    """Every field with every strange value; and without it."""
    for kind, (specs, status) in WHOLE.items():
        schema = schema_of(kind)
        for part, wholes in (("spec", specs), ("status", (status,))):
            for way, field in fields(schema[part]):
                (good, *_others) = (one for one in wholes if _has(one, way))
                here = named(way, good)
                for what, value in strange(field, within(good, way)):
                    yield Bad(kind, part, here, what, value, changed(good, way, value))
                yield Bad(kind, part, here, "missing", None, _without(good, here))


def _has(value: Any, way: Way) -> bool:
    try:
        within(value, way)
    except KeyError:
        return False
    return True


def _without(value: Any, way: Way) -> Any:
    made = copy.deepcopy(value)
    del within(made, way[:-1])[way[-1]]
    return made


def is_no_json(value: Any) -> bool:
    """Whether no JSON has such a number."""
    return isinstance(value, float) and not math.isfinite(value)


def names(message: str, bad: Bad) -> bool:
    """Whether a refusal names the field, or what it is part of where a rule is about the whole."""
    plain = re.sub(r"\[\d+\]", "", message)
    way = [str(one) for one in bad.way if not isinstance(one, int)]
    return any(".".join((bad.part, *way[:length])) in plain for length in range(len(way), 0, -1))
