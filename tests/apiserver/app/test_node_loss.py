"""A replica's node is lost: NotReady, tainted, deleted. Real API server and controllers; kubelets are played by kwok,
which lets go of a node without its label: then nobody confirms there that a pod has ended."""

from __future__ import annotations

import copy
import sys
from functools import partial

import pytest

from tests.apiserver.app.runner import STATUS, calm, deaths, run
from tests.apiserver.app.test_stateful_app import writes
from tests.apiserver.app.world import local_disk, params
from tests.dev.hosts_help import eventually
from tests.support.playbook import run_playbook

pytestmark = [pytest.mark.slow, pytest.mark.promise]
NODES = ("fake-0", "fake-1", "fake-2", "fake-3")
TAINT = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}


class Ground:
    """``spare``: the node without a replica at first."""

    def __init__(self, world, kubeconfig):
        self.world, self.client, self.kinds = world, world.client, world.kinds
        for node in NODES:
            world.add_disk(local_disk(node, 0))
        self.options = params("db", kubeconfig, replicas=3, wait=True)
        calm(run(self.options))
        self.places = {record["spec"]["nodeName"]: name for name, record in world.berths("db").items()}
        (self.spare,) = set(NODES) - set(self.places)
        self.before = {one["metadata"]["name"]: one for one in self.client.list(self.kinds.NODE)}

    def lose(self, node):
        """Its kubelet is silent, and its pod not Ready."""
        self.silence(node)
        self.unready(self.places[node])

    def silence(self, node):
        self.client.patch(self.kinds.NODE, node, None, {"metadata": {"labels": {"type": None}}})
        live = self.client.get(self.kinds.NODE, node)
        conditions = [
            {**one, "status": "Unknown", "reason": "NodeStatusUnknown"} if one["type"] == "Ready" else one
            for one in live["status"]["conditions"]
        ]
        self.client.patch(self.kinds.NODE, node, None, {"status": {"conditions": conditions}}, "status")

    def unready(self, name):
        """As the node's controller does it when it finds out itself, after an hour here."""
        told = self.client.get(self.kinds.POD, name, "default")["status"]["conditions"]
        conditions = [{**one, "status": "False"} if one["type"] == "Ready" else one for one in told]
        self.client.patch(self.kinds.POD, name, "default", {"status": {"conditions": conditions}}, "status")
        assert not self.ready(name)

    def taint(self, node):
        taints = [*(self.client.get(self.kinds.NODE, node)["spec"].get("taints") or ()), TAINT]
        self.client.patch(self.kinds.NODE, node, None, {"spec": {"taints": taints}})

    def ready(self, name):
        pod = self.client.find(self.kinds.POD, name, "default")
        told = ((pod or {}).get("status") or {}).get("conditions") or ()
        return any(one["type"] == "Ready" and one["status"] == "True" for one in told)

    def bring_back(self):
        """All nodes as they were, and no pod left that nobody ends."""
        for pod in self.client.list(self.kinds.POD, "default", labels="berth.dev/app=db"):
            self.client.delete(self.kinds.POD, pod["metadata"]["name"], "default", grace=0)
        for name, node in self.before.items():
            if self.client.find(self.kinds.NODE, name) is None:
                meta = {key: node["metadata"][key] for key in ("name", "labels", "annotations")}
                self.client.create(self.kinds.NODE, {"metadata": meta, "spec": {}, "status": node["status"]})
            back = {"metadata": {"labels": {"type": "kwok"}}, "spec": {"taints": None}}
            self.client.patch(self.kinds.NODE, name, None, back)
            status = {"status": {"conditions": node["status"]["conditions"]}}
            self.client.patch(self.kinds.NODE, name, None, status, "status")

    def ordinal(self, node):
        return int(self.places[node][-1])

    def moved(self, node):
        """The replica runs on the spare node; its data on the lost one is kept, and given to nobody by itself."""
        name = self.places[node]
        record = self.world.berths("db")[name]
        assert (record["spec"]["nodeName"], record["status"]["phase"]) == (self.spare, "Running")
        old = self.world.disks()[f"{node}-d0"]["spec"]
        assert old["unschedulable"]
        assert (old["retainedFor"]["app"], old["retainedFor"]["ordinal"]) == ("db", self.ordinal(node))
        assert "claimRef" not in old
        assert self.ready(name)
        self.world.check()


@pytest.fixture
def ground(app_world, kubeconfig):
    made = Ground(app_world, kubeconfig)
    yield made
    made.bring_back()
    app_world.clear()


def waits_by_default(ground, node):
    """It says for what."""
    seen = calm(run({**ground.options, "wait": False}))
    assert seen["trace"] == [STATUS], "that it is not Ready, and nothing else"
    (row,) = seen["lost"]
    assert (row["pod"], row["node"], row["decision"], row["fenced"]) == (ground.places[node], node, "keep", None)
    assert row["since"]
    (told,) = seen["warnings"]
    for word in (f"waits for its node {node} since", "Ready is Unknown", "on_node_loss: release", "confirm_fenced"):
        assert word in told


