"""An application is released from berth: real API server, controllers of StatefulSets and volumes; kwok's kubelets."""

from __future__ import annotations

from functools import partial

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.adoption import OPERATION
from berth_core.lifecycle import states
from tests.apiserver.app.runner import calm, deaths, run
from tests.apiserver.app.test_stateful_app_faults import ON_THE_WIRE
from tests.apiserver.app.world import local_disk, params
from tests.dev.hosts_help import eventually
from tests.support.team import options, team

pytestmark = [pytest.mark.slow, pytest.mark.promise]
NODES = ("fake-0", "fake-1")
PODS = "berth.dev/app=db"
TEAM = "team-out"
UNTIED = {
    ("untie", "PersistentVolumeClaim"): {"patch PersistentVolumeClaim"},
    ("untie", "PersistentVolume"): {"patch PersistentVolume"},
}


@pytest.fixture
def world(app_world, kubeconfig):
    """Two replicas, Ready, with a Service."""
    app_world.asked = params("db", kubeconfig, wait=True, service={"ports": [{"port": 80}]})
    app_world.out = {"name": "db", "state": "released", "kubeconfig": str(kubeconfig)}

    def lay_out():
        forget(app_world)
        for node in NODES:
            app_world.add_disk(local_disk(node, 0))
        calm(run(app_world.asked))

    app_world.lay_out = lay_out
    lay_out()
    yield app_world
    forget(app_world)


def forget(world):
    """What was released has none of berth's labels, so that only its name tells."""
    kinds = world.kinds
    for kind in (kinds.STATEFUL_SET, kinds.SERVICE):
        world.client.delete(kind, "db", "default")
    for claim in (f"data-db-{ordinal}" for ordinal in range(2)):
        world.client.delete(kinds.PVC, claim, "default")
    eventually(lambda: not world.client.list(kinds.POD, "default", labels=PODS), 30, "the pods to go")
    for volume in volumes(world):
        world.client.delete(kinds.PV, volume)
    world.clear()
    eventually(lambda: not volumes(world), 30, "the volumes to go")


def volumes(world):
    """By name, those over the disks of these tests."""
    found = world.client.list(world.kinds.PV)
    return {one["metadata"]["name"]: one for one in found if one["metadata"]["name"].startswith("fake-")}


def running(world):
    """Everything that plain Kubernetes goes on with: nothing of it may change."""
    kinds, client = world.kinds, world.client
    sets = client.get(kinds.STATEFUL_SET, "db", "default")
    pods = client.list(kinds.POD, "default", labels=PODS)
    claims = [client.get(kinds.PVC, f"data-db-{ordinal}", "default") for ordinal in range(2)]
    return {
        "set": (sets["metadata"]["uid"], sets["metadata"]["generation"]),
        "pods": {pod["metadata"]["name"]: (pod["metadata"]["uid"], pod["spec"]["nodeName"]) for pod in pods},
        "claims": {
            one["metadata"]["name"]: (one["metadata"]["uid"], one["spec"]["volumeName"], one["status"]["phase"])
            for one in claims
        },
        "volumes": {name: (one["metadata"]["uid"], one["status"]["phase"]) for name, one in volumes(world).items()},
    }


def check_released(world, before):
    assert running(world) == before
    assert (world.berths(), world.holders()) == ({}, {})
    kept = {name: disk["spec"]["retainedFor"] for name, disk in world.disks().items()}
    assert {each["volume"] for each in kept.values()} == set(volumes(world))
    assert {(each["app"], each["claim"]) for each in kept.values()} == {("db", "data")}
    assert {disk["status"]["phase"] for disk in world.disks().values()} == {"Released"}
    for kind in (world.kinds.PV, world.kinds.PVC, world.kinds.STATEFUL_SET, world.kinds.SERVICE):
        assert world.ours(kind) == []
    assert world.client.find(world.kinds.STATEFUL_APP, "db", "default") is None
    assert not any(
        "berth.dev/berth-uid" in (one["metadata"].get("annotations") or {}) for one in volumes(world).values()
    )


