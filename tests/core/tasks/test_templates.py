"""Templates that nobody would write: each is read, or refused by name, and one that is read makes a manifest."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from berth_core.errors import InputError
from berth_core.tasks.pods import manifest, read_pod
from berth_core.tasks.task import read_task

GOOD: dict[str, Any] = {
    "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
    "spec": {
        "containers": [{"name": "m", "image": "x", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}],
        "initContainers": [{"name": "i", "image": "x", "resources": {"requests": {"memory": "1Mi"}}}],
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        "overhead": {"cpu": "1"},
        "topologySpreadConstraints": [],
        "priority": 1,
    },
}
JUNK = st.sampled_from([None, True, 0, -1, 1.5, "", "x", "-1", [], [None], [1], {}, {"a": None}, {"cpu": "x"}])


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of everything in it, itself among it."""
    found = [at]
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        found += places(part, (*at, key))
    return found


def changed(path: tuple[Any, ...], junk: Any) -> Any:
    if not path:
        return junk
    made = deepcopy(GOOD)
    at: Any = made
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = junk
    return made


@settings(max_examples=400)
@given(st.sampled_from(places(GOOD)), JUNK)
@example(("metadata",), "x")
@example(("metadata", "labels"), [1])
@example(("metadata", "annotations"), "x")
def test_a_strange_template_is_read_or_refused(path: tuple[Any, ...], junk: Any) -> None:
    meta = {"name": "job", "namespace": "ns", "uid": "u", "resourceVersion": "1"}
    try:
        found = read_task({"metadata": meta, "spec": {"template": changed(path, junk)}})
    except InputError as exc:
        refused: str | None = exc.message
    else:
        refused = None
    if refused is not None:
        assert "Task ns/job: spec.template" in refused
        return
    body = json.loads(json.dumps(manifest(found, 1)))
    assert body["metadata"]["labels"]["berth.dev/task-uid"] == "u"
    made = read_pod(body)
    assert made is not None
    assert made.requests == found.requests
