"""The agent on real hosts of the development cluster: its own token, real disks, processes killed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.dev.hosts_help import eventually
from tests.support.agent import AgentOnHost, conditions_of

pytestmark = pytest.mark.hosts
HOST = "h1"
ALL = [{"query": "[?model == 'BERTH_DEV_DISK']", "storage_class": "fast"}]
#: Whatever is looked at again and again, each second.
EACH_SECOND = {"scan": 60, "poll": 0.5, "debounce": 0.1, **dict.fromkeys(("health", "usage", "facts", "devices"), 1)}


def own(agent: AgentOnHost, names: list[str]) -> dict[str, dict[str, Any]]:
    """The host's disks of these names, by name."""
    return {disk["name"]: disk for disk in agent.cluster.hosts.disks(agent.host) if disk["name"] in names}


@pytest.fixture
def twins(dev_cluster: Any) -> Iterator[list[dict[str, Any]]]:
    """Two disks of one size, plugged into the host for this test."""
    names = [f"{letter}{uuid4().hex[:5]}" for letter in "ab"]
    for name in names:
        dev_cluster.hosts.disk_add(HOST, name, "320Mi")
    found = {disk["name"]: disk for disk in dev_cluster.hosts.disks(HOST)}
    yield [found[name] for name in names]
    for name in names:
        dev_cluster.hosts.disk_remove(HOST, name)


def versions(agent: AgentOnHost) -> dict[str, str]:
    return {serial: disk["metadata"]["resourceVersion"] for serial, disk in agent.disks().items()}


def settled(agent: AgentOnHost) -> dict[str, str]:
    """The versions of the node's LocalDisks, once they have stayed the same for two rounds of `EACH_SECOND`."""
    before: dict[str, str] = {}

    def same() -> bool:
        nonlocal before
        last, before = before, versions(agent)
        if last != before:
            time.sleep(4)
        return last == before

    eventually(same, 120, "no more writes")
    return before


def wait(test: Callable[[], Any], agent: AgentOnHost, what: str, seconds: float = 60.0) -> None:
    """Until the test is true; what the agent logged is shown when it never is."""
    try:
        eventually(test, seconds, what)
    except AssertionError as exc:
        raise AssertionError(f"{exc}\n{agent.log()[-4000:]}") from None


def test_a_node_is_published_and_then_nothing_is_written(agent_on: Callable[..., AgentOnHost]) -> None:
    agent = agent_on(HOST, disk_selectors=ALL, intervals={**EACH_SECOND, "lease": 12})
    agent.start()
    agent.wait_ready()
    disks = {disk["serial"]: disk for disk in agent.cluster.hosts.disks(HOST)}
    wait(lambda: set(agent.phases().values()) == {"Available"}, agent, "every disk is Available")
    found = agent.disks()
    assert set(found) == set(disks)
    for serial, disk in found.items():
        assert disk["spec"]["nodeName"] == HOST
        assert disk["spec"]["storageClassName"] == "fast"
        assert disk["status"]["observed"]["devicePath"] == disks[serial]["device"]
        assert conditions_of(disk)["Matched"] == ("True", "Found")
        assert conditions_of(disk)["Declared"] == ("True", "AsDeclared")
    wait(lambda: {"Ready", "AllocatableMatches"} <= set(agent.conditions()), agent, "what the agent says of itself")
    said = agent.conditions()
    assert (said["Ready"]["status"], said["ConfigurationInForce"]["status"]) == ("True", "True")
    assert said["AllocatableMatches"]["status"] == "True", said["AllocatableMatches"]
    assert len(agent.annotations()["berth.dev/configuration"]) == 12

    before = settled(agent)
    seen = agent.log().count("look ")
    agent.signal("HUP")  # surveys the host and reads the configuration at once
    agent.here("mount -t tmpfs none /mnt && umount /mnt")
    agent.signal("HUP")
    renewed = agent.lease()["spec"]["renewTime"]
    eventually(lambda: agent.lease()["spec"]["renewTime"] != renewed, 90, "a renewal")
    assert versions(agent) == before
    assert agent.alive()
    assert agent.log().count("look ") == seen


