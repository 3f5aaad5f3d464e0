"""update_strategy: reschedule. Real API server and controllers; kubelets are played by kwok."""

from __future__ import annotations

import copy
from functools import partial

import pytest

from tests.apiserver.app.runner import calm, deaths, run
from tests.apiserver.app.test_leaving import Ground
from tests.apiserver.app.test_node_loss import NODES
from tests.apiserver.app.test_stateful_app import writes
from tests.apiserver.app.world import params

pytestmark = [pytest.mark.slow, pytest.mark.promise]
FIELD = "spec.containers[main].env"


def changed(options, value="2", **fields):
    """The task with another template."""
    template = copy.deepcopy(options["template"])
    template["spec"]["containers"][0]["env"] = [{"name": "TURN", "value": value}]
    template["spec"].update(fields)
    return {**options, "template": template, "update_strategy": "reschedule"}


def env(pod):
    return [one["value"] for one in pod["spec"]["containers"][0].get("env") or ()]


@pytest.fixture
def ground(app_world, kubeconfig):
    yield Ground(app_world, kubeconfig)
    app_world.clear()


@pytest.fixture
def cleared(app_world):
    yield app_world
    app_world.clear()


def test_a_replica_with_data_is_placed_anew_where_that_is_given_up_by_name_and_node(ground):
    places = {name: node for node, name in ground.places.items()}
    node = places["db-2"]
    refused = run(changed(ground.options))
    assert (writes(refused), refused["changed"]) == ({}, False)
    named = ", ".join(f"db-{ordinal}@{places[f'db-{ordinal}']}" for ordinal in (2, 1, 0))
    for word in (f"leave_data: [{named}]", f"LocalDisk {node}-d0", "in_place_if_possible", "Nothing was changed"):
        assert word in refused["msg"]
    refused = run({**changed(ground.options), "leave_data": ["db-2"]})
    assert "db-2@NODE" in refused["msg"]

    asked = {**changed(ground.options), "partition": 2, "leave_data": [f"db-2@{node}"]}
    shown = calm(run(asked, check=True))
    assert writes(shown) == {}
    row = {"ordinal": 2, "pod": "db-2", "from": node, "to": ground.spare, "disks": [f"{node}-d0"], "data": "given up"}
    assert shown["moved"] == [{**row, "fields": [FIELD]}]
    told = shown["diff"]["after"]["objects"]["Pod default/db-2"]
    assert told.startswith(f"rescheduled ({FIELD}): from node {node} to node {ground.spare}; its data on")
    before = ground.nodes()
    done = calm(run(asked))
    assert (done["changed"], done["moved"]) == (True, shown["moved"])
    ground.moved(node)
    assert ground.nodes() == {**before, "db-2": ground.spare}
    assert env(ground.client.get(ground.kinds.POD, "db-2", "default")) == ["2"]
    again = calm(run(asked))
    assert (again["changed"], writes(again), "moved" in again) == (False, {}, False)

    refused = run({**changed(ground.options, "3"), "partition": 2, "leave_data": [f"db-2@{node}"]})
    assert f"leave_data: [db-2@{ground.spare}]" in refused["msg"], "the names of one update give up nothing in the next"
    assert writes(refused) == {}


def test_each_write_may_be_the_last(ground):
    """Killed at one write after the other: each run goes on where the last one died."""
    (node,) = (node for node, name in ground.places.items() if name == "db-2")
    asked = {**changed(ground.options), "partition": 2, "leave_data": [f"db-2@{node}"]}
    assert sum(1 for _death in deaths(partial(run, asked))) > 4
    ground.moved(node)


def test_a_replica_without_disks_moves_freely(cleared, kubeconfig):
    options = params("web", kubeconfig, replicas=2, wait=True, disks=[], workload="Pod")
    options["template"]["spec"]["containers"][0].pop("volumeMounts")
    calm(run(options))
    taken = {record["spec"]["nodeName"] for record in cleared.berths("web").values()}
    spare = min(set(NODES) - taken)
    asked = changed(options, nodeSelector={"kubernetes.io/hostname": spare})
    done = calm(run(asked))
    assert [(row["pod"], row["to"], row["data"]) for row in done["moved"]] == [
        ("web-1", spare, "none"),
        ("web-0", spare, "none"),
    ]
    asked = changed(options, "3")  # anywhere: also where it is
    calm(run(asked))
    for name, record in cleared.berths("web").items():
        pod = cleared.client.get(cleared.kinds.POD, name, "default")
        assert (pod["spec"]["nodeName"], env(pod)) == (record["spec"]["nodeName"], ["3"])
    again = calm(run(asked))
    assert (again["changed"], writes(again)) == (False, {})
