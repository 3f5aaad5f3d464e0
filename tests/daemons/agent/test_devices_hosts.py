"""Devices on real hosts: the real agent is the kubelet's DRA plugin, and real containers get what their berth locked.

The devices are character devices of the kernel under the test's own names (null, zero, full): described in files, as
hardware is where no other source knows it, and told apart in a container by their numbers.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from berth_core.app.device_claim import slice_device_name
from tests.apiserver.app.runner import run
from tests.dev.hosts_help import eventually, get, out, ssh
from tests.support.agent import AgentOnHost, conditions_of, install_rights

pytestmark = [pytest.mark.hosts, pytest.mark.slow]

MANIFESTS = Path(__file__).parents[3] / "deploy/agent/devices.yaml"
HOST = "h1"
#: uuid -> the numbers of its device node, as a container sees them
NUMBERS = {"acc-null": "1:3", "acc-zero": "1:5", "acc-full": "1:7"}
FIRST = ["acc-null", "acc-zero"]
SHOW = "stat -c %t:%T /dev/acc; env | grep -E '^(BERTH|ACC)' | sort; exec sleep 1000000"


def description(*uuids):
    return yaml.safe_dump(
        {
            "devices": [
                {
                    "class": "acc",
                    "uuid": uuid,
                    "model": "Test accelerator",
                    "memory": "16Gi",
                    "nodes": [{"path": f"/dev/{uuid}", "container_path": "/dev/acc"}],
                    "env": {"ACC_MODE": "fast"},
                }
                for uuid in uuids
            ]
        }
    )


def options(cluster, app, *, share=None, replicas=1, **values):
    container = {
        "name": "main",
        "image": "berth.local/busybox:1",
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", SHOW],
        "resources": {"claims": [{"name": "acc"}]},
    }
    device = {"name": "acc", "device_class": "acc", **({"share": share} if share else {})}
    made = {
        "name": app,
        "kubeconfig": str(cluster.kubeconfig),
        "workload": "Pod",
        "replicas": replicas,
        "devices": [device],
        "template": {"spec": {"terminationGracePeriodSeconds": 0, "containers": [container]}},
        "wait": True,
        "wait_timeout": 120,
    }
    return {**made, **values}


class Ground:
    """One host with devices and an agent."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.agent = AgentOnHost(cluster, HOST, "devices")
        self.folder = f"{self.agent.folder}/devices.d"
        self.apps = set()

    def begin(self):
        made = "; ".join(f"mknod /dev/{uuid} c {numbers.replace(':', ' ')}" for uuid, numbers in NUMBERS.items())
        self.agent.here(f"umask 077; mkdir -p {self.folder}; rm -f /dev/acc-*; {made}")
        self.describe(*FIRST)
        self.agent.install(device_descriptions=self.folder)
        self.agent.start()

    def clear(self):
        """After each test: no app, no claim, and nothing on the host."""
        for app in self.apps:
            run(options(self.cluster, app, state="absent"))
        self.apps.clear()
        self.cluster.kubectl("delete", "pods,resourceclaims", "--all", "--wait=true", "--timeout=60s")
        eventually(lambda: not out(self.cluster, HOST, "ls /run/cdi/ 2>/dev/null"), 60, "no CDI file left")

    def end(self):
        self.agent.clean()
        for kind in ("localdevices", "resourceslices"):
            self.cluster.kubectl("delete", kind, "--all")
        self.agent.here("rm -f /dev/acc-*")

    def describe(self, *uuids):
        self.agent.put("devices.d/acc.yaml", description(*uuids))

    def run(self, app, **values):
        self.apps.add(app)
        result = run(options(self.cluster, app, **values))
        assert not result.get("failed"), (result, self.agent.log()[-2000:])
        return result

    def devices(self):
        return {each["spec"]["uuid"]: each for each in get(self.cluster, "ldev")["items"]}

    def published(self):
        """uuid -> pool generation, of what the slices say."""
        return {
            each["attributes"]["uuid"]["string"]: one["spec"]["pool"]["generation"]
            for one in get(self.cluster, "resourceslices")["items"]
            for each in one["spec"]["devices"]
        }

    def slices(self):
        """The uids of the slices."""
        return {each["metadata"]["uid"] for each in get(self.cluster, "resourceslices")["items"]}

    def holder(self, berth):
        """The uuid that a berth holds."""
        (found,) = (
            uuid
            for uuid, each in self.devices().items()
            if berth in [ref["name"] for ref in each["spec"].get("claimRefs") or ()]
        )
        return found

    def seen(self, pod):
        """What the container says: the numbers of its device, and its environment."""

        def whole():  # the environment comes after the numbers, in one piece
            lines = self.cluster.kubectl("logs", pod).split()
            return lines if len(lines) > 1 else None

        lines = eventually(whole, 60, f"output of {pod}")
        return lines[0], dict(line.split("=", 1) for line in lines[1:])

    def check(self, pod, shares="1000"):
        """The container has the very device that its berth locked."""
        numbers, env = self.seen(pod)
        uuid = self.holder(pod)
        assert (numbers, env["BERTH_DEVICE_ACC_UUID"]) == (NUMBERS[uuid], uuid)
        assert (env["BERTH_DEVICE_ACC_SHARES"], env["ACC_MODE"]) == (shares, "fast")
        return uuid


