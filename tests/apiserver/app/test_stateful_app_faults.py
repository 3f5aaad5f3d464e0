"""Dying at any write, and running at once: the end is that of an undisturbed run, and no disk has two holders."""

from __future__ import annotations

from functools import partial

import pytest

from berth_core.lifecycle import states
from tests.apiserver.app.runner import SPEC, STATUS, calm, deaths, run, start
from tests.apiserver.app.world import MI, local_disk, params

pytestmark = [pytest.mark.slow, pytest.mark.promise]


#: How a write of the state table looks on the wire, for a StatefulSet with disks.
ON_THE_WIRE = {
    ("create", "Berth"): {"create Berth"},
    ("lock", "LocalDisk"): {"replace LocalDisk"},
    ("unlock", "LocalDisk"): {"replace LocalDisk"},
    ("record", "LocalDisk status"): {"patch LocalDisk status"},
    ("record", "Berth status"): {"patch Berth status"},
    ("create", "PersistentVolume"): {"create PersistentVolume"},
    ("create", "PersistentVolumeClaim"): {"create PersistentVolumeClaim"},
    ("apply", "Service"): {"apply Service"},
    ("apply", "workload"): {"apply StatefulSet"},
    ("scale or delete", "workload"): {"patch StatefulSet", "delete StatefulSet", "delete Service"},
    ("delete", "PersistentVolumeClaim"): {"delete PersistentVolumeClaim"},
    ("delete", "PersistentVolume"): {"delete PersistentVolume"},
    ("delete", "Berth"): {"delete Berth"},
    ("lock", "LocalDevice"): set(),  # tests/apiserver/app/test_stateful_app_devices.py
    ("unlock", "LocalDevice"): set(),
    ("create", "ResourceClaim"): set(),
    ("delete", "ResourceClaim"): set(),
}
#: Around them: the app as a StatefulApp, first and last.
TOLD, FORGOTTEN = {SPEC, STATUS}, {"delete StatefulApp"}


def written(steps):
    """The writes of these steps of the state table, as the runner names them."""
    return set().union(*(ON_THE_WIRE[write.verb, write.what] for step in steps for write in step.writes))


def some(total):
    """Writes after which a run dies and one other goes on to the end. Before the first nothing has happened, and the
    cluster is as after one when the next is not yet sent."""
    return range(1, total + 1, 5)


def shape(world, app):
    """The end state, without what differs from run to run."""
    berths = world.berths(app)
    holders = world.holders()
    rows = {}
    for name, record in berths.items():
        held = sorted(disk for disk, uid in holders.items() if uid == record["metadata"]["uid"])
        rows[name] = (record["spec"]["nodeName"], held, record["status"]["phase"])
    volumes = {item["spec"]["claimRef"]["name"]: item["spec"]["local"]["path"] for item in world.ours(world.kinds.PV)}
    claims = {item["metadata"]["name"]: item["status"].get("phase") for item in world.ours(world.kinds.PVC)}
    sets = [item["spec"]["replicas"] for item in world.ours(world.kinds.STATEFUL_SET)]
    return {"berths": rows, "volumes": volumes, "claims": claims, "sets": sets}


@pytest.fixture
def two_disks(app_world):
    def lay_out():
        app_world.clear()
        for node in ("fake-0", "fake-1"):
            app_world.add_disk(local_disk(node, 0, 128 * MI))

    lay_out()
    app_world.lay_out = lay_out
    yield app_world
    app_world.clear()


def test_killed_at_every_write_of_the_way_forward(two_disks, kubeconfig):
    """The writes of an undisturbed run are counted; then every one of them is the last thing that a process does, and
    some are followed by one that does all the rest."""
    options = params("db", kubeconfig, wait=True)
    trace = run(options)["trace"]
    total = len(trace)
    assert set(trace) == written(states.FORWARD) | TOLD, "the run writes what the state table says, and nothing else"
    undisturbed = shape(two_disks, "db")
    two_disks.lay_out()
    assert sum(1 for _death in deaths(partial(run, options))) >= total, "each write was the last one of a run"
    two_disks.check()
    assert shape(two_disks, "db") == undisturbed
    for write in some(total):
        two_disks.lay_out()
        assert run(options, kill_at=write) is None, "it was to be killed"
        result = run(options)
        assert not result.get("failed"), (write, result)
        two_disks.check()
        assert shape(two_disks, "db") == undisturbed, write
        assert run(options)["writes"] == 0, write


def test_killed_at_every_write_of_the_way_back(two_disks, kubeconfig):
    options = params("db", kubeconfig, wait=True)
    gone = {**options, "state": "absent"}
    run(options)
    trace = run(gone)["trace"]
    total = len(trace)
    assert set(trace) == written(states.BACKWARD) | FORGOTTEN
    two_disks.lay_out()
    run(options)
    left = trace.count("patch LocalDisk status")  # to the disk's agent, where the unlock was the last write of a run
    assert sum(1 for _death in deaths(partial(run, gone))) >= total - left, "each other write was the last one of a run"
    given_up(two_disks)
    for write in some(total):
        calm(run(options))  # over the disks that it had
        assert run(gone, kill_at=write) is None
        result = run(gone)
        assert not result.get("failed"), (write, result)
        given_up(two_disks)


