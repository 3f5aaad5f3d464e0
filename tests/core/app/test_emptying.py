"""Whose replicas move away from a node that is maintained, and whose wait for it."""

from __future__ import annotations

import pytest

from berth_core.app.emptying import (
    App,
    apps_that_move,
    asked_by,
    asking,
    by_controller,
    half_way,
    held_now,
    in_rule,
    manager_of,
    rule_for,
    rules_of,
    still_here,
)
from berth_core.app.host_maintenance import Held
from berth_core.app.next_commands import uncordon
from berth_core.errors import InputError, StateError
from berth_core.model.berth import CLAIM_APP

DB, CACHE = App("shop", "db"), App("shop", "cache")
OPTIONS = {"template": {}}


def rules(*given):
    return rules_of([{"app": app, **more} for app, more in given])


def berth(app, ordinal=0, now="Running", *disks):
    meta = {"namespace": app.namespace, "name": f"{app.name}-{ordinal}"}
    spec = {"app": app.name, "disks": [{"claim": "data", "name": name, "size": 1} for name in disks]}
    return {"metadata": meta, "spec": spec, "status": {"phase": now}}


def stateful_app(app, driver="controller", manager=None, **status):
    meta = {"namespace": app.namespace, "name": app.name, "uid": "u", "generation": 2}
    if manager is not None:
        meta["managedFields"] = [{"manager": manager, "operation": "Apply"}]
    return {"metadata": meta, "spec": {"driver": driver}, "status": status}


def moving(told, berths=(), known=()):
    return [app for app, _rule in apps_that_move(told, berths, known, manager_of("n1"))]


def test_the_first_rule_that_matches_decides_and_none_holds():
    told = rules(("shop/db", {"policy": "hold"}), ("shop/*", {}))
    assert rule_for(told, DB) is None
    assert rule_for(told, CACHE) is told[1]
    assert rule_for(told, App("other", "db")) is None
    assert moving(told, [berth(DB), berth(CACHE), berth(CACHE, 1), berth(App("other", "x"))]) == [CACHE]


def test_data_is_given_up_by_the_replicas_name_alone():
    (rule,) = rules(("*/*", {"data": ["db-2", "db-10", "other/db-1", "db-x-3"]}))
    assert rule.data_of(DB) == ["db-2", "db-10"]
    assert rule.data_of(App("other", "db")) == ["db-2", "db-10", "db-1"]
    assert rule.data_of(App("shop", "db-x")) == ["db-x-3"]
    assert rule.data_of(CACHE) == []


def test_what_a_run_that_died_has_begun_is_looked_at_without_a_berth_on_the_node():
    told = rules(("shop/db", {"options": OPTIONS}), ("shop/*", {}))
    assert moving(told) == [DB], "its options are here"
    asked = stateful_app(CACHE, manager=manager_of("n1"))
    assert moving(told, known=[asked]) == [CACHE, DB]
    assert moving(told, known=[stateful_app(CACHE, manager=manager_of("n2"))]) == [DB]
    claim = berth(App("shop", f"{CLAIM_APP}data"))
    assert moving(rules(("*/*", {})), [claim, berth(CACHE)]) == [CACHE], "a claim without an app waits"


def test_who_waits_is_who_does_not_move():
    pods = [Held({"metadata": {"namespace": "shop", "name": f"{app}-0"}}, (), app, "") for app in ("db", "cache", "")]
    assert held_now(pods, [DB]) == (pods[1], pods[2])


def test_who_carries_an_application_out_has_to_be_known():
    (plain,) = rules(("shop/*", {}))
    driven, played = stateful_app(DB), stateful_app(DB, "playbook")
    assert by_controller(DB, plain, [stateful_app(CACHE), driven], "n1") is driven
    for known in ([], [played]):
        with pytest.raises(StateError, match=r"shop/db .* apps\[0\]\.options .*leave_nodes: \[n1\].*policy: hold"):
            by_controller(DB, plain, known, "n1")
    (given,) = rules(("shop/db", {"options": OPTIONS}))
    assert by_controller(DB, given, [played], "n1") is None
    with pytest.raises(StateError, match=r"leave apps\[0\]\.options out"):
        by_controller(DB, given, [driven], "n1")