def test_disks_that_are_plugged_pulled_and_renamed(agent_on: Callable[..., AgentOnHost]) -> None:
    agent = agent_on(HOST, disk_selectors=ALL)
    agent.start()
    agent.wait_ready()
    name = f"p{uuid4().hex[:5]}"
    hosts = agent.cluster.hosts
    hosts.disk_add(HOST, name, "320Mi")
    try:
        serial = own(agent, [name])[name]["serial"]
        wait(lambda: agent.phases().get(serial) == "Available", agent, "the new disk is Available")
        first = agent.disks()[serial]
        hosts.disk_remove(HOST, name)
        wait(lambda: agent.phases()[serial] == "Missing", agent, "the pulled disk is Missing")
        gone = agent.disks()[serial]
        assert conditions_of(gone)["Matched"] == ("False", "NotFound")
        assert "devicePath" not in gone["status"]["observed"]
        hosts.disk_add(HOST, name)
        wait(lambda: agent.phases()[serial] == "Available", agent, "it is back")
        back = agent.disks()[serial]
        assert (back["metadata"]["uid"], back["spec"]) == (first["metadata"]["uid"], first["spec"])
    finally:
        agent.stop()
        if own(agent, [name])[name]["plugged"]:
            hosts.disk_remove(HOST, name)


def test_swapped_kernel_names_change_the_device_path_alone(
    twins: list[dict[str, Any]], agent_on: Callable[..., AgentOnHost]
) -> None:
    """Two disks change places under their kernel names while the agent looks the other way, as at a reboot."""
    agent = agent_on(HOST, disk_selectors=ALL)
    agent.start()
    agent.wait_ready()
    wait(lambda: set(agent.phases().values()) == {"Available"}, agent, "every disk is Available")
    agent.signal("KILL")
    before = agent.disks()
    one, two = twins
    agent.here(swap_command(one, two))
    try:
        agent.start()
        swapped = {one["serial"]: two["device"], two["serial"]: one["device"]}
        wait(
            lambda: (
                {serial: agent.disks()[serial]["status"]["observed"].get("devicePath") for serial in swapped} == swapped
            ),
            agent,
            "paths",
        )
        for serial in swapped:
            now, was = agent.disks()[serial], before[serial]
            assert now["metadata"]["uid"] == was["metadata"]["uid"]
            assert now["spec"] == was["spec"]
            assert conditions_of(now)["Declared"] == ("True", "AsDeclared")
    finally:
        agent.here(swap_command(one, two))
    wait(
        lambda: agent.disks()[one["serial"]]["status"]["observed"].get("devicePath") == one["device"],
        agent,
        "the old path",
    )


def test_two_disks_with_one_serial_are_refused_and_named(
    twins: list[dict[str, Any]], agent_on: Callable[..., AgentOnHost]
) -> None:
    agent = agent_on(HOST, disk_selectors=ALL)
    agent.start()
    agent.wait_ready()
    one, two = twins
    wait(lambda: agent.phases().get(one["serial"]) == "Available", agent, "the disk is Available")
    record = f"/run/udev/data/b7:{two['loop']}"
    agent.here(f"cp {record} /tmp/udev.true; cp /run/udev/data/b7:{one['loop']} {record}")
    try:
        wait(
            lambda: conditions_of(agent.disks()[one["serial"]])["Matched"] == ("False", "Ambiguous"), agent, "Ambiguous"
        )
        disk = agent.disks()[one["serial"]]
        told = {each["type"]: each.get("message", "") for each in disk["status"]["conditions"]}["Matched"]
        assert one["device"] in told
        assert two["device"] in told
        assert agent.phases()[one["serial"]] == "Missing"
        wait(lambda: agent.conditions()["DisksDeclared"]["status"] == "False", agent, "the refusal is named")
        assert "2 disks carry it" in agent.conditions()["DisksDeclared"]["message"]
    finally:
        agent.here(f"mv /tmp/udev.true {record}")
    wait(lambda: set(agent.phases().values()) == {"Available"}, agent, "all are told apart again")
    wait(lambda: agent.conditions()["DisksDeclared"]["status"] == "True", agent, "nothing is refused")


def test_a_configuration_is_reloaded_and_a_bad_one_is_refused(agent_on: Callable[..., AgentOnHost]) -> None:
    agent = agent_on(HOST)
    agent.start()
    agent.wait_ready()
    assert agent.disks() == {}
    first = agent.annotations()["berth.dev/configuration"]
    serial = agent.cluster.hosts.disks(HOST)[0]["serial"]
    agent.configure(disks=[{"serial": serial, "storage_class": "one"}])
    wait(lambda: list(agent.phases()) == [serial], agent, "the declared disk")
    wait(lambda: agent.annotations()["berth.dev/configuration"] != first, agent, "another configuration")
    second = agent.annotations()
    agent.put("agent.yaml", "node: h1\ndisks:\n  - {serial: 12}\n")
    wait(lambda: agent.conditions()["ConfigurationInForce"]["status"] == "False", agent, "the refusal")
    assert "line 3: disks[0]: serial is 12" in agent.conditions()["ConfigurationInForce"]["message"]
    for key in ("berth.dev/configuration", "berth.dev/configuration-since"):
        assert agent.annotations()[key] == second[key]
    agent.signal("KILL")
    agent.start()  # with the bad file: the last good one is taken
    wait(lambda: "goes on with the last good configuration" in agent.log(), agent, "the last good one")
    agent.configure(disks=[{"serial": serial, "storage_class": "two"}])
    wait(lambda: conditions_of(agent.disks()[serial])["Declared"] == ("False", "Drift"), agent, "drift")
    disk = agent.disks()[serial]
    assert disk["spec"]["storageClassName"] == "one"  # said, and not changed
    agent.configure()
    wait(lambda: "Declared" not in conditions_of(agent.disks()[serial]), agent, "nobody declares it any more")
    assert list(agent.disks()) == [serial]


