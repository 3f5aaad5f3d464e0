"""Whether a run is overtaken: by what one object says, and by whom that was written."""

from __future__ import annotations

import copy

import pytest

from berth_core.app import manifests
from berth_core.app.overtaken import berths_taken, error, handed_over, set_moved, set_taken, writer
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


def test_its_own_statefulset_overtakes_nobody_whatever_else_changes_in_it():
    mine = app()
    assert set_taken(mine, mine.template, written(mine)) == ""
    assert set_taken(mine, mine.template, written(mine, replicas=7)) == "", "somebody scales"


def test_another_revision_and_another_template_are_told_with_who_wrote_them():
    mine, other = app(), app("db:2")
    why = set_taken(mine, mine.template, written(other))
    assert f"StatefulSet default/db was given revision {other.set_revision} by kubectl-scale at 2026-01-02" in why
    by_hand = written(mine, template=copy.deepcopy(dict(other.template)))
    why = set_taken(mine, mine.template, by_hand)
    assert "(spec.template.spec.containers[0].image) by berth (another run of stateful_app, or berth-controller)" in why
    more = copy.deepcopy(dict(mine.template))
    more["spec"]["nodeSelector"] = {"a": "b"}
    assert "nodeSelector" in set_taken(mine, mine.template, written(mine, template=more)), "what was added, too"
    assert "was deleted" in set_taken(mine, mine.template, None)


def test_before_a_run_writes_only_what_it_did_not_see_stops_it():
    mine, other, third = app(), app("db:2"), app("db:3")
    assert set_moved(mine, written(other), written(other, replicas=1)) == ""
    assert set_moved(mine, written(other), written(mine)) == "", "another run with the same template"
    assert f"revision {third.set_revision}" in set_moved(mine, written(other), written(third))


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
