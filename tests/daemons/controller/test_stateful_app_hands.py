"""Several hands at one app: a playbook and a real controller at once, and kubectl at the StatefulSet below."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.observed import ready
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_dev.errors import KubeError
from tests.daemons.controller.app_world import AppWorld, app_world
from tests.daemons.controller.world import until

pytestmark = pytest.mark.promise
REPLICAS = ("db-0", "db-1", "db-2")
#: Seconds that an update rests after each replica: it is in the middle for so long.
REST = 6
FIELD = "spec.template.spec.containers[main].image was set to"


@pytest.fixture
def apps(plane: Any, world: Any, nodes: list[str]) -> Iterator[AppWorld]:
    with app_world(plane, world, nodes) as made:
        made.disks(len(REPLICAS))
        made.allow()
        yield made


def of_playbook(apps: AppWorld, image: str, **values: Any) -> dict[str, Any]:
    template = apps.template(image)
    rules = {"update_strategy": "same_node", "pre_pull": False}
    return apps.module(replicas=3, wait=True, template=template, **rules, **values)


def ask(apps: AppWorld, image: str, rest: int = 0) -> None:
    """By the object: each pod is made anew."""
    strategy = {"type": "SameNode", "minReadySeconds": rest, "prePull": False}
    apps.apply(replicas=3, template=apps.template(image), updateStrategy=strategy)


def images(apps: AppWorld) -> list[str]:
    """Of the pods that are Ready, the lowest ordinal first."""
    return [one["spec"]["containers"][0]["image"] for _name, one in sorted(apps.pods().items()) if ready(one)]


def in_the_middle(apps: AppWorld, old: str, new: str) -> None:
    until(lambda: images(apps) == [old, old, new], lambda: str(images(apps)))


def updated(apps: AppWorld, image: str) -> None:
    apps.ready(3)
    until(lambda: images(apps) == [image] * 3 and apps.status().get("updatedReplicas") == 3, lambda: str(images(apps)))


class Story:
    """What has become of the pods since it began: the API server's own, event by event."""

    def __init__(self, apps: AppWorld) -> None:
        self._apps = apps
        pods, self._version = apps.api.list_with_version(kinds.POD, apps.name)
        self._first = {one["metadata"]["name"]: one for one in pods}

    def check(self, *seen: str) -> None:
        """Each replica's pod was made anew once, two were Ready at every moment, and no other images were seen."""
        pods, made = dict(self._first), dict.fromkeys(REPLICAS, 0)
        found = {one["spec"]["containers"][0]["image"] for one in pods.values()}
        for event in self._apps.api.watch(kinds.POD, self._version, 1, self._apps.name):
            pod = event["object"]
            assert event["type"] in ("ADDED", "MODIFIED", "DELETED"), event
            name = pod["metadata"]["name"]
            pods[name] = pod if event["type"] != "DELETED" else {}
            made[name] += event["type"] == "ADDED"
            found.add(pod["spec"]["containers"][0]["image"])
            assert sum(bool(one) and ready(one) for one in pods.values()) >= len(REPLICAS) - 1, event
        assert made == dict.fromkeys(REPLICAS, 1)
        assert found == set(seen)


def test_an_app_that_is_handed_over_in_the_middle_of_a_run_is_finished_by_the_controller(
    apps: AppWorld, start: Any
) -> None:
    """And the other way a task is refused that begins while the controller is at it."""
    assert not of_playbook(apps, "none:1").get("failed")
    start("--no-leader-elect")
    story = Story(apps)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(of_playbook, apps, "none:2", min_ready_seconds=REST)
        in_the_middle(apps, "none:1", "none:2")
        ask(apps, "none:2", REST)
        refused = of_playbook(apps, "none:9")
        assert (refused["failed"], refused["changed"]) == (True, False)
        assert "has driver controller: berth-controller carries this application out" in refused["msg"], refused
        assert "none:1" in images(apps), "it is under way"
        ended = running.result(60)
    ask(apps, "none:2")
    assert ended["failed"], ended
    for words in (f"StatefulApp {apps.name}/db", "has driver controller since", "it is overtaken and has ended"):
        assert words in ended["msg"], ended
    updated(apps, "none:2")
    story.check("none:1", "none:2")
    apps.check()
    assert not apps.world.told("db", "Undone")


def nobody_looks_and_that_is_seen(apps: AppWorld) -> None:
    """The conditions are of the spec before, and say so: Ready is no answer to what is asked for now."""
    live = apps.live()
    told = next(one for one in live["status"]["conditions"] if one["type"] == "Ready")
    assert (told["status"], told["observedGeneration"] < live["metadata"]["generation"]) == ("True", True)
    with pytest.raises(KubeError, match="timed out waiting for the condition"):
        apps.kubectl("wait", "sapp/db", "--for=condition=Ready", "--timeout=1s")
    heads, values = apps.kubectl("get", "sapp", "db", "--output", "wide").splitlines()
    shown = dict(zip(heads.split()[:9], values.split()[:9], strict=True))
    assert int(shown["OBSERVED"]) < int(shown["GENERATION"]), shown


def test_a_hand_at_the_statefulset_is_told_and_taken_back_and_what_it_adds_is_kept(apps: AppWorld, start: Any) -> None:
    process = start("--no-leader-elect")
    ask(apps, "none:1")
    updated(apps, "none:1")
    story = Story(apps)
    ask(apps, "none:2", REST)
    in_the_middle(apps, "none:1", "none:2")
    apps.kubectl("set", "image", "statefulset/db", "main=none:9")
    words = f"{FIELD} none:9 by kubectl-set (becomes none:2)"
    until(lambda: apps.world.told("db", "Undone", words), lambda: str(apps.world.events("db")))
    ask(apps, "none:2")
    updated(apps, "none:2")
    story.check("none:1", "none:2")

    story = Story(apps)
    process.signal(signal.SIGSTOP)
    apps.kubectl("set", "image", "statefulset/db", "main=none:9")
    ask(apps, "none:3")
    nobody_looks_and_that_is_seen(apps)
    process.signal(signal.SIGCONT)
    again = f"{FIELD} none:9 by kubectl-set (becomes none:3)"
    until(lambda: apps.world.told("db", "Undone", again), lambda: str(apps.world.events("db")))
    updated(apps, "none:3")
    story.check("none:2", "none:3")

    story = Story(apps)
    told = len([reason for reason, _note in apps.world.events("db") if reason == "Undone"])
    apps.kubectl("set", "env", "statefulset/db", "MORE=1")

    def has_it() -> bool:
        pods = apps.pods().values()
        return len(pods) == 3 and all("env" in one["spec"]["containers"][0] and ready(one) for one in pods)

    until(has_it, lambda: str(apps.status()))
    updated(apps, "none:3")
    story.check("none:3")
    assert len([reason for reason, _note in apps.world.events("db") if reason == "Undone"]) == told
