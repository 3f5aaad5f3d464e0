"""An app that a playbook carries out is a StatefulApp, too: what is written of it, when, and what is not."""

from __future__ import annotations

import copy

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.stateful_app import INFO
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.stateful_app_status import condition, row_of
from tests.apiserver.app.runner import SPEC, STATUS, calm, run, start
from tests.apiserver.app.test_stateful_app import NODES, writes
from tests.apiserver.app.world import local_disk, params
from tests.dev.hosts_help import eventually
from tests.support.kube import install_crds
from tests.support.team import binding
from tests.support.team import options as of_team

#: What of a run's options is no part of what is asked for, and is never written.
TASK_ONLY = {"wait": True, "wait_timeout": 60, "inventory_nodes": ["fake-0", "fake-1", "fake-2"], "confirm_fenced": []}


@pytest.fixture
def world(app_world):
    for node in NODES:
        app_world.add_disk(local_disk(node, 0))
    yield app_world
    app_world.clear()


def live(world, name="db"):
    return world.client.find(world.kinds.STATEFUL_APP, name, "default")


def pods(world):
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in world.ours(world.kinds.POD)}


def total(result):
    return sum(result["requests"].values())


@pytest.mark.promise
def test_it_is_made_told_of_changed_and_taken_away(world, kubeconfig):
    asked = params("db", kubeconfig, **TASK_ONLY)
    foreseen = calm(run(asked, check=True))
    assert (writes(foreseen), live(world)) == ({}, None), "check mode writes nothing"
    title = "StatefulApp default/db"
    assert foreseen["diff"]["after"]["objects"][title]["replicas"] == 2
    assert title not in foreseen["diff"]["before"]["objects"]

    made = calm(run(asked))
    assert (made["trace"][0], made["trace"][-1]) == (SPEC, STATUS), "before the first write, and after the last one"
    assert made["diff"]["after"]["objects"][title] == foreseen["diff"]["after"]["objects"][title]
    found = live(world)
    assert set(found["spec"]) == {"driver", "replicas", "workload", "template", "disks", "podManagementPolicy"}
    assert (found["spec"]["driver"], found["spec"]["replicas"]) == ("playbook", 2)
    told = found["status"]
    assert (told["observedGeneration"], found["metadata"]["generation"]) == (1, 1)
    assert [told[key] for key in ("replicas", "readyReplicas", "updatedReplicas")] == [2, 2, 2]
    assert told["updateRevision"] == told["currentRevision"] == told["revisions"][-1]["name"]
    ready = condition(found, "Ready")
    assert (ready["status"], ready["reason"]) == ("True", "Running")
    assert ready["message"].startswith("when stateful_app ran last, every replica was there")
    assert made["stateful_app"]["readyReplicas"] == 2
    assert run({"name": "db", "kubeconfig": str(kubeconfig)}, INFO)["stateful_app"]["driver"] == "playbook"

    again = calm(run(asked))
    assert (again["changed"], again["trace"], again["diff"]["before"]) == (False, [], again["diff"]["after"])
    assert (live(world), "dry_run" in again["requests"]) == (found, False)

    other = copy.deepcopy(asked)
    other["template"]["spec"]["containers"][0]["image"] = "berth.local/busybox:2"
    done = calm(run(other))
    assert done["trace"].index(SPEC) == 0
    first, second = (done["diff"][part]["objects"][title]["template"] for part in ("before", "after"))
    assert (first != second, first[:9]) == (True, "revision ")
    found = live(world)
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "berth.local/busybox:2"
    assert (found["status"]["observedGeneration"], found["status"]["updatedReplicas"]) == (2, 2)
    assert len(found["status"]["revisions"]) == 2
    assert total(calm(run(other))) == total(again), "a run that finds all done costs what it did"

    gone = calm(run({**asked, "state": "absent"}))
    assert (gone["changed"], live(world)) == (True, None)
    assert calm(run({**asked, "state": "absent"}))["changed"] is False


def test_an_app_of_before_becomes_one_at_its_next_run_and_no_pod_is_touched(world, kubeconfig):
    asked = params("db", kubeconfig, wait=True)
    calm(run(asked))
    world.client.delete(world.kinds.STATEFUL_APP, "db", "default")
    before = pods(world)
    foreseen = calm(run(asked, check=True))
    adopted = calm(run(asked))
    assert (foreseen["changed"], adopted["changed"], adopted["trace"]) == (True, True, [SPEC, STATUS])
    assert (pods(world), condition(live(world), "Ready")["reason"]) == (before, "Running")
    assert calm(run(asked))["trace"] == []