@pytest.mark.promise
def test_of_two_agents_one_stands_back_and_takes_over(agent_on: Callable[..., AgentOnHost]) -> None:
    agent = agent_on(HOST, disk_selectors=ALL, intervals=EACH_SECOND)
    one = agent.start("one")
    wait(lambda: "everything that was seen is published" in agent.log("one"), agent, "the first")
    two = agent.start("two")
    wait(lambda: f"another agent (pid {one}) holds" in agent.log("two"), agent, "the second stands back")
    elsewhere = agent_on(
        HOST, "elsewhere", disk_selectors=ALL, intervals=EACH_SECOND
    )  # another state directory: the Lease tells them apart
    elsewhere.start()
    wait(lambda: "leads, " in elsewhere.log() and "waits" in elsewhere.log(), elsewhere, "the third waits")
    holder = agent.lease()["spec"]["holderIdentity"]
    before = settled(agent)
    assert agent.alive(two)
    assert "published" not in elsewhere.log()
    agent.signal("KILL", one)
    wait(lambda: "everything that was seen is published" in agent.log("two"), agent, "the second takes over")
    assert agent.lease()["spec"]["holderIdentity"] == holder  # at once: it is the same host and the same lock file
    assert versions(agent) == before
    agent.stop()
    wait(lambda: "everything that was seen is published" in elsewhere.log(), elsewhere, "the third takes over")


def test_the_api_server_may_be_away(agent_on: Callable[..., AgentOnHost]) -> None:
    agent = agent_on(HOST, disk_selectors=ALL)
    agent.start()
    agent.wait_ready()
    wait(lambda: set(agent.phases().values()) == {"Available"}, agent, "every disk is Available")
    before = agent.disks()
    name = f"q{uuid4().hex[:5]}"
    agent.cluster.stop_component("kube-apiserver")
    try:
        looks = agent.log().count("block devices")
        agent.cluster.hosts.disk_add(HOST, name, "320Mi")
        eventually(lambda: agent.log().count("block devices") > looks, 60, "the new disk is seen")
        assert agent.alive()
    finally:
        agent.cluster.start_component("kube-apiserver")
    try:
        serial = own(agent, [name])[name]["serial"]
        wait(lambda: agent.phases().get(serial) == "Available", agent, "what happened meanwhile is published", 120)
        assert agent.alive()
        now = agent.disks()
        assert {each: now[each]["metadata"]["uid"] for each in before} == {
            each: before[each]["metadata"]["uid"] for each in before
        }
    finally:
        agent.stop()
        agent.cluster.hosts.disk_remove(HOST, name)


def swap_command(one: dict[str, Any], two: dict[str, Any]) -> str:
    """Let udev's entries of two loop devices change places: each then names the other disk."""
    first, second = f"b7:{one['loop']}", f"b7:{two['loop']}"
    return f"cd /run/udev/data && mv {first} x && mv {second} {first} && mv x {second}"


COUNT = """
import sqlite3
print(sqlite3.connect('/run/berth-test/usage.sqlite').execute('select count(*) from samples').fetchone()[0])
"""


def test_usage_is_sampled_and_figures_are_served(agent_on: Callable[..., AgentOnHost]) -> None:
    usage = {"path": "/run/berth-test/usage.sqlite"}
    agent = agent_on(HOST, metrics={"port": 19808}, usage=usage, intervals=EACH_SECOND)
    agent.start()
    agent.wait_ready()
    figures = eventually(lambda: agent.here("curl -sf http://127.0.0.1:19808/metrics"), 30, "figures")
    assert 'berth_agent_info{version="' in figures
    assert "ok" in agent.here("curl -sf http://127.0.0.1:19808/readyz")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"busy-{uuid4().hex[:5]}"},
        "spec": {
            "nodeName": HOST,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "berth.local/busybox:1", "command": ["sleep", "3600"]}],
        },
    }
    agent.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
    try:
        wait(lambda: int(agent.here(f'python3 -c "{COUNT}"', check=False) or 0) > 1, agent, "samples", 120)
    finally:
        agent.cluster.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")
        agent.stop()
        agent.here("rm -f /run/berth-test/usage.sqlite*")
