"""Replicas leave nodes that are well. Real API server and controllers; kubelets are played by kwok."""

from __future__ import annotations

from functools import partial

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.berth.stateful.plugins.module_utils._glue.app import flow
from ansible_collections.berth.stateful.plugins.module_utils._glue.app.leaving import NOBODY, Moves, Turn, one_by_one
from ansible_collections.berth.stateful.plugins.module_utils._glue.base import Context
from ansible_collections.berth.stateful.plugins.module_utils._glue.disk_replace import OPERATION as DISK_REPLACE
from ansible_collections.berth.stateful.plugins.module_utils._glue.stateful_app import OPERATION
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.leave_rules import LeaveRules
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.leaving import find_moves
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.wanted import parse_app
from tests.apiserver.app.runner import SPEC, STATUS, calm, deaths, run
from tests.apiserver.app.test_node_loss import NODES
from tests.apiserver.app.test_stateful_app import writes
from tests.apiserver.app.world import local_disk, params

pytestmark = [pytest.mark.slow, pytest.mark.promise]


class Ground:
    """Three replicas on three of the four nodes; ``spare``: the fourth."""

    def __init__(self, world, kubeconfig, **options):
        self.world, self.client, self.kinds = world, world.client, world.kinds
        for node in NODES:
            world.add_disk(local_disk(node, 0))
        self.options = params("db", kubeconfig, replicas=3, wait=True, **options)
        calm(run(self.options))
        self.places = {record["spec"]["nodeName"]: name for name, record in world.berths("db").items()}
        (self.spare,) = set(NODES) - set(self.places)

    def asked(self, node, **options):
        return {**self.options, "leave_nodes": [node], "leave_data": [self.places[node]], **options}

    def nodes(self):
        return {name: record["spec"]["nodeName"] for name, record in self.world.berths("db").items()}

    def moved(self, node):
        """The replica runs on the spare node; its data on the one that it left is kept, and given to nobody."""
        name = self.places[node]
        record = self.world.berths("db")[name]
        assert (record["spec"]["nodeName"], record["status"]["phase"]) == (self.spare, "Running")
        old = self.world.disks()[f"{node}-d0"]["spec"]
        assert old["unschedulable"]
        assert f"{old['retainedFor']['app']}-{old['retainedFor']['ordinal']}" == name
        assert "claimRef" not in old
        pod = self.client.get(self.kinds.POD, name, "default")
        assert pod["spec"]["nodeName"] == self.spare
        assert {one["type"]: one["status"] for one in pod["status"]["conditions"]}["Ready"] == "True"
        self.world.check()


@pytest.fixture
def ground(app_world, kubeconfig):
    yield Ground(app_world, kubeconfig)
    app_world.clear()


def test_a_replica_leaves_and_the_others_stay(ground):
    node = next(iter(ground.places))
    name, before = ground.places[node], ground.nodes()
    asked = ground.asked(node)
    shown = calm(run(asked, check=True))
    assert writes(shown) == {}
    row = {"ordinal": int(name[-1]), "pod": name, "from": node, "to": ground.spare, "disks": [f"{node}-d0"]}
    assert shown["moved"] == [{**row, "data": "given up"}]
    assert shown["diff"]["after"]["berths"][name]["node"] == ground.spare
    told = f"moves from node {node} to node {ground.spare}; its data on LocalDisk {node}-d0 is given up, and kept there"
    assert shown["diff"]["after"]["objects"][f"Pod default/{name}"] == told
    done = calm(run(asked))
    assert (done["changed"], done["moved"]) == (True, shown["moved"])
    ground.moved(node)
    assert ground.nodes() == {**before, name: ground.spare}
    again = calm(run(asked))
    assert (again["changed"], writes(again), "moved" in again) == (False, {}, False)


def test_nothing_is_touched_without_the_names_or_another_place(ground):
    node = next(iter(ground.places))
    name = ground.places[node]
    refused = run(ground.asked(node, leave_data=[]))
    assert (writes(refused), refused["changed"]) == ({}, False)
    for word in (name, f"node {node}", f"LocalDisk {node}-d0", f"leave_data: [{name}]", "Nothing was changed"):
        assert word in refused["msg"]
    refused = run(ground.asked(node, leave_nodes=["nowhere"]))
    assert "leave_nodes names nowhere" in refused["msg"]
    assert writes(refused) == {}
    refused = run(ground.asked(node, leave_nodes=[node, ground.spare]))
    assert f"Not looked at, by leave_nodes: {node}, {ground.spare}" in refused["msg"]
    assert writes(refused) == {}
    a_quorum_is_kept(ground)


