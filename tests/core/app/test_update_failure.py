"""pause_on_failure: what counts as a failure, for how long the pause holds, and what ends it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from berth_core.app.observed import Observed
from berth_core.app.plan import make_plan
from berth_core.app.report import diff
from berth_core.app.update_failure import (
    FAILED,
    failure_of,
    noted,
    paused_by_failure,
    refuse,
    told_by_berths,
    with_failure,
    words,
)
from berth_core.app.update_rules import update_rules
from berth_core.app.update_step import BEGIN, DELETE, MARK, PATCH, PAUSE, RESIZE
from berth_core.app.wanted import POD, parse_app
from berth_core.errors import InputError, StateError
from tests.core.app.samples import changed
from tests.core.app.test_update import Cluster, rules, template

NOW = "2026-01-01T00:00:00Z"


def waiting(cluster, ordinal, reason, message=""):
    status = cluster.pods[cluster.name(ordinal)]["status"]
    status["conditions"] = []
    status["containerStatuses"][0]["state"] = {"waiting": {"reason": reason, "message": message}}


def begun():
    """Three replicas, of which the last has the new template."""
    cluster = Cluster(3, one=template(), two=template("db:2"))
    asked = rules("same_node", deadline=60)
    for _number in range(3):
        rolled = cluster.roll(asked)
        if any(act.ordinal != 2 for act in rolled.acts):
            break
        for act in rolled.acts:
            cluster.act(act)
        if cluster.pods.get("db-2") is None:
            cluster.kubelet(2)
    return cluster, asked


@pytest.mark.parametrize(
    "reason", ["ImagePullBackOff", "CrashLoopBackOff", "CreateContainerConfigError", "InvalidImageName"]
)
def test_a_container_that_does_not_come_pauses_before_anything_else_is_done(reason):
    cluster, asked = begun()
    asked = replace(asked, unavailable=2)
    waiting(cluster, 2, reason, "of image db:2")
    (act,) = cluster.roll(asked).acts
    assert (act.do, act.ordinal) == (PAUSE, 2)
    assert act.body == {"why": f"pod db-2: container db: {reason}: of image db:2"}
    others = cluster.roll(replace(asked, deadline=None)).acts
    assert [(one.do, one.ordinal) for one in others] == [(DELETE, 1)], "without the option the next one is begun"
    assert cluster.roll(replace(asked, paused=True)).acts == ()


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
def test_one_that_is_on_its_way_has_not_failed(reason):
    cluster, asked = begun()
    waiting(cluster, 2, reason)
    assert cluster.roll(asked).acts == ()


def test_a_replica_that_is_not_ready_in_time_has_failed():
    cluster, asked = begun()
    pod = cluster.pods["db-2"]
    pod["metadata"]["creationTimestamp"] = cluster.now.strftime("%Y-%m-%dT%H:%M:%SZ")
    pod["status"]["conditions"] = []
    rolled = cluster.roll(asked)
    assert (rolled.acts, rolled.again) == ((), 60)
    cluster.now += timedelta(seconds=20)
    assert cluster.roll(asked).again == 40
    started = (cluster.now).strftime("%Y-%m-%dT%H:%M:%SZ")
    pod["status"]["containerStatuses"][0]["state"] = {"running": {"startedAt": started}}
    cluster.now += timedelta(seconds=59)
    assert cluster.roll(asked).acts == (), "its container was started later"
    cluster.now += timedelta(seconds=1)
    (act,) = cluster.roll(asked).acts
    assert (act.do, act.body) == (PAUSE, {"why": "pod db-2 was not Ready for 60 s"})


def test_what_was_down_before_the_update_fails_by_what_comes_after_it():
    """A container in a crash loop is mended by the update: until it is ended, its words are of the old image."""
    cluster = Cluster(2, one=template(), two=template("db:2"))
    waiting(cluster, 1, "CrashLoopBackOff")
    cluster.pods["db-1"]["status"]["containerStatuses"][0]["containerID"] = "old"
    asked = rules(deadline=60)
    (act,) = cluster.roll(asked).acts
    assert (act.do, act.ordinal) == (PATCH, 1)
    cluster.act(act)
    assert cluster.roll(asked).acts == ()
    waiting(cluster, 1, "ImagePullBackOff", "Back-off pulling image db:2")
    assert [one.do for one in cluster.roll(asked).acts] == [PAUSE]


def test_a_failed_replica_that_is_mended_gets_to_its_end_and_no_other_is_begun():
    cluster = Cluster(2, one=template(), two=template("db:2"))
    asked = rules(deadline=60, paused=True)
    cluster.act(cluster.roll(rules()).acts[0])
    cluster.kubelet(1)
    (act,) = cluster.roll(asked).acts
    assert (act.do, act.ordinal) == (MARK, 1)
    cluster.act(act)
    assert cluster.roll(asked).acts == ()


def deferred(cluster, ordinal, reason="Deferred", kind="PodResizePending"):
    """Another size is asked for, and its node says so from now on; the pod is Ready as it was."""
    for _number in range(3):
        (act,) = cluster.roll(rules(deadline=60)).acts
        cluster.act(act)
    assert [do for do, _ordinal in cluster.log[-3:]] == [BEGIN, RESIZE, PATCH]
    since = cluster.now.strftime("%Y-%m-%dT%H:%M:%SZ")
    told = {"type": kind, "status": "True", "reason": reason, "message": "no room", "lastTransitionTime": since}
    cluster.pods[cluster.name(ordinal)]["status"]["conditions"].append(told)


@pytest.mark.parametrize(("kind", "reason"), [("PodResizePending", "Deferred"), ("PodResizeInProgress", "Error")])
def test_a_resize_that_does_not_come_is_waited_for_with_its_reason_until_the_deadline(kind, reason):
    cluster = Cluster(2, one=template(), two=template(cpu="1"))
    deferred(cluster, 1, reason, kind)
    cluster.wait(20)
    rolled = cluster.roll(rules(deadline=60))
    since = "since 2026-01-01T00:00:00Z; the update pauses after 60 s"
    assert (rolled.acts, rolled.again) == ((), 40)
    assert rolled.waits[0] == f"pod db-1 to be resized: {reason}: no room ({since})"
    cluster.wait(40)
    (act,) = cluster.roll(rules(deadline=60)).acts
    assert (act.do, act.ordinal) == (PAUSE, 1)
    assert act.body == {"why": f"pod db-1 was not resized for 60 s: {reason}: no room"}
    without = cluster.roll(rules())
    assert without.acts == (), "without pause_on_failure nothing ends the wait"
    assert "(since 2026-01-01T00:00:00Z; pause_on_failure sets a deadline)" in without.waits[0]


def test_a_paused_resize_that_its_node_has_room_for_after_all_gets_to_its_end():
    cluster = Cluster(2, one=template(), two=template(cpu="1"))
    deferred(cluster, 1)
    cluster.wait(3600)
    asked = rules(deadline=60, paused=True)
    assert cluster.roll(asked).acts == ()
    cluster.pods["db-1"]["status"]["conditions"].pop()
    cluster.finish(asked)
    assert cluster.log[-1] == (MARK, 1), "and no other is begun"


def test_what_a_node_has_not_seen_yet_is_not_too_late():
    """The condition is of a resize before: its kubelet keeps the time of it."""
    cluster = Cluster(2, one=template(), two=template(cpu="1"))
    deferred(cluster, 1)
    pod = cluster.pods["db-1"]
    pod["metadata"]["generation"], pod["status"]["observedGeneration"] = 3, 2
    cluster.wait(3600)
    rolled = cluster.roll(rules(deadline=60))
    assert (rolled.acts, rolled.waits) == ((), ("pod db-1 to be seen by its kubelet",))
    pod["status"]["observedGeneration"] = 3
    assert [act.do for act in cluster.roll(rules(deadline=60)).acts] == [PAUSE]


# -- from run to run


def asked(**options):
    return parse_app(changed(replicas=2, workload=POD, disks=None, pause_on_failure=True, **options))


def berth(app, ordinal, failure=None):
    spec = {"app": app.name, "ordinal": ordinal, "nodeName": "n1", "revision": app.revision}
    meta = {"name": app.berth_name(ordinal), "namespace": "default", "uid": str(ordinal), "annotations": {"a": "b"}}
    made = {"metadata": meta, "spec": spec}
    return with_failure({**made, "status": {"phase": "Running"}}, failure)


def seen(app, failure, ready=True, old=(0,)):
    pods = {}
    for ordinal in range(app.replicas):
        revision = "before" if ordinal in old else app.revision
        meta = {"name": app.berth_name(ordinal), "annotations": {"berth.dev/revision": revision}, "labels": {}}
        conditions = [{"type": "Ready", "status": str(ready)}]
        pods[meta["name"]] = {"metadata": meta, "spec": {"nodeName": "n1"}, "status": {"conditions": conditions}}
    berths = {0: berth(app, 0), 1: berth(app, 1, failure)}
    return Observed(app.name, app.namespace, berths=berths, pods=pods)


def test_the_berth_says_it_until_it_is_over():
    app = asked()
    failure = noted(app, 1, "pod x: it does not come", NOW)
    record = berth(app, 1, failure)
    assert failure_of(record) == failure
    assert record["metadata"]["annotations"]["a"] == "b"
    assert FAILED not in with_failure(record, None)["metadata"]["annotations"]
    assert told_by_berths({1: record}) == {"pod": "db-1", "why": failure.why, "since": NOW}
    other = {**record, "spec": {**record["spec"], "revision": "another"}}
    assert told_by_berths({1: other}) is None
    for broken in ("", "[]", "{}", "no json", "1"):
        assert failure_of({"metadata": {"annotations": {FAILED: broken}}}) is None


def test_the_next_run_begins_nobody_and_says_why():
    app = asked()
    failure = noted(app, 1, "pod x: it does not come", NOW)
    observed = seen(app, failure)
    held = paused_by_failure(app, observed)
    assert held.update.paused
    plan = make_plan(held, observed)
    assert (plan.update, plan.outdated, plan.settled) == ((), (0,), ())
    with pytest.raises(StateError, match=r"is paused \(pause_on_failure\).*it does not come") as told:
        refuse(held, plan.outdated, False)
    assert told.value.details["update_paused"]["since"] == NOW
    assert f"{app.name}-0 keep the template" in words(app, failure, plan.outdated)


def test_without_the_option_it_goes_on():
    app = parse_app(changed(replicas=2, workload=POD, disks=None))
    observed = seen(app, noted(app, 1, "why", NOW))
    assert paused_by_failure(app, observed) == app
    plan = make_plan(app, observed)
    assert (plan.update, plan.settled) == ((0,), (1,))


def test_another_template_and_a_persons_word_end_it():
    app = asked()
    observed = seen(app, noted(app, 1, "why", NOW))
    other = changed(replicas=2, workload=POD, disks=None, pause_on_failure=True)
    other["template"]["spec"]["containers"][0]["image"] = "db:other"
    for one in (parse_app(other), asked(paused=False)):
        assert paused_by_failure(one, observed) == one
        plan = make_plan(one, observed)
        assert (plan.update[-1], plan.outdated, plan.settled) == (0, (), (1,))
        shown = diff(one, observed, plan, (), "Created")
        assert shown["before"]["berths"]["db-1"]["update failed"] == "why"
        assert shown["after"]["berths"]["db-1"]["update failed"] is None


def test_a_stateful_app_says_it_once_for_each_change_of_its_spec():
    failed = asked(paused=False, generation=4)
    failure = noted(failed, 1, "why", NOW)
    assert failure.generation == 4
    observed = seen(failed, failure)
    assert paused_by_failure(failed, observed).update.failure == failure, "it was said before"
    later = asked(paused=False, generation=5)
    assert paused_by_failure(later, observed) == later
    assert make_plan(later, observed).settled == (1,)


def test_when_everybody_has_the_template_it_is_over():
    app = asked()
    for ready in (False, True):
        observed = seen(app, noted(app, 1, "why", NOW), ready, old=())
        assert make_plan(paused_by_failure(app, observed), observed).settled == ((1,) if ready else ())


def test_what_does_not_go_together_is_refused():
    with pytest.raises(InputError, match="progress_deadline_seconds is given without pause_on_failure"):
        update_rules({"progress_deadline_seconds": 5}, 3, {})
    with pytest.raises(InputError, match="progress_deadline_seconds is '0': expected 1 to 86400"):
        update_rules({"pause_on_failure": True, "progress_deadline_seconds": 0}, 3, {})
    with pytest.raises(InputError, match="pause_on_failure is given with update_strategy reschedule"):
        update_rules({"pause_on_failure": True, "update_strategy": "reschedule"}, 3, {})
    assert update_rules({"pause_on_failure": True}, 3, {}).deadline == 600
