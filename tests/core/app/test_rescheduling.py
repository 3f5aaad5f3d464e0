"""A changed template costs replicas their places: whose, and what is given up for it."""

from __future__ import annotations

import pytest

from berth_core.app.choose import World
from berth_core.app.leave_rules import LeaveRules
from berth_core.app.leaving import check_moves, find_moves, left_data, losses, rows, words
from berth_core.app.plan import Plan
from berth_core.app.pod_change import PodChange
from berth_core.app.rescheduling import due, wanted, without_left, without_updates
from berth_core.app.update import roll
from berth_core.app.update_step import PATCH
from berth_core.errors import InputError, StateError
from tests.core.app.test_leaving import WELL, app, ordinals, seen
from tests.core.app.test_update import Cluster, rules, template

ANEW = {"update_strategy": "reschedule"}
ENV = ("spec.containers[db].env",)


def moves_of(observed, due_, rules_=LeaveRules(), **values):  # noqa: B008 frozen
    return find_moves(app(**ANEW, **values), observed, rules_, due_)


def test_the_strategy_asks_for_it():
    assert wanted(app(**ANEW))
    assert not wanted(app())


@pytest.mark.parametrize("hooks", [{"before": ["true"]}, {"after": ["true"]}, {"before": None, "container": "db"}])
def test_hooks_cannot_go_with_it_and_the_refusal_says_the_way_out(hooks):
    with pytest.raises(InputError) as refused:
        app(**ANEW, update_hooks=hooks)
    for word in (
        "update_hooks is given with update_strategy reschedule",
        "Leave update_hooks out, and let tasks run between the replicas by partition (docs/guides/updating.md)",
        "or keep the berths with in_place_if_possible or same_node",
    ):
        assert word in refused.value.message
    assert app(**ANEW, update_hooks=None).update.hooks is None
    assert app(update_hooks={"before": ["true"]}).update.hooks.before == ("true",), "with another strategy"


def test_who_is_due_and_why():
    changes = {0: PodChange(), 1: PodChange(("spec.containers[db].image",)), 2: PodChange(forced=ENV)}
    assert due(app(**ANEW), changes) == {1: ("spec.containers[db].image",), 2: ENV}
    kept = app(**ANEW, update_overrides=[{"ordinal": 2, "strategy": "same_node"}])
    assert due(kept, changes) == {1: ("spec.containers[db].image",)}


def test_highest_first_and_a_run_that_died_is_continued():
    assert ordinals(moves_of(seen(), {0: ENV, 2: ENV})) == [2, 0]
    primary = {"update_order": "primary_last", "update_primary_label": "role=primary"}
    assert ordinals(moves_of(seen(primary=2), {0: ENV, 2: ENV}, **primary)) == [0, 2]
    (begun,) = moves_of(seen(db_1="Releasing"), {})
    assert (begun.ordinal, begun.begun, begun.why) == (1, True, ())
    assert find_moves(app(), seen(db_1="Releasing"), LeaveRules()) == [], "without the strategy nobody is"


@pytest.mark.parametrize(("release", "moves"), [("Retain", [1]), ("Nothing", []), ("Leave", [])])
def test_a_choice_and_a_berth_on_its_way_out_are_no_place_to_leave(release, moves):
    observed = seen(db_1="Releasing")
    observed.berths[1]["status"]["release"] = release
    assert ordinals(moves_of(observed, {1: ENV})) == moves


def check(observed, rules_, due_):
    found = moves_of(observed, due_, rules_)
    check_moves(app(**ANEW), observed, rules_, found, dict.fromkeys(("n0", "n1", "n2"), WELL))


def test_data_is_given_up_by_name_and_node_alone():
    for rules_ in (LeaveRules(), LeaveRules(ordinals=(1,)), LeaveRules(places=((1, "n2"), (2, "n1")))):
        with pytest.raises(StateError) as refused:
            check(seen(), rules_, {1: ENV})
        for word in ("update_strategy is reschedule", "db-1 on node n1 (LocalDisk d1)", "leave_data: [db-1@n1]"):
            assert word in refused.value.message
    check(seen(), LeaveRules(places=((1, "n1"),)), {1: ENV})
    check(seen(db_1="Selected"), LeaveRules(), {1: ENV})
    check(seen(db_1="Releasing"), LeaveRules(), {}), "by then it was named"


def test_a_node_that_is_named_is_left_for_that_reason():
    (move,) = moves_of(seen(), {1: ENV}, LeaveRules(("n1",), (1,)))
    assert move.why is None


def test_the_old_berth_goes_and_the_next_one_may_be_on_the_same_node():
    (move,) = moves_of(seen(), {1: ENV})
    (loss,) = losses(seen(), [move]).values()
    old = seen().berths[1]
    new = {**old, "metadata": {**old["metadata"], "uid": "another"}}
    assert loss.takes(old)
    assert not loss.takes(new)


def test_the_world_without_what_goes():
    observed = seen()
    (move,) = moves_of(observed, {1: ENV})
    disks = [{"metadata": {"name": name}} for name in ("d0", "d1", "x")]
    pods = [{"metadata": {"namespace": "default", "name": name}} for name in ("db-0", "db-1")]
    world = World([], pods, disks, [], [])
    left = without_left(world, observed, losses(observed, [move]), Plan())
    assert [each["metadata"]["name"] for each in left.disks] == ["d0", "x"]
    assert [each["metadata"]["name"] for each in left.pods] == ["db-0"]
    assert without_left(world, observed, {}, Plan()) is world
    begun = without_left(world, seen(db_1="Releasing"), {}, Plan(discard=(1,)))
    assert [each["metadata"]["name"] for each in begun.pods] == ["db-0"]
    assert begun.disks == disks, "nobody gives its data up"


def test_data_that_a_run_which_died_gave_up_is_not_gone_back_to():
    kept = {"namespace": "default", "app": "db", "ordinal": 1, "claim": "data"}
    disk = {"metadata": {"name": "d1"}, "spec": {"nodeName": "n1", "retainedFor": kept}}
    assert left_data(app(**ANEW), [disk], LeaveRules(), seen(), [1]) == {}
    given = left_data(app(**ANEW), [disk], LeaveRules(places=((1, "n1"),)), seen(), [1])
    assert [one["metadata"]["name"] for one in given[1][1]] == ["d1"]


def test_the_plan_leaves_alone_what_goes_later():
    plan = without_updates(Plan(update=(2, 1), refresh=(1, 2), outdated=(0,)), [2])
    assert (plan.update, plan.refresh, plan.outdated) == ((1,), (1,), (0,))


def test_what_is_told():
    (move,) = moves_of(seen(), {1: ENV})
    (row,) = rows([move], [])
    assert row["fields"] == list(ENV)
    assert words({**row, "to": "n9"}).startswith(f"rescheduled ({ENV[0]}): from node n1 to node n9; its data on")
    (begun,) = rows(moves_of(seen(db_1="Releasing"), {}), [])
    assert words(begun).startswith("rescheduled (begun by a run before)")


def test_the_update_itself_touches_no_pod_that_is_placed_anew():
    cluster = Cluster(2, a=template(), b=template(image="db:2"))
    roll_ = roll("db", range(2), cluster.pods, cluster.target(), rules("reschedule"), cluster.now)
    assert (roll_.acts, roll_.waits) == ((), ())
    cluster.templates["b"] = template()  # the same under another revision: it is marked, as ever
    acts = roll("db", range(2), cluster.pods, cluster.target(), rules("reschedule"), cluster.now).acts
    assert [act.do for act in acts] == [PATCH]
