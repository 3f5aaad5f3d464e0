"""When a bare pod that has ended is made anew: from its status and its Berth alone, whoever asks."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from berth_core.app import ended_pods, node_loss
from berth_core.app.manifests import refreshed
from berth_core.app.plan import make_plan
from berth_core.app.restart_backoff import (
    ANEW,
    ANNOTATION,
    Backoff,
    count_of,
    counted,
    held,
    is_counted,
    seconds_after,
)
from berth_core.app.wanted import REVISION_ANNOTATION
from berth_core.lifecycle import states
from berth_core.lifecycle.history import Actor, of_berth
from tests.core.app.test_plan import app, observed

BEGAN = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
ACTOR = Actor("stateful_app")
REFUSED = {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"}


def stamp(moment):
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def ended_pod(uid, began=BEGAN, ran=0.0, **status):
    """A pod that was refused, or whose container has ended after so many seconds."""
    told = {**(status or REFUSED), "startTime": stamp(began)}
    if ran:
        over = {"terminated": {"exitCode": 1, "finishedAt": stamp(began + timedelta(seconds=ran))}}
        told["containerStatuses"] = [{"name": "main", "state": over}]
    return {"metadata": {"name": "db-1", "uid": uid, "creationTimestamp": stamp(began)}, "status": told}


def berth(text=None):
    annotations = {} if text is None else {ANNOTATION: text}
    return {"metadata": {"name": "db-1", "uid": "b", "annotations": annotations}, "spec": {"app": "db", "ordinal": 1}}


def after(seconds, began=BEGAN):
    return began + timedelta(seconds=seconds)


def test_the_seconds_are_those_of_the_kubelet():
    assert [seconds_after(count) for count in range(1, 9)] == [0, 10, 20, 40, 80, 160, 300, 300]
    assert seconds_after(2**31 - 1) == 300


def test_a_pod_that_is_refused_again_and_again_waits_longer_each_time():
    record, began, waits = berth(), BEGAN, []
    for number in range(1, 9):
        pod = ended_pod(f"uid-{number}", began)
        waiting = held(pod, record, began)
        waits.append(waiting.seconds if waiting else 0)
        assert count_of(pod, record) == number
        if waiting:
            due = after(waiting.seconds, began)
            assert waiting == Backoff(
                "Failed (OutOfcpu: Node didn't have enough resource: cpu)", number, waits[-1], stamp(due)
            )
            before = held(pod, record, due - timedelta(seconds=0.5))
            assert before is not None
            assert (before.seconds, before.until) == (0.5, waiting.until), "the time is the pod's, not the asking run's"
            assert held(pod, record, due) is None
            began = due
        record = counted(pod, record, ACTOR, stamp(began))
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300]


def test_an_end_is_counted_once_whoever_dies_in_between():
    pod, first = ended_pod("uid-1"), berth('{"count":3,"uid":"uid-0"}')
    assert (is_counted(pod, first), count_of(pod, first)) == (False, 4)
    written = counted(pod, first, ACTOR, stamp(BEGAN))
    assert (is_counted(pod, written), count_of(pod, written)) == (True, 4)
    assert held(pod, written, BEGAN) is None, "its time was over when it was counted"
    assert json.loads(written["metadata"]["annotations"][ANNOTATION]) == {"count": 4, "uid": "uid-1"}
    (entry,) = of_berth(written)
    assert (entry["to"], entry["why"], entry["by"]) == (ANEW, held_words(), {"component": "stateful_app"})
    assert refreshed(app(), 1, written)["metadata"] == written["metadata"], "a new template leaves the number as it is"


def held_words():
    return "Failed (OutOfcpu: Node didn't have enough resource: cpu)"


@pytest.mark.parametrize(("ran", "count"), [(0, 6), (1, 6), (599, 6), (600, 1), (86400, 1)])
def test_a_pod_that_ran_for_ten_minutes_begins_anew(ran, count):
    pod, record = ended_pod("uid-9", ran=ran), berth('{"count":5,"uid":"uid-8"}')
    assert count_of(pod, record) == count
    assert (held(pod, record, after(ran)) is None) == (count == 1)


@pytest.mark.parametrize("condition", ["Ready", "ContainersReady", "DisruptionTarget"])
def test_the_end_is_the_latest_that_the_status_tells(condition):
    pod, record = ended_pod("uid-9", ran=30), berth('{"count":1,"uid":"uid-8"}')
    late = {"type": condition, "status": "False", "lastTransitionTime": stamp(after(33))}
    pod["status"]["conditions"] = [late, {"type": "PodScheduled", "lastTransitionTime": stamp(after(9000))}]
    assert held(pod, record, after(33)).until == stamp(after(43))


def test_a_pod_whose_status_has_no_time_goes_by_its_creation_and_one_without_any_is_made_anew_at_once():
    record = berth('{"count":2,"uid":"uid-8"}')
    bare = {"metadata": {"name": "db-1", "uid": "x", "creationTimestamp": stamp(BEGAN)}, "status": {"phase": "Failed"}}
    assert held(bare, record, after(5)).seconds == 15
    del bare["metadata"]["creationTimestamp"]
    assert held(bare, record, after(5)) is None


def test_a_clock_that_is_behind_makes_no_wait_longer_than_its_whole():
    pod, record = ended_pod("uid-9"), berth('{"count":2,"uid":"uid-8"}')
    assert held(pod, record, after(-3600)).seconds == 20


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no",
        "[]",
        "7",
        "{}",
        '{"count":0,"uid":"a"}',
        '{"count":true,"uid":"a"}',
        '{"count":-4,"uid":"a"}',
        '{"count":1e3,"uid":"a"}',
        '{"count":9999999999,"uid":"a"}',
        '{"count":3,"uid":""}',
        '{"count":3,"uid":[]}',
        "[" * 900,
        '{"count":3,"uid":"' + "a" * 2000 + '"}',
    ],
)
def test_what_berth_does_not_write_is_not_believed(text):
    pod = ended_pod("a")
    assert (count_of(pod, berth(text)), is_counted(pod, berth(text))) == (1, False)
    assert held(pod, berth(text), BEGAN) is None


# -- plans


def _seen(counts):
    """An app whose pods have all ended, after so many others of their berths."""
    wanted = app(workload="Pod")
    seen = observed(wanted, states.RUNNING)
    berths, pods = dict(seen.berths), {}
    for ordinal, count in enumerate(counts):
        meta = {**berths[ordinal]["metadata"], "annotations": {ANNOTATION: json.dumps({"count": count, "uid": "u"})}}
        berths[ordinal] = {**berths[ordinal], "metadata": meta}
        pod = ended_pod(f"uid-{ordinal}")
        pod["metadata"].update(name=f"db-{ordinal}", annotations={REVISION_ANNOTATION: wanted.revision})
        pods[f"db-{ordinal}"] = pod
    seen = replace(seen, berths=berths, pods=pods)
    return wanted, seen, make_plan(wanted, seen)


def test_a_run_that_does_not_wait_leaves_those_alone_whose_time_has_not_come():
    wanted, seen, whole = _seen((0, 1, 2))
    plan = ended_pods.into(whole, seen, BEGAN)
    assert (whole.restart, plan.restart) == ((0, 1, 2), (0,))
    assert {ordinal: one.seconds for ordinal, one in ended_pods.left(plan).items()} == {1: 10, 2: 20}
    assert ended_pods.rows(wanted, plan.backoff)[0] == {
        "pod": "db-1",
        "ended": held_words(),
        "count": 2,
        "until": "2026-03-01T12:00:10Z",
    }
    assert "db-2 has ended 3 times in a row" in ended_pods.told(wanted, plan.backoff)[1]
    assert "waiting until 2026-03-01T12:00:20Z" in ended_pods.told(wanted, plan.backoff)[1]


def test_where_nothing_else_is_to_be_done_nothing_is():
    _wanted, seen, whole = _seen((1, 1, 1))
    assert ended_pods.into(whole, seen, BEGAN).empty
    assert ended_pods.into(whole, seen, after(10)).restart == (0, 1, 2)


def test_a_run_that_waits_takes_those_whose_time_comes_by_then_the_shortest_wait_first():
    wanted, seen, whole = _seen((2, 9, 1))
    plan = ended_pods.into(whole, seen, BEGAN, patience=20)
    assert (plan.restart, ended_pods.in_order(plan)) == ((0, 2), [2, 0])
    assert list(ended_pods.left(plan)) == [1]
    error = ended_pods.too_late(wanted, plan, 20)
    assert "pod db-1 has ended 10 times" in error.message
    assert "longer than wait_timeout (20 s)" in error.message
    assert error.details["changed"] is True
    idle = replace(ended_pods.into(whole, seen, BEGAN), restart=())
    assert ended_pods.too_late(wanted, idle, 1).details["changed"] is False


def test_who_gets_another_berth_waits_for_nothing():
    _wanted, seen, whole = _seen((1, 1, 1))
    plan = node_loss.with_losses(ended_pods.into(whole, seen, BEGAN), {1})
    assert (list(plan.backoff), plan.select) == ([0, 2], (1,))