def test_what_is_asked_for_is_items_of_its_own():
    assert asking(stateful_app(DB), "n1", ["db-2", "db-1"]) == {
        "metadata": {"namespace": "shop", "name": "db", "uid": "u"},
        "spec": {"leaveNodes": ["n1"], "leaveData": ["db-1", "db-2"]},
    }
    assert "leaveData" not in asking(stateful_app(DB), "n1", [])["spec"]
    names = [manager_of("n" * 253), manager_of("m" * 253)]
    assert len(set(names)) == 2
    assert max(map(len, names)) <= 128
    assert not asked_by(stateful_app(DB), manager_of("n1"))


def test_a_stateful_app_is_waited_for_until_it_is_ready_elsewhere():
    def told(seen=2, here=(), **conditions):
        found = [{"type": kind, "status": value, "message": "why"} for kind, value in conditions.items()]
        return still_here(stateful_app(DB, observedGeneration=seen, conditions=found), "n1", here)

    assert told(seen=1, Ready="True") == ["berth-controller to look at StatefulApp shop/db"]
    assert told(here=[berth(DB), berth(CACHE)], Ready="True")[0].startswith("replica shop/db-0 to leave")
    assert told(Ready="False")[0].startswith("StatefulApp shop/db to be Ready")
    assert told(Ready="True") == []
    with pytest.raises(StateError, match="shop/db: why; Node n1 was not cordoned"):
        told(Stalled="True", Ready="True")
    lost = [{"type": "Stalled", "status": "True", "reason": "NodeLost"}, {"type": "Ready", "status": "False"}]
    waits = still_here(stateful_app(DB, observedGeneration=2, conditions=lost), "n1", [])
    assert waits[0].startswith("StatefulApp shop/db to be Ready"), "another replica's node may come back"


def test_who_was_leaving_when_nobody_asks_for_it_any_more_is_told_with_the_ways_out():
    berths = [
        berth(DB, 0, "Running", "d0"),
        berth(DB, 1, "Releasing", "d1"),
        berth(DB, 2, "Releasing"),
        berth(CACHE, 0, "Releasing", "d3"),
    ]
    (told,) = half_way([DB], [], berths, "n1")
    assert told.startswith("replica shop/db-1 was leaving Node n1, and waits now: ")
    for word in ("LocalDisk d1", "state: begun and the same apps", "kubectl patch localdisk d1 --type merge"):
        assert word in told
    assert told.endswith("or take the cordon off, and it comes back to its data: " + uncordon("d1"))
    assert half_way([], [], berths, "n1") == []
    (mine,) = half_way([DB], [CACHE], [berths[3]], "n1", foreseen=True)
    assert mine.startswith("replica shop/cache-0 was leaving Node n1, and would wait then: ")
    assert "or take the cordon off and run its own task, and it comes back to its data: kubectl" in mine


def test_a_refusal_names_the_field_of_the_rule_that_gives_data_up():
    (rule,) = rules_of([{"app": "shop/db", "options": OPTIONS}])
    assert in_rule("give it up by name with leave_data: [db-2]; the disks", rule) == (
        "give it up by name with apps[0].data: [db-2]; the disks"
    )
    assert in_rule("leave_data[0] is db-9: expected", rule) == "apps[0].data[0] is db-9: expected"
    elsewhere = "by name and node with leave_data: [db-1@n2]; the disks keep it"
    assert in_rule(elsewhere, rule) == elsewhere, "which a rule refuses: it speaks of one node"


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"app": "db"}, "apps[0].app is 'db': expected NAMESPACE/NAME"),
        ({"app": "a/b/c"}, "expected NAMESPACE/NAME"),
        ({"app": "Shop/db"}, "expected NAMESPACE/NAME"),
        ({"app": "/*"}, "expected NAMESPACE/NAME"),
        ({"app": "shop/db", "data": ["2"]}, "apps[0].data[0] is '2': expected a replica"),
        ({"app": "shop/db", "policy": "hold", "data": ["db-2"]}, "and policy is hold"),
        ({"app": "shop/*", "options": OPTIONS}, "is a pattern: name it"),
        ({"app": "shop/db", "options": {"leave_nodes": ["n1"]}}, "leave_nodes cannot stand here"),
    ],
)
def test_bad_rules_are_refused_by_their_place(rule, words):
    with pytest.raises(InputError) as refused:
        rules_of([rule])
    assert words in str(refused.value)
