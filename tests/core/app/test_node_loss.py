"""Which replicas are lost with their node, what proves that they do not run there, and what is decided."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from berth_core.app import leaving
from berth_core.app.node_loss import (
    OUT_OF_SERVICE,
    LossRules,
    decide,
    decide_what_is_proven,
    doubtful,
    find_lost,
    left_behind,
    loss_rules,
    losses,
    not_ended,
    row,
    stand_in,
    told,
    told_of_kind,
    with_losses,
)
from berth_core.app.observed import Observed
from berth_core.app.plan import Plan
from berth_core.app.stateful_app_object import in_fields
from berth_core.errors import InputError, StateError

SINCE = "2026-01-01T00:00:00Z"


def node(status="True", taints=()):
    told = {"type": "Ready", "status": status, "reason": "Because", "lastTransitionTime": SINCE}
    return {"metadata": {"name": "n"}, "spec": {"taints": list(taints)}, "status": {"conditions": [told]}}


KEEP = LossRules()
READY, SILENT = node(), node("Unknown")
TAINTED = node("Unknown", [{"key": OUT_OF_SERVICE, "effect": "NoExecute", "timeAdded": SINCE}])


def seen(ready=(1, 2), replicas=3, pod_on="n0"):
    """db-0 on n0, db-1 on n1, ...; those of ``ready`` are Ready. ``pod_on``: the node of pod db-0; None: no pod."""
    berths, pods = {}, {}
    for ordinal in range(replicas):
        meta = {"name": f"db-{ordinal}", "namespace": "shop", "uid": f"u-{ordinal}"}
        spec = {"app": "db", "ordinal": ordinal, "nodeName": f"n{ordinal}"}
        berths[ordinal] = {"metadata": meta, "spec": spec, "status": {"phase": "Running"}}
        told = [{"type": "Ready", "status": "True" if ordinal in ready else "False"}]
        place = pod_on if ordinal == 0 else f"n{ordinal}"
        pods[f"db-{ordinal}"] = {"metadata": meta, "spec": {"nodeName": place}, "status": {"conditions": told}}
    if pod_on is None:
        del pods["db-0"]
    return Observed("db", "shop", berths=berths, pods=pods, stateful_set={"spec": {"replicas": replicas}})


def lost(observed, rules=KEEP, **nodes):
    doubts = doubtful(observed, "StatefulSet", 3)
    return find_lost(observed, doubts, {name: nodes.get(name, READY) for name in doubts.values()}, rules)


def test_nodes_of_ready_replicas_are_not_looked_at():
    assert doubtful(seen(), "StatefulSet", 3) == {0: "n0"}
    assert doubtful(seen(ready=(0, 1, 2)), "StatefulSet", 3) == {}
    assert doubtful(seen(), "StatefulSet", 0) == {}, "what is scaled away is not kept"


def test_a_replica_that_is_not_ready_on_a_node_that_is_well_is_not_lost():
    assert lost(seen()) == []


@pytest.mark.parametrize(
    ("there", "pod_on", "why", "proof"),
    [
        (SILENT, "n0", "Ready is Unknown (Because)", ""),
        (node("False"), "n0", "Ready is False (Because)", ""),
        (TAINTED, "n0", f"it has the taint {OUT_OF_SERVICE}", f"the taint {OUT_OF_SERVICE}"),
        (None, "n0", "its Node is deleted", ""),
        (None, None, "its Node is deleted", ""),
        (None, "", "its Node is deleted", ""),
    ],
)
def test_what_proves_that_nothing_runs_there(there, pod_on, why, proof):
    (one,) = lost(seen(pod_on=pod_on), n0=there)
    assert (one.pod, one.why, one.proof, bool(one.missing)) == ("db-0", why, proof, not proof)
    (one,) = lost(seen(pod_on=pod_on), LossRules("rebuild", fenced=("n0",)), n0=there)
    assert one.proof == "confirm_fenced says so"


def test_by_default_nothing_is_given_up_and_the_way_is_told():
    (one,) = found = lost(seen(), n0=SILENT)
    assert decide(LossRules(), found, seen(), 3) == []
    text = told(one, "shop")
    for word in (
        "shop/db-0",
        "n0 since 2026",
        "kubectl taint node n0",
        "release_ordinals: [0]",
        "confirm_fenced: [n0]",
    ):
        assert word in text
    assert row(one, LossRules(), [], None)["decision"] == "keep"


def test_a_stateful_app_says_who_waits_for_which_node_before_it_says_what_can_be_done():
    rules, observed = LossRules(by_task=False), seen(ready=())
    assert told_of_kind([], "shop") == ""
    found = lost(observed, rules, n0=SILENT, n1=TAINTED, n2=None)
    text = told_of_kind(found, "shop")
    facts, _dot, ways = text.partition(". The data comes back with the node. ")
    assert facts == (
        f"replica shop/db-0 waits for node n0 since {SINCE}: Ready is Unknown (Because); "
        f"replica shop/db-1 waits for node n1 since {SINCE}: it has the taint {OUT_OF_SERVICE}; "
        "replica shop/db-2 waits for node n2: its Node is deleted"
    )
    for word in (
        "kubectl taint node n0",
        "spec.onNodeLoss: Rebuild",
        "driver: playbook",
        "release_ordinals: [0, 1, 2]",
    ):
        assert word in ways
    assert "taint node n1" not in ways, "it has it already"
    assert stand_in("n2") in ways, "there is no Node that could be tainted"
    assert "taint node n2" not in ways
    assert "confirm_fenced" not in ways, "which is an option of a task"
    shared = told_of_kind([found[0], replace(found[0], ordinal=4, pod="db-4")], "shop")
    assert shared.startswith("replicas shop/db-0, shop/db-4 wait for node n0 since")


@pytest.mark.parametrize("rules", [LossRules("release", (0,)), LossRules("rebuild")])
def test_without_proof_it_is_refused(rules):
    with pytest.raises(StateError, match="nothing proves that the replica does not run there"):
        decide(rules, lost(seen(), rules, n0=SILENT), seen(), 3)


def command(text):
    """The Node that the command in a message makes."""
    (found,) = re.findall(r"echo '(.+)' \| kubectl create --filename -", text)
    return json.loads(found)


@pytest.mark.parametrize("pod_on", ["n0", None])
def test_a_deleted_node_is_a_loss_and_no_proof(pod_on):
    """Nor is it one that its pod's object is gone: its machine may have lost its connection alone."""
    observed, task = seen(pod_on=pod_on), LossRules("rebuild")
    with pytest.raises(
        StateError, match=r"a Node that is deleted\. To go on, switch .* say so: confirm_fenced: \[n0\]\."
    ):
        decide(task, lost(observed, task, n0=None), observed, 3)
    fenced = replace(task, fenced=("n0",))
    assert [one.ordinal for one in decide(fenced, lost(observed, fenced, n0=None), observed, 3)] == [0]
    with pytest.raises(StateError):
        decide(replace(task, fenced=("n1",)), lost(observed, replace(task, fenced=("n1",)), n0=None), observed, 3)


