"""The history of a berth: what is noted with which write, its bounds, and readers that trust nothing."""

from __future__ import annotations

import json

import pytest

from berth_core.app import berth_history
from berth_core.lifecycle.history import (
    ANNOTATION,
    LENGTHS,
    MOST,
    WHO,
    Actor,
    append,
    carried,
    cut,
    dropped,
    merged,
    noted,
    of_berth,
    of_disk,
    read_list,
)
from berth_core.lifecycle.step import CREATE, PATCH, REMOVE, REPLACE, STATUS, Write
from berth_core.model.resources import BERTH, LOCAL_DISK

OPS = Actor("stateful_app", "ops", "site.yml", "The database", "control", "c" * 40)
T = "2026-01-01T00:00:{:02d}.000000Z"


def berth(phase="", annotations=None, **spec):
    metadata = {"name": "db-0", "namespace": "n", "uid": "u", "annotations": annotations or {}}
    return {
        "metadata": metadata,
        "spec": {"app": "db", "ordinal": 0, "nodeName": "h1", **spec},
        **({"status": {"phase": phase}} if phase else {}),
    }


def local_disk(entries, **spec):
    return {"metadata": {"name": "d", "annotations": {ANNOTATION: json.dumps(entries)}}, "spec": spec}


def entry(second, to="Bound", **fields):
    return {"time": T.format(second), "to": to, "by": {"component": "x"}, **fields}


def test_a_berth_that_is_made_tells_who_chose_it():
    write = Write(CREATE, BERTH, berth(), "node h1 is chosen")
    told = of_berth(noted(write, None, OPS, T.format(1)).body)
    who = OPS._asdict()
    assert told == [
        {"time": T.format(1), "from": "Absent", "to": "Selected", "why": "node h1 is chosen", "by": who},
    ]
    assert ANNOTATION not in write.body["metadata"]["annotations"], "what next_step said is as it was"


def test_a_phase_is_noted_in_the_status_that_tells_it():
    before = berth("Selected")
    write = Write(STATUS, BERTH, berth("Reserved"), "phase Reserved")
    after = noted(write, before, Actor("berth-controller"), T.format(2)).body
    assert after["status"]["history"] == [
        {"time": T.format(2), "from": "Selected", "to": "Reserved", "by": {"component": "berth-controller"}}
    ]
    giving_up = {**after, "status": {**after["status"], "phase": "Releasing", "release": "Retain"}}
    told = of_berth(noted(Write(STATUS, BERTH, giving_up, "it goes"), after, OPS, T.format(3)).body)
    assert [(one["from"], one["to"], one.get("why")) for one in told] == [
        ("Selected", "Reserved", None),
        ("Reserved", "Releasing", "it goes; data: Retain"),
    ]


def test_an_exchange_names_both_disks():
    told = {"claim": "data", "from": "d0", "to": "d1"}
    body = {**berth("Replacing"), "status": {"phase": "Replacing", "replacing": told}}
    (one,) = of_berth(noted(Write(STATUS, BERTH, body, "phase Replacing"), berth("Running"), OPS, T.format(1)).body)
    assert one["why"] == "LocalDisk d0 is exchanged for d1 (claim data)"
    before, after = (berth("Replacing", disks=[{"claim": "data", "name": name}]) for name in ("d0", "d1"))
    (one,) = of_berth(noted(Write(REPLACE, BERTH, after, "d1 takes its place"), before, OPS, T.format(1)).body)
    assert (one["from"], one["to"], one["why"]) == ("d0", "d1", "d1 takes its place")


def test_a_new_template_is_noted_by_its_revision():
    write = Write(REPLACE, BERTH, berth("Running", revision="b"), "the template has changed")
    (one,) = of_berth(noted(write, berth("Running", revision="a"), OPS, T.format(1)).body)
    assert (one["from"], one["to"]) == ("revision a", "revision b")


@pytest.mark.parametrize(
    "write",
    [
        Write(REMOVE, BERTH, berth("Releasing"), "it goes"),
        Write(PATCH, BERTH, berth("Running"), "x"),
        Write(REPLACE, BERTH, berth("Running"), "its finalizer goes"),
        Write(STATUS, BERTH, berth("Running"), "phase Running"),
        Write(STATUS, LOCAL_DISK, {"metadata": {"name": "d"}, "spec": {}, "status": {"phase": "Bound"}}, "x"),
    ],
)
def test_what_changes_no_berth_is_written_as_it_was(write):
    assert noted(write, berth("Running"), OPS, T.format(1)) is write


def test_a_history_is_bounded_and_counts_what_is_the_same_again():
    told = []
    for number in range(3 * MOST):
        told = append(told, entry(1, f"revision {number}"))
    assert [one["to"] for one in told] == [f"revision {number}" for number in range(2 * MOST, 3 * MOST)]
    again = append(append(told, entry(2, "same")), entry(3, "same"))
    assert again[-1] == entry(3, "same", count=2)
    assert len(again) == MOST
    assert append(again, entry(4, "same"))[-1]["count"] == 3
    assert "count" not in append(again, {**entry(4, "same"), "by": {"component": "y"}})[-1]