def a_quorum_is_kept(ground):
    """Two of three are down, and the third is taken down neither for good nor for another disk."""
    calm(run({**ground.options, "quorum": 1}))
    down = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    for name in ("db-0", "db-1"):
        ground.client.patch(ground.kinds.POD, name, "default", down, "status")
    refused = run({**ground.options, "replicas": 2, "quorum": 1})
    assert "with replicas: 2 the Ready db-2 would go" in refused["msg"]
    assert (writes(refused), refused["changed"]) == ({}, False)
    node = ground.nodes()["db-2"]
    new = {"name": f"{node}-d9", "identity": local_disk(node, 9)["spec"]["identity"]}
    exchange = {"name": f"{node}-d0", "new": new, "kubeconfig": ground.options["kubeconfig"]}
    refused = run(exchange, DISK_REPLACE)
    assert "replica default/db-2 is Ready and would be stopped for its new disk; 0 others are Ready" in refused["msg"]
    assert (writes(refused), refused["changed"]) == ({}, False)
    assert calm(run({**ground.options, "replicas": 2, "wait": False}))["changed"], "without a quorum it is done"


def test_a_budget_that_allows_none_is_waited_for_before_anything_is_touched(ground):
    node = next(iter(ground.places))
    budget = {
        "metadata": {"name": "all", "namespace": "default"},
        "spec": {"minAvailable": 3, "selector": {"matchLabels": {"berth.dev/app": "db"}}},
    }
    ground.client.create(ground.kinds.POD_DISRUPTION_BUDGET, budget)
    try:
        shown = calm(run(ground.asked(node), check=True))
        assert any("PodDisruptionBudget default/all" in line for line in shown["warnings"])
        refused = run(ground.asked(node, wait_timeout=3))
        assert "PodDisruptionBudget default/all to allow the disruption" in refused["msg"]
        assert (refused["trace"], refused["changed"]) == ([SPEC, STATUS], True), "what is asked for, and that it failed"
    finally:
        ground.client.delete(ground.kinds.POD_DISRUPTION_BUDGET, "all", "default")


def test_each_write_may_be_the_last(ground):
    """Killed at one write after the other: each run goes on where the last one died."""
    node = next(iter(ground.places))
    assert sum(1 for _death in deaths(partial(run, ground.asked(node)))) > 4
    ground.moved(node)


def died_at_once(ground, node):
    """Killed when the Berth said that it goes; the pod runs. Returns the pods' uids."""
    before = uids(ground)
    assert run(ground.asked(node), kill_at=1, of="patch Berth status") is None
    assert ground.world.berths("db")[ground.places[node]]["status"]["phase"] == "Releasing"
    assert uids(ground) == before
    return before


def uids(ground):
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in ground.client.list(ground.kinds.POD, "default")}


def says_of_itself(ground, name, status):
    """Whether it is Ready."""
    ready = [{"type": "Ready", "status": status}]
    ground.client.patch(ground.kinds.POD, name, "default", {"status": {"conditions": ready}}, "status")


def uncordon(ground, disk):
    """By a person."""
    ground.client.patch(ground.kinds.LOCAL_DISK, disk, None, {"spec": {"unschedulable": None}})


