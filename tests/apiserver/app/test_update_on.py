"""ConfigMaps and Secrets whose content counts as a revision: real API server, its controllers, and pods of kwok."""

from __future__ import annotations

import copy
import json

import pytest

from tests.apiserver.app.runner import calm, run
from tests.apiserver.app.test_stateful_app import NODES, writes
from tests.apiserver.app.test_update import options, pods, uids
from tests.apiserver.app.world import local_disk

CONTENTS = "berth.dev/contents"
BOTH = ["config_maps", "secrets"]
#: What must be nowhere but in the Secret: as it is, and as the API has it.
PASSWORD, CODED = "correct horse", "Y29ycmVjdCBob3JzZQ=="


@pytest.fixture
def world(app_world):
    for node in NODES:
        app_world.add_disk(local_disk(node, 0))
    yield app_world
    for kind, name in ((app_world.kinds.CONFIG_MAP, "db-conf"), (app_world.kinds.SECRET, "db-pass")):
        app_world.client.delete(kind, name, "default")
    app_world.clear()


def give(world, kind, name, data, **metadata):
    body = {"apiVersion": "v1", "kind": kind.kind, "metadata": {"name": name, "namespace": "default", **metadata}}
    world.client.apply(kind, {**body, "data": data})


def naming(kubeconfig, **values):
    """The app whose container names both; the Secret may be missing."""
    asked = copy.deepcopy(options(kubeconfig, update_on=BOTH, **values))
    secret = {"name": "db-pass", "key": "password", "optional": True}
    container = asked["template"]["spec"]["containers"][0]
    container["envFrom"] = [{"configMapRef": {"name": "db-conf"}}]
    container["env"] = [{"name": "PASSWORD", "valueFrom": {"secretKeyRef": secret}}]
    return asked


def told(row):
    return row["pod"], row["in_place"], row["fields"]


@pytest.mark.parametrize("workload", ["StatefulSet", "Pod"])
def test_a_changed_content_makes_the_pods_anew_on_their_nodes(world, kubeconfig, workload):
    asked = naming(kubeconfig, workload=workload)
    missing = run(asked)
    assert missing["failed"]
    assert "ConfigMap default/db-conf is not there, and envFrom of container main" in missing["msg"]
    assert writes(missing) == {}
    assert not world.berths("db"), "refused before anything is written"

    give(world, world.kinds.CONFIG_MAP, "db-conf", {"size": "small"})
    calm(run(asked))
    before, nodes = uids(world), {name: pod["spec"]["nodeName"] for name, pod in pods(world).items()}
    again = calm(run(asked))
    assert not again["changed"]
    assert writes(again) == {}
    give(world, world.kinds.CONFIG_MAP, "db-conf", {"size": "small"}, labels={"owner": "me"})
    assert not calm(run(asked))["changed"], "a label is no content"

    give(world, world.kinds.CONFIG_MAP, "db-conf", {"size": "large"})
    give(world, world.kinds.SECRET, "db-pass", {"password": CODED})
    fields = ["ConfigMap db-conf (its content)", "Secret db-pass (its content)"]
    seen = calm(run(asked, check=True))
    assert writes(seen) == {}
    assert [told(row) for row in seen["updated"]] == [(f"db-{one}", False, fields) for one in (2, 1, 0)]
    shown = seen["diff"]["after"]["objects"]["Pod default/db-2"]
    assert shown == f"made anew on its node: {', '.join(fields)}"
    only = run({**asked, "update_strategy": "in_place_only"})
    assert f"cannot be updated in place: {fields[0]}" in only["msg"]
    assert writes(only) == {}
    part = calm(run({**asked, "partition": 2}))
    assert [told(row) for row in part["updated"]] == [("db-2", False, fields)]
    done = calm(run(asked))
    assert not set(uids(world).items()) & set(before.items()), "all anew"
    assert {name: pod["spec"]["nodeName"] for name, pod in pods(world).items()} == nodes
    assert not calm(run(asked))["changed"]
    text = json.dumps([seen, done, pods(world)])
    assert PASSWORD not in text
    assert CODED not in text
    world.check()


def test_without_the_option_nothing_is_read_and_no_pod_made_anew(world, kubeconfig):
    give(world, world.kinds.CONFIG_MAP, "db-conf", {"size": "small"})
    asked = naming(kubeconfig, replicas=1)
    calm(run(asked))
    before = uids(world)
    without = {key: value for key, value in asked.items() if key != "update_on"}
    left = calm(run(without))
    assert [told(row) for row in left["updated"]] == [("db-0", True, ["metadata.annotations"])]
    assert CONTENTS not in pods(world)["db-0"]["metadata"].get("annotations", {})
    give(world, world.kinds.CONFIG_MAP, "db-conf", {"size": "large"})
    assert not calm(run(without))["changed"]
    assert uids(world) == before


def test_a_config_map_of_the_same_manifest_is_applied_and_counts(world, kubeconfig):
    asked = naming(kubeconfig, replicas=1)

    def manifest(size):
        conf = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "db-conf"}, "data": {"size": size}}
        workload = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}}
        items = [conf, {**workload, "spec": {"template": asked["template"]}}]
        return {**asked, "template": {"apiVersion": "v1", "kind": "List", "items": items}}

    calm(run(manifest("small")))
    assert not calm(run(manifest("small")))["changed"]
    done = calm(run(manifest("large")))
    assert [told(row) for row in done["updated"]] == [("db-0", False, ["ConfigMap db-conf (its content)"])]
    assert world.client.get(world.kinds.CONFIG_MAP, "db-conf", "default")["data"] == {"size": "large"}
    assert not calm(run(manifest("large")))["changed"]


def test_a_rollback_takes_the_template_back_and_no_content(world, kubeconfig):
    give(world, world.kinds.CONFIG_MAP, "db-conf", {"size": "small"})
    asked = naming(kubeconfig, replicas=1)
    calm(run(asked))
    second = copy.deepcopy(asked)
    second["template"]["spec"]["containers"][0]["image"] = "berth.local/busybox:2"
    calm(run(second))
    give(world, world.kinds.CONFIG_MAP, "db-conf", {"size": "large"})
    calm(run(second))
    now = pods(world)["db-0"]["metadata"]["annotations"][CONTENTS]
    back = calm(run({**second, "rollback_to": "previous"}))
    assert [told(row) for row in back["updated"]] == [("db-0", True, ["spec.containers[main].image"])]
    pod = pods(world)["db-0"]
    assert pod["spec"]["containers"][0]["image"] == "berth.local/busybox:1"
    assert pod["metadata"]["annotations"][CONTENTS] == now
