"""A changed template in pods that are there: real API server and StatefulSet controller, kubelets played by kwok."""

from __future__ import annotations

import copy
import re
from datetime import datetime, timedelta
from functools import partial

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.stateful_app import INFO
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.in_service import GATE
from tests.apiserver.app.runner import SPEC, STATUS, calm, deaths, run
from tests.apiserver.app.test_stateful_app import NODES, writes
from tests.apiserver.app.world import local_disk, params
from tests.dev.hosts_help import eventually

UPDATING = "berth.dev/updating"


@pytest.fixture
def world(app_world):
    for node in NODES:
        app_world.add_disk(local_disk(node, 0))
    yield app_world
    app_world.clear()


def options(kubeconfig, **values):
    return params("db", kubeconfig, **{"replicas": 3, "wait": True, **values})


def with_template(base, image="berth.local/busybox:2", labels=None, **container):
    changed = copy.deepcopy(base)
    changed["template"]["spec"]["containers"][0].update(image=image, **container)
    changed["template"]["metadata"] = {"labels": labels or {}}
    return changed


def pods(world):
    found = world.client.list(world.kinds.POD, "default", labels="berth.dev/app=db")
    return {pod["metadata"]["name"]: pod for pod in found}


def uids(world):
    return {name: pod["metadata"]["uid"] for name, pod in pods(world).items()}


def images(world):
    return [pod["spec"]["containers"][0]["image"] for pod in pods(world).values()]


def test_a_gate_that_only_the_controller_opens_is_refused_before_anything_is_touched(world, kubeconfig):
    asked = options(kubeconfig)
    asked["template"]["spec"]["readinessGates"] = [{"conditionType": GATE}]
    told = run(asked)
    assert told["failed"]
    assert f"{GATE}, which berth-controller opens and a playbook does not" in told["msg"]
    assert not pods(world)


@pytest.mark.parametrize("workload", ["StatefulSet", "Pod"])
def test_an_image_goes_into_the_pods_that_are_there(world, kubeconfig, workload):
    first = options(kubeconfig, workload=workload)
    calm(run(first))
    before = uids(world)
    second = with_template(first)
    seen = calm(run(second, check=True))
    assert writes(seen) == {}
    assert [(row["pod"], row["in_place"], row["fields"]) for row in seen["updated"]] == [
        (f"db-{ordinal}", True, ["spec.containers[main].image"]) for ordinal in (2, 1, 0)
    ]
    told = seen["diff"]["after"]["objects"]["Pod default/db-2"]
    assert told == ("updated in place: spec.containers[main].image; pulled on the node first: berth.local/busybox:2")
    done = calm(run(second))
    assert done["changed"]
    assert [row["pod"] for row in done["updated"]] == ["db-2", "db-1", "db-0"]
    assert images(world) == ["berth.local/busybox:2"] * 3
    assert uids(world) == before
    again = calm(run(second))
    assert not again["changed"]
    assert writes(again) == {}
    status = world.client.get(world.kinds.STATEFUL_SET, "db", "default")["status"] if workload != "Pod" else {}
    if status:
        eventually(lambda: updated_replicas(world) == 3, 30, "the StatefulSet's controller to count them")


def updated_replicas(world):
    return world.client.get(world.kinds.STATEFUL_SET, "db", "default")["status"].get("updatedReplicas", 0)


def test_labels_change_in_the_pods_that_are_there(world, kubeconfig):
    first = with_template(options(kubeconfig), labels={"tier": "silver"})
    calm(run(first))
    before = uids(world)
    done = calm(run(with_template(first, labels={"team": "db"})))
    assert done["updated"][0]["fields"] == ["metadata.labels"]
    assert uids(world) == before
    for pod in pods(world).values():
        assert (pod["metadata"]["labels"].get("tier"), pod["metadata"]["labels"]["team"]) == (None, "db")
        assert UPDATING not in pod["metadata"].get("annotations", {})


def test_where_a_node_cannot_resize_the_pod_is_made_anew_there(world, kubeconfig):
    """kwok reports no resources of containers, as a kubelet does that cannot resize."""
    first = with_template(options(kubeconfig), resources={"requests": {"cpu": "100m"}})
    calm(run(first))
    before, nodes = uids(world), {name: pod["spec"]["nodeName"] for name, pod in pods(world).items()}
    done = calm(run(with_template(first, resources={"requests": {"cpu": "200m"}})))
    assert done["updated"][0]["fields"] == ["spec.containers[main].resources.requests.cpu"]
    assert [warning for warning in done["warnings"] if "pod db-2 cannot be resized" in warning]
    assert not set(uids(world).items()) & set(before.items())
    assert {name: pod["spec"]["nodeName"] for name, pod in pods(world).items()} == nodes
    assert {record["spec"]["requests"]["cpu"] for record in world.berths("db").values()} == {"200m"}


