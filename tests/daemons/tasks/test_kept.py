"""What is kept of Tasks: they read as before, equal ones share, and none has the template of another."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from berth_core.errors import InputError
from berth_core.tasks.pods import manifest
from berth_core.tasks.task import Task, read_task
from berth_kube.store import key_of
from berth_tasks import templates
from berth_tasks.kept import Kept, task_of
from berth_tasks.templates import Template, Templates

CONTAINER = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m"}}}
TEMPLATE = {"metadata": {"labels": {"app": "job"}}, "spec": {"containers": [CONTAINER]}}


def obj(number: int, template: Any = None, **status: Any) -> dict[str, Any]:
    """As it comes from the API server: nothing of it is shared."""
    meta = {"name": f"t{number}", "namespace": "ns", "uid": f"u{number}", "resourceVersion": str(number)}
    spec = {"queue": "nightly", "retries": 1, "template": TEMPLATE if template is None else template}
    found: dict[str, Any] = json.loads(json.dumps({"metadata": meta, "spec": spec, "status": status}))
    return found


def packed(keep: Kept, item: dict[str, Any], before: Any = None) -> Task:
    found = task_of(keep.pack(key_of(item), item, before))
    assert found is not None
    return found


def sharded(number: int) -> dict[str, Any]:
    """A template of which others differ in an argument."""
    return {"spec": {"containers": [{**CONTAINER, "args": [f"--shard={number}", "--stage=night", "--verbose"]}]}}


def test_a_task_reads_as_its_object_and_makes_the_same_pod() -> None:
    keep = Kept()
    for number in range(40):
        waits = {"state": "Submitted", "tries": 1, "failures": 1, "reason": "Error", "message": "exit code 3"}
        item = obj(number, sharded(number // 2), **waits)
        read, kept = read_task(copy.deepcopy(item)), packed(keep, item)
        assert kept == read
        assert manifest(kept, 2) == manifest(read, 2)
        assert json.loads(json.dumps(manifest(kept, 2))) == manifest(read, 2), "it can be sent"


def test_equal_parts_are_one_object() -> None:
    keep = Kept()
    one, other = (packed(keep, obj(number, state="Submitted", tries=1)) for number in range(2))
    for field in ("template", "content", "requests", "status", "asked"):
        assert getattr(one, field) is getattr(other, field), field
    assert one.key[0] is other.key[0]
    newer = packed(keep, obj(0, state="Running", tries=1), one)
    assert (newer.key is one.key, newer.uid is one.uid) == (True, True)
    anew = packed(keep, {**obj(0), "metadata": {**obj(0)["metadata"], "uid": "another"}}, one)
    assert anew.uid == "another"


def test_of_what_has_ended_the_template_and_words_are_not_kept() -> None:
    ended = {"state": "Failed", "tries": 2, "failures": 2, "reason": "Error", "message": "exit code 3"}
    ended |= {"finishedAt": "2026-01-01T00:00:00Z", "log": "x" * 4000, "terminationMessage": "y" * 4000}
    item = obj(1, **ended)
    read, kept = read_task(item), packed(Kept(), item)
    assert kept == replace(
        read, template={}, content="", requests=(), status=replace(read.status, message="", finished="")
    )
    item["spec"]["gang"] = {"name": "g", "minCount": 2}
    assert packed(Kept(), item).status.finished == "2026-01-01T00:00:00Z", "its gang asks for it"


def test_what_cannot_be_read_is_kept_as_it_is_and_says_why() -> None:
    item = obj(1, {"spec": {"containers": []}}, state="Submitted")
    kept = Kept().pack(key_of(item), item, None)
    assert Kept().unpack(kept) == item
    with pytest.raises(InputError, match=r"Task ns/t1: spec\.template\.spec\.containers is empty"):
        task_of(kept)
    assert task_of(None) is None


def test_readers_of_the_cache_have_its_metadata() -> None:
    keep, item = Kept(), obj(7)
    item["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    assert keep.unpack(packed(keep, item)) == {"metadata": item["metadata"]}


def pack(known: Templates, template: dict[str, Any], content: str = "") -> Template:
    found = known.pack(content or json.dumps(template), json.loads(json.dumps(template)))
    assert json.loads(json.dumps(found.read())) == template
    return found


def test_what_only_looks_alike_is_kept_apart() -> None:
    known = Templates()
    number, truth = ({"spec": {"x": value}} for value in (1, True))
    assert pack(known, number)["spec"]["x"] is not pack(known, truth)["spec"]["x"]
    for image in ("one", "two", "one"):
        assert pack(known, {"image": image}, "the same digest") == {"image": image}


def test_templates_that_were_not_seen_for_long_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "MOST_TEMPLATES", 2)
    known = Templates()
    first, second = pack(known, {"a": 1}), pack(known, {"a": 2})
    assert pack(known, {"a": 1}) is first
    pack(known, {"a": 3})
    assert pack(known, {"a": 1}) is first
    assert pack(known, {"a": 2}) is not second


def test_a_template_is_read_whatever_the_one_was_that_it_is_packed_by() -> None:
    """Of kinds that take turns, of kinds that replace each other, of what no other is like, and of very large ones."""
    known, many = Templates(), []
    for number in range(200):
        kinds = [sharded(number), {"spec": {"init": [str(each * number) for each in range(300)]}}, {"n": number}]
        many += [(pack(known, kind), kind) for kind in (kinds if number < 100 else kinds[1:])]
    for found, kind in many:
        assert found == kind
        assert dict(found) == kind
        assert len(found) == 1
