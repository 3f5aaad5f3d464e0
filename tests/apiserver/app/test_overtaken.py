"""A run that another one, a person, or the controller overtakes in the middle ends, and takes nothing back."""

from __future__ import annotations

import json
import os
import signal
from contextlib import contextmanager

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.by_hand import KEYS
from tests.apiserver.app.runner import calm, run, start
from tests.apiserver.app.test_stateful_app import NODES
from tests.apiserver.app.test_update import images, options, pods, with_template
from tests.apiserver.app.world import local_disk
from tests.dev.hosts_help import eventually

pytestmark = pytest.mark.promise
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


def set_image(control_plane, image):
    control_plane.kubectl("set", "image", "statefulset/db", f"main={image}")


def by_hand(result):
    """What it says of others' changes."""
    return [line for line in result["warnings"] if "was changed by others" in line]


FIELD = "spec.template.spec.containers[main].image"


def test_a_hand_at_the_statefulset_in_the_middle_is_named_and_the_next_run_takes_it_back(
    world, kubeconfig, control_plane
):
    asked = options(kubeconfig, update_strategy="same_node")
    calm(run(asked))
    with in_the_middle(world, asked) as slow:
        set_image(control_plane, THIRD)
    told = slow.finish()
    overtaken(told, f"StatefulSet default/db was changed: {FIELD} was set to {THIRD} by kubectl-set at 20")
    for words in (f"db-0, db-1: {FIRST} (revision db-", f"; db-2: {SECOND} (revision db-", "Run this task again"):
        assert words in told["msg"], told["msg"]
    assert sorted(images(world)) == [FIRST, FIRST, SECOND], "nobody goes on"
    goes_on = calm(run(with_template(asked, image=SECOND)))
    assert FIELD in by_hand(goes_on)[0]
    assert f"was set to {THIRD} by kubectl-set at" in by_hand(goes_on)[0]
    assert images(world) == [SECOND] * 3
    world.check()


def test_what_a_hand_has_changed_since_the_last_run_does_not_go_in_silence(world, kubeconfig, control_plane):
    """Whether the task asks for what it did, or for something else; of what it asks for now there is nothing to say."""
    asked = options(kubeconfig, replicas=1)
    asked["template"]["spec"]["containers"][0]["env"] = [{"name": name, "value": "1"} for name in ("OWN", "STAYS")]
    calm(run(asked))
    for task in (asked, with_template(asked, image=THIRD)):
        set_image(control_plane, SECOND)
        wanted = task["template"]["spec"]["containers"][0]["image"]
        for check in (True, False):
            told = calm(run(task, check=check))
            (line,) = by_hand(told)
            assert f": {FIELD} was set to {SECOND} by kubectl-set at 20" in line
            assert line.endswith(f" (becomes {wanted})")
            before, after = (told["diff"][side]["objects"]["StatefulSet default/db"] for side in ("before", "after"))
            found = [one["spec"]["template"]["spec"]["containers"][0]["image"] for one in (before, after)]
            assert found == [SECOND, wanted]
        assert not by_hand(calm(run(task)))
        assert images(world) == [wanted]
    set_image(control_plane, SECOND)
    done = calm(run(with_template(asked, image=SECOND)))
    assert (by_hand(done), images(world)) == ([], [SECOND])
    assert not by_hand(calm(run(with_template(asked, image=FIRST)))), "it is the task's by now"
    control_plane.kubectl("set", "env", "statefulset/db", "OWN-")
    (line,) = by_hand(calm(run(with_template(asked, image=SECOND), check=True)))
    assert line.endswith(": spec.template.spec.containers[main].env[OWN] was taken out"), line


def test_what_a_hand_adds_is_a_revision_as_any_other(world, kubeconfig, control_plane):
    """An apply does not take it away: no run says so, or writes the StatefulSet for nothing."""
    asked = options(kubeconfig, replicas=1)
    asked["template"]["spec"]["containers"][0]["env"] = [{"name": "OWN", "value": "1"}]
    calm(run(asked))
    control_plane.kubectl("set", "env", "statefulset/db", "MORE=2")
    side = json.dumps({"spec": {"template": {"spec": {"containers": [{"name": "side", "image": FIRST}]}}}})
    control_plane.kubectl("patch", "statefulset", "db", "--patch", side)
    done = calm(run(asked))
    assert (done["changed"], by_hand(done), [row["pod"] for row in done["updated"]]) == (True, [], ["db-0"])
    assert "apply StatefulSet" not in done["trace"]
    containers = {one["name"]: one for one in pods(world)["db-0"]["spec"]["containers"]}
    assert set(containers) == {"main", "side"}
    assert [one["name"] for one in containers["main"]["env"]] == ["OWN", "MORE"]
    assert not calm(run(asked))["changed"]
    other = calm(run(with_template(asked)))
    assert (other["changed"], by_hand(other)) == (True, [])
    containers = {one["name"]: one for one in pods(world)["db-0"]["spec"]["containers"]}
    assert (set(containers), len(containers["main"]["env"])) == ({"main", "side"}, 2)
    assert not calm(run(with_template(asked)))["changed"]


def test_the_lists_that_an_apply_merges_are_those_of_the_api_server(control_plane, kubeconfig):
    schemas = json.loads(control_plane.kubectl("get", "--raw", "/openapi/v2"))["definitions"]
    found, seen, left = {}, set(), ["io.k8s.api.core.v1.PodSpec"]
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        for field, one in schemas[name].get("properties", {}).items():
            if one.get("x-kubernetes-list-type") == "map":
                found.setdefault(field, set()).add(tuple(sorted(one["x-kubernetes-list-map-keys"])))
            below = [one, one.get("items", {}), one.get("additionalProperties", {})]
            left += [each["$ref"].rpartition("/")[2] for each in below if "$ref" in each]
    for no_part_of_a_template in ("ephemeralContainers", "ownerReferences"):
        found.pop(no_part_of_a_template)
    assert found == {field: {tuple(sorted(keys))} for field, keys in KEYS.items()}


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
