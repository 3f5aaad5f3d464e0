"""What a StatefulApp says of itself: counts, revisions, and conditions that change when something changed."""

from __future__ import annotations

from berth_cli import tables
from berth_core.app.observed import Observed
from berth_core.app.plan import OWN
from berth_core.app.stateful_app_status import (
    BY_PLAYBOOK,
    READY,
    RUNNING,
    STALLED,
    Outcome,
    condition,
    row_of,
    status_of,
    unchanged,
    with_rollback,
)
from berth_core.app.wanted import parse_app
from tests.core.app.samples import changed
from tests.core.app.test_revisions import revision, template

NOW, THEN = "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"
APP = parse_app(changed())
BUSY = Outcome("WaitsForPods", "pod db-2 is Pending")


def body(**status):
    return {"metadata": {"name": "db", "namespace": "default", "generation": 4}, "spec": {}, "status": status}


def pod(ordinal, revision, ready=True, mark="controller-revision-hash"):
    part = "labels" if mark.startswith("controller") else "annotations"
    return {
        "metadata": {"name": f"db-{ordinal}", part: {mark: revision}},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def seen(*pods, revision="db-new"):
    live = {"metadata": {"name": "db"}, "spec": {"replicas": 3}, "status": {"updateRevision": revision}}
    return Observed("db", "default", pods={one["metadata"]["name"]: one for one in pods}, stateful_set=live)


def told(status, kind):
    return next(one for one in status["conditions"] if one["type"] == kind)


def test_counts_tell_an_update_in_the_middle() -> None:
    found = seen(pod(0, "db-old"), pod(1, "db-old"), pod(2, "db-new", ready=False))
    status = status_of(body(), BUSY, NOW, APP, found)
    assert {key: value for key, value in status.items() if key != "conditions"} == {
        "observedGeneration": 4,
        "selector": "berth.dev/app=db",
        "replicas": 3,
        "readyReplicas": 2,
        "updatedReplicas": 1,
        "currentRevision": "db-old",
        "updateRevision": "db-new",
    }
    assert [(one["type"], one["status"]) for one in status["conditions"]] == [
        ("Ready", "False"),
        ("Progressing", "True"),
        ("Stalled", "False"),
    ]
    done = status_of(body(**status), RUNNING, NOW, APP, seen(*(pod(ordinal, "db-new") for ordinal in range(3))))
    assert (done["currentRevision"], done["updatedReplicas"], told(done, READY)["status"]) == ("db-new", 3, "True")


def test_bare_pods_have_the_revision_of_the_app() -> None:
    app = parse_app(changed(workload="Pod"))
    found = seen(pod(0, app.revision, mark=OWN.key), pod(1, "older", mark=OWN.key))
    status = status_of(body(), BUSY, NOW, app, found)
    assert (status["updatedReplicas"], status["updateRevision"], status["currentRevision"]) == (
        1,
        app.revision,
        "older",
    )


def test_what_could_not_be_looked_at_stays_as_it_was_told() -> None:
    before = status_of(body(), RUNNING, THEN, APP, seen(*(pod(ordinal, "db-new") for ordinal in range(3))))
    refused = status_of(body(**before), Outcome("Refused", "disks is empty", stalled=True), NOW, None, None)
    assert (refused["readyReplicas"], refused["updateRevision"]) == (3, "db-new")
    assert (told(refused, STALLED)["status"], told(refused, STALLED)["lastTransitionTime"]) == ("True", NOW)
    assert told(refused, "Progressing")["lastTransitionTime"] == THEN, "it was False, and is"


def test_the_time_of_a_condition_is_that_of_its_change_and_not_the_default_of_the_schema() -> None:
    default = {
        "type": READY,
        "status": "Unknown",
        "reason": "WaitsForDriver",
        "lastTransitionTime": "1970-01-01T00:00:00Z",
    }
    first = status_of(body(conditions=[default]), BY_PLAYBOOK, THEN, None, None)
    assert told(first, READY)["lastTransitionTime"] == THEN
    assert told(status_of(body(**first), BY_PLAYBOOK, NOW, None, None), READY)["lastTransitionTime"] == THEN


def test_what_is_said_already_is_not_written_again() -> None:
    status = status_of(body(), BUSY, THEN, APP, seen(pod(0, "db-new")))
    live = body(**status)
    assert unchanged(live, status_of(live, BUSY, NOW, APP, seen(pod(0, "db-new"))))
    assert not unchanged(live, status_of(live, RUNNING, NOW, APP, seen(pod(0, "db-new"))))
    assert not unchanged(live, status_of(live, BUSY, NOW, APP, seen(pod(0, "db-new", ready=False))))
    assert condition(live, READY)["reason"] == "WaitsForPods"
    assert condition(body(), READY) == {}


def test_the_revisions_are_those_of_its_stateful_set() -> None:
    kept = [revision(1, template("db:1")), revision(2, template("db:2"))]
    status = status_of(body(), RUNNING, NOW, APP, seen(pod(0, "db-new")), kept)
    assert [(one["number"], one["images"]) for one in status["revisions"]] == [(1, {"db": "db:1"}), (2, {"db": "db:2"})]
    told_before = body(**status)
    unread = status_of(told_before, RUNNING, NOW, APP, seen(pod(0, "db-new")), None)
    assert unread["revisions"] == status["revisions"], "they could not be read"
    assert row_of({**told_before, "spec": {}})["revisions"] == status["revisions"]
    gone = status_of(told_before, RUNNING, NOW, APP, seen(pod(0, "db-new")), [])
    assert gone["revisions"] == []
    assert not unchanged(told_before, gone)


def test_kubectl_berth_shows_the_revisions_of_a_single_app() -> None:
    live = {**body(), "spec": {"driver": "controller", "replicas": 1}}
    kept = [revision(1, template("db:1")), revision(2, template("db:2"))]
    live["status"] = status_of(live, RUNNING, NOW, APP, seen(pod(0, "db-db2"), revision="db-db2"), kept)
    row = row_of(live)
    shown = [line.split() for line in tables.apps({"apps": [row]}).splitlines()]
    assert shown[-3] == ["NUMBER", "REVISION", "AGE", "NOW", "IMAGES"]
    assert (shown[-2][:2], shown[-2][3:]) == (["1", "db-db1"], ["-", "db=db:1"])
    assert (shown[-1][:2], shown[-1][3:]) == (["2", "db-db2"], ["asked", "for", "db=db:2"])
    assert "NUMBER" not in tables.apps({"apps": [row, row]})
    assert "NUMBER" not in tables.apps({"apps": [{**row, "revisions": []}]})


def test_an_app_that_has_gone_back_says_that_its_template_is_not_looked_at() -> None:
    assert with_rollback(RUNNING, None) == RUNNING
    assert with_rollback(BUSY, "db-old") == BUSY
    back = with_rollback(RUNNING, "db-old")
    assert (back.reason, back.done) == (RUNNING.reason, True)
    assert "the template of rollbackTo db-old, and that in template is not looked at" in back.message


def test_a_message_fits_into_its_condition() -> None:
    status = status_of(body(), Outcome("Blocked", "x" * 5000, stalled=True), NOW, None, None)
    assert len(told(status, STALLED)["message"]) == 1024


def test_a_row_says_who_carries_it_out_and_what_it_waits_for():
    told = body()
    told["spec"] = {"driver": "controller", "replicas": 3}
    told["status"] = status_of(told, BUSY, NOW, APP, seen(pod(0, "db-new"), pod(1, "db-old")))
    row = row_of(told)
    assert (row["namespace"], row["name"], row["driver"]) == ("default", "db", "controller")
    assert (row["replicas"], row["ready"], row["updated"], row["revision"]) == (3, 2, 1, "db-new")
    assert (row["ready_condition"], row["state"], row["stalled"]) == ("False", "WaitsForPods", False)
    assert row["message"] == "pod db-2 is Pending"


def test_a_row_of_a_spec_that_nobody_has_looked_at_is_outdated():
    told = body()
    told["status"] = status_of(told, RUNNING, NOW, APP, seen())
    told["metadata"]["generation"] = 5
    assert row_of(told)["state"] == "Outdated"
    fresh = row_of(body())
    assert (fresh["state"], fresh["ready_condition"], fresh["ready"], fresh["updated"]) == (
        "Unknown",
        "Unknown",
        0,
        None,
    )


def test_a_stalled_app_is_told_as_such():
    told = body()
    told["status"] = status_of(told, Outcome("Blocked", "replica db-1", stalled=True), NOW, None, None)
    assert row_of(told)["stalled"] is True