@pytest.mark.parametrize("policy", ["release", "rebuild"])
def test_a_kubelet_that_is_silent_proves_nothing(ground, policy):
    node = next(iter(ground.places))
    ground.lose(node)
    waits_by_default(ground, node)
    ordinals = {"release_ordinals": [ground.ordinal(node)]} if policy == "release" else {}
    asked = {**ground.options, "on_node_loss": policy, **ordinals}
    refused = run(asked)
    assert refused["failed"]
    assert (writes(refused), refused["changed"]) == ({}, False)
    for word in (ground.places[node], "nothing proves", f"kubectl taint node {node}", f"confirm_fenced: [{node}]"):
        assert word in refused["msg"]
    seen = calm(run({**asked, "confirm_fenced": [node]}, check=True))
    assert writes(seen) == {}
    (row,) = seen["lost"]
    assert (row["decision"], row["fenced"]) == (policy, "confirm_fenced says so")
    assert seen["diff"]["after"]["berths"][ground.places[node]]["node"] == ground.spare
    calm(run({**asked, "confirm_fenced": [node]}))
    ground.moved(node)
    again = calm(run({**asked, "confirm_fenced": [node]}))
    assert (again["changed"], writes(again), "lost" in again) == (False, {}, False)


def test_the_taint_proves_it_and_each_write_may_be_the_last(ground):
    """Killed at one write after the other of a single rebuild: each run makes so many more."""
    node = next(iter(ground.places))
    ground.lose(node)
    ground.taint(node)
    asked = {**ground.options, "on_node_loss": "rebuild"}
    assert sum(1 for _death in deaths(partial(run, asked))) > 4
    ground.moved(node)


def test_a_deleted_node_proves_nothing_not_even_when_the_pod_is_gone_too(ground):
    """The pod's object is taken away by hand here: its collector comes after a minute, and asks no kubelet either."""
    node = next(iter(ground.places))
    ground.lose(node)
    ground.client.delete(ground.kinds.NODE, node)
    ground.client.delete(ground.kinds.POD, ground.places[node], "default", grace=0)
    asked = {**ground.options, "on_node_loss": "release", "release_ordinals": [ground.ordinal(node)]}
    refused = run(asked)
    assert (refused["failed"], writes(refused), refused["changed"]) == (True, {}, False)
    for word in ("its Node is deleted", "nothing proves", f"say so: confirm_fenced: [{node}]"):
        assert word in refused["msg"]
    done = calm(run({**asked, "confirm_fenced": [node]}))
    assert done["lost"][0]["fenced"] == "confirm_fenced says so"
    ground.moved(node)


def test_a_rebuild_needs_a_quorum_and_only_the_named_ordinal_is_released(ground):
    first, second, _third = ground.places
    for node in (first, second):
        ground.lose(node)
        ground.taint(node)
    refused = run({**ground.options, "on_node_loss": "rebuild"})
    assert "of 3 replicas 1 are Ready" in refused["msg"]
    assert writes(refused) == {}
    asked = {**ground.options, "on_node_loss": "release", "release_ordinals": [ground.ordinal(first)], "wait": False}
    before = copy.deepcopy(ground.world.berths("db")[ground.places[second]])
    done = calm(run(asked))
    assert {row["node"]: row["decision"] for row in done["lost"]} == {first: "release", second: "keep"}
    eventually(lambda: ground.ready(ground.places[first]), 30, "the replica on its new berth")
    after = ground.world.berths("db")[ground.places[second]]
    assert (after["metadata"]["uid"], after["spec"]) == (before["metadata"]["uid"], before["spec"])


def test_a_node_that_has_left_the_inventory_is_cut_off_by_its_tasks_before_a_replica_is_given_up(ground, tmp_path):
    """The role: tasks that fail prove nothing. The node's kubelet is heard all the time."""
    node = next(iter(ground.places))
    ground.client.patch(ground.kinds.NODE, node, None, {"metadata": {"labels": {"type": None}}})
    ground.unready(ground.places[node])
    fence, cut_off = tmp_path / "fence.yml", tmp_path / "cut_off"
    own = {name: value for name, value in ground.options.items() if name != "wait"}
    own |= {"inventory_nodes": [one for one in NODES if one != node], "on_node_loss": "rebuild"}
    asked = {f"stateful_app_{name}": value for name, value in own.items()} | {"stateful_app_fence_tasks": str(fence)}
    play = [{"ansible.builtin.include_role": {"name": "berth.stateful.stateful_app"}, "vars": asked}]
    two = "".join(f"{host} ansible_connection=local ansible_python_interpreter={sys.executable}\n" for host in "ab")

    fence.write_text("- ansible.builtin.fail: {msg: 'the power of {{ stateful_app_fenced_node }} is on'}\n")
    before = ground.world.berths("db")
    refused = run_playbook(play, tmp_path, inventory=two)
    assert refused.failed()["msg"] == f"the power of {node} is on"
    assert ground.world.berths("db") == before

    fence.write_text(
        "- ansible.builtin.lineinfile:\n"
        f"    {{path: {cut_off}, line: '{{{{ stateful_app_fenced_node }}}}', create: true, mode: '0600'}}\n"
    )
    run_playbook(play, tmp_path, inventory=two).ok()
    assert cut_off.read_text().split() == [node]
    ground.moved(node)
