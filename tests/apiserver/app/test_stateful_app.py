"""stateful_app on the real API server: real controllers and scheduler, fake nodes (kwok) with declared disks."""

from __future__ import annotations

import json

import pytest

from tests.apiserver.app.runner import STATUS, run, start
from tests.apiserver.app.world import MI, local_disk, params
from tests.dev.hosts_help import eventually
from tests.support.kube import forget

NODES = ("fake-0", "fake-1", "fake-2")
WRITES = ("create", "replace", "apply", "patch", "delete")


def writes(result):
    return {verb: count for verb, count in result["requests"].items() if verb in WRITES}


def places(result):
    return {row["name"]: (row["node"], tuple(disk["name"] for disk in row["disks"])) for row in result["berths"]}


@pytest.fixture
def world(app_world):
    """Two disks of differing size on each of three nodes."""
    for node in NODES:
        app_world.add_disk(local_disk(node, 0, 128 * MI))
        app_world.add_disk(local_disk(node, 1, 512 * MI))
    yield app_world
    app_world.clear()


def test_from_nothing_to_running_and_again(world, kubeconfig):
    options = params("db", kubeconfig, replicas=3, wait=True)
    seen = run(options, check=True)
    assert seen["changed"] is True
    assert writes(seen) == {}, "check mode writes nothing"
    assert world.berths() == {}
    first = run(options)
    assert not first.get("failed"), first
    assert first["changed"] is True
    assert places(first) == places(seen), "check mode and the run choose alike"
    assert [row["phase"] for row in first["berths"]] == ["Running"] * 3
    assert all(len(row["disks"]) == 1 for row in first["berths"])
    world.check()
    again = run(options)
    assert again["changed"] is False
    assert writes(again) == {}
    assert again["diff"]["before"] == again["diff"]["after"]
    assert max(again["requests"].values()) <= 8, again["requests"]


@pytest.mark.promise
def test_the_pod_comes_back_to_its_disk_by_any_scheduler(world, kubeconfig):
    options = params("db", kubeconfig, wait=True)
    before = run(options)
    world.client.delete(world.kinds.POD, "db-1", "default")
    after = run(options)
    assert not after.get("failed"), after
    pods = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in world.ours(world.kinds.POD)}
    assert pods["db-1"] == places(before)["db-1"][0]
    assert places(after) == places(before)


@pytest.mark.promise
def test_a_namespace_made_anew_does_not_get_the_data_of_the_earlier_one(app_world, kubeconfig):
    """Its Berths went with it, and the lock was left over; the newcomer has the same names in everything."""
    world, kinds, body = app_world, app_world.kinds, {"metadata": {"name": "tenants"}}
    world.add_disk(local_disk("fake-0", 0))
    options = params("db", kubeconfig, namespace="tenants", replicas=1)
    before = world.client.create(kinds.NAMESPACE, body)["metadata"]["uid"]
    try:
        assert places(run(options)) == {"db-0": ("fake-0", ("fake-0-d0",))}
        lock = world.disks()["fake-0-d0"]["spec"]["claimRef"]
        assert lock["namespaceUID"] == before
        # what finalizers hold goes first: a namespace looks for it again after many seconds
        for kind, name in ((kinds.STATEFUL_SET, "db"), (kinds.POD, "db-0"), (kinds.PVC, "data-db-0")):
            world.client.delete(kind, name, "tenants")
            eventually(lambda kind=kind: not world.client.list(kind, "tenants"), 60, f"the {kind.kind} goes")
        world.client.delete(kinds.NAMESPACE, "tenants")
        eventually(lambda: world.client.find(kinds.NAMESPACE, "tenants") is None, 60, "the namespace goes")
        made = world.client.create(kinds.NAMESPACE, body)["metadata"]
        names = ("namespace", "namespaceUID", "app", "ordinal", "claim", "dataUID")
        kept = {"retainedFor": {name: lock[name] for name in names}}
        for check in (True, False):
            refused = run(options, check=check)
            assert refused["failed"]
            today = f"the one of today, uid {made['uid']}, was made {made['creationTimestamp']}"
            assert f"of an earlier namespace of that name (uid {before}; {today})" in refused["msg"]
            assert "-a 'name=fake-0-d0 state=released force_retained=true'" in refused["msg"]
        assert world.berths() == {}
        world.add_disk(local_disk("fake-1", 0))
        assert places(run(options)) == {"db-0": ("fake-1", ("fake-1-d0",))}
        assert world.disks()["fake-1-d0"]["spec"]["claimRef"]["namespaceUID"] == made["uid"]
        left = world.disks()["fake-0-d0"]["spec"]
        assert "claimRef" not in left
        assert kept.items() <= left.items()
        world.check()
    finally:
        world.clear()
        world.client.delete(kinds.NAMESPACE, "tenants")