def test_who_scales_or_edits_it_sees_that_a_run_is_due_and_the_tasks_options_win(world, kubeconfig, control_plane):
    asked = params("db", kubeconfig, wait=True)
    calm(run(asked))
    control_plane.kubectl("scale", "sapp", "db", "--replicas=3")
    patch = {"spec": {"quorum": 1, "leaveNodes": ["fake-3"]}}
    world.client.patch(world.kinds.STATEFUL_APP, "db", "default", patch)
    row = row_of(live(world))
    assert (row["state"], "a run of it is due" in row["message"]) == ("Outdated", True)
    about = run({"name": "db", "kubeconfig": str(kubeconfig)}, INFO)["stateful_app"]
    assert about["observedGeneration"] < about["generation"]
    foreseen = calm(run(asked, check=True))
    title = "StatefulApp default/db"
    assert foreseen["diff"]["before"]["objects"][title] == {"leave_nodes": ["fake-3"], "quorum": 1, "replicas": 3}
    done = calm(run(asked))
    assert (done["changed"], done["trace"]) == (True, [SPEC, "replace StatefulApp", STATUS])
    found = live(world)
    assert (found["spec"]["replicas"], {"quorum", "leaveNodes"} & set(found["spec"])) == (2, set())
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
    assert calm(run(asked))["trace"] == []


def test_the_controller_gets_it_in_one_apply_and_nothing_stays_of_what_was_asked_before(world, kubeconfig):
    asked = params("db", kubeconfig, wait=True, replicas=3)
    calm(run({**asked, "quorum": 2, "max_unavailable": "1"}))
    before = pods(world)
    handed = run({**asked, "driver": "controller", "wait": False})
    assert (handed["trace"], handed["changed"]) == ([SPEC], True)
    found = live(world)["spec"]
    assert (found["driver"], found["replicas"], "quorum" in found) == ("controller", 3, False)
    assert run({**asked, "driver": "controller", "wait": False})["trace"] == []
    refused = run(asked)
    assert "has driver controller" in refused["msg"]
    assert (refused["changed"], pods(world)) == (False, before)
    world.client.patch(world.kinds.STATEFUL_APP, "db", "default", {"spec": {"driver": "playbook"}})
    back = calm(run(asked))
    assert [one for one in back["trace"] if "StatefulApp" in one] == [STATUS], "it says already what the task says"
    assert (pods(world), condition(live(world), "Ready")["reason"]) == (before, "Running")


def test_what_a_run_did_not_finish_is_told(world, kubeconfig):
    asked = params("db", kubeconfig, wait=True)
    calm(run(asked))
    other = copy.deepcopy(asked)
    other["template"]["spec"]["containers"][0]["image"] = "berth.local/busybox:2"
    assert start(other, kill_at=1, of=SPEC).finish() is None
    assert row_of(live(world))["state"] == "Outdated", "it died: no status speaks of what it was to do"
    assert calm(run(other))["changed"], "and the next run goes on"
    nowhere = copy.deepcopy(other)
    nowhere["template"]["spec"]["schedulerName"] = "nobody"
    late = run({**nowhere, "wait_timeout": 1})
    assert late["failed"], late
    row = row_of(live(world))
    assert (row["state"], row["stalled"]) == ("RunFailed", True)
    assert row["message"].startswith("the last run of stateful_app failed: "), row


def test_a_run_that_is_to_stop_half_way_leaves_the_status_to_the_next(world, kubeconfig):
    """As the first of the role's two runs does."""
    asked = params("db", kubeconfig)
    half = calm(run({**asked, "until": "Bound"}))
    assert (half["trace"][0], STATUS in half["trace"]) == (SPEC, False)
    assert condition(live(world), "Ready")["reason"] == "WaitsForDriver"
    calm(run({**asked, "wait": True}))
    told = live(world)["status"]
    assert condition(live(world), "Ready")["reason"] == "Running"
    for again in ({"until": "Bound"}, {"wait": True, "leave_nodes": [], "leave_data": [], "replace": []}):
        assert calm(run({**asked, **again}))["trace"] == []
    assert live(world)["status"] == told


