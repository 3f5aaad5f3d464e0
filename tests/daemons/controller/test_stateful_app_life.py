"""A StatefulApp in the hands of a real controller: made, scaled, updated, taken over, given back, deleted."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.observed import ready
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.controller.app_world import AppWorld, app_world
from tests.daemons.controller.world import ACCOUNT, NAMESPACE, until
from tests.support.wire import dying_after_each

pytestmark = pytest.mark.promise
#: Writes of an app that are not a status: each takes a second or two to begin anew.
COUNTED = r"\w+ (StatefulApp|Berth|LocalDisk|PersistentVolume|PersistentVolumeClaim|StatefulSet|Pod|Pod/eviction) .*"
#: More than there are kinds of writes in a life.
DEATHS = 60


@pytest.fixture
def apps(plane: Any, world: Any, nodes: list[str]) -> Iterator[AppWorld]:
    with app_world(plane, world, nodes) as made:
        yield made


def test_it_is_made_scaled_updated_and_deleted(apps: AppWorld, start: Any) -> None:
    apps.disks(3)
    apps.apply(updateStrategy={"type": "InPlaceIfPossible"})
    assert apps.live()["status"]["conditions"][0]["reason"] == "WaitsForDriver", "nobody has looked at it"
    start("--no-leader-elect")
    apps.stalled("Forbidden", f"--namespace {apps.name} --clusterrole=berth-app-operator")
    assert not apps.world.berths()
    apps.allow()
    apps.kubectl("annotate", "sapp", "db", "looked=again")
    status = apps.ready(2)
    assert status["selector"] == "berth.dev/app=db"
    until(lambda: apps.status().get("updatedReplicas") == 2, lambda: str(apps.status()))
    assert set(apps.phases().values()) == {"Running"}
    forward = ["Selected", "Reserved", "Bound", "Created", "Running"]
    apps.changes_are_told("db-1", forward, "berth-controller")

    apps.kubectl("scale", "sapp", "db", "--replicas=3")
    apps.ready(3)
    assert set(apps.pods()) == {"db-0", "db-1", "db-2"}
    before = apps.uids()
    apps.apply(updateStrategy={"type": "InPlaceIfPossible"}, template=apps.template("none:2"), replicas=3)
    apps.ready(3)
    until(lambda: apps.status().get("updatedReplicas") == 3, lambda: str(apps.status()))
    assert {pod["spec"]["containers"][0]["image"] for pod in apps.pods().values()} == {"none:2"}
    assert apps.uids() == before, "in the running pods"

    apps.kubectl("set", "image", "statefulset/db", "main=none:3")
    until(lambda: apps.world.told("db", "Undone", "image"), lambda: str(apps.world.events("db")))
    assert {pod["spec"]["containers"][0]["image"] for pod in apps.pods().values()} == {"none:2"}

    apps.kubectl("scale", "sapp", "db", "--replicas=1")
    apps.ready(1)
    assert list(apps.phases()) == ["db-0"]
    apps.check()
    apps.kubectl("delete", "sapp", "db")
    assert not apps.world.berths()
    assert not apps.world.locks()
    assert all("retainedFor" in one["spec"] for one in apps.world.disks().values())
    assert apps.api.find(kinds.STATEFUL_SET, "db", apps.name) is None
    assert apps.api.find(kinds.SERVICE, "db", apps.name) is None


def test_a_controller_that_dies_after_any_write_is_continued(apps: AppWorld, start: Any, tmp_path: Path) -> None:
    apps.disks(1)
    apps.allow()
    apps.apply(updateStrategy={"type": "InPlaceIfPossible"}, replicas=1)
    wire = dying_after_each("berth_controller", tmp_path / "last", COUNTED)

    def carried_out(done: Any) -> int:
        """How many controllers have died over it."""
        for number in range(DEATHS):
            process = start("--no-leader-elect", wait=False, **wire)
            until(lambda process=process: process.process.poll() is not None or done(), process.text)
            if process.process.poll() is None:
                process.stop()
                return number
            assert process.ended() == -signal.SIGKILL, process.text()
            apps.check()
        raise AssertionError((tmp_path / "last").read_text())

    def as_asked(image: str) -> bool:
        pods = apps.pods().values()
        ready = apps.condition("Ready").get("status") == "True" and apps.status().get("readyReplicas") == 1
        return ready and {one["spec"]["containers"][0]["image"] for one in pods} == {image}

    deaths = carried_out(lambda: as_asked("none:1"))
    assert deaths >= 6, "finalizer, Berth, lock, volume, claim, StatefulSet"
    apps.apply(updateStrategy={"type": "InPlaceIfPossible"}, template=apps.template("none:2"), replicas=1)
    assert carried_out(lambda: as_asked("none:2")) >= 2
    assert len(apps.world.locks()) == 1
    apps.kubectl("delete", "sapp", "db", "--wait=false")
    assert carried_out(lambda: apps.api.find(kinds.STATEFUL_APP, "db", apps.name) is None) >= 5
    assert not apps.world.berths()
    assert not apps.world.locks()


def test_what_cannot_be_is_told_and_goes_on_when_it_can(apps: AppWorld, start: Any) -> None:
    apps.allow()
    apps.disks(1)
    start("--no-leader-elect")
    apps.apply()
    apps.stalled("Unschedulable", "db-1")
    assert not apps.world.locks(), "all or none: half an app holds no disk"
    apps.disks(1)
    apps.ready(2)
    apps.apply(name="none", disks=[])
    apps.stalled("Refused", "disks is empty", "none")
    apps.apply(name="odd", template=apps.template(containers=[{"name": "A B", "image": "i"}]), workload="Pod", disks=[])
    apps.stalled("Refused", "template", "odd")
    until(lambda: apps.world.told("odd", "Refused"), "no Event of it")


def test_the_defaults_of_a_namespace_are_held_against_quotas_and_recorded(apps: AppWorld, start: Any) -> None:
    """What the template leaves out counts as it does in the pods."""
    apps.allow()
    apps.disks(2)
    limit = {"type": "Container", "defaultRequest": {"cpu": "300m"}, "default": {"cpu": "1"}}
    few = {"name": "few", "namespace": apps.name}
    apps.api.create(kinds.LIMIT_RANGE, {"metadata": few, "spec": {"limits": [limit]}})
    apps.api.create(kinds.RESOURCE_QUOTA, {"metadata": few, "spec": {"hard": {"requests.cpu": "200m"}}})
    room(apps, "200m")
    start("--no-leader-elect")
    apps.apply()
    apps.stalled("Refused", "ResourceQuota few: requests.cpu: hard 200m, used 0, requested 600m")
    assert (apps.world.berths(), apps.world.locks(), apps.pods()) == ({}, {}, {}), "it is told before"
    made = (kinds.PVC, kinds.STATEFUL_SET, kinds.SERVICE)
    assert [one["metadata"]["name"] for kind in made for one in apps.api.list(kind, apps.name)] == []

    apps.api.patch(kinds.RESOURCE_QUOTA, "few", apps.name, {"spec": {"hard": {"requests.cpu": "600m"}}})
    room(apps, "600m")
    apps.kubectl("annotate", "sapp", "db", "looked=again")
    apps.ready(2)
    recorded = {name: one["spec"]["requests"] for name, one in apps.world.berths().items()}
    assert recorded == {"db-0": {"cpu": "300m"}, "db-1": {"cpu": "300m"}}
    running = {name: one["spec"]["containers"][0]["resources"]["requests"] for name, one in apps.pods().items()}
    assert running == recorded


def room(apps: AppWorld, cpu: str) -> None:
    """Once the quota is counted with that much."""

    def counted() -> bool:
        status = apps.api.get(kinds.RESOURCE_QUOTA, "few", apps.name).get("status") or {}
        return bool(status.get("hard") == {"requests.cpu": cpu} and status.get("used"))

    until(counted, "the quota is not counted")


def test_a_claim_that_changes_under_a_replica_is_refused_and_told(apps: AppWorld, start: Any) -> None:
    """In the words of the module, which tells them of the same app."""
    apps.allow()
    apps.disks(1)
    start("--no-leader-elect")
    apps.apply(replicas=1)
    apps.ready(1)
    before, locks = apps.uids(), apps.world.locks()
    apps.apply(replicas=2, disks=[{"name": "data", "size": "1Gi", "storageClassName": "another"}])
    words = f"replica db-0: claim data is on LocalDisk {next(iter(locks))} (StorageClass {apps.name}), and StorageClass"
    apps.stalled("Blocked", f"{apps.name}/db: {words} another is asked for")
    assert (apps.uids(), apps.world.locks()) == (before, locks)
    until(lambda: apps.world.told("db", "Blocked", "another is asked for"), "no Event of it")
    apps.apply(replicas=1)
    apps.ready(1)
    assert (apps.uids(), apps.world.locks()) == (before, locks)


def test_it_goes_back_to_a_revision_and_stays_there(apps: AppWorld, start: Any) -> None:
    """Applied again the request changes nothing; taken out, the app has the template that it is given."""
    apps.allow()
    apps.disks(1)
    start("--no-leader-elect")
    asked: dict[str, Any] = {"replicas": 1, "updateStrategy": {"prePull": False}}
    for image in ("none:1", "none:2"):
        apps.apply(**asked, template=apps.template(image))
        updated(apps, image)
    before, known = apps.uids(), revisions(apps)
    assert [each for _name, each in known] == ["none:1", "none:2"]
    apps.apply(**asked, template=apps.template("none:2"), rollbackTo=9)
    apps.stalled("Refused", f"known are 1 = {known[0][0]} (none:1), 2 = {known[1][0]} (none:2, current)")
    first = {**asked, "template": apps.template("none:2"), "rollbackTo": known[0][0]}
    apps.apply(**first)
    updated(apps, "none:1")
    assert revisions(apps) == [known[1], known[0]], "the former one is the newest again"
    assert f"the template of rollbackTo {known[0][0]}" in apps.condition("Ready")["message"]
    done = apps.api.get(kinds.STATEFUL_SET, "db", apps.name)["metadata"]["generation"]
    apps.apply(**first)
    apps.kubectl("annotate", "sapp", "db", "looked=1")
    apps.apply(**asked, template=apps.template("none:1"))
    until(lambda: "rollbackTo" not in apps.condition("Ready").get("message", "rollbackTo"), lambda: str(apps.status()))
    updated(apps, "none:1")
    assert apps.api.get(kinds.STATEFUL_SET, "db", apps.name)["metadata"]["generation"] == done
    assert apps.uids() == before, "in the running pod"


def updated(apps: AppWorld, image: str) -> None:
    """Once every replica has the image, and the app is Ready."""

    def done() -> bool:
        status = apps.status()
        images = {one["spec"]["containers"][0]["image"] for one in apps.pods().values()}
        ready = apps.condition("Ready").get("status") == "True"
        return ready and status.get("updatedReplicas") == status.get("replicas") == 1 and images == {image}

    until(done, lambda: str(apps.status()))


def revisions(apps: AppWorld) -> list[tuple[str, str]]:
    """Names and images, as the status has them."""
    return [(one["name"], one["images"]["main"]) for one in apps.status()["revisions"]]


def test_one_driver_at_a_time_and_from_one_to_the_other(apps: AppWorld, start: Any) -> None:
    """An app of a playbook becomes a StatefulApp, and back, without a pod made anew."""
    apps.disks(2)
    apps.allow()
    made = apps.module(replicas=2, wait=True)
    assert made["changed"], made
    before = apps.uids()
    assert not apps.world.told("db-0", "Running"), "no controller was there"

    tried = apps.module(check=True, driver="controller", replicas=2)
    assert (tried["changed"], tried.get("msg")) == (True, None)
    assert apps.live()["spec"]["driver"] == "playbook", "check mode hands nothing over"
    assert apps.condition("Ready")["reason"] == "Running", "as the playbook has told"
    start()
    taken = apps.module(driver="controller", replicas=2, wait=True)
    assert taken["changed"], taken
    assert taken["stateful_app"]["readyReplicas"] == 2
    assert not taken["warnings"], taken
    again = apps.module(driver="controller", replicas=2, wait=True)
    assert (again["changed"], again["requests"].get("apply")) == (False, None)
    assert apps.uids() == before

    other = apps.template()
    other["spec"]["containers"][0]["image"] = "none:2"
    foreseen = apps.module(check=True, driver="controller", replicas=2, template=other)
    assert {row["ordinal"] for row in foreseen["updated"]} == {0, 1}, foreseen
    wide = apps.module(check=True, driver="controller", replicas=3)
    assert "would not carry this out" in str(wide["warnings"]), "there is no third disk"
    assert apps.uids() == before

    for values in ({"replicas": 1}, {"state": "absent"}):
        refused = apps.module(**values)
        assert refused["failed"]
        assert "has driver controller" in refused["msg"], refused
        assert not refused["changed"]
    apps.kubectl("patch", "sapp", "db", "--type", "merge", "--patch", '{"spec": {"driver": "playbook"}}')
    until(lambda: apps.condition("Ready").get("reason") == "DrivenByPlaybook", lambda: str(apps.live()))
    until(lambda: not apps.live()["metadata"].get("finalizers"), lambda: str(apps.live()))
    assert not apps.module(replicas=2, wait=True)["changed"]
    assert apps.uids() == before
    told = apps.status()
    assert apps.condition("Ready")["reason"] == "Running", "the playbook tells again"
    apps.kubectl("scale", "sapp", "db", "--replicas=3")
    time.sleep(1)  # the controller is told of it, and leaves it alone
    assert apps.live()["status"] == told
    assert told["observedGeneration"] < apps.live()["metadata"]["generation"], "a run is due"
    assert apps.module(replicas=2, wait=True)["changed"], "what the task says counts"
    assert (apps.live()["spec"]["replicas"], apps.uids()) == (2, before)
    gone = apps.module(state="absent")
    assert gone["changed"], gone
    assert not apps.world.berths()
    assert apps.api.find(kinds.STATEFUL_APP, "db", apps.name) is None
    apps.changes_are_told("db-0", ["Releasing"], "stateful_app")


def test_bare_pods_are_carried_out_too_and_absent_deletes(apps: AppWorld, start: Any) -> None:
    apps.disks(2)
    apps.allow()
    start()
    apps.module(driver="controller", workload="Pod", replicas=2, wait=True)
    before = apps.uids()
    changed = apps.module(driver="controller", workload="Pod", replicas=2, wait=True, template=apps.template("none:2"))
    assert changed["changed"], changed
    until(lambda: apps.status().get("updatedReplicas") == 2, lambda: str(apps.status()))
    apps.ready(2)
    assert apps.uids() == before, "in the running pods"
    apps.kubectl("patch", "sapp", "db", "--type", "merge", "--patch", '{"spec": {"suspended": true}}')
    until(lambda: apps.condition("Ready").get("reason") == "Suspended", lambda: str(apps.live()))
    assert not apps.pods()
    assert len(apps.world.locks()) == 2
    apps.kubectl("patch", "sapp", "db", "--type", "merge", "--patch", '{"spec": {"suspended": false}}')
    apps.ready(2)
    first = fail(apps, "db-1")
    until(lambda: apps.uids().get("db-1", first) != first and ready(apps.pods().get("db-1")), lambda: str(apps.live()))
    second = fail(apps, "db-1")  # not before kwok has it Ready, which would write Running over it
    until(lambda: "ended 2 times in a row" in apps.condition("Ready").get("message", ""), lambda: str(apps.live()))
    due = apps.condition("Ready")["message"].partition("waiting until ")[2].partition(" ")[0]
    assert apps.uids()["db-1"] == second, "its time has not come"
    apps.ready(2)
    made = apps.pods()["db-1"]["metadata"]["creationTimestamp"]
    assert 0 <= (datetime.fromisoformat(made) - datetime.fromisoformat(due)).total_seconds() <= 4, (made, due)
    gone = apps.module(driver="controller", workload="Pod", state="absent")
    assert gone["changed"], gone
    assert not apps.world.berths()
    assert not apps.pods()


def fail(apps: AppWorld, name: str) -> str:
    """Its node refuses the pod; the uid of that pod."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": now}
    status = {"phase": "Failed", "reason": "OutOfcpu", "message": "no cpu", "conditions": [condition]}
    return str(apps.api.patch(kinds.POD, name, apps.name, {"status": status}, "status")["metadata"]["uid"])


