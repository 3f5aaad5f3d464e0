"""A sample of what test_any_order_of_events_keeps_the_promise and test_any_life_keeps_every_promise draw, on a real API
server with its controllers.

A run is killed by SIGKILL after one of its writes, a pod is deleted, another template comes: drawn by a seed. What the
API server has kept of the pods' history says whether berth has ever taken too many. Of a whole life everything else is
drawn, too, that may be asked of an app, and nodes that are lost, switched off and back.
"""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.observed import ready
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.pod_revision import RESIZING, updating
from tests.apiserver.app.runner import calm, run
from tests.apiserver.app.test_node_loss import NODES as FOUR
from tests.apiserver.app.test_node_loss import Ground
from tests.apiserver.app.test_stateful_app import NODES, writes
from tests.apiserver.app.test_update import UPDATING, options, pods, with_template
from tests.apiserver.app.world import local_disk
from tests.core.app import update_moves as moves
from tests.core.lifecycle import life_moves as lives

pytestmark = pytest.mark.promise
APP = "berth.dev/app=db"
#: They have three replicas, two deaths, and between these another template and a lost pod; one may be down, or two.
SEEDS = (131, 320, 1096, 1287)
#: Writes of a run for one step of the small cluster: it records more than what it does to pods.
WRITES = 3
#: Of whole lives. Together they scale, suspend, restart, change the template and roll it back, leave, replace,
#: reschedule, rebuild and release, with nodes that are lost, switched off and back, a pod that goes, and deaths.
LIVES = (9, 20, 86, 113)
#: Seconds that a run in the middle of a life waits for what may never come.
PATIENCE = 3


@pytest.fixture
def world(app_world):
    for node in NODES:
        app_world.add_disk(local_disk(node, 0))
    yield app_world
    app_world.clear()


def wanted(base, image=1, cpu="500m", labels=None, **container):
    resources = {"requests": {"cpu": cpu}}
    return with_template(base, image=f"berth.local/busybox:{image}", labels=labels, resources=resources, **container)


def busy(what, pod):
    """Whether it counts as taken: from the write that begins with it to the one that ends it."""
    meta = pod["metadata"]
    begun = updating(pod)
    return (
        what == "DELETED"
        or bool(meta.get("deletionTimestamp"))
        or not ready(pod)
        or (begun is not None and RESIZING not in begun)
    )


class History:
    """Of the pods, from its making on. ``lost``: those that berth has not taken."""

    def __init__(self, world):
        self.client, self.kind, self.lost = world.client, world.kinds.POD, set()
        found, self.version = self.client.list_with_version(self.kind, "default", APP)
        self.first = {pod["metadata"]["name"]: busy("ADDED", pod) for pod in found}

    def most(self):
        """How many were taken at once, at most, when berth took one more."""
        taken, most = dict(self.first), 0
        for event in self.client.watch(self.kind, self.version, 1, "default", APP):
            meta, now = event["object"]["metadata"], busy(event["type"], event["object"])
            before = taken.get(meta["name"], True)
            taken[meta["name"]] = now
            if now and not before and meta["uid"] not in self.lost:
                most = max(most, sum(taken.values()))
        return most


@pytest.mark.parametrize("seed", SEEDS)
def test_a_sample_of_any_order_of_events(world, kubeconfig, seed):
    drawn = moves.scenario(random.Random(seed).choice, (2, 3), (0, 1), (6, 8))
    base = options(
        kubeconfig,
        replicas=drawn.replicas,
        max_unavailable=str(drawn.unavailable),
        partition=drawn.partition,
        min_ready_seconds=drawn.min_ready,
        pre_pull=False,
        **({"update_order": "primary_last", "update_primary_label": "role=primary"} if drawn.primary else {}),
    )
    templates, current = {"one": moves.FIRST, "two": drawn.second}, "two"
    calm(run(wanted(base)))
    holders, history = world.holders(), History(world)
    for what, value in drawn.moves:
        if what == moves.ACT and value:
            done = run(wanted(base, **templates[current]), kill_at=WRITES * value)
            assert done is None or calm(done)
        elif what == moves.CHANGE:
            current, change = value
            templates.setdefault(current, change)
        elif what == moves.LOST and f"db-{value}" in (found := pods(world)):
            history.lost.add(found[f"db-{value}"]["metadata"]["uid"])
            world.client.delete(world.kinds.POD, f"db-{value}", "default")
        else:
            time.sleep(0.3)
    last = wanted(base, **templates[current])
    calm(run(last))
    assert not calm(run(last))["changed"]
    assert 0 < history.most() <= drawn.unavailable, drawn
    container = last["template"]["spec"]["containers"][0]
    for ordinal in range(drawn.partition, drawn.replicas):
        pod = pods(world)[f"db-{ordinal}"]
        now = pod["spec"]["containers"][0]
        assert {key: now.get(key) for key in ("image", "command")} == {
            key: container.get(key) for key in ("image", "command")
        }
        assert now["resources"]["requests"] == container["resources"]["requests"]
        assert last["template"]["metadata"]["labels"].items() <= pod["metadata"]["labels"].items()
        assert UPDATING not in pod["metadata"].get("annotations", {})
        assert ready(pod)
    assert world.holders() == holders, "each on its own disk"
    world.check()