@pytest.mark.promise
def test_scaling_keeps_what_is_there_and_the_data(world, kubeconfig):
    small = run(params("db", kubeconfig, wait=True))
    big = run(params("db", kubeconfig, replicas=4, wait=True))
    assert places(small).items() <= places(big).items()
    down = run(params("db", kubeconfig, replicas=1))
    assert not down.get("failed"), down
    assert set(places(down)) == {"db-0"}
    for name in ("db-1", "db-2", "db-3"):
        disk = world.disks()[places(big)[name][1][0]]
        assert "claimRef" not in disk["spec"]
        assert disk["spec"]["retainedFor"]["ordinal"] == int(name[-1])
        assert disk["status"]["phase"] == "Released"
    world.check()
    back = run(params("db", kubeconfig, replicas=4, wait=True))
    assert places(back) == places(big), "the same ordinal takes its disk again"


@pytest.mark.promise
def test_absent_keeps_the_data_and_no_other_app_gets_it(world, kubeconfig):
    options = params("db", kubeconfig, replicas=6, wait=True)
    there = run(options)
    seen = run({**options, "state": "absent"}, check=True)
    assert seen["changed"] is True
    assert writes(seen) == {}
    gone = run({**options, "state": "absent"})
    assert not gone.get("failed"), gone
    assert world.berths() == {}
    assert world.holders() == {}
    assert run({**options, "state": "absent"})["changed"] is False
    other = run(params("web", kubeconfig, replicas=1))
    assert other["failed"] is True
    assert "data of another replica (fake-0-d0 of default/db-0" in other["msg"], other["msg"]
    assert world.holders() == {}
    back = run(options)
    assert places(back) == places(there)
    for row in back["berths"]:
        ref = world.disks()[row["disks"][0]["name"]]["spec"]["claimRef"]
        assert ref["uid"] == row["uid"]
        assert ref["dataUID"] != ref["uid"], "the filesystem was made under the first lock"


@pytest.mark.promise
def test_bare_pods_are_tied_and_replaced_in_place(world, kubeconfig):
    options = params("db", kubeconfig, workload="Pod", wait=True)
    first = run(options)
    assert not first.get("failed"), first
    pods = {pod["metadata"]["name"]: pod for pod in world.ours(world.kinds.POD)}
    assert {name: pod["spec"]["nodeName"] for name, pod in pods.items()} == {
        name: place[0] for name, place in places(first).items()
    }
    assert run(options)["changed"] is False
    options["template"]["spec"]["terminationGracePeriodSeconds"] = 2
    second = run(options)
    assert not second.get("failed"), second
    assert places(second) == places(first)
    fresh = {pod["metadata"]["name"]: pod for pod in world.ours(world.kinds.POD)}
    assert all(fresh[name]["metadata"]["uid"] != pod["metadata"]["uid"] for name, pod in pods.items())
    world.check()


