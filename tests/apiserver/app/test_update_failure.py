"""pause_on_failure: real API server and controllers, and kwok. The test is the kubelet of the pull pods."""

from __future__ import annotations

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.stateful_app import INFO
from tests.apiserver.app.pull_kubelet import ABSENT, FIRST, SECOND, STARTED, ground, kubelet, label, pull_pods
from tests.apiserver.app.runner import calm, run
from tests.apiserver.app.test_stateful_app import writes
from tests.apiserver.app.test_update import images, options, uids, with_template


@pytest.fixture
def world(app_world):
    yield from ground(app_world)


def told(kubeconfig):
    return calm(run({"name": "db", "kubeconfig": str(kubeconfig)}, INFO))["update_paused"]


def test_a_failed_update_pauses_until_somebody_resumes_or_the_template_changes(world, kubeconfig):
    first = options(kubeconfig, replicas=2, pause_on_failure=True)
    second = with_template(first, image=SECOND)
    calm(run(first))
    before = uids(world)
    label(world, None)
    with kubelet(world, ABSENT) as asked:
        stuck = run(second)
    assert stuck["failed"], stuck
    assert "the update of default/db is paused (pause_on_failure)" in stuck["msg"], stuck
    assert f"cannot pull {SECOND}" in stuck["update_paused"]["why"]
    assert [row[0] for row in asked] == ["db-1"]
    assert told(kubeconfig) == stuck["update_paused"]

    seen = run(second, check=True)
    assert seen["update_paused"] == stuck["update_paused"]
    assert [warning for warning in seen["warnings"] if "is paused (pause_on_failure)" in warning]
    assert run(second)["failed"], "and takes the pull pod away"
    with kubelet(world, STARTED) as asked:  # the image can be had by now, and nobody asks for it
        again = run(second)
    assert again["failed"], again
    assert (writes(again), asked) == ({}, [])
    assert pull_pods(world) == []
    assert images(world) == [FIRST] * 2

    with kubelet(world, STARTED) as asked:
        calm(run({**second, "paused": False}))
    assert [row[0] for row in asked] == ["db-1", "db-0"]
    assert (images(world), uids(world)) == ([SECOND] * 2, before)
    assert told(kubeconfig) is None
    done = calm(run(second))
    assert (done["changed"], writes(done)) == (False, {})

    third = with_template(first, image="berth.local/busybox:3")
    with kubelet(world, ABSENT):
        assert run(third)["failed"]
    assert calm(run(second))["changed"], "back to the template that everybody has"
    assert told(kubeconfig) is None
    assert not calm(run(second))["changed"]
    world.check()
