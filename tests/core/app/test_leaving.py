"""Which replicas leave their nodes, whose data may be given up, and what has to come before one is taken down."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from berth_core.app.choose import Choice, World, without_nodes
from berth_core.app.leave_rules import LeaveRules, leave_rules
from berth_core.app.leaving import (
    check_moves,
    find_begun,
    find_moves,
    hindrances,
    in_order,
    into,
    left_data,
    losses,
    rows,
    without_kept,
    words,
)
from berth_core.app.observed import Observed
from berth_core.app.plan import Plan
from berth_core.app.pod_revision import UPDATING
from berth_core.app.wanted import parse_app
from berth_core.errors import InputError, StateError
from tests.core.app.samples import changed

SINCE = "2026-01-01T00:00:00Z"
NOW = datetime(2026, 1, 1, 0, 0, 10, tzinfo=UTC)
WELL = {"spec": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
SILENT = {"spec": {}, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}


def app(**values):
    return parse_app(changed(**values))


def seen(ready=(0, 1, 2), primary=None, **phases):
    """db-0 on n0, db-1 on n1, db-2 on n2, each with a disk; ``phases``: db_0="Releasing"."""
    berths, pods = {}, {}
    for ordinal in range(3):
        meta = {"name": f"db-{ordinal}", "namespace": "default", "uid": f"u-{ordinal}"}
        disks = [{"claim": "data", "name": f"d{ordinal}", "size": 1}]
        spec = {"app": "db", "ordinal": ordinal, "nodeName": f"n{ordinal}", "disks": disks}
        status = {"phase": phases.get(f"db_{ordinal}", "Running"), "replacing": {"from": "d", "to": "e"}}
        berths[ordinal] = {"metadata": meta, "spec": spec, "status": status}
        told = {"type": "Ready", "status": "True" if ordinal in ready else "False", "lastTransitionTime": SINCE}
        labels = {"app": "db", **({"role": "primary"} if ordinal == primary else {})}
        pod_meta = {**meta, "labels": labels}
        pods[f"db-{ordinal}"] = {"metadata": pod_meta, "spec": {}, "status": {"conditions": [told]}}
    return Observed("db", "default", berths=berths, pods=pods, stateful_set={"spec": {"replicas": 3}})


def found(observed, *nodes, **values):
    return find_moves(app(**values), observed, LeaveRules(nodes))


def ordinals(moves):
    return [move.ordinal for move in moves]


@pytest.mark.parametrize(
    ("options", "words_"),
    [
        ({"leave_data": ["db-1"]}, ("leave_data", "without leave_nodes")),
        ({"leave_nodes": ["N 1"]}, ("leave_nodes[0]", "'N 1'")),
        ({"leave_nodes": ["n1"], "leave_data": ["web-1"]}, ("leave_data[0]", "'web-1'", "db-0 to db-2")),
        ({"leave_nodes": ["n1"], "leave_data": ["1", "3"]}, ("leave_data[1]", "'3'")),
        ({"leave_nodes": ["n1"], "leave_data": ["01"]}, ("leave_data[0]", "'01'")),
        ({"leave_nodes": ["n1"], "leave_data": ["db-1@N 1"]}, ("leave_data[0]", "after @", "'N 1'")),
        ({"update_strategy": "same_node", "leave_data": ["db-1@n1"]}, ("leave_data", "without leave_nodes")),
        ({"update_strategy": "reschedule", "leave_data": ["db-1"]}, ("leave_data[0]", "db-1@NODE")),
    ],
)
def test_what_cannot_be_meant_is_refused(options, words_):
    with pytest.raises(InputError) as refused:
        leave_rules(options, "db", 3)
    for word in words_:
        assert word in refused.value.message


def test_a_replica_is_named_by_its_pod_or_its_ordinal():
    asked = {"leave_nodes": ["n2", "n1", "n2"], "leave_data": ["db-2", "0", "2"]}
    assert leave_rules(asked, "db", 3) == LeaveRules(("n2", "n1"), (0, 2))
    assert leave_rules({}, "db", 3) == LeaveRules()
    anew = {"update_strategy": "reschedule", "leave_data": ["db-2@n2", "0@n1"]}
    assert leave_rules(anew, "db", 3) == LeaveRules(places=((0, "n1"), (2, "n2")))


def test_the_highest_ordinal_leaves_first_and_a_primary_last():
    assert ordinals(found(seen(), "n0", "n2")) == [2, 0]
    primary = {"update_order": "primary_last", "update_primary_label": "role=primary"}
    assert ordinals(found(seen(primary=2), "n0", "n1", "n2", **primary)) == [1, 0, 2]
    moves = found(seen(primary=2), "n0", "n1", "n2", **primary)
    assert ordinals(in_order(app(**primary), seen(primary=1), moves)) == [2, 0, 1], "another one is the primary by now"
    assert ordinals(in_order(app(**primary), seen(), moves[1:])) == [2, 0]
    assert found(seen(), "n9") == []
    assert ordinals(found(seen(), "n1", "n2", replicas=2)) == [1], "what is scaled away does not move"


def test_what_may_carry_data_is_known_by_evidence():
    (move,) = found(seen(), "n1")
    assert (move.pod, move.node, move.disks, move.data, move.begun) == ("db-1", "n1", ("d1",), True, False)
    (selected,) = found(seen(db_1="Selected"), "n1")
    assert not selected.data, "nobody can have written to it"
    (begun,) = found(seen(db_1="Releasing"), "n1")
    assert begun.begun


def check(observed, rules, **nodes):
    moves = find_moves(app(), observed, rules)
    check_moves(app(), observed, rules, moves, {name: nodes.get(name, WELL) for name in rules.nodes})


@pytest.mark.parametrize(
    ("observed", "rules", "nodes", "error", "told"),
    [
        (seen(), LeaveRules(("n1",)), {}, StateError, ("db-1", "node n1", "LocalDisk d1", "leave_data: [db-1]")),
        (seen(), LeaveRules(("n1", "n2"), (2,)), {}, StateError, ("leave_data: [db-1]",)),
        (seen(), LeaveRules(("n9",)), {"n9": None}, InputError, ("leave_nodes names n9", "no Node")),
        (seen(), LeaveRules(("n1",), (1,)), {"n1": SILENT}, StateError, ("is lost", "on_node_loss")),
        (seen(db_1="Replacing"), LeaveRules(("n1",), (1,)), {}, StateError, ("being exchanged", "disk_replace")),
    ],
)
def test_what_may_not_leave(observed, rules, nodes, error, told):
    with pytest.raises(error) as refused:
        check(observed, rules, **nodes)
    for word in (*told, "othing was changed"):
        assert word in refused.value.message


def half_way(pod_on="n1", release="Retain", **phases):
    """db-1 was leaving n1 when the run died."""
    observed = seen(db_1="Releasing", **phases)
    observed.berths[1]["status"]["release"] = release
    observed.pods["db-1"]["spec"] = {"nodeName": pod_on} if pod_on else {}
    return observed


def test_one_that_was_begun_goes_by_the_rules_of_leaving_and_keeps_its_data():
    observed = half_way()
    (begun,) = find_begun(app(), observed, [])
    assert (begun.ordinal, begun.node, begun.begun, begun.home) == (1, "n1", True, True)
    check_moves(app(), observed, LeaveRules(), [begun], {"n1": WELL})
    with pytest.raises(StateError) as refused:
        check_moves(app(), observed, LeaveRules(), [begun], {"n1": SILENT})
    assert "is lost" in refused.value.message
    assert losses(observed, [begun]) == {}, "no disk of it is cordoned or passed over"
    (row,) = rows([begun], [Choice(1, "n1", {}, (), None)])
    assert (row["data"], row["begun"]) == ("kept", True)
    assert words(row) == (
        "ends, because a run before has begun to give its berth up: from node n1 to node n1; its data stays its own, "
        "on LocalDisk d1"
    )
    others = found(observed, "n2")
    assert ordinals(in_order(app(), observed, [*others, begun])) == [1, 2], "what was begun is finished first"
    assert find_begun(app(), observed, found(observed, "n1")) == [], "it is asked to leave"


@pytest.mark.parametrize(
    ("observed", "replicas"),
    [
        (seen(), 3),
        (half_way(pod_on=""), 3),
        (half_way(pod_on="n2"), 3),
        (half_way(release="Nothing"), 3),
        (half_way(release="Leave"), 3),
        (half_way(), 1),
    ],
)
def test_whose_pod_does_not_run_there_has_nothing_to_wait_for(observed, replicas):
    assert find_begun(app(replicas=replicas), observed, []) == []


def test_a_berth_whose_turn_has_not_come_is_left_alone():
    plan = into(Plan(select=(1, 2), discard=(1, 2), update=(2, 1, 0)), [2], [1])
    assert plan.update == (0,)
    assert (plan.select, plan.discard, plan.later) == ((2,), (2,), (1,))


def test_what_may_leave():
    check(seen(), LeaveRules(("n1",), (1,)))
    check(seen(db_1="Selected"), LeaveRules(("n1",)))
    check(seen(), LeaveRules(("n7",)))
    moves = found(seen(), "n1")
    (loss,) = losses(seen(), moves).values()
    assert (loss.node, loss.ordinal, loss.left) == ("n1", 1, True)


def waits(observed, ordinal=2, budgets=(), **values):
    (move,) = found(observed, f"n{ordinal}", **values)
    return hindrances(app(**values), observed, move, budgets, NOW)


def budget(allowed):
    return {
        "metadata": {"name": "few", "namespace": "default", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {
            "observedGeneration": 1,
            "disruptionsAllowed": allowed,
            "expectedPods": 3,
            "desiredHealthy": 2,
        },
    }


def test_one_leaves_at_a_time_by_the_rules_of_an_update():
    assert waits(seen()) == ()
    assert waits(seen(ready=(0, 2))) == ("pod db-1 to be Ready (max_unavailable is 1)",)
    assert waits(seen(ready=(0, 2)), max_unavailable="2") == ()
    assert waits(seen(ready=(0, 1))) == (), "it is no healthy one less"
    assert waits(seen(), min_ready_seconds=60) == ("pod db-0, db-1 to be Ready for 60 s (max_unavailable is 1)",)
    assert waits(seen(), min_ready_seconds=10) == ()


def test_one_whose_new_image_is_written_is_about_to_go_down():
    """An update of another run has patched it, and its kubelet has not ended the old container yet."""
    observed = seen()
    pod = observed.pod(0)
    pod["metadata"]["annotations"] = {UPDATING: json.dumps({"to": "r2", "was": {"main": {"id": "old"}}})}
    for container, expected in (("old", ("pod db-0 to be Ready (max_unavailable is 1)",)), ("new", ())):
        pod["status"]["containerStatuses"] = [{"name": "main", "containerID": container}]
        assert waits(observed) == expected


def test_a_budget_that_allows_none_is_waited_for():
    assert waits(seen(), budgets=[budget(1)]) == ()
    (line,) = waits(seen(), budgets=[budget(0)])
    assert line.startswith("PodDisruptionBudget default/few to allow the disruption of pod db-2 (it allows 0 now, ")
    assert waits(seen(), budgets=[budget(0)], disruption_budgets="ignore") == ()


def disk(name, node, kept):
    spec = {"nodeName": node}
    if kept is not None:
        spec["retainedFor"] = {"namespace": "default", "app": "db", "ordinal": kept, "claim": "data"}
    return {"metadata": {"name": name}, "spec": spec}


def test_data_that_was_left_before_is_given_up_by_name_too():
    disks = [disk("d1", "n1", 1), disk("e1", "n2", 1), disk("d2", "n1", 2), disk("f", "n1", None)]
    with pytest.raises(StateError) as refused:
        left_data(app(), disks, LeaveRules(("n1",)), seen(), [1])
    assert "db-1 on node n1 (LocalDisk d1)" in refused.value.message
    given = left_data(app(), disks, LeaveRules(("n1",), (1,)), seen(), [1])
    ((loss, kept),) = given.values()
    assert (loss.node, loss.left, [one["metadata"]["name"] for one in kept]) == ("n1", True, ["d1"])
    assert left_data(app(), disks, LeaveRules(("n1",)), seen(), [0]) == {}
    later = {"metadata": {"uid": "u"}, "spec": {"nodeName": "n1", "ordinal": 1}}
    assert not loss.takes(later), "the next berth may be on that node, too"


def test_nothing_is_chosen_on_a_node_that_is_left():
    nodes = [{"metadata": {"name": name}} for name in ("n1", "n2")]
    world = World(nodes, (), [disk("d1", "n1", None), disk("d2", "n2", None)], (), ())
    without = without_nodes(world, ("n1",))
    assert [one["metadata"]["name"] for one in (*without.nodes, *without.disks)] == ["n2", "d2"]
    assert without_nodes(world, ()) is world


def test_what_is_told():
    moves = found(seen(db_2="Selected"), "n1", "n2")
    first, second = rows(moves, [Choice(1, "n8", {}, (), None), Choice(2, "n9", {}, (), None)])
    assert words(first) == "moves from node n2 to node n9"
    assert words(second) == "moves from node n1 to node n8; its data on LocalDisk d1 is given up, and kept there"
    assert (second["ordinal"], second["from"], second["to"], second["disks"]) == (1, "n1", "n8", ["d1"])


def test_what_was_given_up_before_elsewhere_holds_nobody_back():
    """A replica that leaves a second place: the disks of the first are cordoned and keep its data."""
    kept = {"namespace": "default", "app": "db", "ordinal": 1, "claim": "data"}
    disks = [
        {"metadata": {"name": "old"}, "spec": {"nodeName": "n7", "unschedulable": True, "retainedFor": kept}},
        {"metadata": {"name": "open"}, "spec": {"nodeName": "n8", "retainedFor": kept}},
        {"metadata": {"name": "free"}, "spec": {"nodeName": "n9", "unschedulable": True}},
    ]
    world = World([], [], disks, [], [])
    names = [each["metadata"]["name"] for each in without_kept(world, seen(), [1]).disks]
    assert names == ["open", "free"], "whoever takes the cordon off has the replica go back there"
    assert without_kept(world, seen(), [0, 2]) is world
    assert without_kept(world, seen(), []) is world
