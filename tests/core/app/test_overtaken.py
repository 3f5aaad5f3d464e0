"""Whether a run is overtaken: by what one object says, and by whom that was written."""

from __future__ import annotations

import copy

import pytest

from berth_core.app import manifests
from berth_core.app.overtaken import (
    berths_taken,
    changed_by_hand,
    error,
    handed_over,
    set_changed,
    set_changed_meanwhile,
    set_moved,
    set_taken,
    writer,
)
from berth_core.app.wanted import parse_app
from tests.core.app.samples import GOOD, changed


def app(image="db:1", **values):
    wanted = copy.deepcopy(changed(**values))
    wanted["template"]["spec"]["containers"][0]["image"] = image
    return parse_app(wanted)


def written(wanted, **values):
    """Its StatefulSet, as somebody has left it."""
    live = copy.deepcopy(manifests.stateful_set(wanted))
    live["metadata"]["managedFields"] = [
        {"manager": "berth", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {"f:template": {}}}},
        {"manager": "kube-controller-manager", "time": "2026-01-03T00:00:00Z", "subresource": "status"},
        {"manager": "kubectl-scale", "time": "2026-01-02T00:00:00Z", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
    ]
    live["spec"].update(values)
    return live


def berth(revision, ordinal=0, owner="db"):
    meta = {"name": f"{owner}-{ordinal}", "managedFields": [{"manager": "berth", "time": "T"}]}
    return {"metadata": meta, "spec": {"app": owner, "ordinal": ordinal, "revision": revision}}


def template_of(wanted):
    return copy.deepcopy(dict(wanted.template))


def test_its_own_statefulset_overtakes_nobody_whatever_else_changes_in_it():
    mine = app()
    for live in (written(mine), written(mine, replicas=7)):
        assert set_taken(mine, live) == ""
        assert set_changed(mine, written(mine), live) == "", "somebody scales"


def test_another_revision_is_told_with_who_wrote_it():
    mine, other = app(), app("db:2")
    why = set_taken(mine, written(other))
    assert f"StatefulSet default/db was given revision {other.set_revision} by kubectl-scale at 2026-01-02" in why
    assert "was deleted" in set_taken(mine, None)


def test_another_template_of_the_same_revision_is_a_hands():
    mine = app()
    by_hand = written(mine, template=template_of(app("db:2")))
    assert set_taken(mine, by_hand) == ""
    assert set_changed(mine, written(mine), by_hand) == (
        "StatefulSet default/db was changed: spec.template.spec.containers[db].image was set to db:2 by berth at "
        "2026-01-01T00:00:00Z"
    )
    more = template_of(mine)
    more["spec"]["nodeSelector"] = {"a": "b"}
    assert "nodeSelector" in set_changed(mine, written(mine), written(mine, template=more)), "what was added, too"


def test_before_a_run_writes_only_what_it_did_not_see_stops_it():
    mine, other, third = app(), app("db:2"), app("db:3")
    assert set_moved(mine, written(other), written(other, replicas=1)) == ""
    assert set_moved(mine, written(other), written(mine)) == "", "another run with the same template"
    assert f"revision {third.set_revision}" in set_moved(mine, written(other), written(third))


@pytest.mark.parametrize("seen", ["db:1", "db:2"])
def test_a_hand_between_the_look_and_the_write_stops_a_run_and_another_run_of_the_same_does_not(seen):
    mine, planned = app(), written(app(seen))
    assert set_changed_meanwhile(mine, planned, written(app(seen), replicas=1)) == ""
    assert set_changed_meanwhile(mine, planned, written(mine)) == "", "it has written what this run would"
    by_hand = written(app(seen), template=template_of(app("db:9")))
    assert set_moved(mine, planned, by_hand) == ""
    assert "image was set to db:9" in set_changed_meanwhile(mine, planned, by_hand)


def test_a_hand_ends_a_run_with_what_is_mixed_and_the_ways_on():
    def pod(ordinal, image):
        labels = {"controller-revision-hash": f"db-{image[-1]}"}
        return {
            "metadata": {"name": f"db-{ordinal}", "labels": labels},
            "spec": {"containers": [{"name": "db", "image": image}]},
        }

    pods = [pod(2, "db:2"), pod(1, "db:1"), pod(0, "db:1")]
    failure = changed_by_hand(app("db:2"), "StatefulSet default/db was changed: x was set by kubectl-set", pods)
    for words in (
        f"x was set by kubectl-set, while this run was bringing revision {app('db:2').revision} to the pods: it is",
        "nothing was taken back, and nobody goes on by himself. The pods as they are: db-0, db-1: db:1 (revision db-1)",
        "; db-2: db:2 (revision db-2). Run this task again, which takes back what was done to the",
        "finishes its update; to keep that, put it into the task first",
    ):
        assert words in failure.message
    assert failure.details["changed"]
    assert "there are none" in changed_by_hand(app(), "why", []).message


def test_bare_pods_are_told_by_their_berths():
    mine = app(workload="Pod")
    assert berths_taken(mine, [berth(mine.revision), berth("x", ordinal=9), berth("x", owner="other")]) == ""
    assert berths_taken(mine, [berth(mine.revision), berth("x", ordinal=1)], replacing=[1]) == ""
    assert "Berth default/db-1 was given revision x by berth" in berths_taken(mine, [berth("x", ordinal=1)])


@pytest.mark.parametrize("driver", ["playbook", "controller"])
def test_a_statefulapp_says_who_is_to_carry_it_out(driver):
    kept = {"metadata": {"generation": 4}, "spec": {"driver": driver}}
    told = handed_over(app(), kept)
    assert ("(generation 4) has driver controller" in told) == (driver == "controller")
    assert handed_over(app(), None) == ""


def test_the_error_says_what_this_run_was_at():
    mine = parse_app(GOOD | {"devices": None})
    failure = error(mine, "StatefulSet default/db was deleted")
    assert f"bringing revision {mine.revision} to the pods" in failure.message
    assert writer({"metadata": {}}) == "somebody"