def test_who_is_not_told_by_a_task_is_told_by_a_node_that_keeps_everything_off():
    rules, observed = LossRules("rebuild", by_task=False), seen(pod_on=None)
    chosen, (line,) = decide_what_is_proven(rules, lost(observed, rules, n0=None), observed, 3)
    assert chosen == []
    assert "kubectl taint" not in line, "there is no Node"
    assert in_fields(line) == line
    made = command(line)
    assert (made["kind"], made["metadata"]) == ("Node", {"name": "n0"})
    assert [(one["key"], one["effect"]) for one in made["spec"]["taints"]] == [(OUT_OF_SERVICE, "NoExecute")]
    chosen, waits = decide_what_is_proven(rules, lost(observed, rules, n0=made), observed, 3)
    assert ([one.proof for one in chosen], waits) == ([f"the taint {OUT_OF_SERVICE}"], [])
    back = {**READY, "metadata": {"name": "n0"}}
    assert lost(observed, rules, n0=back) == [], "nothing that was said of an earlier node of that name is left"


def test_a_berth_that_was_being_given_up_on_a_deleted_node_is_left_alone():
    """Its pod's object is gone with the Node, which is not the end that was waited for."""
    observed, rules = seen(pod_on=None), LossRules("rebuild", by_task=False)
    observed.berths[0]["status"]["phase"] = "Releasing"
    for there, left in ((None, (0,)), (SILENT, ()), (TAINTED, ())):
        assert not_ended(lost(observed, rules, n0=there), observed) == left
    fenced = LossRules("rebuild", fenced=("n0",))
    assert not_ended(lost(observed, fenced, n0=None), observed) == ()
    plan = leaving.into(Plan(select=(0,), discard=(0,)), (), (0,))
    assert (plan.select, plan.discard, plan.later) == ((), (), (0,))
    plan = leaving.into(plan, (1,), ())
    assert (plan.select, plan.discard, plan.later) == ((1,), (1,), (0,))