def test_what_it_cannot_hold_stays_out(world, kubeconfig):
    once = {"on_node_loss": "release", "release_ordinals": [1], "update_hooks": {"before": ["true"]}, "explain": True}
    calm(run(params("db", kubeconfig, workload="Pod", update_strategy="same_node", **once)))
    spec = live(world)["spec"]
    assert set(spec) == {"driver", "replicas", "workload", "template", "disks", "podManagementPolicy", "updateStrategy"}
    assert (spec["workload"], spec["updateStrategy"]) == ("Pod", {"type": "SameNode"})
    long = calm(run(params("d" * 56, kubeconfig, workload="Pod", replicas=1)))
    assert (long["warnings"], live(world, "d" * 56), SPEC in long["trace"]) == ([], None, False)


def test_the_gate_that_the_controller_opens_is_refused_where_it_never_had_the_app(world, kubeconfig):
    asked = params("db", kubeconfig)
    calm(run(asked))
    gated = copy.deepcopy(asked)
    gated["template"]["spec"]["readinessGates"] = [{"conditionType": "berth.dev/InService"}]
    assert "set driver: controller" in run(gated)["msg"]
    calm(run({**gated, "driver": "controller"}))
    world.client.patch(world.kinds.STATEFUL_APP, "db", "default", {"spec": {"driver": "playbook"}})
    calm(run(gated))
    assert "wait: true would wait in vain" in run({**gated, "wait": True})["msg"]


ROLES = {
    "nothing of it": [],
    "no status": [{"apiGroups": ["berth.dev"], "resources": ["statefulapps"], "verbs": ["get", "create", "patch"]}],
    "looking": [{"apiGroups": ["berth.dev"], "resources": ["statefulapps"], "verbs": ["get"]}],
}


@pytest.fixture
def narrow(world, kubeconfig):
    """Options of an account with all rights of a release before, and of StatefulApps those that are given."""
    kinds, admin = world.kinds, world.client
    meta = {"name": "narrow", "namespace": "default"}
    admin.apply(kinds.CLUSTER_ROLE_BINDING, binding("berth-disk-user", "default"))
    whole = admin.get(kinds.CLUSTER_ROLE, "berth-app-operator")["rules"]
    others = [rule for rule in whole if not any("statefulapps" in one for one in rule["resources"])]

    def account(rules):
        admin.apply(kinds.ROLE, {"metadata": meta, "rules": [*others, *rules]})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "narrow"}
        subject = {"kind": "ServiceAccount", "name": "team", "namespace": "default"}
        admin.apply(kinds.ROLE_BINDING, {"metadata": meta, "roleRef": role, "subjects": [subject]})
        return of_team("default")

    yield account
    admin.delete(kinds.ROLE_BINDING, "narrow", "default")
    admin.delete(kinds.ROLE, "narrow", "default")
    admin.delete(kinds.CLUSTER_ROLE_BINDING, "default-berth-disk-user")


@pytest.mark.parametrize(
    ("which", "words", "made"),
    [
        ("nothing of it", "verb get on statefulapps", False),
        ("looking", "verb patch on statefulapps", False),
        ("no status", "verb patch on statefulapps/status", True),
    ],
)
def test_whose_rights_are_of_a_release_before_is_warned_and_goes_on(world, kubeconfig, narrow, which, words, made):
    asked = {**params("db", kubeconfig), **narrow(ROLES[which])}

    def in_force():
        shown = run(asked, check=True)
        told = str([text for text in shown.get("warnings", ()) if "StatefulApp" in text])
        return not shown.get("failed") and (told == "[]" if made else words in told)  # check mode writes no status

    eventually(in_force, 30, "these rights and no others")
    done = calm(run(asked))
    (told,) = [text for text in done["warnings"] if "StatefulApp" in text]
    assert words in told
    assert (done["changed"], len(done["berths"]), live(world) is not None) == (True, 2, made)
    again = calm(run(asked))
    assert again["changed"] is False
    assert len([text for text in again["warnings"] if "StatefulApp" in text]) == 1


def test_a_cluster_without_the_kind_is_carried_on_with_one_warning(world, kubeconfig):
    world.client.delete(world.kinds.CRD, "statefulapps.berth.dev")
    try:
        eventually(
            lambda: "does not serve" in str(run(params("db", kubeconfig), check=True)["warnings"]), 30, "it goes"
        )
        done = calm(run(params("db", kubeconfig, wait=True)))
        (told,) = [text for text in done["warnings"] if "StatefulApp" in text]
        assert "run berth.stateful.crds first" in told
        again = calm(run(params("db", kubeconfig, wait=True)))
        assert (again["changed"], again["trace"]) == (False, [])
    finally:
        install_crds(kubeconfig)
