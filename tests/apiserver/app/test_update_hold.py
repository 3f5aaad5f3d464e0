"""A replica's room is held while an update makes its pod anew: against the stock kube-scheduler, without the extender.

A fake node has room for exactly the replica, and pods of the same priority wait for that very node.
"""

from __future__ import annotations

import time
from functools import partial
from itertools import count

import pytest

from tests.apiserver.app.runner import calm, deaths, run
from tests.apiserver.app.test_stateful_app import writes
from tests.apiserver.app.test_update import options, pods, uids, with_template
from tests.apiserver.app.world import local_disk
from tests.dev.hosts_help import eventually
from tests.support.kube import client_for, install_crds
from tests.support.team import binding, team
from tests.support.team import options as of_team

NODE, TEAM = "fake-0", "team-hold"
#: More than half of what the node has.
ROOM = {"requests": {"cpu": "20"}}
SQUATTERS = ("squatter-0", "squatter-1", "squatter-2")
HELPERS = "berth.dev/app=db.p"
OURS = {"app.kubernetes.io/managed-by": "berth"}


@pytest.fixture
def world(app_world):
    app_world.add_disk(local_disk(NODE, 0))
    yield app_world
    for name in SQUATTERS:
        app_world.client.delete(app_world.kinds.POD, name, "default", grace=0)
    app_world.clear()
    app_world.client.delete(app_world.kinds.PRIORITY_CLASS, "app-high")
    app_world.client.delete(app_world.kinds.PRIORITY_CLASS, "berth-hold")
    install_crds(app_world.kubeconfig)


@pytest.fixture
def app_world(app_world, kubeconfig):
    app_world.kubeconfig = kubeconfig
    return app_world


def asked(kubeconfig, command="one", hold=True, **values):
    """The app of one replica; another ``command`` has its pod made anew."""
    base = options(kubeconfig, replicas=1, update_hold=hold, **{"wait_timeout": 30, **values})
    return with_template(base, image="berth.local/busybox:1", command=["sleep", command], resources=ROOM)


def squat(world):
    """Pods that want the replica's room, and have been told that there is none for a second or two."""
    container = {"name": "main", "image": "berth.local/busybox:1", "resources": ROOM}
    selector = {"kubernetes.io/hostname": NODE}
    spec = {"containers": [container], "nodeSelector": selector, "terminationGracePeriodSeconds": 0}
    for name in SQUATTERS:
        world.client.create(world.kinds.POD, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    eventually(lambda: all(map(told_no, squatters(world))), 30, "the squatters to be tried")
    time.sleep(2)  # the pause after a first failed try


def squatters(world):
    return [world.client.get(world.kinds.POD, name, "default") for name in SQUATTERS]


def told_no(pod):
    conditions = {one["type"]: one for one in pod["status"].get("conditions") or ()}
    return conditions.get("PodScheduled", {}).get("reason") == "Unschedulable"


def nobody_came(world):
    assert [pod["spec"].get("nodeName") for pod in squatters(world)] == [None] * len(SQUATTERS)


def helpers(world):
    return [pod["metadata"]["name"] for pod in world.client.list(world.kinds.POD, "default", labels=HELPERS)]


def at_home(world):
    pod = pods(world)["db-0"]
    ready = {one["type"]: one["status"] for one in pod["status"]["conditions"]}["Ready"]
    assert (pod["spec"]["nodeName"], ready) == (NODE, "True")
    assert helpers(world) == []
    world.check()


@pytest.mark.promise
@pytest.mark.parametrize("workload", ["StatefulSet", "Pod"])
def test_nobody_gets_the_room_of_a_replica_whose_pod_is_made_anew(world, kubeconfig, workload):
    calm(run(asked(kubeconfig, workload=workload)))
    squat(world)
    before = uids(world)
    second = asked(kubeconfig, "two", workload=workload)
    seen = calm(run(second, check=True))
    assert [(row["pod"], row["in_place"], row["held"]) for row in seen["updated"]] == [("db-0", False, True)]
    assert seen["diff"]["after"]["objects"]["Pod default/db-0"].endswith("; its room is held meanwhile")
    assert writes(seen) == {}
    done = calm(run(second))
    assert [(row["held"], row["room"], done["warnings"]) for row in done["updated"]] == [(True, "hold_pod", [])]
    tail = [write for write in done["trace"] if "Pod" in write]
    assert tail[:3] == ["create Pod", "patch Pod status", "create Pod eviction"]
    assert uids(world) != before
    at_home(world)
    nobody_came(world)
    again = calm(run(second))
    assert (again["changed"], writes(again)) == (False, {})


def test_without_it_another_pod_may_get_the_room(world, kubeconfig):
    """What the option is for. The message says why the replica waits."""
    calm(run(asked(kubeconfig)))
    squat(world)
    stuck = run(asked(kubeconfig, "two", hold=False, wait_timeout=4))
    assert stuck["failed"], stuck
    assert "pod db-0 to be Ready with the new template (0/" in stuck["msg"]
    assert "Insufficient cpu" in stuck["msg"]
    assert sorted(filter(None, (pod["spec"].get("nodeName") for pod in squatters(world)))) == [NODE]


@pytest.mark.slow
@pytest.mark.promise
def test_a_run_that_dies_at_any_write_leaves_the_room_to_the_replica(world, kubeconfig):
    """The next ones bring the replica home, and leave no hold pod."""
    calm(run(asked(kubeconfig, "one")))
    squat(world)
    died = 0
    for _death in deaths(partial(run, asked(kubeconfig, "two"))):
        died += 1
        time.sleep(1)  # schedulers and controllers go on
        nobody_came(world)
    assert died >= len(("Berth", "StatefulSet", "hold", "nomination", "deletion", "nomination", "hold"))
    at_home(world)
    nobody_came(world)


@pytest.mark.slow
@pytest.mark.promise
def test_an_update_that_has_died_at_any_write_is_taken_back_into_the_room(world, kubeconfig):
    """One run brings the replica home with the former template, and leaves no hold pod."""
    templates = [asked(kubeconfig, "one"), asked(kubeconfig, "two")]
    calm(run(templates[0]))
    squat(world)
    calm(run(templates[1]))
    for write in count(1):
        templates.reverse()
        done = run(templates[1], kill_at=write)
        if done is not None:
            calm(done)
            break
        time.sleep(1)  # schedulers and controllers go on
        nobody_came(world)
        templates.reverse()
        calm(run(templates[1]))
        at_home(world)
        nobody_came(world)
        assert run(templates[1])["writes"] == 0, write
    assert write > len(("Berth", "StatefulSet", "hold", "nomination", "deletion", "nomination", "hold"))


def test_a_hold_that_is_left_holds_nobody_back_where_none_is_wanted_any_more(world, kubeconfig):
    calm(run(asked(kubeconfig)))
    writes_before = run(asked(kubeconfig, "two"), kill_at=1, of="create Pod")
    assert writes_before is None
    assert len(helpers(world)) == 1
    gone = calm(run(asked(kubeconfig, "one", hold=False)))
    assert gone["changed"]
    at_home(world)
    assert not calm(run(asked(kubeconfig, "one", hold=False)))["changed"]
    assert run(asked(kubeconfig, "two"), kill_at=1, of="create Pod") is None
    calm(run({**asked(kubeconfig), "state": "absent"}))
    assert helpers(world) == []


def test_without_its_class_nothing_is_touched_and_with_too_low_a_class_it_says_so(world, kubeconfig):
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "app-high"}, "value": 5}
    world.client.create(world.kinds.PRIORITY_CLASS, high)
    calm(run(asked(kubeconfig)))
    world.client.delete(world.kinds.PRIORITY_CLASS, "berth-hold")
    for check in (True, False):
        refused = run(asked(kubeconfig, "two"), check=check)
        assert refused["failed"], refused
        assert "PriorityClass berth-hold is not there" in refused["msg"]
        assert "run the module crds" in refused["msg"]
        assert writes(refused) == {}
    install_crds(kubeconfig)
    second = asked(kubeconfig, "two")
    second["template"]["spec"]["priorityClassName"] = "app-high"
    done = calm(run(second))
    assert [(row["held"], row["room"]) for row in done["updated"]] == [(False, "nobody")]
    (warning,) = done["warnings"]
    assert "its priority is 5, and PriorityClass berth-hold has the value 0" in warning
    assert "create Pod" not in done["trace"]

    world.client.delete(world.kinds.PRIORITY_CLASS, "berth-hold")
    own = {**high, "metadata": {"name": "berth-hold"}, "preemptionPolicy": "Never"}
    world.client.create(world.kinds.PRIORITY_CLASS, own)
    third = asked(kubeconfig, "three")
    third["template"]["spec"]["priorityClassName"] = "app-high"
    done = calm(run(third))
    assert [(row["held"], done["warnings"]) for row in done["updated"]] == [(True, [])]
    at_home(world)


