"""TaskBatches: what is read, which elements may start, what is recorded of them; and shards that tell all of it."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth_core.errors import InputError
from berth_core.tasks import indexes, states
from berth_core.tasks.batch import IN_SHARD, Batch, check_new, read_batch
from berth_core.tasks.batch_told import Pace, pace, pace_of, words
from berth_core.tasks.batch_told import told as row_of
from berth_core.tasks.pods import manifest, read_pod
from berth_core.tasks.progress import WINDOW, Progress, Record, Told
from tests.core.tasks.samples import TEMPLATE

DONE = Record(states.SUCCEEDED, "Completed", 1)
BROKEN = Record(states.FAILED, "Error", 1, 1, 3)


def batch(**spec: Any) -> Batch:
    meta = {"name": "hashes", "namespace": "ns", "uid": "u", "resourceVersion": "1"}
    return read_batch({"metadata": meta, "spec": {"template": TEMPLATE, **spec}})


@given(st.sets(st.integers(0, 300)))
def test_indexes_are_told_as_ranges_and_read_back(which: set[int]) -> None:
    text = indexes.to_text(which)
    assert set(indexes.from_text(text, "x", 301)) == which
    assert len(text.split(",")) <= max(1, len(which))


def test_indexes_of_a_range() -> None:
    assert indexes.to_text([19, 0, 1, 2, 2]) == "0-2,19"
    assert indexes.to_text([]) == ""


@pytest.mark.parametrize("text", ["a", "1-", "-1", "2,1", "3-2", "1,1", "0-9", "1,,2", "\u0661"])
def test_a_text_that_is_no_ranges(text: str) -> None:
    with pytest.raises(InputError, match=r"told has .*expected ascending ranges"):
        indexes.from_text(text, "told", 9)


def item(name: str, *needs: str) -> dict[str, Any]:
    return {"name": name, "needs": list(needs)}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, r"either spec\.count or spec\.items"),
        ({"count": 2, "items": [item("a")]}, r"either spec\.count or spec\.items"),
        ({"count": 0}, "has 0 tasks: expected 1 to 100000"),
        ({"count": 100_001}, "has 100001 tasks"),
        ({"count": "7"}, r"spec\.count must be an integer"),
        ({"items": [item("a"), item("a")]}, r"spec\.items\[1\]\.name is 'a', as that of spec\.items\[0\]"),
        ({"items": [item("a", "b")]}, r"spec\.items\[0\]\.needs names 'b'"),
        ({"items": [item("a", "a")]}, "never start: a -> a"),
        ({"items": [item("a", "c"), item("b", "a"), item("c", "b"), item("d")]}, "never start: a -> c -> b -> a"),
        ({"items": [{"env": {"A": 1}}]}, r"spec\.items\[0\]\.env\.A must be a string"),
        ({"items": [{"args": "x"}]}, r"spec\.items\[0\]\.args must be a list of strings"),
        ({"count": 1, "parallelism": 0}, r"spec\.parallelism is 0: expected 1 or more"),
        ({"count": 1, "maxFailures": -1}, r"spec\.maxFailures is -1: expected 0 or more"),
        ({"count": 1, "template": {"spec": {"containers": []}}}, r"spec\.template\.spec\.containers is empty"),
    ],
)
def test_a_batch_that_is_refused(spec: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as refused:
        batch(**spec)
    assert refused.value.message.startswith("TaskBatch ns/hashes")


def test_a_name_that_pods_cannot_be_called_after() -> None:
    check_new("a" * 45, {"template": TEMPLATE, "count": 1})
    with pytest.raises(InputError, match="expected at most 45 characters"):
        check_new("a" * 46, {"template": TEMPLATE, "count": 1})


def test_the_pod_of_an_element_knows_which_it_is() -> None:
    spec = {"containers": [{"name": "main", "image": "x", "args": ["old"], "env": [{"name": "A", "value": "0"}]}]}
    one = {"name": "first", "args": ["new"], "env": {"A": "1"}}
    task = batch(items=[one], template={"spec": spec}).element(0, Progress(batch(count=1)).status(0), False)
    body = manifest(task, 1)
    assert len(body["metadata"]["name"]) <= 63
    assert body["metadata"]["ownerReferences"][0]["kind"] == "TaskBatch"
    (container,) = body["spec"]["containers"]
    assert container["args"] == ["new"]
    assert {one["name"]: one["value"] for one in container["env"]} == {
        "A": "1",
        "BERTH_TASK_NAME": "first",
        "BERTH_TASK_BATCH": "hashes",
        "BERTH_TASK_INDEX": "0",
    }
    pod = read_pod({**body, "status": {"phase": "Running"}})
    assert pod is not None
    assert (pod.task_key, pod.task_uid) == (task.key, task.uid) == (("ns", "hashes[0]"), "u.0")


def test_an_array_opens_as_many_as_may_run_and_the_next_when_one_ends() -> None:
    progress = Progress(batch(count=5, parallelism=2))
    assert progress.open() == [0, 1]
    progress.put(0, DONE)
    assert progress.open() == [2]
    progress.put(1, Record(states.SUBMITTED, "Error", 1, 1, 3))
    assert progress.open() == []
    assert list(progress.opened) == [1, 2], "it is tried again"
    assert progress.status(1).tries == 1


def test_as_many_wait_as_the_window_lets_beside_those_that_have_begun() -> None:
    progress = Progress(batch(count=3 * WINDOW))
    assert progress.open() == list(range(WINDOW))
    for index in range(5):
        progress.begin(index)
        progress.begin(index)
    assert progress.open() == list(range(WINDOW, WINDOW + 5))
    progress.put(0, Record(states.SUBMITTED, "Error", 1, 1, 3))
    progress.put(1, DONE)
    progress.begin(1)
    assert progress.open() == [], "one waits again"
    progress.begin(0)
    assert progress.open() == [], "as many wait as before"
    progress.begin(5)
    assert progress.open() == [WINDOW + 5]


def test_elements_that_an_earlier_process_has_begun_are_open_and_counted() -> None:
    progress = Progress(batch(items=[item(name) for name in "abcd"], parallelism=3))
    for index in (2, 3):
        progress.begin(index)
    assert progress.open() == [0], "never more than may run"
    assert list(progress.opened) == [2, 3, 0]
    progress.put(3, DONE)
    assert progress.open() == [1]


def test_what_needs_others_starts_after_them_and_fails_with_them() -> None:
    items = [item("a"), item("b", "a"), item("c", "a", "b"), item("d"), item("e", "d"), item("f", "e")]
    progress = Progress(batch(items=items))
    assert progress.open() == [0, 3]
    assert progress.put(0, DONE) == {}
    assert progress.open() == [1]
    follows = progress.put(3, BROKEN)
    assert follows == {4: Record(states.FAILED, "NeedFailed")}
    assert progress.put(4, follows[4]) == {5: Record(states.FAILED, "NeedFailed")}
    progress.put(5, Record(states.FAILED, "NeedFailed"))
    progress.put(1, DONE)
    assert progress.open() == [2]
    progress.put(2, DONE)
    assert (progress.ended, progress.state(False)) == (6, states.FAILED)
    assert progress.reasons() == [
        {"reason": "NeedFailed", "count": 2, "example": "e"},
        {"reason": "Error", "exitCode": 3, "count": 1, "example": "d"},
    ]


def test_an_end_is_recorded_once() -> None:
    progress = Progress(batch(count=2))
    progress.put(0, BROKEN)
    progress.put(0, DONE)
    assert progress.counts == {states.SUCCEEDED: 0, states.FAILED: 1, states.KILLED: 0}
    assert progress.status(0).state == states.FAILED


@pytest.mark.parametrize(
    ("records", "state"),
    [
        ([], states.SUBMITTED),
        ([DONE], states.RUNNING),
        ([DONE, DONE], states.SUCCEEDED),
        ([DONE, BROKEN], states.FAILED),
        ([DONE, Record(states.KILLED)], states.KILLED),
        ([BROKEN, Record(states.KILLED)], states.FAILED),
    ],
)
def test_the_state_of_a_batch(records: list[Record], state: str) -> None:
    progress = Progress(batch(count=2))
    for index, record in enumerate(records):
        progress.put(index, record)
    assert progress.state(False) == state


def test_a_batch_stops_after_too_many_failures_or_when_it_is_killed() -> None:
    progress = Progress(batch(count=9, maxFailures=1, parallelism=3))
    progress.open()
    progress.put(0, BROKEN)
    assert progress.stops() == ""
    progress.put(1, BROKEN)
    assert progress.stops() == "TooManyFailures"
    assert progress.open() == [], "nothing is added"
    assert list(progress.opened) == [2], "what runs is looked at until it has ended"
    assert Progress(batch(count=9, kill=True)).stops() == "Killed"


@given(st.integers(0, 1 << 30))
def test_shards_tell_everything_again(seed: int) -> None:
    chance = random.Random(seed)
    whole = batch(count=IN_SHARD + 7)
    progress = Progress(whole)
    some = [Record(states.SUBMITTED, "Error", 2, 1, 4), DONE, BROKEN, Record(states.KILLED, "Killed")]
    for index in chance.sample(range(whole.size), 40):
        if index != IN_SHARD + 1:  # what has ended tells nothing more
            progress.put(index, chance.choice(some))
    told = Told(IN_SHARD + 1, "pod", "node", "message", "")
    progress.put(IN_SHARD + 1, BROKEN, told)
    again = Progress(whole)
    for number in range(whole.shards):
        again.read({"metadata": {"name": f"hashes-{number}"}, **progress.shard(number)})
    assert (again.records, again.counts) == (progress.records, progress.counts)
    assert [list(each) for each in again.told.values()] == [[told]]
    assert again.open() == progress.open()


def test_a_shard_tells_of_what_is_about_to_be_recorded() -> None:
    progress = Progress(batch(count=3))
    progress.put(0, DONE)
    shard = progress.shard(0, {2: DONE}, [Told(1, "p", "", "m", "")])
    assert shard["records"] == [
        {"state": "Succeeded", "reason": "Completed", "tries": 1, "failures": 0, "indexes": "0,2"}
    ]
    assert shard["told"] == [{"element": 1, "pod": "p", "message": "m"}]
    assert 2 not in progress.records


def test_a_shard_that_nobody_of_us_wrote() -> None:
    bad = {"metadata": {"name": "s"}, "records": [{"state": "Succeeded", "indexes": "7"}]}
    with pytest.raises(InputError, match=r"TaskBatchShard s: records\.indexes has '7'"):
        Progress(batch(count=3)).read(bad)


NOW = datetime(2026, 11, 20, 10, 1, 0, tzinfo=UTC)


def live(started: str | None = None, finished: str | None = None, **counts: int) -> dict[str, Any]:
    status = {"startedAt": started, "finishedAt": finished, "counts": counts}
    return {"metadata": {"name": "b", "namespace": "ns"}, "spec": {}, "status": status}


@pytest.mark.parametrize(
    ("status", "expected", "said"),
    [
        (live(), Pace(0, 0, None, 0, 0, None, None), "0 of 0 tasks have ended"),
        (live(left=5), Pace(0, 5, None, 0, 0, None, None), "0 of 5 tasks have ended"),
        (
            live("2026-11-20T10:00:00Z", succeeded=90, failed=30, left=240, running=7),
            Pace(120, 360, 7, 30, 0, 2.0, 120.0),
            "120 of 360 tasks have ended (30 failed), 7 run, 2/s, 120 s left",
        ),
        # What was killed says nothing of the rate.
        (live("2026-11-20T10:00:00Z", succeeded=60, killed=900, left=40), Pace(960, 1000, None, 0, 900, 1.0, 40.0), ""),
        (live("2026-11-20T10:00:00Z", killed=9, left=1), Pace(9, 10, None, 0, 9, None, None), ""),
        # The clock of this machine is behind that of the backend.
        (live("2026-11-20T10:02:00Z", succeeded=1, left=1), Pace(1, 2, None, 0, 0, None, None), ""),
        (
            live("2026-11-20T09:00:00Z", "2026-11-20T09:00:10Z", succeeded=40, left=0, running=0),
            Pace(40, 40, 0, 0, 0, 4.0, None),
            "40 of 40 tasks have ended, 4/s",
        ),
        (live("2026-11-20T09:00:00Z", "2026-11-20T09:00:00Z", succeeded=3), Pace(3, 3, None, 0, 0, 3.0, None), ""),
    ],
)
def test_how_far_and_how_fast_a_batch_is(status: dict[str, Any], expected: Pace, said: str) -> None:
    found = pace_of(status, NOW)
    assert found == expected
    assert said in words(found)
    row = row_of(status, NOW)["progress"]
    assert (row["ended"], row["total"]) == (expected.ended, expected.total)


def test_the_rate_of_who_waits_is_that_of_what_it_has_seen() -> None:
    counts = {"succeeded": 50, "failed": 10, "killed": 0, "left": 100}
    assert pace(counts, 40, 10.0) == Pace(60, 160, None, 10, 0, 2.0, 50.0)
    assert pace(counts, 60, 10.0).per_second is None
    assert pace(counts, 40, 0.0).per_second is None
