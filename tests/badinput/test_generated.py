"""Every option of every module with values of every kind: the answer is a result or a refusal, never a traceback."""

from __future__ import annotations

import contextlib
import copy
import math
import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, TextIO

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.berth.stateful.plugins.module_utils._glue import crds, objects
from ansible_collections.berth.stateful.plugins.module_utils._glue.arguments import check_shapes
from ansible_collections.berth.stateful.plugins.module_utils._glue.auth import AUTH_ARGUMENT_SPEC, load_auth
from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import BerthError, NotFoundError
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import Resource
from tests.badinput.asking import OPERATIONS, answer
from tests.core.app.disk_samples import local_disk

KEYS = {"serial": "SERIAL-sdb", "size": "4Gi"}
RECORD = {"name": "sdb", "path": "/dev/sdb", "size": 4 << 30, "serial": "S"}
CONTAINER = {"name": "db", "image": "db:1", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
APP = {"name": "db", "template": TEMPLATE, "disks": [{"name": "data", "size": "1Gi"}]}
#: Options with which each module goes as far as it can in an empty cluster.
GOOD: dict[str, tuple[dict[str, Any], ...]] = {
    "controller": ({"image": "c:1", "flags": {"workers": 4}}, {"state": "absent"}),
    "crds": ({},),
    "disk_replace": ({"name": "h1-a", "new": {"identity": {"serial": "new", "size": "4Gi"}}},),
    "host_maintenance": (
        {"node": "h1"},
        {"node": "h1", "apps": [{"app": "default/db", "data": ["db-0"]}]},
        {"node": "h1", "state": "ended"},
    ),
    "installation_check": (
        {"parts": ["crds", "controller"], "node_names": ["h1"], "storage_classes": [{"name": "fast"}], "image": "c:1"},
        {"parts": ["agents_daemonset", "scheduler", "extender"], "state": "absent"},
    ),
    "kube_scheduler_info": ({"node_names": ["h1"]},),
    "local_disk": (
        {"name": "h1-a", "node_name": "h1", "identity": KEYS, "observed": RECORD},
        {"disks": [{"name": "h1-a", "node_name": "h1", "identity": KEYS}]},
        {"name": "h1-a", "wipe": {"identity": KEYS}},
    ),
    "local_disk_info": ({"declared": [{"name": "h1-a", "identity": KEYS, "observed": RECORD}]}, {"names": ["h1-a"]}),
    "local_disk_plan": (
        {"node_name": "h1", "block_devices": [RECORD], "disks": [KEYS], "selectors": [{"query": "[?size > `0`]"}]},
    ),
    "node_agent": ({"daemonset": {"image": "agent:1"}}, {"state": "absent"}),
    "node_agent_info": ({"node_names": ["h1"]},),
    "node_agent_token": ({"node_name": "h1"},),
    "placement_info": ({"pod": POD}, APP),
    "report": ({"declared": [{"name": "h1-a", "identity": KEYS}]},),
    "resource_list_info": ({},),
    "scheduler": ({"image": "s:1"}, {"mode": "service"}, {"mode": "extender", "image": "s:1"}),
    "stateful_app": (APP, {**APP, "workload": "Pod"}, {"name": "db", "state": "absent"}),
    "stateful_app_adoption": (
        {"name": "db", "state": "released"},
        {"name": "db", "state": "adopted", "local_disks": [{"ordinal": 0, "claim": "data", "name": "h1-a"}]},
    ),
    "stateful_app_info": ({"name": "db"},),
    "storage_class": ({"name": "fast"}, {"name": "fast", "state": "absent"}),
    "task": (
        {"name": "job", "template": TEMPLATE},
        {"name": "job", "state": "killed"},
        {"name": "job", "state": "absent"},
    ),
    "task_backend": ({"image": "c:1", "namespaces": ["a"], "flags": {"workers": 4}}, {"state": "absent"}),
    "task_batch": (
        {"name": "many", "template": TEMPLATE, "count": 3},
        {"name": "many", "template": TEMPLATE, "items": [{"name": "a"}, {"env": {"A": "1"}, "needs": ["a"]}]},
        {"name": "many", "template": TEMPLATE, "items_src": __file__},
        {"name": "many", "state": "killed"},
        {"name": "many", "state": "absent"},
    ),
    "task_batch_info": ({}, {"name": "many"}),
    "task_info": ({}, {"name": "job", "states": ["Failed"]}),
}
STRANGE: tuple[Any, ...] = (
    *("", " ", "a b", "ä\u2028\U0001f600", "x" * 300, "\n", "../..", "1e400", "[?", "nan", "{{ x }}", "null"),
    *(-1, 0, 1 << 31, 1 << 64, 10**400, 1.5, math.nan, math.inf, True, False),
    *([], {}, [[]], [{}], [None], [""], [1.5], {"": ""}, {"a": None}, {"a": {"b": []}}, {"metadata": {}, "spec": {}}),
)
VALUES = st.sampled_from(STRANGE) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
Way = tuple[str, ...]


def paths(options: Mapping[str, Mapping[str, Any]], above: Way = ()) -> Iterator[Way]:
    """Every option and suboption, as the way to it."""
    for name, spec in options.items():
        yield (*above, name)
        yield from paths(spec.get("options") or {}, (*above, name))


def inside(value: Any, above: Way = ()) -> Iterator[Way]:
    """Every key in a mapping, and in the first item of a list: what no argument spec knows."""
    if isinstance(value, list):
        value = value[0] if value else None
    for key in value if isinstance(value, dict) else ():
        yield (*above, key)
        yield from inside(value[key], (*above, key))


def changed(options: Any, path: Way, value: Any) -> Any:
    """The options with another value there; what is on the way is made."""
    if isinstance(options, list):
        return [changed(options[0] if options else {}, path, value), *options[1:]]
    made = dict(options) if isinstance(options, Mapping) else {}
    made[path[0]] = changed(made.get(path[0], {}), path[1:], value) if path[1:] else value
    return made


class Clock:
    """Time that passes by sleeping alone."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


NODE = {
    "metadata": {"name": "h1", "uid": "n1", "labels": {"kubernetes.io/hostname": "h1"}},
    "spec": {},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
}
DISK = {**local_disk("h1-a"), "status": {"phase": "Available", "observed": {"health": "Healthy"}}}
#: What else is there.
THERE = (("Namespace", "default"), ("PriorityClass", "system-cluster-critical"), ("ServiceAccount", "berth-agent"))
#: In check mode alone: what these write they read again, which this cluster does not keep; a page may be any file.
CHECKED = ("disk_replace", "host_maintenance", "report", "stateful_app", "task", "task_batch")


class Small:
    """A cluster with one node and one free disk, which takes what is written as it comes, and forgets it."""

    def __init__(self) -> None:
        self.written, self.requests = 0, dict[str, int]()

    def server(self) -> tuple[str, str]:
        return "https://h", ""

    def list(self, kind: Resource, *_which: Any, fields: str | None = None, **_more: Any) -> list[dict[str, Any]]:
        if "claimRef" in (fields or ""):
            return []
        found = {"Node": NODE, "LocalDisk": DISK}.get(kind.kind)
        return [copy.deepcopy(found)] if found else []

    def find(self, kind: Resource, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        if (kind.kind, name) in THERE:
            return {"metadata": {"name": name, "namespace": namespace, "uid": "u", "resourceVersion": "1"}, "spec": {}}
        return next((one for one in self.list(kind) if one["metadata"]["name"] == name), None)

    def get(self, kind: Resource, name: str, namespace: str | None = None) -> dict[str, Any]:
        found = self.find(kind, name, namespace)
        if found is None:
            raise NotFoundError(f"{kind.describe(name, namespace)} is not there", 404, "NotFound")
        return found

    def create(self, _kind: Resource, body: Mapping[str, Any], **_how: Any) -> dict[str, Any]:
        made = copy.deepcopy(dict(body))
        return {"status": {"token": "t"}, **made, "metadata": {"uid": "u", "resourceVersion": "1", **made["metadata"]}}

    apply = replace = create

    def patch(self, _kind: Resource, name: str, _namespace: str | None, body: Mapping[str, Any], **_how: Any) -> Any:
        return {**body, "metadata": {"name": name, "uid": "u", "resourceVersion": "1"}}

    def delete(self, *_which: Any, **_how: Any) -> bool:
        return False


class Kept:
    """PyYAML as the glue uses it, for files that do not change meanwhile: each is read once, each answer is a copy."""

    SafeLoader = yaml.SafeLoader
    _read: ClassVar[dict[str, bytes]] = {}

    @classmethod
    def load(cls, stream: TextIO, Loader: Any) -> Any:  # noqa: N803 PyYAML's name
        if stream.name not in cls._read:
            cls._read[stream.name] = pickle.dumps(yaml.load(stream, Loader))
        return pickle.loads(cls._read[stream.name])


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "time", Clock())
    monkeypatch.setattr(crds, "yaml", Kept)


def asked(name: str, options: dict[str, Any], folder: Path) -> None:
    """Nothing that was given may end in a traceback."""
    if name == "report":
        options = {"dest": str(folder / "page.html"), **options}
    for check in (True,) if name in CHECKED else (True, False):
        result = answer(name, options, Small(), check)
        assert "exception" not in result, f"{options}: {result['exception']}"
        assert "internal error" not in result.get("msg", "")


CASES = [(name, index) for name, good in GOOD.items() for index in range(len(good))]


def test_every_module_is_asked() -> None:
    assert set(GOOD) == set(OPERATIONS)


@pytest.mark.parametrize(("name", "index"), CASES)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_value_of_an_option_ends_in_a_traceback(name: str, index: int, data: st.DataObject, tmp_path: Path) -> None:
    options = GOOD[name][index]
    ways = sorted({*paths(OPERATIONS[name].options), *inside(options)})
    for _change in range(data.draw(st.integers(1, 2))):
        options = changed(options, data.draw(st.sampled_from(ways)), data.draw(VALUES))
    asked(name, options, tmp_path)


AUTH = {"host": "https://127.0.0.1:1", "api_key": "x"}


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(option=st.sampled_from(sorted(AUTH_ARGUMENT_SPEC)), value=VALUES)
def test_no_value_of_an_option_of_access_ends_in_a_traceback(option: str, value: Any) -> None:
    """Nothing is sent: whoever is to be asked, and as whom, is made ready."""
    options = {**AUTH, option: value}
    with contextlib.suppress(BerthError):
        check_shapes(AUTH_ARGUMENT_SPEC, options)
        checked = ArgumentSpecValidator(AUTH_ARGUMENT_SPEC).validate(options)
        if checked.error_messages:
            return
        client = ApiClient(load_auth(checked.validated_parameters, {}), lambda _text: None)
        client._headers({})