def test_who_may_not_patch_the_status_of_pods_updates_without(world, kubeconfig):
    """And who has the role beside the others does with."""
    with team(kubeconfig, TEAM):
        base = {"namespace": TEAM, **of_team(TEAM)}
        calm(run(asked(kubeconfig, **base)))
        done = calm(run(asked(kubeconfig, "two", **base)))
        assert [row["held"] for row in done["updated"]] == [False]
        (warning,) = done["warnings"]
        assert "pod db-0 is made anew without its room being held" in warning
        assert "ClusterRole berth-update-hold" in warning
        assert world.client.list(world.kinds.POD, TEAM, labels=HELPERS) == []
        client_for(kubeconfig).create(world.kinds.ROLE_BINDING, binding("berth-update-hold", TEAM, TEAM))
        done = eventually(lambda: held(run(asked(kubeconfig, str(time.monotonic()), **base))), 60, "the right")
        assert done["warnings"] == []
        calm(run({**asked(kubeconfig, **base), "state": "absent"}))


def held(result):
    return calm(result) if [row["held"] for row in calm(result)["updated"]] == [True] else None


def used_cpu(world, quota):
    status = world.client.get(world.kinds.RESOURCE_QUOTA, quota, "default").get("status", {})
    return status.get("used", {}).get("requests.cpu")


def test_a_quota_that_is_full_stops_no_update(world, kubeconfig):
    calm(run(asked(kubeconfig)))
    quota = {"metadata": {"name": "full", "namespace": "default"}, "spec": {"hard": {"requests.cpu": "20"}}}
    world.client.create(world.kinds.RESOURCE_QUOTA, quota)
    try:
        eventually(lambda: used_cpu(world, "full") == "20", 30, "the quota to be counted")
        done = calm(run(asked(kubeconfig, "two")))
        assert [row["held"] for row in done["updated"]] == [False]
        assert "exceeded quota" in done["warnings"][0]
    finally:
        world.client.delete(world.kinds.RESOURCE_QUOTA, "full", "default")
    at_home(world)