def test_a_bare_pod_that_has_ended_is_made_anew_in_its_berth(world, kubeconfig):
    options = params("db", kubeconfig, workload="Pod", wait=True)
    first = run(options)
    assert not first.get("failed"), first
    pods = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in world.ours(world.kinds.POD)}
    failed = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
    world.client.patch(world.kinds.POD, "db-1", "default", {"metadata": {}, "status": failed}, "status")
    told = run(options, check=True)
    assert told["restarted"] == [{"pod": "db-1", "ended": "Failed (Evicted: The node was low on resource: memory.)"}]
    assert "Evicted" in str(told["diff"]["before"])
    assert start(options, kill_at=1, of="replace Berth").finish() is None, "it dies when the end is counted"
    second = run(options)
    assert (second["changed"], second["restarted"]) == (True, told["restarted"])
    assert places(second) == places(first)
    fresh = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in world.ours(world.kinds.POD)}
    assert (fresh["db-0"] == pods["db-0"], fresh["db-1"] == pods["db-1"]) == (True, False)
    assert run(options)["changed"] is False
    berth = world.berths()["db-1"]
    counted = {"count": 1, "uid": pods["db-1"]}
    assert json.loads(berth["metadata"]["annotations"]["berth.dev/ended-pods"]) == counted, "once"
    assert "Evicted" in json.loads(berth["metadata"]["annotations"]["berth.dev/history"])[-1]["why"]
    world.check()
    # its successors end again and again: nobody makes the next one anew at once
    often = {"metadata": {"annotations": {"berth.dev/ended-pods": json.dumps({"count": 6, "uid": pods["db-1"]})}}}
    world.client.patch(world.kinds.BERTH, "db-1", "default", often)
    world.client.patch(world.kinds.POD, "db-1", "default", {"metadata": {}, "status": failed}, "status")
    waiting = run({**options, "wait": False})
    assert not waiting.get("failed"), waiting
    (row,) = waiting["backoff"]
    seen = (waiting["changed"], waiting["trace"], row["pod"], row["count"])
    assert seen == (False, [STATUS], "db-1", 7), "that it is not Ready, and until when it waits"
    assert f"waiting until {row['until']}" in str(waiting["warnings"]), waiting
    late = run({**options, "wait_timeout": 1})
    assert f"waiting until {row['until']} before it is made anew, which is longer than wait_timeout" in late["msg"]
    assert (late["failed"], late["changed"]) == (True, False)
    foreseen = run({**options, "wait_timeout": 600}, check=True)
    assert (foreseen["changed"], foreseen["restarted"], foreseen["backoff"]) == (True, told["restarted"], [row])


def test_a_new_template_is_rolled_out(world, kubeconfig):
    options = params("db", kubeconfig, wait=True)
    first = run(options)
    options["template"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": "b"}]
    second = run(options)
    assert second["changed"] is True
    assert "env" in str(second["diff"]["after"])
    assert places(second) == places(first)
    assert run(options)["changed"] is False


def test_explain_on_success(world, kubeconfig):
    result = run(params("db", kubeconfig, replicas=1, explain=True), check=True)
    assert set(result["explanation"]["db-0"]["nodes"]) >= set(NODES)


def pinned(name, kubeconfig, *disks, **values):
    disk = {"name": "data", "size": "100Mi", "storage_class": "berth-test", "disk_names": list(disks)}
    return params(name, kubeconfig, replicas=len(disks), disks=[disk], **values)


def test_a_pinned_disk_is_the_one_that_is_taken(world, kubeconfig):
    result = run(pinned("db", kubeconfig, "fake-1-d1"))
    assert places(result) == {"db-0": ("fake-1", ("fake-1-d1",))}


@pytest.mark.parametrize("state", ["held", "reserved", "missing", "cordoned", "unknown"])
def test_a_pinned_disk_that_cannot_be_had_is_named_with_the_reason(world, kubeconfig, state):
    expected = prepare_refusal(world, kubeconfig, state)
    before = world.holders()
    result = run(pinned("db", kubeconfig, "fake-1-d1"))
    try:
        assert result["failed"] is True
        assert "default/db-0 does not fit" in result["msg"]
        assert expected in result["msg"], result["msg"]
        assert writes(result) == {}
        assert world.holders() == before
    finally:
        world.client.patch(world.kinds.NODE, "fake-1", None, {"spec": {"unschedulable": None}})


def prepare_refusal(world, kubeconfig, state):
    if state == "held":
        assert not run(pinned("web", kubeconfig, "fake-1-d1")).get("failed")
        return "default/web-0"
    if state == "reserved":
        world.client.patch(world.kinds.LOCAL_DISK, "fake-1-d1", None, {"spec": {"reserved": True}})
        return "reserved"
    if state == "missing":
        world.client.patch(world.kinds.LOCAL_DISK, "fake-1-d1", None, {"status": {"phase": "Missing"}}, "status")
        return "issing"
    if state == "cordoned":
        world.client.patch(world.kinds.NODE, "fake-1", None, {"spec": {"unschedulable": True}})
        return "unschedulable"
    forget(world.client, world.kinds.LOCAL_DISK, "fake-1-d1")
    return "fake-1-d1"


@pytest.mark.promise
def test_two_apps_that_pin_one_disk(world, kubeconfig, tmp_path):
    hold = tmp_path / "go"
    racers = [start(pinned(name, kubeconfig, "fake-1-d1"), hold=hold) for name in ("one", "two")]
    hold.touch()
    results = [racer.finish() for racer in racers]
    assert sorted(bool(result.get("failed")) for result in results) == [False, True]
    loser = next(result for result in results if result.get("failed"))
    assert "fake-1-d1" in loser["msg"]
    world.check()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"disks": [{"name": "data", "size": "100Mi", "storage_class": "nope"}]}, "StorageClass nope does not exist"),
        ({"disks": [{"name": "data", "size": "100Gi", "storage_class": "berth-test"}]}, "db-0 does not fit"),
        ({"namespace": "nowhere"}, "namespace nowhere does not exist"),
        ({"replicas": -1}, "replicas is -1"),
        ({"name": "d" * 64}, "at most 52 characters"),
        ({"disks": [{"name": "data", "size": "lots"}]}, "lots"),
        ({"template": {"spec": {"containers": []}}}, "has no containers"),
    ],
)
def test_bad_input_changes_nothing(world, kubeconfig, values, message):
    result = run(params("db", kubeconfig, **values))
    assert result["failed"] is True
    assert message in result["msg"]
    assert "exception" not in result
    assert writes(result) == {}
    assert world.berths() == {}
    assert world.holders() == {}


