"""replace: replicas get other berths because somebody asks. Real API server and controllers; kwok plays kubelets."""

from __future__ import annotations

from functools import partial

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.replace_request import ANNOTATION
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.lifecycle.history import of_disk
from tests.apiserver.app.runner import SPEC, STATUS, calm, deaths, run
from tests.apiserver.app.test_leaving import Ground
from tests.apiserver.app.test_node_loss import NODES
from tests.apiserver.app.test_stateful_app import writes
from tests.apiserver.app.world import local_disk

pytestmark = [pytest.mark.slow, pytest.mark.promise]


@pytest.fixture
def ground(app_world, kubeconfig):
    yield Ground(app_world, kubeconfig)
    app_world.clear()


def node_of(ground, name):
    return next(node for node, other in ground.places.items() if other == name)


def asking(ground, request):
    """The task that gives up the data there, too."""
    return {**ground.options, "replace": [request], "leave_data": [request]}


def test_a_replica_gets_another_place_once_and_its_data_is_given_up_by_name(ground):
    node = node_of(ground, "db-1")
    request = f"db-1@{node}"
    refused = run({**ground.options, "replace": [request]})
    assert (writes(refused), refused["changed"]) == ({}, False)
    for word in (f"db-1 on node {node} (LocalDisk {node}-d0)", f"leave_data: [{request}]", "Nothing was changed"):
        assert word in refused["msg"]
    shown = calm(run({**asking(ground, request), "replace": [1]}, check=True))
    assert writes(shown) == {}
    row = {"ordinal": 1, "pod": "db-1", "from": node, "to": ground.spare, "disks": [f"{node}-d0"], "data": "given up"}
    assert shown["moved"] == [{**row, "fields": [], "replaced": True}]
    told = shown["diff"]["after"]["objects"]["Pod default/db-1"]
    assert told.startswith(
        f"replaced (as was asked for): from node {node} to node {ground.spare}; its data on LocalDisk"
    )
    before = ground.nodes()
    done = calm(run(asking(ground, request)))
    assert (done["changed"], done["moved"]) == (True, shown["moved"])
    ground.moved(node)
    assert ground.nodes() == {**before, "db-1": ground.spare}
    reasons = [entry.get("why", "") for entry in of_disk(ground.world.disks()[f"{node}-d0"])]
    assert any(f"replace: {request}" in why for why in reasons), reasons
    for again, wrote in ((request, []), (1, [SPEC, STATUS])):  # the same, and another word, which is written down
        rerun = calm(run({**asking(ground, request), "replace": [again]}))
        assert (rerun["trace"], "moved" in rerun, rerun["warnings"]) == (wrote, False, [])

    refused = run({**asking(ground, request), "replace": [f"db-1@{ground.spare}"]})
    assert f"leave_data: [db-1@{ground.spare}]" in refused["msg"], "the words of before give up nothing where it is now"
    assert writes(refused) == {}

    back = local_disk(node, 1)
    ground.world.add_disk(back)
    calm(run(asking(ground, f"db-1@{ground.spare}")))
    record = ground.world.berths("db")["db-1"]
    assert record["spec"]["disks"][0]["name"] == back["metadata"]["name"], "what it gave up first holds it back no more"
    rerun = calm(run(asking(ground, request)))
    assert (rerun["trace"], "moved" in rerun) == ([SPEC, STATUS], False), "the first task, though it is there again"


def test_where_its_own_node_alone_has_another_disk_it_goes_there_and_once_all_the_same(app_world, kubeconfig):
    try:
        ground = Ground(app_world, kubeconfig)
        node = node_of(ground, "db-2")
        for name in app_world.disks():
            if name == f"{ground.spare}-d0":
                app_world.client.delete(app_world.kinds.LOCAL_DISK, name)
        request = f"db-2@{node}"
        refused = run(asking(ground, request))
        assert "db-2 does not fit" in refused["msg"], "its old disk is no place for it"
        assert writes(refused) == {}
        app_world.add_disk(local_disk(node, 1))
        calm(run(asking(ground, request)))
        record = app_world.berths("db")["db-2"]
        assert (record["spec"]["nodeName"], record["spec"]["disks"][0]["name"]) == (node, f"{node}-d1")
        assert record["metadata"]["annotations"][ANNOTATION] == node
        app_world.add_disk(local_disk(node, 2))
        again = calm(run(asking(ground, request)))
        assert (again["changed"], writes(again)) == (False, {})
        (told,) = again["warnings"]
        assert f"{request} was carried out before" in told
        mark = {"metadata": {"annotations": {ANNOTATION: None}}}
        app_world.client.patch(app_world.kinds.BERTH, "db-2", "default", mark)
        calm(run(asking(ground, request)))
        assert app_world.berths("db")["db-2"]["spec"]["disks"][0]["name"] == f"{node}-d2", "asked for once more"
        app_world.check()
    finally:
        app_world.clear()


def test_each_write_may_be_the_last(ground):
    """Killed at one write after the other: each run goes on where the last one died, and the last one moves nobody."""
    node = node_of(ground, "db-2")
    asked = asking(ground, f"db-2@{node}")
    assert sum(1 for _death in deaths(partial(run, asked))) > 4
    ground.moved(node)
    assert calm(run(asked))["changed"] is False
    assert set(ground.nodes()) <= {"db-0", "db-1", "db-2"}
    assert len(set(ground.nodes().values())) == len(NODES) - 1
