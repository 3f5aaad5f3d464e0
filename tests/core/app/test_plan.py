"""From what is there to what has to be done: every interrupted state has a plan, and a finished app has none."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from berth_core.app import manifests
from berth_core.app.observed import Observed, phase
from berth_core.app.plan import make_plan, removal_plan
from berth_core.app.pod_revision import HASH
from berth_core.app.report import diff, restarted
from berth_core.app.wanted import REVISION_ANNOTATION, parse_app
from berth_core.lifecycle import states
from berth_core.lifecycle.locks import lock_disk
from tests.core.app.samples import GOOD, changed


def app(**values):
    return parse_app(changed(**values))


def record(wanted, ordinal, phase_recorded=None):
    body = manifests.berth(wanted, ordinal, f"h{ordinal}", {"data": f"h{ordinal}-d0"}, ())
    body["metadata"].update(uid=f"uid-{ordinal}-xyz", resourceVersion=str(10 + ordinal))
    if phase_recorded:
        body["status"] = {"phase": phase_recorded}
    return body


def local_disk(ordinal):
    spec = {
        "nodeName": f"h{ordinal}",
        "identity": {"serial": f"S{ordinal}", "size": 2**30},
        "volumeMode": "Filesystem",
        "storageClassName": "fast",
    }
    return {
        "metadata": {"name": f"h{ordinal}-d0", "resourceVersion": "1"},
        "spec": spec,
        "status": {"observed": {"devicePath": "/dev/x"}},
    }


def observed(wanted, upto, ordinals=range(3)):
    """The app with every berth brought as far as ``upto``."""
    seen = Observed("db", "default")
    berths, disks, volumes, claims = {}, {}, {}, {}
    for ordinal in ordinals:
        berths[ordinal] = record(wanted, ordinal, upto if upto != states.SELECTED else None)
        if states.reached(upto, states.RESERVED):
            held = lock_disk(local_disk(ordinal), manifests.holder(wanted, berths[ordinal], "data"))
            disks[held["metadata"]["name"]] = held
        if states.reached(upto, states.BOUND):
            volume = manifests.volume(wanted, berths[ordinal], "data", held, f"h{ordinal}")
            volumes[volume["metadata"]["name"]] = volume
            claim = manifests.claim(wanted, berths[ordinal], "data", held)
            claims[claim["metadata"]["name"]] = claim
    values = {"berths": berths, "disks": disks, "volumes": volumes, "claims": claims}
    if states.reached(upto, states.CREATED):
        status = {"observedGeneration": 1, "updateRevision": "db-1"}
        values.update(stateful_set={**manifests.stateful_set(wanted), "status": status}, service=wanted.service)
    if upto == states.RUNNING:
        ready = [{"type": "Ready", "status": "True"}]
        labels = {HASH.key: "db-1"}
        values["pods"] = {
            f"db-{o}": {"metadata": {"name": f"db-{o}", "labels": labels}, "spec": {}, "status": {"conditions": ready}}
            for o in ordinals
        }
    return Observed(seen.name, seen.namespace, **values)


def test_an_app_that_is_not_there_is_selected_as_a_whole():
    plan = make_plan(app(), Observed("db", "default"))
    assert plan.select == (0, 1, 2)
    assert plan.stateful_set["kind"] == "StatefulSet"
    assert plan.service["kind"] == "Service"


@pytest.mark.parametrize("upto", states.PHASES)
def test_the_phase_is_read_from_the_objects(upto):
    seen = observed(app(), upto)
    assert [phase(ordinal, seen, "StatefulSet") for ordinal in range(4)] == [upto] * 3 + [states.ABSENT]


@pytest.mark.parametrize("upto", [states.SELECTED, states.RESERVED, states.BOUND])
def test_an_interrupted_run_is_continued_where_it_stopped(upto):
    plan = make_plan(app(), observed(app(), upto))
    assert plan.select == plan.discard == plan.release == ()
    assert plan.advance == {0: upto, 1: upto, 2: upto}


@pytest.mark.parametrize("upto", [states.CREATED, states.RUNNING])
def test_a_finished_app_has_an_empty_plan(upto):
    assert make_plan(app(), observed(app(), upto)).empty


def test_stopping_at_bound_asks_for_no_workload():
    plan = make_plan(app(), observed(app(), states.BOUND), states.BOUND)
    assert plan.empty


def test_scaling_up_keeps_what_is_there_and_adds_the_rest():
    plan = make_plan(app(replicas=5), observed(app(), states.RUNNING))
    assert plan.select == (3, 4)
    assert not plan.advance
    assert plan.stateful_set["spec"]["replicas"] == 5


def test_scaling_down_gives_up_the_highest_first():
    plan = make_plan(app(replicas=1), observed(app(), states.RUNNING))
    assert plan.release == (2, 1)
    assert plan.select == ()


def test_removal_gives_up_all_of_it():
    assert removal_plan(observed(app(), states.RUNNING)).release == (2, 1, 0)


def test_a_choice_that_is_only_written_down_is_made_again_when_the_request_changed():
    seen = observed(app(), states.SELECTED)
    bigger = app(disks=[{**GOOD["disks"][0], "size": "300Mi"}])
    plan = make_plan(bigger, seen)
    assert plan.discard == plan.select == (0, 1, 2)


def test_a_new_template_refreshes_the_records_and_the_workload():
    template = copy.deepcopy(GOOD["template"])
    template["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
    plan = make_plan(app(template=template), observed(app(), states.RUNNING))
    assert plan.refresh == (0, 1, 2)
    assert plan.select == plan.release == ()
    assert plan.stateful_set["spec"]["template"]["spec"]["containers"][0]["resources"]


def test_what_admission_added_to_a_berth_is_no_change_of_the_template():
    """The record has the defaults of a LimitRange: the next run asks nobody, and refreshes nothing."""
    wanted = app()
    spec = copy.deepcopy(dict(wanted.template["spec"]))
    spec["containers"][0]["resources"] = {"requests": {"cpu": "300m"}}
    labels = {**wanted.template["metadata"]["labels"], "added": "by-a-webhook"}
    admitted = replace(wanted, admitted={"metadata": {"labels": labels}, "spec": spec})
    assert admitted.revision == wanted.revision
    seen = observed(admitted, states.RUNNING)
    assert seen.berths[1]["spec"]["requests"] == {"cpu": "300m"}
    assert seen.berths[1]["spec"]["podLabels"]["added"] == "by-a-webhook"
    assert make_plan(wanted, seen).empty


def test_a_field_that_left_the_template_is_noticed():
    template = copy.deepcopy(GOOD["template"])
    template["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
    seen = observed(app(template=template), states.RUNNING)
    assert make_plan(app(), seen).stateful_set is not None


def test_a_lock_that_is_lost_is_taken_again():
    seen = observed(app(), states.RUNNING)
    lost = Observed(**{**seen.__dict__, "disks": {name: disk for name, disk in seen.disks.items() if name != "h1-d0"}})
    assert phase(1, lost, "StatefulSet") == states.SELECTED
    assert make_plan(app(), lost).advance == {1: states.SELECTED}


def test_a_lock_whose_berth_is_gone_is_stale():
    seen = observed(app(), states.RUNNING)
    orphaned = Observed(**{**seen.__dict__, "berths": {o: r for o, r in seen.berths.items() if o != 1}})
    plan = make_plan(app(), orphaned)
    assert [disk["metadata"]["name"] for disk in orphaned.stale_disks()] == ["h1-d0"]
    assert "LocalDisk h1-d0" in plan.stale
    assert plan.select == (1,)


def test_claims_of_a_berth_that_is_gone_go_unless_a_pod_uses_them():
    seen = observed(app(), states.BOUND)
    orphaned = Observed(**{**seen.__dict__, "berths": {o: r for o, r in seen.berths.items() if o != 1}})
    claims, volumes = orphaned.stale_claims()
    assert [claim["metadata"]["name"] for claim in claims] == ["data-db-1"]
    assert [volume["metadata"]["labels"]["berth.dev/ordinal"] for volume in volumes] == ["1"]
    used = Observed(**{**orphaned.__dict__, "pods": {"db-1": {"metadata": {"name": "db-1"}, "spec": {}}}})
    assert used.stale_claims() == ([], [])


def _pod(policy="Always", **status):
    wanted = app(workload="Pod", template={"spec": {**GOOD["template"]["spec"], "restartPolicy": policy}})
    seen = observed(wanted, states.BOUND)
    annotations = {REVISION_ANNOTATION: wanted.revision}
    pods = {f"db-{o}": {"metadata": {"name": f"db-{o}", "annotations": annotations}} for o in range(3)}
    pods["db-1"]["status"] = status
    return wanted, replace(seen, pods=pods)


@pytest.mark.parametrize(
    ("policy", "phase_of_pod", "anew"),
    [
        ("Always", "Failed", (1,)),
        ("Always", "Succeeded", (1,)),
        ("OnFailure", "Failed", (1,)),
        ("OnFailure", "Succeeded", ()),
        ("Never", "Failed", ()),
        ("Always", "Running", ()),
    ],
)
def test_a_bare_pod_that_has_ended_is_made_anew_by_its_restart_policy(policy, phase_of_pod, anew):
    wanted, seen = _pod(policy, phase=phase_of_pod, reason="Evicted", message="low on memory")
    plan = make_plan(wanted, seen)
    assert plan.restart == anew
    if anew:
        assert restarted(wanted, seen, plan) == [{"pod": "db-1", "ended": f"{phase_of_pod} (Evicted: low on memory)"}]


def test_a_berth_that_is_being_given_up_is_forgotten_and_made_anew_and_one_whose_disk_is_exchanged_left_alone():
    wanted = app()
    seen = observed(wanted, states.RUNNING)
    seen.berths[0]["status"]["phase"] = states.RELEASING
    seen.berths[1]["status"]["phase"] = states.REPLACING
    plan = make_plan(wanted, seen)
    assert (plan.discard, plan.select, plan.replacing) == ((0,), (0,), (1,))
    assert 1 not in plan.advance
    assert plan.tie == plan.refresh == plan.release == ()
    assert make_plan(app(replicas=1), seen).release == (2, 1), "with its data kept, as every other"


def test_berths_are_told_of_another_quorum():
    seen = observed(app(), states.RUNNING)
    assert make_plan(app(), seen).refresh == ()
    wanted = app(quorum=2)
    assert make_plan(wanted, seen).refresh == (0, 1, 2)
    shown = diff(wanted, seen, make_plan(wanted, seen), (), states.CREATED)
    assert [shown[when]["berths"]["db-1"]["quorum"] for when in ("before", "after")] == [None, 2]
    told = manifests.refreshed(wanted, 0, seen.berths[0])
    assert told["spec"]["quorum"] == 2
    seen = observed(wanted, states.RUNNING)
    assert make_plan(wanted, seen).refresh == ()
    assert make_plan(app(), seen).refresh == (0, 1, 2)
    assert "quorum" not in manifests.refreshed(app(), 0, seen.berths[0])["spec"]
