"""A node's maintenance: whose the cordon is, which pods go, what forbids it, and when they are home again."""

from __future__ import annotations

import json

import pytest

from berth_core.app.disruption import Around, gives_way, refusals
from berth_core.app.host_maintenance import check_disks, home, key_of, node_ready, sort_pods
from berth_core.app.maintenance_mark import ANNOTATION, begin, cordoned, end, let_home, mark_of, shown
from berth_core.errors import StateError

NOW, BY = "2026-01-01T00:00:00Z", "root@control"


def node(name="n1", closed=False, mark=None):
    made = {"metadata": {"name": name, "uid": f"u-{name}", "resourceVersion": "7"}, "spec": {}}
    if closed:
        made["spec"]["unschedulable"] = True
    if mark is not None:
        made["metadata"]["annotations"] = {ANNOTATION: mark}
    return made


def patched(live, patch):
    """What the API server makes of a merge patch."""
    meta = {**live["metadata"], "annotations": dict(live["metadata"].get("annotations") or {})}
    for key, value in patch["metadata"].get("annotations", {}).items():
        meta["annotations"][key] = value
        if value is None:
            del meta["annotations"][key]
    spec = {key: value for key, value in {**live["spec"], **patch.get("spec", {})}.items() if value is not None}
    return {**live, "metadata": meta, "spec": spec}


def pod(name, on="n1", ready=True, owner=("StatefulSet", "db"), app="db", **spec):
    meta = {"name": name, "namespace": "shop", "uid": f"u-{name}", "labels": {"app": app}}
    if owner is not None:
        kind, of = owner
        meta["ownerReferences"] = [{"kind": kind, "name": of, "uid": f"u-{of}", "controller": True}]
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {
        "metadata": meta,
        "spec": {"nodeName": on, **spec},
        "status": {"phase": "Running", "conditions": conditions},
    }


def mounting(name, claim, **more):
    return pod(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": claim}}], **more)


def berth(ordinal, on="n1", app="db", phase="Running", disk="d0"):
    name = f"{app}-{ordinal}"
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": f"b-{name}"},
        "spec": {"app": app, "ordinal": ordinal, "nodeName": on, "disks": [{"claim": "data", "name": disk, "size": 1}]},
        "status": {"phase": phase},
    }


def claim_berth(claim, on="n1"):
    meta = {
        "name": f"pvc-{claim}",
        "namespace": "shop",
        "uid": f"b-{claim}",
        "annotations": {"berth.dev/claim-name": claim},
    }
    spec = {"app": f"pvc.{claim}", "ordinal": 0, "nodeName": on, "disks": [{"claim": claim, "name": "d1", "size": 1}]}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Bound"}}


def budget(name="db", labels=None, allowed=1, expected=3, desired=2, **status):
    return {
        "metadata": {"name": name, "namespace": "shop", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "db"} if labels is None else labels}},
        "status": {
            "disruptionsAllowed": allowed,
            "expectedPods": expected,
            "desiredHealthy": desired,
            "observedGeneration": 1,
            **status,
        },
    }


# --- whose the cordon is ---


def test_a_node_is_cordoned_marked_and_opened_again():
    begun = patched(node(), begin(node(), BY, NOW))
    assert cordoned(begun)
    assert mark_of(begun) == (BY, NOW, True, "begun")
    assert begin(begun, "another", "later") is None, "a second run changes nothing"
    open_again = patched(begun, let_home(begun))
    assert not cordoned(open_again)
    assert let_home(open_again) is None
    ended = patched(open_again, end(open_again))
    assert (mark_of(ended), let_home(ended), end(ended)) == (None, None, None)
    assert ended["spec"] == node()["spec"]


def test_a_cordon_of_somebody_else_stays():
    begun = patched(node(closed=True), begin(node(closed=True), BY, NOW))
    assert mark_of(begun).cordoned is False
    ended = patched(begun, let_home(begun))
    ended = patched(ended, end(ended))
    assert cordoned(ended)