@pytest.mark.promise
def test_a_claim_that_is_not_ours_is_left_alone(world, kubeconfig):
    claim = {
        "metadata": {"name": "data-db-0", "namespace": "default", "labels": {"app.kubernetes.io/managed-by": "berth"}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Mi"}},
            "storageClassName": "berth-test",
        },
    }
    world.client.create(world.kinds.PVC, claim)
    result = run(params("db", kubeconfig, replicas=1))
    assert result["failed"] is True
    assert "PersistentVolumeClaim default/data-db-0 is there already" in result["msg"]
    world.check()


@pytest.mark.parametrize("state", ["present", "absent"])
def test_a_service_that_is_not_ours_is_left_alone(world, kubeconfig, state):
    meta = {"name": "db", "namespace": "default", "labels": {"app.kubernetes.io/managed-by": "berth"}}
    world.client.create(
        world.kinds.SERVICE, {"metadata": meta, "spec": {"ports": [{"port": 1}], "selector": {"a": "b"}}}
    )
    result = run(params("db", kubeconfig, state=state))
    assert writes(result) == {}
    if state == "present":
        assert "Service default/db is there and does not belong to the app db" in result["msg"]
        assert result["failed"] is True
    else:
        assert result["changed"] is False
    assert world.client.get(world.kinds.SERVICE, "db", "default")["spec"]["selector"] == {"a": "b"}


@pytest.mark.promise
def test_a_held_disk_that_vanished_from_the_api_stops_everything(world, kubeconfig):
    """Somebody cleared a running replica's lock and deleted the LocalDisk: its berth is final, and not chosen again."""
    first = run(params("db", kubeconfig, wait=True))
    disk = places(first)["db-1"][1][0]
    forget(world.client, world.kinds.LOCAL_DISK, disk)
    result = run(params("db", kubeconfig, wait=True))
    assert result["failed"] is True
    assert "berth default/db-1 has lost what it held" in result["msg"]
    assert disk in result["msg"]
    assert set(world.berths()) == {"db-0", "db-1"}


def test_conflict_on_every_write_ends(world, kubeconfig):
    result = run(params("db", kubeconfig), conflict=True)
    assert result["failed"] is True
    assert "exception" not in result
    assert world.berths() == {}
    assert world.holders() == {}


@pytest.mark.promise
def test_the_api_server_restarts_in_the_middle(world, kubeconfig, control_plane):
    racer = start(params("db", kubeconfig, replicas=6, wait=True))
    eventually(world.berths, 60, "it has begun: who cannot reach an API server at all says so sooner")
    control_plane.restart_apiserver(kill=True)
    result = racer.finish()
    assert not result.get("failed"), result
    assert [row["phase"] for row in result["berths"]] == ["Running"] * 6
    world.check()