class Life(Ground):
    """An app of three replicas on four nodes with two disks each. ``owners``: whose data a disk was ever given to.
    ``left``: (ordinal, node) whose data somebody has given up by name."""

    def __init__(self, world, kubeconfig, drawn):
        self.world, self.client, self.kinds = world, world.client, world.kinds
        self.before = {one["metadata"]["name"]: one for one in self.client.list(self.kinds.NODE)}
        for node in FOUR:
            for index in range(2):
                world.add_disk(local_disk(node, index))
        names = ("data", "wal")[: drawn.claims]
        disks = [{"name": name, "size": "100Mi", "storage_class": "berth-test"} for name in names]
        self.base = options(
            kubeconfig,
            disks=disks,
            max_unavailable=str(drawn.unavailable),
            quorum=drawn.quorum,
            pre_pull=False,
            wait_timeout=PATIENCE,
        )
        self.base["template"]["spec"]["containers"][0]["volumeMounts"] = [
            {"name": name, "mountPath": f"/{name}"} for name in names
        ]
        self.asked = lives.Asked(first=lambda asked: wanted(self.base, **asked.template))
        self.off, self.lost, self.owners, self.left, self.homes = set(), set(), {}, set(), {}

    def where(self):
        return {one["spec"]["ordinal"]: one["spec"]["nodeName"] for one in self.world.berths("db").values()}

    def run(self, kill_at=0, waits=True):
        """Returns the result; None: it was killed. Whatever came of it, no data is lost, and none given up unnamed."""
        asked = self.asked
        for node in FOUR:
            named = {ordinal for ordinal in range(5) if asked.gives_up(ordinal, node, node in self.lost)}
            self.left |= {(ordinal, node) for ordinal in named}
        done = run(asked.params(waits), kill_at=kill_at)
        assert done is None or "internal error" not in done.get("msg", ""), done
        records = self.world.berths("db").values()
        chosen = {one["metadata"]["uid"] for one in records if one.get("status", {}).get("phase") in (None, "Selected")}
        for name, disk in self.world.disks().items():
            keeper = disk["spec"].get("claimRef") or disk["spec"].get("retainedFor")
            if keeper and keeper.get("uid") not in chosen:  # which carry no data yet, and may be chosen anew
                assert self.owners.setdefault(name, keeper["dataUID"]) == keeper["dataUID"], f"{name} changes hands"
        for record in records:
            if record.get("status", {}).get("phase") == "Running":
                ordinal, node = record["spec"]["ordinal"], record["spec"]["nodeName"]
                before = self.homes.get(ordinal, node)
                assert node == before or (ordinal, before) in self.left, f"db-{ordinal} leaves {before} unasked"
                self.homes[ordinal] = node
        return done

    def make(self, move):
        what, value = move
        if what in lives.REQUESTS:
            self.asked = lives.asked_after(self.asked, move, self.where(), frozenset(self.off))
        elif what == lives.RUN:
            self.run(*value)
        elif what == lives.POD_GOES:
            self.client.delete(self.kinds.POD, f"db-{value}", "default")
        elif what == lives.HOME:
            self.home()
        else:
            self.cut_off(what, value)

    def cut_off(self, what, value):
        ordinal, taint = value if what == lives.OFF else (value, False)
        node = self.where().get(ordinal)
        if node is None or len(self.lost | {node}) > 1:
            return
        self.silence(node)
        for name, pod in pods(self.world).items():
            if pod["spec"].get("nodeName") == node and ready(pod):
                self.unready(name)
        self.lost.add(node)
        if what == lives.OFF:
            self.off.add(node)
        if taint:
            self.taint(node)

    def home(self):
        """The kubelets are back: what was asked to go is gone, and the rest is Ready again."""
        for node in self.lost:
            back = {"metadata": {"labels": {"type": "kwok"}}, "spec": {"taints": None}}
            self.client.patch(self.kinds.NODE, node, None, back)
            status = {"status": {"conditions": self.before[node]["status"]["conditions"]}}
            self.client.patch(self.kinds.NODE, node, None, status, "status")
        for name, pod in pods(self.world).items():
            if pod["spec"].get("nodeName") not in self.lost:
                continue
            if pod["metadata"].get("deletionTimestamp"):
                self.client.delete(self.kinds.POD, name, "default", grace=0)
            elif not ready(pod):
                told = [{**one, "status": "True"} for one in pod["status"]["conditions"]]
                self.client.patch(self.kinds.POD, name, "default", {"status": {"conditions": told}}, "status")
        self.lost, self.off = set(), set()
        self.asked = lives.asked_after(self.asked, (lives.HOME, None), {}, frozenset())

    def end_well(self):
        """All nodes are back and the disks may be used again; the last request is run until nothing is left to do."""
        self.home()
        for name, disk in self.world.disks().items():
            if disk["spec"].get("unschedulable"):
                self.client.patch(self.kinds.LOCAL_DISK, name, None, {"spec": {"unschedulable": None}})
        self.asked = replace(self.asked, once={}, named=frozenset(), strategy="in_place_if_possible", rollback=False)
        self.base["wait_timeout"] = 60
        calm(self.run())
        again = calm(self.run())
        assert (again["changed"], writes(again)) == (False, {})
        assert sorted(self.where()) == list(range(self.asked.replicas))
        there = pods(self.world)
        assert sorted(there) == ([] if self.asked.suspended else [f"db-{o}" for o in range(self.asked.replicas)])
        container = self.asked.params()["template"]["spec"]["containers"][0]
        for name, pod in there.items():
            now = pod["spec"]["containers"][0]
            assert ready(pod)
            assert pod["spec"]["nodeName"] == self.where()[int(name[-1])]
            assert (now["image"], now.get("command")) == (container["image"], container.get("command"))
        self.world.check()


@pytest.mark.parametrize("seed", LIVES)
def test_a_sample_of_any_life(app_world, kubeconfig, seed):
    drawn = lives.life(random.Random(seed).choice, (5,))
    life = Life(app_world, kubeconfig, drawn)
    try:
        calm(life.run())
        for move in drawn.moves:
            life.make(move)
        life.end_well()
    finally:
        life.bring_back()
        app_world.clear()