def test_an_image_is_pulled_first_and_one_that_cannot_be_leaves_the_replica_as_it_is(
    apps: AppWorld, start: Any
) -> None:
    """The test is the kubelet of the pull pod: kwok lets go of a node without its label."""
    apps.disks(1)
    apps.allow()
    start("--no-leader-elect")
    apps.apply(replicas=1)
    apps.ready(1)
    before = apps.uids()
    (node,) = {one["spec"]["nodeName"] for one in apps.pods().values()}
    told = {"name": "main", "image": "none:2", "imageID": "", "ready": False, "restartCount": 0}
    absent = {"waiting": {"reason": "ErrImageNeverPull", "message": "is not present"}}
    ended = {"terminated": {"reason": "StartError", "exitCode": 128}}
    apps.api.patch(kinds.NODE, node, None, {"metadata": {"labels": {"type": None}}})
    try:
        apps.apply(replicas=1, template=apps.template("none:2"))
        pull = until(lambda: next(iter(set(apps.pods()) - set(before)), None), lambda: str(apps.status()))
        for phase, state in (("Pending", absent), ("Failed", ended)):
            body = {"status": {"phase": phase, "containerStatuses": [{**told, "state": state}]}}
            apps.api.patch(kinds.POD, pull, apps.name, body, "status")
            if phase == "Pending":
                apps.stalled("Blocked", "pod db-0 is not updated: node")
                assert apps.pods()["db-0"]["spec"]["containers"][0]["image"] == "none:1"
        until(lambda: apps.status().get("updatedReplicas") == 1 and apps.uids() == before, lambda: str(apps.status()))
        assert apps.pods()["db-0"]["spec"]["containers"][0]["image"] == "none:2"
    finally:
        apps.api.patch(kinds.NODE, node, None, {"metadata": {"labels": {"type": "kwok"}}})

    apps.kubectl("create", "quota", "no-more", "--hard=pods=1")
    until(lambda: '"pods":"1"' in apps.kubectl("get", "quota", "no-more", "-o", "jsonpath={.status.used}"), "no quota")
    apps.apply(replicas=1, template=apps.template("none:3"))
    until(lambda: apps.world.told("db", "Updating", "is updated without its new images"), lambda: str(apps.status()))
    until(lambda: apps.status().get("updatedReplicas") == 1, lambda: str(apps.status()))
    assert apps.pods()["db-0"]["spec"]["containers"][0]["image"] == "none:3"
    assert apps.uids() == before