def test_it_goes_on_as_plain_kubernetes(world, kubeconfig):
    before, berths = running(world), world.berths()
    seen = calm(run(world.out, OPERATION, check=True))
    assert (seen["changed"], seen["writes"]) == (True, 0)
    heads = {entry["before_header"] for entry in seen["diff"]}
    assert {"StatefulSet default/db", "Service default/db", "Berth default/db-0", "LocalDisk fake-0-d0"} <= heads
    gone = next(entry for entry in seen["diff"] if entry["before_header"] == "Berth default/db-0")
    assert (gone["before"]["disks"], gone["after"]) == (
        {"data": world.berths()["db-0"]["spec"]["disks"][0]["name"]},
        "",
    )
    assert (running(world), world.berths()) == (before, berths)

    done = calm(run(world.out, OPERATION))
    assert (done["changed"], done["diff"], done["replicas"]) == (True, seen["diff"], seen["replicas"])
    check_released(world, before)
    (disk,) = done["replicas"][0]["disks"]
    assert (disk["claim"], disk["volume"]) == ("data-db-0", before["claims"]["data-db-0"][1])
    assert f" /var/lib/berth/disks/{disk['name']} ext4 nofail,x-berth.localdisk={disk['name']} 0 0" in disk["fstab"]
    again = calm(run(world.out, OPERATION))
    assert (again["changed"], again["writes"], again["diff"], again["replicas"]) == (False, 0, [], [])

    other = run(params("other", kubeconfig, replicas=1))
    assert other["failed"], "the disks are nobody else's"
    calm(run({**params("other", kubeconfig), "state": "absent"}))
    refused = run(world.asked)
    words = "StatefulSet default/db, Service default/db is there and does not belong to the app db"
    assert words in refused["msg"]
    absent = calm(run({**world.asked, "state": "absent"}))
    assert (refused["writes"], absent["changed"], absent["writes"]) == (0, False, 0)
    check_released(world, before)

    world.client.delete(world.kinds.POD, "db-0", "default")
    eventually(lambda: came_back(world, before), 30, "the StatefulSet's controller to make db-0 anew")


def came_back(world, before):
    now = running(world)["pods"].get("db-0", ("", ""))
    then = before["pods"]["db-0"]
    return now[0] not in ("", then[0]) and now[1] == then[1]


def test_it_writes_what_the_state_table_says_and_dies_at_any_of_it(world):
    before = running(world)
    wire = {**ON_THE_WIRE, **UNTIED}
    trace = calm(run(world.out, OPERATION))["trace"]
    told = set().union(*(wire[write.verb, write.what] for step in states.WAY_OUT for write in step.writes))
    assert set(trace) == told | {"patch StatefulSet", "patch Service", "delete StatefulApp"}
    check_released(world, before)
    world.lay_out()
    before = running(world)
    assert sum(1 for _death in deaths(partial(run, world.out, OPERATION))) == len(trace), "no death has cost a write"
    check_released(world, before)


def test_the_way_back_finds_the_data(world):
    """Claims, volumes and StatefulSet go; the disks still keep the data of these very replicas."""
    places = {name: (one["spec"]["nodeName"], one["spec"]["disks"]) for name, one in world.berths().items()}
    data = {name: disk["spec"]["claimRef"]["dataUID"] for name, disk in world.disks().items()}
    calm(run(world.out, OPERATION))
    kinds = world.kinds
    world.client.delete(kinds.STATEFUL_SET, "db", "default")
    world.client.delete(kinds.SERVICE, "db", "default")
    for ordinal in range(2):
        world.client.delete(kinds.PVC, f"data-db-{ordinal}", "default")
    for volume in volumes(world):
        world.client.delete(kinds.PV, volume)
    eventually(lambda: not volumes(world), 30, "the volumes to go")
    calm(run(world.asked))
    assert {name: (one["spec"]["nodeName"], one["spec"]["disks"]) for name, one in world.berths().items()} == places
    assert {name: disk["spec"]["claimRef"]["dataUID"] for name, disk in world.disks().items()} == data
    world.check()


def test_what_cannot_go_on_by_itself_is_refused_and_nothing_is_written(world, kubeconfig):
    nothing = run({**world.out, "name": "nobody"}, OPERATION)
    assert "there is no StatefulSet default/nobody, and neither is a Berth of that name" in nothing["msg"]
    for node in NODES:
        world.add_disk(local_disk(node, 1))
    calm(run(params("bare", kubeconfig, workload="Pod", replicas=1)))
    bare = run({**world.out, "name": "bare"}, OPERATION)
    assert "there is no StatefulSet default/bare, and its Berths are there" in bare["msg"]
    calm(run({**params("bare", kubeconfig, workload="Pod"), "state": "absent"}))

    world.client.delete(world.kinds.PV, next(iter(volumes(world))))
    half = run(world.out, OPERATION)
    assert "a claim or volume of it is missing or is going" in half["msg"]
    assert [one["writes"] for one in (nothing, bare, half)] == [0, 0, 0]
    assert len(world.holders()) == 2


def test_a_team_is_refused_before_the_first_write(app_world, kubeconfig):
    """It wants rights on volumes and kept data that only administrators have."""
    app_world.add_disk(local_disk("fake-0", 0))
    with team(kubeconfig, TEAM):
        asked = params("db", kubeconfig, namespace=TEAM, replicas=1, **options(TEAM))
        calm(run({**asked, "wait": True}))
        out = {"name": "db", "namespace": TEAM, "state": "released", "kubeconfig": str(kubeconfig), **options(TEAM)}
        refused = run(out, OPERATION)
        assert (refused["failed"], refused["writes"]) == (True, 0), refused
        assert "persistentvolumes" in refused["msg"], refused
        calm(run({**asked, "state": "absent"}))
        app_world.clear()