@pytest.mark.parametrize("workload", ["StatefulSet", "Pod"])
def test_killed_at_every_write_of_a_scale_down(two_disks, kubeconfig, workload):
    """The replica that stays is not touched, and the other one's disk keeps its data: in its name, as often as it goes
    and comes again."""
    options = params("db", kubeconfig, wait=True, workload=workload)
    fewer = {**options, "replicas": 1}
    calm(run(options))
    stays, goes = (two_disks.berths("db")[f"db-{ordinal}"]["metadata"]["uid"] for ordinal in (0, 1))
    disk = next(name for name, uid in two_disks.holders().items() if uid == goes)
    trace = calm(run(fewer))["trace"]
    total, end = len(trace), shape(two_disks, "db")
    stopped = {"delete Pod"} if workload == "Pod" else {"patch StatefulSet", "apply StatefulSet"}
    assert set(trace) == written(states.BACKWARD[1:]) | stopped | TOLD
    calm(run(options))

    def one_stays():
        assert two_disks.berths("db")["db-0"]["metadata"]["uid"] == stays
        held = two_disks.holders()
        assert list(held.values()).count(stays) == 1
        kept = two_disks.disks()[disk]["spec"].get("retainedFor")
        assert (disk in held) != (kept is not None)
        assert kept is None or (kept["app"], kept["ordinal"], kept["dataUID"]) == ("db", 1, goes)

    def gone():
        one_stays()
        assert shape(two_disks, "db") == end
        assert list(end["berths"]) == ["db-0"]
        assert list(two_disks.holders().values()) == [stays]

    died = 0
    for _death in deaths(partial(run, fewer)):
        died += 1
        one_stays()
    # The disk's phase is left to its agent, and a StatefulSet that has been scaled needs no more, where a run has died.
    assert died >= len(set(trace) - {"patch LocalDisk status", "apply StatefulSet"}), trace
    gone()
    for write in (1, total // 2):
        calm(run(options))
        assert run(fewer, kill_at=write) is None
        calm(run(fewer))
        gone()
        assert run(fewer)["writes"] == 0, write


def given_up(world):
    """Nothing is left but the data of both disks."""
    assert shape(world, "db") == {"berths": {}, "volumes": {}, "claims": {}, "sets": []}
    assert [disk["spec"].get("retainedFor", {}).get("app") for disk in world.disks().values()] == ["db", "db"]


def test_16_apps_at_once_over_10_disks(app_world, kubeconfig, tmp_path):
    for index in range(10):
        app_world.add_disk(local_disk(f"fake-{index % 4}", index, 128 * MI))
    hold = tmp_path / "go"
    racers = [start(params(f"app{index}", kubeconfig, replicas=1), hold=hold) for index in range(16)]
    hold.touch()
    results = [racer.finish() for racer in racers]
    losers = [result for result in results if result.get("failed")]
    try:
        assert len(results) - len(losers) == 10, [loser["msg"] for loser in losers]
        for loser in losers:
            assert "does not fit" in loser["msg"]
            assert "10 held (" in loser["msg"], loser["msg"]
            assert "by default/app" in loser["msg"], loser["msg"]
        app_world.check()
        holders = app_world.holders()
        assert len(holders) == 10
        assert len(set(holders.values())) == 10
    finally:
        app_world.clear()


def test_a_nodes_room_is_not_given_out_twice(app_world, kubeconfig, tmp_path):
    """Nothing but cpu to share: no object to swap, so the order in which the berths were written decides."""
    node = app_world.client.get(app_world.kinds.NODE, "fake-0")
    cores = int(node["status"]["allocatable"]["cpu"])
    pin = {"nodeSelector": {"kubernetes.io/hostname": "fake-0"}}
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": f"{cores * 1000 * 2 // 5}m"}}}
    options = {"workload": "Pod", "replicas": 1, "disks": [], "template": {"spec": {"containers": [container], **pin}}}
    hold = tmp_path / "go"
    racers = [start(params(f"cpu{index}", kubeconfig, **options), hold=hold) for index in range(8)]
    hold.touch()
    results = [racer.finish() for racer in racers]
    try:
        won = [result for result in results if not result.get("failed")]
        assert len(won) == 2, [result.get("msg") for result in results]
        assert len(app_world.berths()) == 2
        assert all("Insufficient cpu" in result["msg"] for result in results if result.get("failed"))
    finally:
        app_world.clear()


def test_two_runs_of_one_app_help_each_other(two_disks, kubeconfig, tmp_path):
    options = params("db", kubeconfig, wait=True)
    hold = tmp_path / "go"
    racers = [start(options, hold=hold) for _index in range(4)]
    hold.touch()
    results = [racer.finish() for racer in racers]
    assert not any(result.get("failed") for result in results), [result.get("msg") for result in results]
    two_disks.check()
    assert run(options)["writes"] == 0


def test_a_berth_that_is_there_and_gone_again(two_disks, kubeconfig):
    """Another run of this app had created it, and gave it up before it could be read: this run creates its own."""
    options = params("db", kubeconfig, wait=True)
    undisturbed = run(options)["trace"].count("create Berth")
    two_disks.lay_out()
    result = run(options, conflict_once="create Berth")
    assert not result.get("failed"), result
    assert result["trace"].count("create Berth") == undisturbed + 1
    two_disks.check()
