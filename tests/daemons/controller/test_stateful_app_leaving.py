"""Replicas of a StatefulApp leave a node: by the controller's hand, one in a look, and whoever of them dies."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.emptying import LEAVES
from ansible_collections.berth.stateful.plugins.module_utils._glue.host_maintenance import OPERATION as MAINTENANCE
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.emptying import asking, manager_of
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.maintenance_mark import mark_of
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.replace_request import ANNOTATION
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.lifecycle.history import of_disk
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.apiserver.app.runner import run
from tests.apiserver.app.runner import start as forked
from tests.daemons.controller.app_world import AppWorld, app_world
from tests.daemons.controller.world import until
from tests.support.wire import dying, dying_after_each

pytestmark = pytest.mark.promise
COUNTED = r"\w+ (Berth|LocalDisk|PersistentVolume|PersistentVolumeClaim|StatefulSet|Pod) .*"
#: More than there are kinds of writes in a move.
DEATHS = 40


@pytest.fixture
def apps(plane: Any, world: Any, nodes: list[str]) -> Iterator[AppWorld]:
    with app_world(plane, world, nodes) as made:
        yield made


def two_replicas(apps: AppWorld, start: Any) -> Any:
    """The app is Ready, and a third node has a free disk. Returns the controller's process."""
    apps.disks(3)
    apps.allow()
    process = start("--no-leader-elect")
    apps.apply()
    apps.ready(2)
    return process


def places(apps: AppWorld) -> dict[str, str]:
    return {name: one["spec"]["nodeName"] for name, one in apps.world.berths().items()}


def moved(apps: AppWorld, name: str, node: str) -> bool:
    """The replica is Ready elsewhere, and the app at rest."""
    ready = apps.condition("Ready").get("status") == "True" and apps.status().get("readyReplicas") == 2
    return bool(ready and places(apps).get(name, node) != node)


def kept(apps: AppWorld, name: str, node: str) -> None:
    """The disk that was left keeps the data, and is given to nobody."""
    (old,) = [one["spec"] for one in apps.world.disks().values() if one["spec"].get("retainedFor")]
    assert (old["nodeName"], old["unschedulable"]) == (node, True)
    assert f"db-{old['retainedFor']['ordinal']}" == name
    apps.check()


def test_a_replica_leaves_by_name_and_the_other_stays(apps: AppWorld, start: Any) -> None:
    two_replicas(apps, start)
    before, uids = places(apps), apps.uids()
    name, node = "db-1", before["db-1"]
    apps.apply(leaveNodes=[node])
    apps.stalled("Blocked", f"leaveData: [{name}]")
    assert (places(apps), apps.uids()) == (before, uids)
    apps.apply(leaveNodes=["nowhere"])
    apps.stalled("Refused", "leaveNodes names nowhere")
    apps.apply(leaveNodes=[node], leaveData=[name])
    until(lambda: moved(apps, name, node), lambda: str(apps.live().get("status")))
    kept(apps, name, node)
    assert apps.uids()["db-0"] == uids["db-0"]
    assert places(apps)["db-0"] == before["db-0"]


def test_a_changed_template_costs_a_replica_its_place_where_its_data_is_named(apps: AppWorld, start: Any) -> None:
    two_replicas(apps, start)
    before, uids = places(apps), apps.uids()
    name, node = "db-1", before["db-1"]
    template = apps.live()["spec"]["template"]
    anew = {
        "template": {**template, "spec": {**template["spec"], "shareProcessNamespace": True}},
        "updateStrategy": {"type": "Reschedule", "partition": 1},
    }
    apps.apply(**anew)
    apps.stalled("Blocked", f"leaveData: [{name}@{node}]")
    assert (places(apps), apps.uids()) == (before, uids)
    apps.apply(**anew, leaveData=[f"{name}@{node}"])
    until(lambda: moved(apps, name, node), lambda: str(apps.live().get("status")))
    kept(apps, name, node)
    assert apps.api.get(kinds.POD, name, apps.name)["spec"]["shareProcessNamespace"] is True
    assert (places(apps)["db-0"], apps.uids()["db-0"]) == (before["db-0"], uids["db-0"])