def test_what_needs_a_new_pod_makes_one_after_the_other_on_its_node(world, kubeconfig):
    first = options(kubeconfig)
    calm(run(first))
    before, nodes = uids(world), {name: pod["spec"]["nodeName"] for name, pod in pods(world).items()}
    second = with_template(first, command=["sleep", "1"], image="berth.local/busybox:1")
    only = run({**second, "update_strategy": "in_place_only"})
    assert only["failed"]
    assert "pod db-2 cannot be updated in place: spec.containers[main].command" in only["msg"]
    assert writes(only) == {}
    done = calm(run({**second, "partition": 1}))
    assert [(row["pod"], row["in_place"]) for row in done["updated"]] == [("db-2", False), ("db-1", False)]
    now = uids(world)
    assert [now[name] == before[name] for name in sorted(now)] == [True, False, False]
    assert {name: pod["spec"]["nodeName"] for name, pod in pods(world).items()} == nodes
    assert not calm(run({**second, "partition": 1}))["changed"]
    calm(run(second))
    assert uids(world)["db-0"] != before["db-0"]
    world.check()


def test_paused_begins_nothing_and_the_primary_is_last(world, kubeconfig):
    first = options(kubeconfig, update_strategy="same_node", min_ready_seconds=2)
    calm(run(first))
    assert world.client.get(world.kinds.STATEFUL_SET, "db", "default")["spec"]["minReadySeconds"] == 2
    world.client.patch(world.kinds.POD, "db-2", "default", {"metadata": {"labels": {"role": "primary"}}})
    second = {**with_template(first), "update_order": "primary_last", "update_primary_label": "role=primary"}
    before = uids(world)
    for changed in (True, False):
        paused = calm(run({**second, "paused": True}))
        assert paused["changed"] is changed
        assert [(row["pod"], row["in_place"]) for row in paused["outdated"]] == [
            (f"db-{ordinal}", False) for ordinal in (2, 1, 0)
        ]
        assert "updated" not in paused
    assert writes(paused) == {}
    assert uids(world) == before
    calm(run(second))
    made = {name: datetime.fromisoformat(pod["metadata"]["creationTimestamp"]) for name, pod in pods(world).items()}
    assert sorted(made, key=made.__getitem__) == ["db-1", "db-0", "db-2"]
    assert min(made["db-0"] - made["db-1"], made["db-2"] - made["db-0"]) >= timedelta(seconds=2)
    assert not calm(run(second))["changed"]


def revisions(kubeconfig):
    told = calm(run({"name": "db", "kubeconfig": str(kubeconfig)}, INFO))["revisions"]
    return [(row["images"]["main"][-1], row["current"], row["pods"], row["differs"]) for row in told]


def test_back_to_a_former_revision_and_the_same_again(world, kubeconfig):
    first = options(kubeconfig)
    second, names = with_template(first), ["db-0", "db-1", "db-2"]
    calm(run(first))
    calm(run(second))
    before, image = uids(world), ["spec.containers[main].image"]
    assert revisions(kubeconfig) == [("1", False, [], image), ("2", True, names, [])]
    back = {**second, "rollback_to": "previous"}
    seen = calm(run(back, check=True))
    assert [(row["pod"], row["in_place"], row["fields"]) for row in seen["updated"]] == [
        (f"db-{ordinal}", True, image) for ordinal in (2, 1, 0)
    ]
    assert writes(seen) == {}
    calm(run(back))
    assert images(world) == ["berth.local/busybox:1"] * 3
    assert uids(world) == before
    again = calm(run(back))
    assert (again["changed"], writes(again)) == (False, {})
    assert revisions(kubeconfig) == [("2", False, [], image), ("1", True, names, [])]
    unknown = run({**second, "rollback_to": "9"})
    known = r"known are 2 = db-\w+ \(berth.local/busybox:2\), 3 = db-\w+ \(berth.local/busybox:1, current\)"
    assert re.search(known, unknown["msg"]), unknown["msg"]
    assert writes(unknown) == {}
    calm(run(second))
    assert images(world) == ["berth.local/busybox:2"] * 3
    assert uids(world) == before