def test_who_was_opened_meanwhile_is_cordoned_again_in_the_name_of_who_began():
    begun = patched(node(), begin(node(), BY, NOW))
    opened = {**begun, "spec": {}}
    again = patched(opened, begin(opened, "another", "later"))
    assert (cordoned(again), mark_of(again)) == (True, (BY, NOW, True, "begun"))


def test_a_new_maintenance_while_pods_come_home_is_the_new_ones():
    returning = patched(node(), begin(node(), BY, NOW))
    returning = patched(returning, let_home(returning))
    again = patched(returning, begin(returning, "another", "later"))
    assert mark_of(again) == ("another", "later", True, "begun")
    closed = {**returning, "spec": {"unschedulable": True}}
    assert mark_of(patched(closed, begin(closed, "another", "later"))).cordoned is False, "somebody else's since"


@pytest.mark.parametrize("text", ["", "[]", "{}", "3", '{"by": "a", "since": "b", "cordoned": true, "state": "c"}'])
def test_an_unreadable_mark_is_named(text):
    with pytest.raises(StateError, match=r"Node n1: annotation berth\.dev/maintenance"):
        mark_of(node(mark=text))


def test_each_patch_is_on_the_version_that_was_read():
    patch = begin(node(), BY, NOW)
    assert (patch["metadata"]["uid"], patch["metadata"]["resourceVersion"]) == ("u-n1", "7")


def test_the_diff_shows_cordon_and_mark():
    before, after = shown(node(), None, ["shop/db-0"]), shown(node(), begin(node(), BY, NOW), ())
    assert (before["unschedulable"], before["maintenance"], before["pods"]) == (False, None, ["shop/db-0"])
    assert (after["unschedulable"], json.loads(after["maintenance"])["by"], after["pods"]) == (True, BY, [])


# --- who goes ---


def test_pods_with_a_berth_go_others_are_told_and_those_of_the_node_stay():
    static = pod("kube-proxy", owner=("Node", "n1"))
    mirror = pod("etcd", owner=None)
    mirror["metadata"]["annotations"] = {"config.mirror": "x", "kubernetes.io/config.mirror": "x"}
    ended = pod("job-1")
    ended["status"]["phase"] = "Succeeded"
    stay = [static, mirror, ended, pod("agent", owner=("DaemonSet", "agent"))]
    go = [pod("db-0"), mounting("pg-0", "data-pg-0"), pod("web")]
    found = sort_pods([*stay, *go], [berth(0), claim_berth("data-pg-0")])
    assert [(one.key.name, one.app, one.workload) for one in found.held] == [
        ("db-0", "db", "StatefulSet db"),
        ("pg-0", "", "StatefulSet db"),
    ]
    assert [key_of(one).name for one in found.others] == ["web"]


def asked(pods, berths, around_pods=(), around_berths=(), budgets=(), nodes=(), limit=1, here=None, others=()):
    held = sort_pods(pods, berths).held
    around = Around(list(budgets), [*pods, *around_pods], [*berths, *around_berths], list(nodes))
    return refusals(here or node(), held, list(others), around, limit)


def test_one_replica_of_three_may_go():
    others = [pod("db-1", "n2"), pod("db-2", "n3")]
    assert asked([pod("db-0")], [berth(0)], others, [berth(1, "n2"), berth(2, "n3")]) == []


def test_one_that_is_not_ready_elsewhere_is_waited_for():
    others = [pod("db-1", "n2", ready=False), pod("db-2", "n3")]
    (one,) = asked([pod("db-0")], [berth(0)], others, [berth(1, "n2"), berth(2, "n3")])
    assert one.passing
    for word in ("shop/db", "no more than 1", "db-1 away already", "db-0 here", "max_unavailable"):
        assert word in one.text
    assert asked([pod("db-0")], [berth(0)], others, [berth(1, "n2"), berth(2, "n3")], limit=2) == []
    assert asked([pod("db-0", ready=False)], [berth(0)], others, [berth(1, "n2"), berth(2, "n3")]) == []


