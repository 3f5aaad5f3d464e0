"""What keeps parts of berth from being removed, and what a removal leaves."""

from __future__ import annotations

from typing import Any

import pytest

from berth_core.app.install_needs import Holdings, kept, needs
from berth_core.app.install_rights import PARTS

CLASS = {"metadata": {"name": "fast"}, "provisioner": "local.berth.dev"}
ALL = tuple(part for part in PARTS if part != "agents_daemonset")


def berth(app: str, ordinal: int = 0, claim: str = "") -> dict[str, Any]:
    meta: dict[str, Any] = {"namespace": "db", "name": f"{app}-{ordinal}", "uid": f"u-{app}-{ordinal}"}
    if claim:
        meta.update(name="pvc-1", annotations={"berth.dev/claim-name": claim})
    return {"metadata": meta, "spec": {"app": app, "ordinal": ordinal}}


def disk(name: str, held_by: str = "", kept_for: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {"nodeName": "h1"}
    if held_by:
        spec["claimRef"] = {"namespace": "db", "name": held_by, "uid": f"u-{held_by}", "claim": "data"}
    if kept_for:
        spec["retainedFor"] = {"namespace": "db", "app": kept_for, "ordinal": 0, "claim": "data"}
    return {"metadata": {"name": name}, "spec": spec}


def claim(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "db", "name": name}, "spec": {"storageClassName": "fast", **spec}}


def test_nothing_needs_it():
    free = Holdings(disks=[disk("h1-a")], classes=[CLASS], claims=[claim("other", storageClassName="nfs")])
    assert needs(ALL, free) == []


def test_apps_are_named_with_the_number_of_their_replicas():
    found = Holdings(berths=[berth("pg", 0), berth("pg", 1), berth("mq"), berth("pvc", claim="data-x-0")])
    apps, claims = needs(ALL, found)
    assert apps == "apps have their berths: db/mq (1), db/pg (2); remove them first (stateful_app, state: absent)"
    assert claims.startswith("claims have local disks or wait for one: db/data-x-0;")


def test_applications_as_objects_need_their_driver_and_their_definition():
    found = [
        {"metadata": {"namespace": "db", "name": name}, "spec": {"driver": driver}}
        for name, driver in (("pg", "controller"), ("mq", "playbook"))
    ]
    (alone,) = needs(("controller",), Holdings(applications=found))
    assert alone == "StatefulApps are there: db/pg; delete them first (kubectl delete statefulapps)"
    (every,) = needs(ALL, Holdings(applications=found))
    assert every.startswith("StatefulApps are there: db/mq, db/pg;")
    assert needs(("scheduler",), Holdings(applications=found)) == []


def test_tasks_need_their_backend_and_all_that_is_there_its_definition():
    tasks = [
        {"metadata": {"namespace": "lab", "name": name}, "status": {"state": state}}
        for name, state in (("done", "Succeeded"), ("runs", "Running"))
    ]
    queue = {"metadata": {"namespace": "lab", "name": "night"}}
    (alone,) = needs(("task_backend",), Holdings(tasks=tasks, queues=[queue]))
    assert alone.startswith("tasks have not ended: lab/runs; wait for them")
    (every,) = needs(ALL, Holdings(tasks=tasks[:1], queues=[queue]))
    assert every.startswith("Tasks, TaskBatches or TaskQueues are there: lab/done, lab/night;")
    assert needs(("task_backend",), Holdings(tasks=tasks[:1], queues=[queue])) == []


def test_claims_of_a_class_that_goes_need_it_whoever_provisions_it():
    (said,) = needs(("storage_classes",), Holdings(unbound=["db/data"]))
    assert said == "claims have local disks or wait for one: db/data; delete them first"
    assert needs(("scheduler",), Holdings(unbound=["db/data"])) == []


def test_claims_of_the_provisioner_waiting_and_bound():
    bound = {
        "metadata": {"name": "pv", "annotations": {"pv.kubernetes.io/provisioned-by": "local.berth.dev"}},
        "spec": {"claimRef": {"namespace": "db", "name": "bound"}},
    }
    waiting = [claim("waits"), claim("theirs", storageClassName="nfs")]
    (text,) = needs(["controller"], Holdings(claims=waiting, classes=[CLASS], volumes=[bound]))
    assert "db/bound, db/waits; delete them first" in text
    assert needs(["scheduler", "extender"], Holdings(claims=waiting, classes=[CLASS], volumes=[bound])) == []


def test_many_are_a_few_and_a_number():
    (text,) = needs(["crds"], Holdings(berths=[berth(f"app{number}") for number in range(9)]))
    assert "db/app4 (1) and 4 more" in text


@pytest.mark.parametrize("part", ["crds", "agents_hosts", "agents_daemonset"])
def test_locks_whose_berth_is_gone(part: str):
    found = Holdings(berths=[berth("pg")], disks=[disk("h1-a", "pg-0"), disk("h1-b", "mq-0")])
    texts = needs([part], found)
    assert len(texts) == 2
    assert "h1-b (for " in texts[1]
    assert "h1-a" not in texts[1]
    assert "local_disk, state: released" in texts[1]
    assert needs(["controller"], found) == []


def test_pods_that_name_the_scheduler():
    (text,) = needs(["scheduler"], Holdings(pods=["db/a", "db/b"]))
    assert text.startswith("pods name the scheduler and have not finished: db/a, db/b;")
    (text,) = needs(["extender"], Holdings(waiting=["db/a"]))
    assert "db/a" in text
    assert needs(["controller", "crds"], Holdings(pods=["db/a"], waiting=["db/a"])) == []


def test_kept_data_is_told_and_keeps_nobody():
    disks = [disk("h1-b", kept_for="pg"), disk("h1-a"), disk("h1-c", "pg-0")]
    assert needs(ALL, Holdings(disks=disks[:2])) == []
    assert "h1-b (of db/pg)" in kept(disks)
    assert kept(disks[1:]) == ""