@pytest.fixture(scope="module")
def site(dev_cluster):
    install_rights(dev_cluster)
    dev_cluster.kubectl("apply", "-f", str(MANIFESTS))
    it = Ground(dev_cluster)
    try:
        it.begin()
        yield it
    finally:
        it.end()


@pytest.fixture
def ground(site):
    site.describe(*FIRST)
    eventually(lambda: sorted(site.published()) == FIRST, 90, "published devices")
    yield site
    site.clear()


@pytest.mark.promise
def test_two_pods_on_two_devices_and_nothing_is_left(ground):
    device = ground.devices()["acc-null"]
    assert device["spec"]["capacity"] == {"shares": 1000, "memory": "17179869184"}
    assert device["status"]["phase"] == "Available"
    assert conditions_of(device)["Published"] == ("True", "Published")
    ground.run("two", replicas=2)
    assert {ground.check("two-0"), ground.check("two-1")} == {"acc-null", "acc-zero"}
    eventually(lambda: {each["status"]["phase"] for each in ground.devices().values()} == {"InUse"}, 30, "InUse")
    ground.run("two", state="absent")
    eventually(lambda: out(ground.cluster, HOST, "ls /run/cdi/ 2>/dev/null") == "", 30, "no CDI file")
    assert json.loads(ground.agent.here(f"cat {ground.agent.state}/claims.json"))["claims"] == {}


@pytest.mark.promise
def test_one_device_in_shares_for_two_pods(ground):
    ground.run("most", share=700)
    ground.run("rest", share=300)
    assert ground.check("most-0", "700") == ground.check("rest-0", "300")
    refused = run(options(ground.cluster, "more", share=400, replicas=3))
    ground.apps.add("more")
    assert refused["failed"], "one device is full, the other has room for two parts of 400"
    assert ground.check("most-0", "700") == ground.check("rest-0", "300")


def test_a_kubelet_that_restarts_finds_slices_and_devices_again(ground):
    ground.run("one")
    uuid, before = ground.check("one-0"), ground.slices()
    ssh(ground.cluster, HOST, "kill -9 $(pgrep -xf '/opt/k/kubelet .*')")
    # a kubelet that starts removes the slices of its node
    eventually(lambda: ground.slices() and not before & ground.slices(), 60, "new slices")
    eventually(lambda: sorted(ground.published()) == FIRST, 60, "the same devices published")
    restart_container(ground, "one-0")
    assert ground.check("one-0") == uuid
    ground.run("two")
    assert ground.check("two-0") != uuid


def restart_container(ground, pod):
    """Kill the container's process; the kubelet makes another, from the same CDI names."""

    def restarts():
        return get(ground.cluster, "pod", pod)["status"]["containerStatuses"][0]["restartCount"]

    count = restarts()
    ssh(ground.cluster, HOST, "kill -9 $(pgrep -xf 'sleep 1000000')")
    eventually(lambda: restarts() > count, 60, f"{pod} started anew")


@pytest.mark.promise
def test_an_agent_that_was_killed_knows_what_it_gave(ground):
    ground.run("one")
    uuid = ground.check("one-0")
    ground.agent.signal("KILL")
    ground.agent.here("rm -f /run/cdi/*.json")  # as a reboot does
    ground.agent.start()
    eventually(lambda: out(ground.cluster, HOST, "ls /run/cdi/"), 60, "the CDI file again")
    assert ground.devices()[uuid]["spec"]["claimRefs"][0]["name"] == "one-0"
    ground.run("one", state="absent")
    eventually(lambda: out(ground.cluster, HOST, "ls /run/cdi/ 2>/dev/null") == "", 60, "no CDI file")
    ready = "every device is published to the kubelet again"
    eventually(lambda: all(each["status"]["observed"].get("driver") for each in ground.devices().values()), 90, ready)
    ground.run("two", replicas=2)
    assert {ground.check("two-0"), ground.check("two-1")} == {"acc-null", "acc-zero"}


@pytest.mark.promise
def test_an_agent_that_lost_its_checkpoint_keeps_what_living_pods_need(ground):
    ground.run("one")
    uuid = ground.check("one-0")
    kept = out(ground.cluster, HOST, "ls /run/cdi/")
    ground.agent.signal("KILL")
    gone = "berth.dev-claim_00000000-dead.json"
    left = json.dumps({"kind": "berth.dev/claim", "annotations": {"berth.dev/claim": "default/long-gone"}})
    ground.agent.here(f"echo garbage > {ground.agent.state}/claims.json; echo '{left}' > /run/cdi/{gone}")
    ground.agent.start()
    eventually(lambda: out(ground.cluster, HOST, "ls /run/cdi/") == kept, 90, "only the living pod's file")
    restart_container(ground, "one-0")
    assert ground.check("one-0") == uuid
    ground.run("one", state="absent")
    eventually(lambda: out(ground.cluster, HOST, "ls /run/cdi/ 2>/dev/null") == "", 60, "no CDI file")