def test_a_changed_content_makes_the_pods_anew(apps: AppWorld, start: Any) -> None:
    """Secrets by a right to these alone, which the message of the StatefulApp spells out."""
    apps.disks(1)
    apps.allow()
    apps.kubectl("create", "secret", "generic", "pass", "--from-literal=password=one")
    sources = [{"configMapRef": {"name": "conf"}}, {"secretRef": {"name": "pass"}}]
    template = apps.template()
    template["spec"]["containers"][0]["envFrom"] = sources
    start("--no-leader-elect")
    apps.apply(replicas=1, template=template, updateOn=["ConfigMaps", "Secrets"])
    apps.stalled("Forbidden", "--resource=secrets --resource-name=NAME")
    secrets = ("role", "berth-controller-secrets", "--verb=get", "--resource=secrets", "--resource-name=pass")
    apps.kubectl("create", *secrets)
    bearer = f"--serviceaccount={NAMESPACE}:{ACCOUNT}"
    apps.kubectl("create", "rolebinding", "berth-controller-secrets", "--role=berth-controller-secrets", bearer)
    apps.kubectl("annotate", "sapp", "db", "looked=1")
    apps.stalled("Blocked", f"ConfigMap {apps.name}/conf is not there, and envFrom of container main")
    apps.kubectl("create", "configmap", "conf", "--from-literal=size=small")
    apps.kubectl("annotate", "--overwrite", "sapp", "db", "looked=2")
    apps.ready(1)
    before = apps.uids()
    apps.kubectl("patch", "configmap", "conf", "--patch", '{"data": {"size": "large"}}')
    apps.kubectl("annotate", "--overwrite", "sapp", "db", "looked=3")
    until(lambda: apps.uids() != before and set(apps.uids()) == set(before), lambda: str(apps.status()))
    apps.ready(1)


def test_the_module_says_that_no_controller_is_there(apps: AppWorld) -> None:
    result = apps.module(driver="controller", replicas=1, wait=True, wait_timeout=1)
    assert result["failed"]
    assert "not looked at by berth-controller yet" in result["msg"], result
    assert "no controller carries this StatefulApp out" in result["msg"], result
    told = apps.info()
    assert "no controller carries this StatefulApp out" in str(told["warnings"]), told
    assert (told["stateful_app"]["generation"], told["stateful_app"].get("observedGeneration")) == (1, None)