def test_bare_pods_tell_their_revisions(world, kubeconfig):
    first = options(kubeconfig, workload="Pod", replicas=2)
    calm(run(first))
    calm(run({**with_template(first), "partition": 1}))
    assert [row[:3] for row in revisions(kubeconfig)] == [("1", False, ["db-0"]), ("2", True, ["db-1"])]


def test_a_manifest_that_rolls_is_rolled_by_the_module(world, kubeconfig):
    """As kubectl get has it. An earlier release left such a StatefulSet to its controller."""
    first, kind = options(kubeconfig), world.kinds.STATEFUL_SET

    def rolling(partition, base):
        own = {"type": "RollingUpdate", "rollingUpdate": {"partition": partition, "maxUnavailable": 1}}
        spec = {"minReadySeconds": 1, "template": base["template"], "updateStrategy": own}
        return {**base, "template": {"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": spec}}

    calm(run(rolling(0, first)))
    made = world.client.get(kind, "db", "default")
    spec = {**made["spec"], "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}}
    meta = {key: made["metadata"][key] for key in ("name", "namespace", "labels", "annotations")}
    world.client.apply(kind, {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": spec})
    before, second = uids(world), with_template(first)
    assert not calm(run(rolling(0, first)))["changed"], "the upgrade alone changes nothing"
    two = run({**rolling(2, second), "partition": 1})
    assert "partition is 1, and spec.updateStrategy.rollingUpdate.partition of the StatefulSet" in two["msg"]
    seen = calm(run(rolling(2, second), check=True))
    assert (writes(two), writes(seen)) == ({}, {})
    assert [(row["pod"], row["in_place"]) for row in seen["updated"]] == [("db-2", True)]
    shown = [seen["diff"][when]["objects"]["StatefulSet default/db"]["spec"] for when in ("before", "after")]
    assert [one["updateStrategy"]["type"] for one in shown] == ["RollingUpdate", "OnDelete"]
    done = calm(run(rolling(2, second)))
    assert [row["pod"] for row in done["updated"]] == ["db-2"]
    assert [row["pod"] for row in done["outdated"]] == ["db-1", "db-0"]
    assert world.client.get(kind, "db", "default")["spec"]["updateStrategy"] == {"type": "OnDelete"}
    done = calm(run(rolling(0, second)))
    assert [row["pod"] for row in done["updated"]] == ["db-1", "db-0"]
    assert (uids(world), images(world)) == (before, ["berth.local/busybox:2"] * 3)
    assert not calm(run(rolling(0, second)))["changed"]


def test_a_named_replica_takes_another_way_and_images_of_init_containers_change_in_the_running_pods(world, kubeconfig):
    first = options(kubeconfig)
    init = {"name": "first", "image": "berth.local/busybox:1"}
    first["template"]["spec"]["initContainers"] = [init]
    calm(run(first))
    before, second = uids(world), copy.deepcopy(first)
    second["template"]["spec"]["initContainers"] = [{**init, "image": "berth.local/busybox:2"}]
    overrides = [{"ordinal": 2, "strategy": "same_node"}, {"ordinal": 0, "hold": True}]
    done = calm(run({**second, "update_overrides": overrides}))
    field = "spec.initContainers[first].image"
    assert [(row["pod"], row["in_place"], row["fields"]) for row in done["updated"]] == [
        ("db-2", False, [field, "update_strategy: same_node"]),
        ("db-1", True, [field]),
    ]
    assert [row["pod"] for row in done["outdated"]] == ["db-0"]
    now, found = uids(world), {name: pod["spec"]["initContainers"][0]["image"] for name, pod in pods(world).items()}
    assert [now[name] == before[name] for name in sorted(now)] == [True, True, False]
    assert found == {f"db-{ordinal}": f"berth.local/busybox:{1 if ordinal == 0 else 2}" for ordinal in range(3)}


def test_what_the_api_server_filled_in_for_an_earlier_release_is_no_obstacle(world, kubeconfig):
    """A StatefulSet that was made without an updateStrategy has one with a partition, which belongs to nobody."""
    first = options(kubeconfig, replicas=2)
    calm(run(first))
    elder = {"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}}}
    world.client.patch(world.kinds.STATEFUL_SET, "db", "default", elder)
    before = uids(world)
    assert not calm(run(first))["changed"]
    calm(run(with_template(first)))
    live = world.client.get(world.kinds.STATEFUL_SET, "db", "default")["spec"]["updateStrategy"]
    assert live == {"type": "OnDelete"}
    assert (uids(world), images(world)) == (before, ["berth.local/busybox:2"] * 2)


@pytest.mark.parametrize("workload", ["StatefulSet", "Pod"])
def test_a_restart_makes_each_pod_anew_once(world, kubeconfig, workload):
    first = options(kubeconfig, workload=workload)
    calm(run(first))
    before, nodes = uids(world), {name: pod["spec"]["nodeName"] for name, pod in pods(world).items()}
    restart = {**first, "restarted_at": "monday"}
    field = "metadata.annotations[kubectl.kubernetes.io/restartedAt]"
    done = calm(run(restart))
    assert [(row["pod"], row["in_place"], row["fields"]) for row in done["updated"]] == [
        (f"db-{ordinal}", False, [field]) for ordinal in (2, 1, 0)
    ]
    now = uids(world)
    assert not set(now.values()) & set(before.values())
    assert {name: pod["spec"]["nodeName"] for name, pod in pods(world).items()} == nodes
    told = calm(run(restart))
    assert (told["changed"], writes(told)) == (False, {}), "the same text"
    assert calm(run(first))["trace"] == [SPEC, STATUS], "no text, and it says none"
    assert uids(world) == now


def test_a_restart_that_kubectl_asks_for_is_carried_out(world, kubeconfig):
    first = options(kubeconfig, replicas=1)
    calm(run(first))
    before = uids(world)
    asked = {"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}}}
    world.client.patch(world.kinds.STATEFUL_SET, "db", "default", asked)
    calm(run(first))
    assert uids(world)["db-0"] != before["db-0"]
    assert not calm(run(first))["changed"]


@pytest.mark.parametrize("workload", ["StatefulSet", "Pod"])
def test_a_suspended_app_keeps_its_berths_and_comes_back_to_them(world, kubeconfig, workload):
    first = options(kubeconfig, workload=workload)
    calm(run(first))
    holders, nodes = world.holders(), {name: pod["spec"]["nodeName"] for name, pod in pods(world).items()}
    asleep = {**first, "suspended": True}
    seen = calm(run(asleep, check=True))
    assert (seen["changed"], writes(seen), len(pods(world))) == (True, {}, 3)
    assert seen["diff"]["after"]["objects"]["Pod default/db-2"] == "stopped, and its berth kept"
    stopped = calm(run(asleep))
    assert [(row["phase"], row["pod"]) for row in stopped["berths"]] == [("Bound", None)] * 3
    assert pods(world) == {}
    assert world.holders() == holders
    again = calm(run(asleep))
    assert (again["changed"], writes(again)) == (False, {})
    calm(run(first))
    assert {name: pod["spec"]["nodeName"] for name, pod in pods(world).items()} == nodes
    assert world.holders() == holders
    assert not calm(run(first))["changed"]
    world.check()


def test_an_app_may_begin_suspended_and_be_changed_while_it_is(world, kubeconfig):
    asleep = options(kubeconfig, suspended=True)
    calm(run(asleep))
    assert (len(world.holders()), pods(world)) == (3, {})
    other = with_template({**asleep, "replicas": 2})
    calm(run(other))
    assert (len(world.holders()), pods(world)) == (2, {})
    assert not calm(run(other))["changed"]
    calm(run({**other, "suspended": False}))
    assert images(world) == ["berth.local/busybox:2"] * 2
    world.check()


@pytest.mark.promise
@pytest.mark.parametrize("new", [False, True], ids=["in place", "new pods"])
def test_an_update_that_is_killed_at_any_write_is_continued(world, kubeconfig, new):
    first = options(kubeconfig, replicas=2)
    calm(run(first))
    holders = world.holders()

    def to(number):
        command = {"command": ["sleep", str(number)]} if new else {}
        return with_template(first, image=f"berth.local/busybox:{number}", **command)

    assert sum(1 for _death in deaths(partial(run, to(2)))) > 4
    assert images(world) == ["berth.local/busybox:2"] * 2
    for number, write in ((3, 2), (4, 4)):  # one run does all the rest
        wanted = to(number)
        assert run(wanted, kill_at=write) is None
        calm(run(wanted))
        assert images(world) == [f"berth.local/busybox:{number}"] * 2
        assert not calm(run(wanted))["changed"]
    assert world.holders() == holders
    world.check()
