"""What is tried before anything is written, what it uses of quotas, and what a refusal says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from berth_core.app import manifests, trial
from berth_core.app.plan import make_plan
from berth_core.errors import AdmissionError, ApiError, InvalidError, NotFoundError
from berth_core.lifecycle import states
from berth_core.model.resources import POD, PVC, SERVICE, STATEFUL_SET
from tests.core.app.test_plan import app, observed


def nothing(wanted):
    return replace(
        observed(wanted, states.RUNNING),
        berths={},
        disks={},
        volumes={},
        claims={},
        pods={},
        stateful_set=None,
        service=None,
    )


def kinds(tried):
    return [(resource.kind, body["metadata"]["name"]) for resource, body in tried]


def test_one_of_all_that_are_alike_is_tried_however_far_the_run_goes():
    wanted = app()
    seen = nothing(wanted)
    assert trial.needs_pod(make_plan(wanted, seen, states.BOUND))
    assert kinds(trial.workload(wanted, seen)) == [("StatefulSet", "db"), ("Service", "db")]
    assert kinds(trial.storage(wanted, seen)) == [
        ("PersistentVolume", "db-trial-trial-tr"),
        ("PersistentVolumeClaim", "data-db-0"),
    ]


def test_the_pod_that_is_tried_is_whole_and_has_a_name_that_is_free():
    wanted = app()
    pod = trial.trial_pod(wanted, nothing(wanted))
    assert (pod["metadata"]["name"], pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("db-0", "db-0", "db")
    assert pod["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]
    running = observed(wanted, states.RUNNING)
    assert trial.trial_pod(wanted, running)["metadata"]["name"] == "db-0-trial"
    one_gone = replace(running, pods={name: each for name, each in running.pods.items() if name != "db-1"})
    assert trial.trial_pod(wanted, one_gone)["metadata"]["name"] == "db-0-trial", "its Berth would tie it to a node"
    free = replace(one_gone, berths={ordinal: each for ordinal, each in running.berths.items() if ordinal != 1})
    assert trial.trial_pod(wanted, free)["metadata"]["name"] == "db-1"
    assert trial.trial_pod(wanted, free, aside=True)["metadata"]["name"] == "db-1-trial"


def test_a_finished_app_and_one_that_is_made_smaller_need_no_pod():
    wanted = app()
    running = observed(wanted, states.RUNNING)
    assert not trial.needs_pod(make_plan(wanted, running))
    assert kinds(trial.workload(wanted, running)) == []
    assert trial.storage(wanted, running) == []
    smaller = app(replicas=1)
    assert not trial.needs_pod(make_plan(smaller, running))
    assert kinds(trial.workload(smaller, running)) == [("StatefulSet", "db")]


@pytest.mark.parametrize("upto", [states.SELECTED, states.RESERVED, states.BOUND])
def test_an_interrupted_run_is_tried_before_it_goes_on(upto):
    wanted = app()
    seen = observed(wanted, upto)
    assert trial.needs_pod(make_plan(wanted, seen))
    assert kinds(trial.workload(wanted, seen)) == [("StatefulSet", "db"), ("Service", "db")]


def test_the_scheduler_sees_what_admission_returned_without_the_claims_of_the_app():
    wanted = app()
    body = trial.trial_pod(wanted, nothing(wanted))
    body["spec"].update(priority=7, tolerations=[{"key": "a", "operator": "Exists"}])
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "300m"}}
    info = manifests.scheduling_pod(replace(wanted, admitted=body), 2)
    assert (info.name, info.priority, dict(info.requests), info.volumes) == ("db-2", 7, {"cpu": 300}, ())
    assert [one.key for one in info.tolerations] == ["a"]
    assert dict(info.labels)["berth.dev/ordinal"] == "2"
    made = manifests.pod(replace(wanted, admitted=body), 2, "h1")
    assert "priority" not in made["spec"], "what is created is made from the template"


def asked(wanted, seen, class_of=lambda _ordinal, disk: disk.storage_class):
    total = {}
    for demand in trial.demands(wanted, seen, make_plan(wanted, seen), class_of):
        for name, value in demand.usage.items():
            total[name] = total.get(name, 0) + value * demand.count
    return {name: value for name, value in total.items() if value}


FAST = "fast.storageclass.storage.k8s.io"


def test_what_a_new_app_uses_of_quotas():
    wanted = app()
    mi = 2**20
    assert asked(wanted, nothing(wanted)) == {
        "pods": 3,
        "count/pods": 3,
        "count/berths.berth.dev": 3,
        "count/statefulsets.apps": 1,
        "services": 1,
        "count/services": 1,
        "persistentvolumeclaims": 3,
        "count/persistentvolumeclaims": 3,
        "requests.storage": 600 * mi,
        f"{FAST}/persistentvolumeclaims": 3,
        f"{FAST}/requests.storage": 600 * mi,
    }
    assert (
        asked(wanted, nothing(wanted), lambda ordinal, _disk: "slow" if ordinal else None)[
            "slow.storageclass.storage.k8s.io/persistentvolumeclaims"
        ]
        == 2
    )


def test_what_grows_uses_what_is_new_and_what_is_there_or_only_replaced_nothing():
    running = observed(app(), states.RUNNING)
    assert asked(app(), running) == {}
    assert asked(app(replicas=5), running)["pods"] == 2
    assert asked(app(replicas=5), running)["persistentvolumeclaims"] == 2
    assert "services" not in asked(app(replicas=5), running)
    assert not any(value > 0 for value in asked(app(replicas=1), running).values())


CAUSE = [{"field": "spec.containers[1].name", "message": 'Duplicate value: "main"'}]
UNMERGED = (
    "failed to create typed patch object (x/db; apps/v1, Kind=StatefulSet): "
    '.spec.template.spec.containers[name="a"].env: duplicate entries for key [name="A"]'
)
IN_SET = [{"field": "spec.template.spec.restartPolicy"}]


@pytest.mark.parametrize(
    ("resource", "error", "remedy"),
    [
        (POD, InvalidError("bad", 422, "Invalid", CAUSE), "change template.spec.containers[1].name;"),
        (
            POD,
            ApiError('unknown field "spec.foo", unknown field "spec.bar"', 400),
            "change template.spec.foo, template.spec.bar;",
        ),
        (POD, AdmissionError("no PriorityClass with name x was found", 403), "create that PriorityClass"),
        (POD, AdmissionError("a policy says no", 403), "change template;"),
        (STATEFUL_SET, InvalidError("bad", 422, "Invalid", IN_SET), "change template.spec.restartPolicy;"),
        (
            SERVICE,
            InvalidError("bad", 422, "Invalid", [{"field": "spec.ports[1].name"}]),
            "change service (spec.ports[1].name);",
        ),
        (STATEFUL_SET, InvalidError(UNMERGED, 500), 'change template.spec.containers[name="a"].env;'),
        (PVC, AdmissionError("maximum storage usage per PersistentVolumeClaim is 1", 403), "the disks' size;"),
        (POD, NotFoundError('namespaces "x" not found', 404), "namespace default does not exist; create it first"),
    ],
)
def test_a_refusal_says_what_to_change(resource, error, remedy):
    told = trial.refusal(app(), resource, error)
    assert remedy in told.message
    if error.status != 404:
        assert error.message in told.message
        assert told.message.endswith("nothing was written")
        assert told.details["causes"] == error.causes


def test_a_quota_without_room_says_nothing_of_the_template():
    full = AdmissionError('pods "db-0" is forbidden: exceeded quota: few, requested: pods=1', 403)
    assert trial.is_quota(full)
    assert not trial.is_quota(AdmissionError("failed quota: few: must specify limits.cpu for: main", 403))