def test_only_named_ordinals_are_released():
    observed = seen(ready=(2,))
    rules = LossRules("release", (1,))
    found = lost(observed, rules, n0=SILENT, n1=TAINTED)
    chosen = decide(rules, found, observed, 3)
    assert [one.ordinal for one in chosen] == [1]
    assert [row(one, rules, chosen, None)["decision"] for one in found] == ["keep", "release"]
    assert losses(observed, chosen)[1].node == "n1"


@pytest.mark.parametrize(("ready", "enough"), [((1, 2), True), ((2,), False), ((), False)])
def test_a_rebuild_needs_more_than_half_of_the_replicas(ready, enough):
    observed, rules = seen(ready=ready), LossRules("rebuild")
    found = lost(observed, rules, n0=TAINTED)
    if enough:
        assert [one.ordinal for one in decide(rules, found, observed, 3)] == [0]
    else:
        with pytest.raises(StateError, match=f"of 3 replicas {len(ready)} are Ready"):
            decide(rules, found, observed, 3)


@pytest.mark.parametrize(("ready", "quorum", "enough"), [((2,), 1, True), ((1, 2), 2, True), ((2,), 2, False)])
def test_a_quorum_that_is_given_takes_the_place_of_more_than_half(ready, quorum, enough):
    observed, rules = seen(ready=ready), loss_rules({"on_node_loss": "rebuild", "quorum": quorum}, 3)
    found = lost(observed, rules, n0=TAINTED)
    if enough:
        assert [one.ordinal for one in decide(rules, found, observed, 3)] == [0]
    else:
        with pytest.raises(StateError, match=r"of 3 replicas 1 are Ready \(db-2\), and 2 have to be \(quorum\)"):
            decide(rules, found, observed, 3)


def test_who_looks_again_goes_on_with_what_is_proven():
    rules = LossRules("rebuild", by_task=False)
    observed = seen(ready=(2, 3, 4), replicas=5)
    doubts = doubtful(observed, "StatefulSet", 5)
    nodes = {**dict.fromkeys(doubts.values(), READY), "n0": TAINTED, "n1": SILENT}
    chosen, waits = decide_what_is_proven(rules, find_lost(observed, doubts, nodes, rules), observed, 5)
    assert [one.ordinal for one in chosen] == [0]
    (line,) = waits
    assert "replica shop/db-1: its node n1 is lost" in line
    assert "kubectl taint node n1" in line
    assert "confirm_fenced" not in line, "which is an option of a task"


def test_who_looks_again_waits_for_a_quorum():
    rules = LossRules("rebuild", by_task=False)
    observed = seen(ready=(2,))
    chosen, waits = decide_what_is_proven(rules, lost(observed, rules, n0=TAINTED), observed, 3)
    assert chosen == []
    assert "of 3 replicas 1 are Ready (db-2), and 2 have to be (more than half)" in waits[0]
    assert "release" not in waits[0]
    assert decide_what_is_proven(LossRules(), lost(observed, n0=TAINTED), observed, 3) == ([], [])