def claim_for(ground, pod, uuid, uid):
    """A ResourceClaim as somebody writes it by hand: it names a device, and a berth."""
    device = ground.devices()[uuid]
    expression = f'device.driver == "berth.dev" && device.attributes["berth.dev"].uuid == "{uuid}"'
    exactly = {
        "deviceClassName": "berth.dev",
        "selectors": [{"cel": {"expression": expression}}],
        "tolerations": [{"key": "berth.dev/lock-required", "operator": "Exists"}],
    }
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": f"acc-{pod}",
            "labels": {"berth.dev/claim": "acc"},
            "annotations": {"berth.dev/berth-uid": uid},
        },
        "spec": {"devices": {"requests": [{"name": "device-0", "exactly": exactly}]}},
    }
    container = options(ground.cluster, pod)["template"]["spec"]["containers"][0]
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "resourceClaims": [{"name": "acc", "resourceClaimName": f"acc-{pod}"}],
            "containers": [container],
        },
    }
    for one in (claim, body):
        ground.cluster.kubectl("create", "-f", "-", stdin=json.dumps(one))
    return slice_device_name(device["spec"])


def refused(ground, pod, words):
    """Wait until the pod's events say that of devices that could not be prepared.

    The kubelet may have other reasons before: it has not yet let go of an older claim of that name.
    """

    def said():
        events = get(ground.cluster, "events", "--field-selector", f"involvedObject.name={pod}")["items"]
        return [each["message"] for each in events if each["reason"] == "FailedPrepareDynamicResources"]

    eventually(lambda: any(words in message for message in said()), 120, f"{words!r} in the events of {pod}")


@pytest.mark.promise
def test_a_claim_on_a_device_without_its_lock_is_refused_in_the_pods_events(ground):
    ground.run("owner", replicas=2)  # both devices are held
    uid = get(ground.cluster, "berths.berth.dev", "owner-0")["metadata"]["uid"]
    mine, other = ground.holder("owner-0"), ground.holder("owner-1")
    ground.cluster.kubectl("delete", "pod,resourceclaim", "--all", "--wait=true")  # the locks stay
    claim_for(ground, "thief", mine, uid)
    refused(ground, "thief", "pod default/thief has no Berth of its name")
    claim_for(ground, "owner-0", other, uid)  # the right berth and the wrong device
    refused(ground, "owner-0", "is held by default/owner-1")
    refused(ground, "owner-0", "not by default/owner-0")
    assert get(ground.cluster, "pod", "owner-0")["status"]["phase"] == "Pending"
    # the kubelet gives up what the owners had when it gets to it
    eventually(lambda: out(ground.cluster, HOST, "ls /run/cdi/ 2>/dev/null") == "", 60, "no CDI file")
    ground.cluster.kubectl("delete", "pod,resourceclaim", "--all", "--wait=true")
    ground.run("owner", replicas=2)  # the run after puts right what was taken away
    assert ground.check("owner-0") == mine


@pytest.mark.promise
def test_a_device_that_vanishes_is_missing_and_its_lock_stays(ground):
    ground.run("one")
    uuid = ground.holder("one-0")
    ground.describe(*(each for each in FIRST if each != uuid))
    eventually(lambda: ground.devices()[uuid]["status"]["phase"] == "Missing", 60, "Missing")
    assert ground.devices()[uuid]["spec"]["claimRefs"][0]["name"] == "one-0"
    assert uuid not in ground.published()
    assert get(ground.cluster, "pod", "one-0")["status"]["phase"] == "Running", "nothing is taken from a container"

    def health():
        (status,) = get(ground.cluster, "pod", "one-0")["status"]["containerStatuses"]
        listed = [one for each in status.get("allocatedResourcesStatus") or () for one in each.get("resources") or ()]
        return [one["health"] for one in listed] == ["Unhealthy"]

    eventually(health, 60, "the pod's status tells of its device")
    ground.describe(*FIRST)
    eventually(lambda: ground.devices()[uuid]["status"]["phase"] == "InUse", 60, "InUse again")


def test_a_bad_description_is_refused_whole_and_the_last_good_one_stays(ground):
    ground.agent.put("devices.d/acc.yaml", "devices: [{class: acc, uuid: other, nodes: [/etc/shadow]}]\n")
    found = eventually(lambda: said_problem(ground), 60, "the problem in the Lease")
    assert "/etc/shadow" in found
    assert "stays in force" in found
    assert sorted(ground.published()) == FIRST
    ground.describe(*FIRST, "acc-full")
    eventually(lambda: sorted(ground.published()) == ["acc-full", *FIRST], 60, "a third device")
    assert not said_problem(ground)


def said_problem(ground):
    condition = ground.agent.conditions().get("DevicesFound", {})
    return condition.get("message", "") if condition.get("status") == "False" else ""