@pytest.mark.parametrize("budgets", [(), "a budget"])
def test_a_quorum_holds_whatever_a_budget_or_max_unavailable_allows(budgets):
    budgets = [budget(allowed=2)] if budgets else ()
    here, others = {**berth(0), "spec": {**berth(0)["spec"], "quorum": 2}}, [berth(1, "n2"), berth(2, "n3")]
    well = [pod("db-1", "n2"), pod("db-2", "n3")]
    assert asked([pod("db-0")], [here], well, others, budgets, limit=3) == []
    ill = [pod("db-1", "n2", ready=False), pod("db-2", "n3")]
    (one,) = asked([pod("db-0")], [here], ill, others, budgets, limit=3)
    assert one.passing
    assert one.text == ("of shop/db 2 replicas have to stay Ready (quorum), and without db-0 1 are (db-1 is not)")
    assert asked([pod("db-0", ready=False)], [here], ill, others, budgets, limit=3) == []
    (never,) = asked([pod("db-0")], [here], well[:1], others[:1], budgets, limit=3)
    assert not never.passing
    assert asked([pod("db-0")], [berth(0)], ill, others, budgets, limit=3) == []


def test_one_without_a_pod_is_away():
    (one,) = asked([pod("db-0")], [berth(0)], [], [berth(1, "n2")])
    assert "db-1 away already" in one.text


def test_two_replicas_on_one_node_never_go_together():
    (one,) = asked([pod("db-0"), pod("db-1")], [berth(0), berth(1)])
    assert not one.passing
    assert asked([pod("db-0"), pod("db-1")], [berth(0), berth(1)], limit=2) == []


def test_a_replica_on_a_node_that_is_maintained_is_away_though_it_is_ready():
    mark = json.dumps({"by": "x", "since": NOW, "cordoned": True, "state": "begun"})
    other = node("n2", closed=True, mark=mark)
    around = {"around_pods": [pod("db-1", "n2")], "around_berths": [berth(1, "n2")]}
    (one,) = asked([pod("db-0")], [berth(0)], nodes=[other], **around)
    assert one.passing
    returning = node("n2", mark=mark.replace("begun", "returning"))
    assert asked([pod("db-0")], [berth(0)], nodes=[returning], **around) == []
    assert not gives_way(node("n1", mark=mark), [other]), "the first by name goes on"
    assert gives_way(node("n3", mark=mark), [other])


def test_the_siblings_of_a_workload_without_an_app_are_counted():
    one, two = (
        mounting("pg-0", "data-pg-0", owner=("StatefulSet", "pg")),
        pod("pg-1", "n2", False, ("StatefulSet", "pg")),
    )
    (found,) = asked([one], [claim_berth("data-pg-0")], [two, pod("db-1", "n2", ready=False)])
    assert "shop/pg" in found.text
    assert "pg-1 away already" in found.text


def test_a_budget_decides_instead():
    others = [pod("db-1", "n2", ready=False)]
    assert asked([pod("db-0")], [berth(0)], others, [berth(1, "n2")], [budget(allowed=1)]) == []
    (one,) = asked([pod("db-0")], [berth(0)], budgets=[budget(allowed=0)])
    assert one == ("PodDisruptionBudget shop/db allows 0 now, and 1 would go (shop/db-0)", True)
    (one,) = asked([pod("db-0"), pod("db-1")], [berth(0), berth(1)], budgets=[budget(allowed=1)])
    assert not one.passing, "two would go, and it never allows more than one"
    assert "never more than 1" in one.text


def test_a_budget_that_never_allows_anything():
    (one,) = asked([pod("db-0")], [berth(0)], budgets=[budget(allowed=0, expected=3, desired=3)])
    assert not one.passing


def test_a_budget_that_its_controller_has_not_seen_is_waited_for():
    (one,) = asked([pod("db-0")], [berth(0)], budgets=[budget(observedGeneration=0, expected=0, desired=0)])
    assert one.passing


def test_pods_that_go_or_are_not_ready_take_nothing_from_a_budget():
    gone = pod("db-0")
    gone["metadata"]["deletionTimestamp"] = NOW
    assert asked([gone], [berth(0)], budgets=[budget(allowed=0)]) == []