def test_each_field_is_bounded_and_on_one_line():
    long = "a\x1b[31m\n\u202e" * 5000
    actor = Actor(*[long] * len(WHO))
    write = Write(CREATE, BERTH, berth(), long)
    (one,) = of_berth(noted(write, None, actor, T.format(1)).body)
    assert set(one["by"]) == set(WHO)
    for fields, limits in ((one, LENGTHS), (one["by"], WHO)):
        assert all(len(fields[key]) <= most and fields[key].isprintable() for key, most in limits.items())
    assert cut("ab\tc", 3) == "ab…"
    assert cut({"a": 1}, 3) == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[",
        "[" * 100_000,
        "null",
        "[1, null, []]",
        '[{"to": "x"}]',
        '[{"time": 5, "by": "me"}]',
        "[" + " " * 300_000,
    ],
    ids=range(9),
)
def test_what_is_no_history_is_none(text):
    assert of_berth(berth("Running", {ANNOTATION: text})) == []
    assert of_berth({**berth(), "status": {"history": text}}) == []
    assert read_list({"a": 1}) == []


def test_more_than_an_entry_has_is_not_read():
    told = read_list([{**entry(1), "password": "p", "by": {"component": "x", "token": "t"}, "count": True}])
    assert told == [entry(1)]
    assert len(read_list([entry(number % 60, str(number)) for number in range(100)])) == MOST


def test_the_disk_that_keeps_the_data_takes_the_history_over():
    record = {**berth("Releasing"), "status": {"phase": "Releasing", "history": [entry(2), entry(3, "Releasing")]}}
    disk = local_disk([entry(1, "Selected"), entry(2)], retainedFor={"namespace": "n", "app": "db", "ordinal": 0})
    after = carried(disk, record)
    assert [one["to"] for one in of_disk(after)] == ["Selected", "Bound", "Releasing"], "the same is told once"
    nobodys = local_disk([])
    assert carried(nobodys, record) is nobodys, "nothing was written to it: no trace"
    many = {**berth(), "status": {"history": [entry(number, str(number)) for number in range(MOST)]}}
    assert len(of_disk(carried(after, many))) == MOST


def test_a_disk_of_nobody_tells_nothing_and_forgets_it_when_it_is_locked():
    disk = local_disk([entry(1)])
    assert of_disk(disk) == []
    dropped(disk)
    assert disk["metadata"]["annotations"] == {}
    bare = {"metadata": {"name": "d"}, "spec": {}}
    dropped(bare)
    assert bare == {"metadata": {"name": "d"}, "spec": {}}


def test_rows_are_by_replica_and_time_with_or_without_a_berth():
    kept = {"namespace": "n", "app": "db", "ordinal": 1}
    disks = [
        local_disk([entry(5, "Releasing")], retainedFor=kept),
        local_disk([entry(1)], claimRef={**kept, "ordinal": 0}),
    ]
    record = {**berth("Bound"), "status": {"phase": "Bound", "history": [entry(2, "Bound", count=3)]}}
    rows = berth_history.rows([record], disks)
    assert [(row["ordinal"], row["to"], row["count"], row["by"]["user"]) for row in rows] == [
        (0, "Bound", 1, ""),
        (0, "Bound", 3, ""),
        (1, "Releasing", 1, ""),
    ]
    assert [row["to"] for row in berth_history.latest(rows, 1)] == ["Releasing"]
    assert berth_history.latest(rows, 0) == []
    assert len(berth_history.latest(rows, 9)) == len(rows) == 3
    nobody = {"metadata": {"name": "b"}, "spec": {"app": ["db"], "ordinal": "0"}, "status": {"history": [entry(1)]}}
    assert berth_history.rows([nobody], [local_disk([entry(1)])]) == []


def test_words_for_people():
    by = dict.fromkeys(WHO, "")
    row = {"namespace": "n", "app": "db", "ordinal": 0, "time": T.format(1), "from": "Bound", "to": "Created"}
    row = {**row, "why": "", "count": 2, "by": {**by, **OPS._asdict()}}
    assert berth_history.cells(row) == (
        "2026-01-01T00:00:01Z",
        "n/db-0",
        "Bound -> Created (2 times)",
        "stateful_app (as ops, in site.yml, task The database, on control, at cccccccccccc)",
        "",
    )
    assert berth_history.news({**entry(1), "from": "Created", "to": "Running", "why": "it is Ready"}) == (
        "Running",
        "Created -> Running, by x: it is Ready",
    )
    assert berth_history.news({"time": T.format(1), "to": "revision b", "by": {}}) == ("Changed", "revision b, by ")
    assert berth_history.who({**by, "component": "berth-controller"}) == "berth-controller"
    assert merged([[entry(3)], [entry(1), entry(3)]]) == [entry(1), entry(3)]
