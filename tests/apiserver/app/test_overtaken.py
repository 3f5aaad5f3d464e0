"""A run that another one, a person, or the controller overtakes in the middle ends, and takes nothing back."""

from __future__ import annotations

import copy
import os
import signal
from contextlib import contextmanager

import pytest

from tests.apiserver.app.runner import calm, run, start
from tests.apiserver.app.test_stateful_app import NODES
from tests.apiserver.app.test_update import images, options, with_template
from tests.apiserver.app.world import local_disk
from tests.dev.hosts_help import eventually

FIRST, SECOND, THIRD = (f"berth.local/busybox:{number}" for number in (1, 2, 3))
#: Seconds for which a slow run waits after each replica: time enough to stop its process in the middle.
REST = 4


@pytest.fixture
def world(app_world):
    for node in NODES:
        app_world.add_disk(local_disk(node, 0))
    yield app_world
    for one in app_world.client.list(app_world.kinds.STATEFUL_APP, "default"):
        app_world.client.delete(app_world.kinds.STATEFUL_APP, one["metadata"]["name"], "default")
    app_world.clear()


@contextmanager
def in_the_middle(world, asked):
    """A run that has brought the second image to the last replica, and stands still while the block goes on."""
    slow = start({**with_template(asked, image=SECOND), "min_ready_seconds": REST})
    try:
        begun = [FIRST, FIRST, SECOND]
        eventually(lambda: sorted(images(world)) == begun, 60, "the slow run to begin")
        os.kill(slow.pid, signal.SIGSTOP)
        yield slow
    except BaseException:
        os.kill(slow.pid, signal.SIGKILL)  # a copy of this process: it must not outlive a test that failed
        raise
    os.kill(slow.pid, signal.SIGCONT)


def overtaken(result, *words):
    assert result["failed"], result
    for word in (*words, "it is overtaken and has ended, nothing was taken back"):
        assert word in result["msg"], result["msg"]


@pytest.mark.parametrize("workload", ["StatefulSet", "Pod"])
def test_the_newer_run_goes_on_and_the_older_one_says_who_took_over(world, kubeconfig, workload):
    asked = options(kubeconfig, workload=workload, update_strategy="same_node")
    calm(run(asked))
    with in_the_middle(world, asked) as slow:
        assert calm(run(with_template(asked, image=THIRD)))["changed"]
    kind = "StatefulSet default/db" if workload == "StatefulSet" else "Berth default/db-"
    overtaken(slow.finish(), kind, "was given revision", "by berth (another run of stateful_app", "bringing revision")
    assert images(world) == [THIRD] * 3
    assert not calm(run(with_template(asked, image=THIRD)))["changed"]
    world.check()


def test_a_hand_at_the_statefulset_is_named(world, kubeconfig):
    asked = options(kubeconfig, update_strategy="same_node")
    calm(run(asked))
    with in_the_middle(world, asked) as slow:
        template = copy.deepcopy(world.client.get(world.kinds.STATEFUL_SET, "db", "default")["spec"]["template"])
        template["spec"]["containers"][0]["image"] = THIRD
        world.client.patch(world.kinds.STATEFUL_SET, "db", "default", {"spec": {"template": template}})
    overtaken(slow.finish(), "StatefulSet default/db was changed (spec.template.spec.containers[0].image) by")
    assert sorted(images(world)) == [FIRST, FIRST, SECOND]


def test_what_a_hand_has_changed_since_the_last_run_does_not_go_in_silence(world, kubeconfig):
    asked = options(kubeconfig)
    calm(run(asked))
    template = copy.deepcopy(world.client.get(world.kinds.STATEFUL_SET, "db", "default")["spec"]["template"])
    template["spec"]["containers"][0]["image"] = SECOND
    world.client.patch(world.kinds.STATEFUL_SET, "db", "default", {"spec": {"template": template}})
    for check in (True, False):
        told = calm(run(asked, check=check))["warnings"]
        assert [line.rpartition(": ")[2] for line in told if "was changed by others since the last run" in line] == [
            "spec.template.spec.containers[0].image"
        ]
    assert not [line for line in calm(run(asked))["warnings"] if "changed by others" in line]
    assert images(world) == [FIRST] * 3


def test_a_run_ends_when_the_controller_is_given_the_app(world, kubeconfig):
    asked = options(kubeconfig, update_strategy="same_node")
    calm(run(asked))
    disks = [{"name": "data", "size": "100Mi", "storageClassName": "berth-test"}]
    spec = {"driver": "controller", "replicas": 3, "template": asked["template"], "disks": disks}
    with in_the_middle(world, asked) as slow:
        body = {"metadata": {"name": "db", "namespace": "default"}, "spec": spec}
        world.client.apply(world.kinds.STATEFUL_APP, body)
    overtaken(slow.finish(), "StatefulApp default/db (generation 3) has driver controller", "berth-controller carries")
    assert images(world).count(SECOND) == 1
    world.check()