def test_a_replica_gets_another_place_once_for_each_request(apps: AppWorld, start: Any) -> None:
    two_replicas(apps, start)
    before, uids = places(apps), apps.uids()
    name, node = "db-1", before["db-1"]
    request = f"{name}@{node}"
    apps.apply(replace=[request])
    apps.stalled(
        "Blocked", f"replace asks for another berth for replicas that have data where they are: {name} on node"
    )
    apps.stalled("Blocked", f"leaveData: [{request}]")
    assert (places(apps), apps.uids()) == (before, uids)
    apps.world.disk(node, 9)  # its own node is asked, too
    apps.apply(replace=[request], leaveData=[request])
    until(lambda: apps.uids().get(name) not in (None, uids[name]), lambda: str(apps.live().get("status")))
    apps.ready(2)
    berth = apps.world.berths()[name]
    assert berth["metadata"]["annotations"][ANNOTATION] == node
    assert berth["spec"]["disks"][0]["name"] in set(apps.world.locks()), "another disk"
    kept(apps, name, node)
    (old,) = [one for one in apps.world.disks().values() if one["spec"].get("retainedFor")]
    assert any(f"replace: {request}" in entry.get("why", "") for entry in of_disk(old))
    after = apps.uids()
    assert (after["db-0"], places(apps)["db-0"]) == (uids["db-0"], before["db-0"])
    apps.kubectl("annotate", "sapp", "db", "looked=again")
    apps.apply(replace=[request], leaveData=[request], updateStrategy={"type": "InPlaceIfPossible"})
    apps.ready(2)
    assert apps.uids() == after, "asked for once"


def dies_after_each(apps: AppWorld, start: Any, tmp_path: Path, done: Callable[[], bool]) -> int:
    """Controllers that follow one another, until it is done. Returns how many have died."""
    wire = dying_after_each("berth_controller", tmp_path / "last", COUNTED)
    deaths = 0
    while not done():
        process = start("--no-leader-elect", wait=False, **wire)
        until(lambda process=process: process.process.poll() is not None or done(), process.text)
        if process.process.poll() is None:
            process.stop()
            break
        assert process.ended() == -signal.SIGKILL, process.text()
        deaths += 1
        assert deaths < DEATHS, (tmp_path / "last").read_text()
        apps.check()
    return deaths


def test_a_controller_that_dies_after_any_write_is_continued(apps: AppWorld, start: Any, tmp_path: Path) -> None:
    process = two_replicas(apps, start)
    process.stop()
    name, node = "db-1", places(apps)["db-1"]
    apps.apply(leaveNodes=[node], leaveData=[name])
    deaths = dies_after_each(apps, start, tmp_path, lambda: moved(apps, name, node))
    assert deaths >= 6, "cordon, claim, pod, volume, lock, Berth"
    kept(apps, name, node)
    assert apps.api.get(kinds.POD, name, apps.name)["spec"]["nodeName"] != node


def test_one_that_was_begun_comes_home_when_nobody_asks_for_it_any_more(
    apps: AppWorld, start: Any, tmp_path: Path
) -> None:
    """The controller died when the Berth said that it goes; the pod runs. Nothing is done before its data may be where
    it goes, and while another one is down. Then it dies after any write once more."""
    process = two_replicas(apps, start)
    process.stop()
    before, uids = places(apps), apps.uids()
    name, node = "db-1", before["db-1"]
    (disk,) = [each["name"] for each in apps.world.berths()[name]["spec"]["disks"]]
    apps.apply(leaveNodes=[node], leaveData=[name])
    process = start("--no-leader-elect", wait=False, **dying("berth_controller", 1, rf"\w+ Berth/status {name}"))
    assert process.ended() == -signal.SIGKILL, process.text()
    assert (apps.phases()[name], apps.uids()) == ("Releasing", uids)
    data = apps.world.disks()[disk]["spec"]["claimRef"]["dataUID"]
    apps.apply(leaveNodes=[], leaveData=[])
    process = start("--no-leader-elect")
    apps.stalled("Unschedulable", name)
    assert apps.uids() == uids
    unready(apps, "db-0")
    apps.kubectl("patch", "localdisk", disk, "--type=merge", "--patch", '{"spec": {"unschedulable": null}}')
    until(lambda: "pod db-0 to be Ready" in apps.condition("Ready").get("message", ""), lambda: str(apps.live()))
    assert apps.uids() == uids, "two would be down"
    process.stop()
    unready(apps, "db-0", "True")

    def home() -> bool:
        ready = apps.condition("Ready").get("status") == "True" and apps.status().get("readyReplicas") == 2
        return bool(ready and apps.uids().get(name) not in (None, uids[name]))

    dies_after_each(apps, start, tmp_path, home)
    assert places(apps) == before
    ref = apps.world.disks()[disk]["spec"]["claimRef"]
    assert (ref["name"], ref["dataUID"]) == (name, data)
    assert apps.uids()["db-0"] == uids["db-0"]