def test_one_that_was_begun_comes_home_by_a_run_that_is_not_asked_for_it(ground):
    """Nothing is done before its data may be where it goes, and while another one is down. Then each write may be the
    last one."""
    node = next(iter(ground.places))
    name, disk, before = ground.places[node], f"{node}-d0", died_at_once(ground, node)
    refused = run(ground.options)
    assert (refused["failed"], writes(refused)) == (True, {})
    uncordon(ground, disk)
    shown = calm(run(ground.options, check=True))
    (row,) = shown["moved"]
    assert (row["pod"], row["from"], row["to"], row["data"], row["begun"]) == (name, node, node, "kept", True)
    told = shown["diff"]["after"]["objects"][f"Pod default/{name}"]
    assert told.startswith("ends, because a run before has begun to give its berth up")
    other = next(one for one in before if one != name)
    says_of_itself(ground, other, "False")
    late = run({**ground.options, "wait": False, "wait_timeout": 2})
    assert f"before replica default/{name} leaves node {node}; still missing: pod {other} to be Ready" in late["msg"]
    assert (uids(ground), late["trace"]) == (before, [SPEC, STATUS]), "two would be down"
    says_of_itself(ground, other, "True")
    data = ground.world.disks()[disk]["spec"]["claimRef"]["dataUID"]
    assert sum(1 for _death in deaths(partial(run, ground.options))) > 4
    ref = ground.world.disks()[disk]["spec"]["claimRef"]
    assert (ref["name"], ref["dataUID"]) == (name, data)
    after = uids(ground)
    assert after.pop(name) != before.pop(name)
    assert after == before
    assert ground.nodes()[name] == node
    ground.world.check()


def test_a_bare_pod_without_disks_that_was_begun_ends_before_its_next_berth(app_world, kubeconfig):
    """No cordon holds it back: it is placed anew among all nodes."""
    options = params("web", kubeconfig, replicas=1, wait=True, disks=[], workload="Pod")
    options["template"]["spec"]["containers"][0].pop("volumeMounts")
    try:
        calm(run(options))
        pod, old = app_world.client.get(app_world.kinds.POD, "web-0", "default"), app_world.berths("web")["web-0"]
        asked = {**options, "leave_nodes": [old["spec"]["nodeName"]]}
        assert run(asked, kill_at=1, of="patch Berth status") is None
        assert app_world.berths("web")["web-0"]["status"]["phase"] == "Releasing"
        (row,) = calm(run(options))["moved"]
        assert (row["from"], row["data"], row["begun"]) == (pod["spec"]["nodeName"], "none", True)
        now, new = app_world.client.get(app_world.kinds.POD, "web-0", "default"), app_world.berths("web")["web-0"]
        assert now["metadata"]["uid"] != pod["metadata"]["uid"]
        assert new["metadata"]["uid"] != old["metadata"]["uid"]
        assert now["spec"]["nodeName"] == new["spec"]["nodeName"] == row["to"]
        again = calm(run(options))
        assert (again["changed"], writes(again)) == (False, {})
    finally:
        app_world.clear()


def test_bare_pods_leave_one_after_the_other(app_world, kubeconfig):
    """Two of three: the second one leaves when the first is Ready elsewhere."""
    try:
        ground = Ground(app_world, kubeconfig, workload="Pod")
        app_world.add_disk(local_disk(ground.spare, 1))
        first, second, third = ground.places
        names = [ground.places[node] for node in (first, second)]
        the_primary_is_looked_at_before_each_turn(ground)
        done = calm(run(ground.asked(first, leave_nodes=[first, second], leave_data=names)))
        assert [row["pod"] for row in done["moved"]] == sorted(names, reverse=True)
        assert ground.nodes() == {**dict.fromkeys(names, ground.spare), ground.places[third]: third}
        assert {row["node"] for row in done["berths"]} == {ground.spare, third}
        app_world.check()
    finally:
        app_world.clear()


def the_primary_is_looked_at_before_each_turn(ground):
    """Which pod is the primary says a label; it moves while the first replica leaves. Nobody leaves here in truth."""
    options = {**ground.options, "update_order": "primary_last", "update_primary_label": "role=primary"}
    checked = ArgumentSpecValidator(OPERATION.argument_spec(), **OPERATION.rules()).validate(options)
    context = Context(checked.validated_parameters, False, pytest.fail)
    app = parse_app(context.params)
    observed, nodes = flow.observed_of(context, app), tuple(ground.places)
    moves = Moves(find_moves(app, observed, LeaveRules(nodes, ordinals=(0, 1, 2))), [], {})
    turns = []

    def leave(ordinal):
        turns.append(ordinal)
        if ordinal == 2:
            primary("db-1", "primary")
        return {"berths": []}

    def primary(name, role):
        ground.client.patch(ground.kinds.POD, name, "default", {"metadata": {"labels": {"role": role}}})

    one_by_one(Turn(context, app, observed), moves, leave)
    primary("db-1", None)
    assert [move.ordinal for move in moves.all] == [2, 1, 0], "when nobody is"
    assert turns == [NOBODY, 2, 0, 1]