def test_half_is_not_enough():
    observed, rules = seen(ready=(1,), replicas=2), LossRules("rebuild")
    with pytest.raises(StateError, match="of 2 replicas 1 are Ready"):
        decide(rules, lost(observed, rules, n0=TAINTED), observed, 2)


def test_the_plan_gives_the_berth_up_and_chooses_anew():
    plan = with_losses(Plan(select=(3,), advance={0: "Created", 1: "Created"}, refresh=(0, 1), update=(1, 0)), [0])
    assert (plan.select, plan.discard, plan.advance) == ((0, 3), (0,), {1: "Created"})
    assert (plan.refresh, plan.update) == ((1,), (1,))


def disk(name, ordinal, on="n0", app="db", **spec):
    kept = {"namespace": "shop", "app": app, "ordinal": ordinal, "claim": "data", "dataUID": "u"}
    return {"metadata": {"name": name}, "spec": {"nodeName": on, "retainedFor": kept, **spec}}


def test_data_that_was_left_on_a_lost_node_is_found_for_who_may_give_it_up():
    disks = [
        disk("mine", 0),
        disk("of another", 0, app="other"),
        disk("of another ordinal", 1),
        disk("held", 0, claimRef={"uid": "u"}),
        disk("on a node that is well", 0, "n1"),
    ]
    nodes = [{**READY, "metadata": {"name": "n1"}}]
    found = left_behind(disks, nodes, LossRules("release", (0,)), seen(), [0, 1])
    assert {ordinal: [one["metadata"]["name"] for one in kept] for ordinal, (_loss, kept) in found.items()} == {
        0: ["mine"]
    }
    assert left_behind(disks, nodes, LossRules(), seen(), [0]) == {}
    assert left_behind(disks, nodes, LossRules("rebuild"), seen(), []) == {}


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"on_node_loss": "release"}, "release_ordinals is empty"),
        ({"release_ordinals": [0]}, "on_node_loss is keep"),
        ({"on_node_loss": "rebuild", "release_ordinals": [0]}, "on_node_loss is rebuild"),
        ({"on_node_loss": "release", "release_ordinals": [3]}, "names 3: expected ordinals from 0 to 2"),
        ({"confirm_fenced": ["n0"]}, "confirm_fenced is given"),
        ({"on_node_loss": "rebuild", "confirm_fenced": ["A B"]}, "confirm_fenced"),
        ({"inventory_nodes": []}, "inventory_nodes is empty, by which every node would be lost"),
        ({"inventory_nodes": ["n0", "A B"]}, r"inventory_nodes\[1\]"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, word):
    with pytest.raises(InputError, match=word):
        loss_rules(options, 3)


def test_the_options_are_read():
    asked = {"on_node_loss": "release", "release_ordinals": [2, 0, 2], "confirm_fenced": ["n0"]}
    assert loss_rules(asked, 3) == LossRules("release", (0, 2), ("n0",))
    assert loss_rules({}, 3) == LossRules()
    assert loss_rules({"inventory_nodes": ["n1", "n0"]}, 3).inventory == {"n0", "n1"}


def test_a_node_that_the_inventory_has_no_host_for_is_lost_but_that_proves_nothing():
    rules = LossRules("rebuild", inventory=frozenset({"n1", "n2"}))
    (one,) = lost(seen(), rules)
    assert (one.pod, one.why, one.proof) == ("db-0", "the inventory has no host for it", "")
    with pytest.raises(StateError, match="nothing proves"):
        decide(rules, [one], seen(), 3)
    assert lost(seen(ready=(0, 1, 2)), rules) == [], "a replica that is Ready is not looked at"
    assert lost(seen(), LossRules(inventory=frozenset({"n0"}))) == []
    (known,) = lost(seen(), rules, n0=SILENT)
    assert known.why.startswith("Ready is Unknown"), "what the cluster says is said first"
    behind = left_behind([disk("mine", 0)], [{**READY, "metadata": {"name": "n0"}}], rules, seen(), [0])
    assert list(behind) == [0]
