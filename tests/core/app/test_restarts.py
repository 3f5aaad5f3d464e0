"""A restart is asked for by a text in the template; a suspended app keeps all but its pods."""

from __future__ import annotations

import pytest

from berth_core.app import manifests, report
from berth_core.app.observed import Observed
from berth_core.app.plan import OWN, make_plan
from berth_core.app.pod_change import RESTARTED, RESTARTED_FIELD, pod_change
from berth_core.app.pod_revision import Target, change_of
from berth_core.app.restarts import restarted, without_restart
from berth_core.app.wanted import parse_app
from berth_core.errors import InputError
from tests.core.app.samples import GOOD, changed

NOTHING = Observed("db", "default")


def app(text=None, **values):
    template = {**GOOD["template"], "metadata": {"annotations": {RESTARTED: text}}} if text else GOOD["template"]
    return parse_app(changed(template=template, **values))


def text_of(wanted):
    return wanted.template["metadata"].get("annotations", {}).get(RESTARTED)


def stateful_set(text):
    return {"spec": {"template": {"metadata": {"annotations": {RESTARTED: text}} if text else {}, "spec": {}}}}


def test_a_new_text_needs_new_pods_and_a_text_that_goes_needs_nothing():
    old, new, none = app("monday").template, app("tuesday").template, app().template
    assert pod_change(old, new).forced == (RESTARTED_FIELD,)
    assert pod_change(none, new).forced == (RESTARTED_FIELD,)
    assert pod_change(old, none).fields == ("metadata.annotations",)
    assert pod_change(old, old).same


def test_what_is_asked_for_is_in_the_template_and_makes_it_another_revision():
    wanted = restarted(app(), "monday", NOTHING)
    assert text_of(wanted) == "monday"
    assert (
        wanted.revision
        == restarted(app(), "monday", Observed("db", "default", stateful_set=stateful_set("x"))).revision
    )
    assert len({one.revision for one in (app(), wanted, restarted(app(), "tuesday", NOTHING))}) == 3


@pytest.mark.parametrize("seen", ["set", "pods"])
def test_who_asks_for_nothing_keeps_what_is_there(seen):
    def pod(text, made):
        return {"metadata": {"creationTimestamp": made, "annotations": {RESTARTED: text} if text else {}}}

    pods = {"db-0": pod("sunday", "2026-01-01T00:00:00Z"), "db-1": pod("monday", "2026-01-02T00:00:00Z")}
    there = {"stateful_set": stateful_set("monday")} if seen == "set" else {"pods": pods}
    assert text_of(restarted(app(), None, Observed("db", "default", **there))) == "monday"


def test_nothing_there_and_nothing_asked_for_changes_nothing():
    wanted = app()
    assert restarted(wanted, None, NOTHING) is wanted
    assert restarted(wanted, None, Observed("db", "default", stateful_set=stateful_set(None))) is wanted


def test_the_templates_own_text_is_taken():
    own = app("monday")
    assert restarted(own, None, Observed("db", "default", stateful_set=stateful_set("sunday"))) is own
    assert restarted(own, "monday", NOTHING) is own
    with pytest.raises(InputError, match="of the template has kubectl"):
        restarted(own, "tuesday", NOTHING)
    with pytest.raises(InputError, match="restarted_at is empty"):
        restarted(app(), " ", NOTHING)


def test_without_it_the_template_is_what_it_was():
    assert without_restart(app("monday").template) == app().template
    assert without_restart(app().template) == app().template


def test_a_bare_pod_says_why_it_is_made_anew():
    new = restarted(app(workload="Pod"), "monday", NOTHING)
    target = Target(new.revision, new.template, {}, OWN, comes_back=False)
    assert change_of(manifests.pod(app(workload="Pod"), 0, "h1"), target).forced == (RESTARTED_FIELD,)
    again = change_of(manifests.pod(new, 0, "h1"), target)
    assert "is not known any more" in again.forced[0]


def berth(ordinal):
    status = {"phase": "Running", "podName": f"db-{ordinal}"}
    disks = [{"claim": "data", "name": f"h{ordinal}-a", "size": 200 * 2**20}]
    spec = {"app": "db", "ordinal": ordinal, "nodeName": f"h{ordinal}", "disks": disks, "revision": app().revision}
    return {
        "metadata": {"name": f"db-{ordinal}", "namespace": "default", "uid": str(ordinal)},
        "spec": spec,
        "status": status,
    }


def observed(**values):
    pods = {f"db-{ordinal}": {"metadata": {"name": f"db-{ordinal}"}} for ordinal in range(3)}
    return Observed("db", "default", berths={ordinal: berth(ordinal) for ordinal in range(3)}, pods=pods, **values)


@pytest.mark.parametrize("workload", ["StatefulSet", "Pod"])
def test_a_suspended_app_stops_its_pods_and_releases_nothing(workload):
    wanted = parse_app(changed(suspended=True, workload=workload))
    plan = make_plan(wanted, observed())
    assert (plan.stop, plan.release, plan.select, plan.update) == ((2, 1, 0), (), (), ())
    assert make_plan(wanted, observed(), "Bound").stop == (), "the pods stay while filesystems are made"
    assert make_plan(parse_app(changed(workload=workload)), observed()).stop == ()


def test_its_statefulset_has_no_replicas_and_gets_them_back():
    asleep, awake = (manifests.stateful_set(parse_app(changed(suspended=one))) for one in (True, False))
    assert (asleep["spec"]["replicas"], awake["spec"]["replicas"]) == (0, 3)
    woken = make_plan(parse_app(changed()), observed(stateful_set=asleep))
    assert woken.stateful_set["spec"]["replicas"] == 3


def test_rows_of_a_suspended_app_have_no_pods():
    assert [(row["phase"], row["pod"]) for row in report.suspended_rows({0: berth(0)})] == [("Bound", None)]