def unready(apps: AppWorld, name: str, status: str = "False") -> None:
    """What a pod says of itself."""
    told = {"status": {"conditions": [{"type": "Ready", "status": status}]}}
    apps.api.patch(kinds.POD, name, apps.name, told, "status")


def test_the_maintenance_of_a_host_asks_for_it_and_no_longer_than_needed(apps: AppWorld, start: Any) -> None:
    """Somebody else has replicas leave another node meanwhile: each asks for items of its own."""
    two_replicas(apps, start)
    name, node = "db-1", places(apps)["db-1"]
    (spare,) = set(apps.nodes[:3]) - set(places(apps).values())
    assert f"apps[0].data: [{name}]" in apps.maintenance(node, {"app": f"{apps.name}/*"})["msg"]
    assert "leaveNodes" not in apps.live()["spec"]
    asked = {"app": f"{apps.name}/*", "data": [name]}
    (row,) = apps.maintenance(node, asked, check=True)["moved"]
    assert (row["pod"], row["from"], row["to"]) == (name, node, spare)
    try:
        done = apps.maintenance(node, asked)
        assert not done.get("failed"), done
        assert (done["moved"], places(apps)[name]) == ([row], spare)
        assert apps.api.get(kinds.NODE, node)["spec"]["unschedulable"] is True
        left = {key: apps.live()["spec"].get(key) or [] for key in ("leaveNodes", "leaveData")}
        assert left == {"leaveNodes": [], "leaveData": []}
        kept(apps, name, node)
        told = [entry.get("to") for disk in apps.world.disks().values() for entry in of_disk(disk)]
        assert LEAVES in told
        assert not apps.maintenance(node, asked)["changed"]
    finally:
        apps.maintenance(node, state="ended")


def test_what_a_maintenance_that_died_has_asked_for_is_taken_back(apps: AppWorld, start: Any) -> None:
    apps.disks(3)
    apps.allow()
    apps.apply(leaveNodes=["another"], leaveData=["db-0"])
    node = apps.nodes[0]
    live = apps.live()
    apps.api.apply(kinds.STATEFUL_APP, asking(live, node, ["db-1"]), manager=manager_of(node))
    assert sorted(apps.live()["spec"]["leaveNodes"]) == sorted(["another", node])
    asked = {"app": f"{apps.name}/*", "data": ["db-1"]}
    assert apps.maintenance(node, asked, state="ended")["changed"]
    spec = apps.live()["spec"]
    assert (spec["leaveNodes"], spec["leaveData"]) == (["another"], ["db-0"])
    assert not apps.maintenance(node, asked, state="ended")["changed"]


@contextmanager
def ends_late(apps: AppWorld, name: str) -> Iterator[None]:
    """The pod is going, and not gone, until the end: its replica is in the middle of leaving."""
    finalizers = ["tests.berth.dev/late"]
    apps.api.patch(kinds.POD, name, apps.name, {"metadata": {"finalizers": finalizers}})
    try:
        yield
    finally:
        apps.api.patch(kinds.POD, name, apps.name, {"metadata": {"finalizers": None}})


def asks(apps: AppWorld) -> tuple[list[str], list[str]]:
    spec = apps.live()["spec"]
    return spec.get("leaveNodes") or [], spec.get("leaveData") or []


