"""Before a node is cordoned, replicas move away from it by the rules of their applications; the others wait for it.

Real API server, Eviction API and controllers; kubelets are played by kwok.
"""

from __future__ import annotations

from functools import partial

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.host_maintenance import OPERATION
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.maintenance_mark import ANNOTATION
from tests.apiserver.app.runner import calm, deaths, run
from tests.apiserver.app.test_leaving import Ground
from tests.apiserver.app.test_node_loss import NODES
from tests.apiserver.app.test_stateful_app import writes
from tests.apiserver.app.world import local_disk, params

pytestmark = [pytest.mark.slow, pytest.mark.promise]
OF_THE_TASK = ("name", "kubeconfig", "wait")


class Host(Ground):
    """The node that is maintained has a replica of db, which moves, and one of cache, which waits."""

    def __init__(self, world, kubeconfig):
        super().__init__(world, kubeconfig)
        self.node, self.kubeconfig = next(iter(self.places)), str(kubeconfig)
        self.name = self.places[self.node]
        world.add_disk(local_disk(self.node, 1))
        disks = [{"name": "data", "size": "100Mi", "storage_class": "berth-test", "disk_names": [f"{self.node}-d1"]}]
        calm(run(params("cache", kubeconfig, replicas=1, wait=True, disks=disks)))

    def rule(self, **more):
        options = {key: value for key, value in self.options.items() if key not in OF_THE_TASK}
        return {"app": "default/db", "data": [self.name], "options": options, **more}

    def act(self, *rules, state="begun", check=False, **faults):
        options = {"node": self.node, "state": state, "kubeconfig": self.kubeconfig, "wait_timeout": 60}
        return run({**options, "apps": list(rules)}, OPERATION, check=check, **faults)

    def closed(self):
        live = self.client.get(self.kinds.NODE, self.node)
        return bool(live["spec"].get("unschedulable")), ANNOTATION in (live["metadata"].get("annotations") or {})

    def cache(self):
        found = self.client.list(self.kinds.POD, "default", labels="berth.dev/app=cache")
        return [pod["spec"].get("nodeName") for pod in found]


@pytest.fixture
def host(app_world, kubeconfig):
    yield Host(app_world, kubeconfig)
    for node in NODES:
        forget = {"metadata": {"annotations": {ANNOTATION: None}}, "spec": {"unschedulable": None}}
        app_world.client.patch(app_world.kinds.NODE, node, None, forget)
    app_world.clear()


def test_one_moves_and_the_other_comes_home(host):
    shown = calm(host.act(host.rule(), check=True))
    assert (writes(shown), shown["refused"], host.closed()) == ({}, [], (False, False))
    (row,) = shown["moved"]
    assert (row["app"], row["pod"], row["from"], row["to"]) == ("db", host.name, host.node, host.spare)
    assert (row["disks"], row["data"]) == ([f"{host.node}-d0"], "given up")
    assert [one["pod"] for one in shown["pods"]] == ["cache-0"]
    assert shown["diff"][0]["before"]["pods"] == ["default/cache-0", f"default/{host.name}"]

    done = calm(host.act(host.rule()))
    assert done["moved"] == shown["moved"]
    assert host.closed() == (True, True)
    host.moved(host.node)
    assert host.node not in host.cache()
    again = calm(host.act(host.rule()))
    assert (again["changed"], writes(again), again["moved"]) == (False, {}, [])

    calm(host.act(host.rule(), state="ended"))
    assert (host.closed(), host.cache()) == ((False, False), [host.node])
    host.moved(host.node)
    again = calm(host.act(host.rule(), state="ended"))
    assert (again["changed"], writes(again)) == (False, {})


def test_who_cannot_move_is_named_before_anything_is_touched(host):
    before = host.nodes()
    for rule, words in (
        (host.rule(data=[]), (host.name, f"LocalDisk {host.node}-d0", f"apps[0].data: [{host.name}]")),
        ({"app": "*/db"}, ("default/db is carried out by a playbook", f"leave_nodes: [{host.node}]", "policy: hold")),
        (host.rule(options={"template": {}, "disks": 7}), ("apps[0].options (default/db)", "disks")),
        ({**host.rule(), "app": "default/none"}, ("apps[0] names application default/none, which has no replica",)),
    ):
        shown = calm(host.act(rule, check=True))
        refused = host.act(rule)
        assert refused["failed"]
        assert f"Node {host.node} cannot be emptied" in refused["msg"]
        for word in words:
            assert word in refused["msg"]
            assert any(word in line for line in shown["refused"])
        assert (writes(refused), host.closed(), host.nodes()) == ({}, (False, False), before)
    full = host.rule()
    full["options"] = {**full["options"], "disks": [{**full["options"]["disks"][0], "disk_names": list("abc")}]}
    assert "cannot be emptied" in host.act(full)["msg"]
    assert (host.closed(), host.nodes()) == ((False, False), before)


def test_who_was_moving_when_a_run_died_is_named(host):
    """That the same task goes on where the last one died shows test_each_write_may_be_the_last."""
    assert host.act(host.rule(), kill_at=1, of="patch Berth status") is None
    shown = calm(host.act(host.rule(), state="ended", check=True))
    (would,) = [text for text in shown["warnings"] if "and would wait then" in text]
    ended = calm(host.act(host.rule(), state="ended"))
    (told,) = [text for text in ended["warnings"] if "and waits now" in text]
    assert (ended["changed"], writes(ended), host.closed()) == (False, {}, (False, False))
    for text in (would, told):
        assert text.startswith(f"replica default/{host.name} was leaving Node {host.node}, ")
        assert "Run this again with state: begun and the same apps to have it go on; or take the cordon off" in text
        assert f"it comes back to its data: kubectl patch localdisk {host.node}-" in text


def test_a_budget_of_one_that_waits_forbids_that_the_other_moves(host):
    selector = {"matchLabels": {"berth.dev/app": "cache"}}
    body = {"metadata": {"name": "cache", "namespace": "default"}, "spec": {"selector": selector, "maxUnavailable": 0}}
    before = host.nodes()
    host.client.create(host.kinds.POD_DISRUPTION_BUDGET, body)
    try:
        refused = host.act(host.rule())
        assert "PodDisruptionBudget default/cache allows 0 now, and never more than 0" in refused["msg"]
        assert (writes(refused), host.closed(), host.nodes()) == ({}, (False, False), before)
    finally:
        host.client.delete(host.kinds.POD_DISRUPTION_BUDGET, "cache", "default")


def test_each_write_may_be_the_last(host):
    """Killed at one write after the other: each run goes on where the last one died."""
    assert sum(1 for _death in deaths(partial(host.act, host.rule()))) > 4
    host.moved(host.node)
    assert (host.closed(), host.node in host.cache()) == ((True, True), False)
    again = calm(host.act(host.rule()))
    assert (again["changed"], writes(again)) == (False, {})
