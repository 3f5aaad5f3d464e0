"""A sample of what test_any_order_of_events_keeps_the_promise draws, on a real API server with its controllers.

A run is killed by SIGKILL after one of its writes, a pod is deleted, another template comes: drawn by a seed. What the
API server has kept of the pods' history says whether berth has ever taken too many.
"""

from __future__ import annotations

import random
import time

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.observed import ready
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.pod_revision import RESIZING, updating
from tests.apiserver.app.runner import calm, run
from tests.apiserver.app.test_stateful_app import NODES
from tests.apiserver.app.test_update import UPDATING, options, pods, with_template
from tests.apiserver.app.world import local_disk
from tests.core.app import update_moves as moves

pytestmark = pytest.mark.promise
APP = "berth.dev/app=db"
#: They have three replicas, two deaths, and between these another template and a lost pod; one may be down, or two.
SEEDS = (131, 320, 1096, 1287)
#: Writes of a run for one step of the small cluster: it records more than what it does to pods.
WRITES = 3


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
