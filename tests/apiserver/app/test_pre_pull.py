"""New images are pulled before a replica is touched: real API server and controllers, and kwok, which lets go of a node
without its label. There the test is the kubelet of the pull pods."""

from __future__ import annotations

import pytest

from tests.apiserver.app.pull_kubelet import ABSENT, FIRST, SECOND, STARTED, ground, kubelet, label, pull_pods
from tests.apiserver.app.runner import calm, run
from tests.apiserver.app.test_stateful_app import writes
from tests.apiserver.app.test_update import images, options, uids, with_template
from tests.dev.hosts_help import eventually


@pytest.fixture
def world(app_world):
    yield from ground(app_world)


@pytest.mark.promise
def test_a_replica_keeps_its_image_and_is_ready_until_its_node_has_the_new_one(world, kubeconfig):
    first = options(kubeconfig, replicas=2)
    second = with_template(first, image=SECOND)
    calm(run(first))
    before = uids(world)
    label(world, None)

    with kubelet(world, ABSENT) as asked:
        stuck = run(second)
    assert stuck["failed"], stuck
    assert "pod db-1 is not updated: node fake-" in stuck["msg"]
    assert f"cannot pull {SECOND} (container main: ErrImageNeverPull: is not present)" in stuck["msg"]
    assert asked == [("db-1", FIRST, "True")]
    assert (images(world), uids(world)) == ([FIRST] * 2, before), "no replica was touched"

    assert calm(run(first))["changed"]
    assert pull_pods(world) == []
    assert not calm(run(first))["changed"]

    with kubelet(world, STARTED) as asked:
        done = calm(run(second))
    assert asked == [("db-1", FIRST, "True"), ("db-0", FIRST, "True")]
    assert [(row["pod"], row["pulled"], row["pull_seconds"] > 0) for row in done["updated"]] == [
        ("db-1", [SECOND], True),
        ("db-0", [SECOND], True),
    ]
    assert (images(world), uids(world)) == ([SECOND] * 2, before)
    assert pull_pods(world) == []
    again = calm(run(second))
    assert (again["changed"], writes(again)) == (False, {})

    without = with_template({**first, "pre_pull": False}, image="berth.local/busybox:3")
    assert [row["pulled"] for row in calm(run(without))["updated"]] == [[], []]
    assert images(world) == ["berth.local/busybox:3"] * 2
    world.check()


@pytest.mark.promise
@pytest.mark.parametrize("workload", ["StatefulSet", "Pod"])
def test_a_pod_that_is_made_anew_takes_its_pull_pod_along(world, kubeconfig, workload):
    first = options(kubeconfig, replicas=2, workload=workload, update_strategy="same_node")
    calm(run(first))
    before = uids(world)
    done = calm(run(with_template(first, image=SECOND)))
    assert [(row["pod"], row["in_place"], row["pulled"]) for row in done["updated"]] == [
        ("db-1", False, [SECOND]),
        ("db-0", False, [SECOND]),
    ]
    assert not set(uids(world).values()) & set(before.values())
    eventually(lambda: not pull_pods(world), 30, "the pull pods to go with their owners")
    assert not calm(run(with_template(first, image=SECOND)))["changed"]
    world.check()