@pytest.mark.parametrize("selector", [{}, {"matchExpressions": [{"key": "x", "operator": "Never"}]}])
def test_a_budget_without_words_or_that_cannot_be_read_covers_all(selector):
    made = budget(allowed=0)
    made["spec"]["selector"] = selector
    assert len(asked([pod("db-0")], [berth(0)], budgets=[made])) == 1
    made["spec"].pop("selector")
    assert asked([pod("db-0")], [berth(0)], budgets=[made]) == []


def test_two_budgets_for_one_pod_are_refused():
    found = asked([pod("db-0")], [berth(0)], budgets=[budget(), budget("all", {})])
    assert [(one.passing, "several PodDisruptionBudgets (shop/db, shop/all)" in one.text) for one in found] == [
        (False, True)
    ]


def test_a_pod_that_would_come_back_at_once_is_refused():
    (one,) = asked([pod("db-0", tolerations=[{"operator": "Exists"}])], [berth(0)])
    assert not one.passing
    assert "tolerates node.kubernetes.io/unschedulable:NoSchedule" in one.text


def test_a_pod_that_nobody_makes_anew_is_refused_but_for_that_of_an_app():
    (one,) = asked([mounting("lone", "lone", owner=None)], [claim_berth("lone")])
    assert "kubectl delete pod lone -n shop" in one.text
    assert asked([pod("db-0", owner=None)], [berth(0)]) == []


def test_pods_without_a_berth_are_held_against_budgets_too():
    (one,) = asked([], [], budgets=[budget(labels={"app": "web"}, allowed=0)], others=[pod("web", app="web")])
    assert "shop/web" in one.text


# --- home again ---


SETS = ({"metadata": {"name": "db", "namespace": "shop"}, "spec": {"replicas": 3}},)


def at_home(pods, berths, sets=SETS):
    return home("n1", berths, pods, sets, lambda _pod: "is not scheduled")


def test_all_are_home():
    found = at_home([pod("db-0"), mounting("pg-0", "data")], [berth(0), claim_berth("data")])
    assert (found.waits, found.left) == ((), ())
    assert [(row["pod"], row["disks"]) for row in found.rows] == [("db-0", ["d0"]), ("pg-0", ["d1"])]


@pytest.mark.parametrize(
    ("found", "word"),
    [
        ([], "pod shop/db-0 to be made anew"),
        ([pod("db-0", on=None, ready=False)], "pod shop/db-0 is not scheduled"),
        ([pod("db-0", on="n2")], "pod shop/db-0 is on Node n2"),
        ([pod("db-0", ready=False)], "pod shop/db-0 is not scheduled"),
    ],
)
def test_who_is_not_home(found, word):
    assert at_home(found, [berth(0)]).waits == (word,)


def test_a_bare_pod_is_told_and_not_waited_for():
    found = at_home([], [berth(0)], [])
    assert (found.waits, [str(key) for key in found.left]) == ((), ["shop/db-0"])


def test_a_suspended_app_is_neither_waited_for_nor_told():
    none = [{**SETS[0], "spec": {"replicas": 0}}]
    assert at_home([], [berth(0)], none) == ((), (), ())


def test_what_was_never_created_is_not_waited_for():
    assert at_home([], [berth(0, phase="Bound"), claim_berth("data")], []) == ((), (), ())


def test_a_disk_that_lost_its_lock_keeps_the_node_closed():
    held = {"metadata": {"name": "d0"}, "spec": {"claimRef": {"uid": "b-db-0"}}}
    check_disks("n1", [berth(0)], [held])
    with pytest.raises(StateError, match="LocalDisk d0 of berth shop/db-0"):
        check_disks("n1", [berth(0)], [{**held, "spec": {}}])
    check_disks("n1", [berth(0, phase="Releasing"), berth(0, phase="Replacing")], [])


def test_why_a_node_is_not_ready():
    told = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "silent"}
    assert node_ready({"status": {"conditions": [told]}}) == "Ready is Unknown: NodeStatusUnknown silent"
    assert node_ready({"status": {"conditions": [{**told, "status": "True"}]}}) == ""
    assert node_ready({}) == "its kubelet has not reported yet"