def closed(apps: AppWorld, node: str) -> tuple[bool, bool]:
    """Whether the node is cordoned, and whether it is in maintenance."""
    live = apps.api.get(kinds.NODE, node)
    return bool(live["spec"].get("unschedulable")), mark_of(live) is not None


def killed_in_the_middle(apps: AppWorld, node: str, name: str, asked: dict[str, Any]) -> None:
    """The maintenance waits for the controller, which waits for the pod to end: SIGKILL. The controller goes on."""

    def going() -> bool:
        meta = apps.pods().get(name, {}).get("metadata", {})
        return apps.phases().get(name) == "Releasing" and "deletionTimestamp" in meta

    maintenance = forked(apps.of_maintenance(node, asked), MAINTENANCE)
    try:
        until(going, lambda: f"{apps.phases()} {apps.live().get('status')}")
    finally:
        os.kill(maintenance.pid, signal.SIGKILL)
    assert maintenance.finish() is None
    assert closed(apps, node) == (False, False), "the node is open while replicas move"
    assert asks(apps) == ([node], [name])


def test_a_maintenance_that_is_killed_while_a_replica_moves_is_continued(apps: AppWorld, start: Any) -> None:
    """And once more on each side of the cordon, when the replica is elsewhere already."""
    two_replicas(apps, start)
    before, uids = places(apps), apps.uids()
    name, node = "db-1", before["db-1"]
    (spare,) = set(apps.nodes[:3]) - set(before.values())
    asked = {"app": f"{apps.name}/*", "data": [name]}
    try:
        with ends_late(apps, name):
            killed_in_the_middle(apps, node, name, asked)
            apps.check()
        for first in (True, False):
            died = run(apps.of_maintenance(node, asked), MAINTENANCE, kill_at=1, of="patch Node", before=first)
            assert died is None, died
            assert moved(apps, name, node)
            assert (closed(apps, node), asks(apps)) == ((not first, not first), ([node], [name]))
        done = apps.maintenance(node, asked)
        assert (done.get("failed"), done["changed"], done["pods"]) == (None, True, []), done
        assert (closed(apps, node), asks(apps)) == ((True, True), ([], []))
        assert not apps.maintenance(node, asked)["changed"]
        kept(apps, name, node)
        assert places(apps) == {**before, name: spare}
        assert apps.uids()["db-0"] == uids["db-0"]
    finally:
        apps.maintenance(node, asked, state="ended")
    assert closed(apps, node) == (False, False)
    assert places(apps) == {**before, name: spare}, "who has moved stays where he is"


def test_a_maintenance_that_is_killed_while_a_replica_moves_may_be_ended(apps: AppWorld, start: Any) -> None:
    """The replica waits then: nobody gives its data up any more, and it comes back to it when its disk may be given."""
    two_replicas(apps, start)
    before, uids = places(apps), apps.uids()
    name, node = "db-1", before["db-1"]
    (disk,) = [each["name"] for each in apps.world.berths()[name]["spec"]["disks"]]
    asked = {"app": f"{apps.name}/*", "data": [name]}
    with ends_late(apps, name):
        killed_in_the_middle(apps, node, name, asked)
        ended = apps.maintenance(node, asked, state="ended")
        (told,) = [text for text in ended["warnings"] if "was leaving" in text]
        assert f"replica {apps.name}/{name} was leaving Node {node}, and waits now" in told
        assert (ended["changed"], closed(apps, node), asks(apps)) == (True, (False, False), ([], []))
        assert not apps.maintenance(node, asked, state="ended")["changed"]
    apps.stalled("Unschedulable", name)
    assert apps.world.disks()[disk]["spec"]["unschedulable"] is True
    apps.check()
    apps.kubectl(*shlex.split(told.partition("comes back to its data: kubectl")[2]))
    until(lambda: apps.uids().get(name) not in (None, uids[name]), lambda: str(apps.live().get("status")))
    apps.ready(2)
    assert places(apps) == before
    assert [each["name"] for each in apps.world.berths()[name]["spec"]["disks"]] == [disk]
    assert apps.uids()["db-0"] == uids["db-0"]
