"""replace: who gets another berth because somebody asks for it, once for each request."""

from __future__ import annotations

import pytest

from berth_core.app.leave_rules import LeaveRules, leave_rules
from berth_core.app.leaving import check_moves, find_moves, losses, rows, words
from berth_core.app.replace_request import ANNOTATION, answered, done_before, is_open, marked
from berth_core.errors import InputError, StateError
from tests.core.app.test_leaving import SILENT, WELL, app, ordinals, seen

ASKED = LeaveRules(replaced=((1, "n1"),))
NODES = dict.fromkeys(("n0", "n1", "n2"), WELL)


def mark(record, *nodes):
    return marked({**record, "metadata": dict(record["metadata"])}, nodes)


def rules(**options):
    return leave_rules(options, "db", 3).replaced


def test_a_replica_is_named_with_the_node_of_the_berth_that_goes():
    assert rules(replace=["db-2@n2", "1@n1", "db-1@n1"]) == ((1, "n1"), (2, "n2"))
    assert rules(replace=[1], leave_data=["db-1@n1", "db-0@n0"]) == ((1, "n1"),), "leave_data names the node"
    assert rules() == ()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"replace": ["db-3@n1"]}, ("replace[0]", "'db-3@n1'", "db-0@NODE")),
        ({"replace": ["01@n1"]}, ("replace[0]", "'01@n1'")),
        ({"replace": ["db-0@n0", "db-1"]}, ("replace[1]", "'db-1'", "db-1@NODE")),
        ({"replace": ["1"], "leave_data": ["1@n1", "1@n2"]}, ("replace[0]", "1@NODE")),
        ({"replace": ["1@N 1"]}, ("replace[0]", "after @", "'N 1'")),
        ({"replace": ["1@n1"], "leave_data": ["db-1"]}, ("leave_data[0]", "with replace name the node", "db-1@NODE")),
        ({"replace": ["1@n1"], "until": "Bound"}, ("replace waits", "until: Bound")),
    ],
)
def test_what_cannot_be_meant_is_refused(options, told):
    with pytest.raises(InputError) as refused:
        rules(**options)
    for word in told:
        assert word in refused.value.message


def test_a_request_is_open_until_the_replica_is_elsewhere_or_its_berth_says_so():
    record = seen().berths[1]
    assert is_open(ASKED.replaced, record)
    assert not is_open(((1, "n2"), (2, "n1")), record)
    assert not is_open(ASKED.replaced, mark(record, "n0", "n1"))
    assert is_open(ASKED.replaced, mark(record, "n0"))


def test_a_new_berth_answers_the_requests_of_its_replica_and_those_that_the_one_before_did():
    requests = ((1, "n1"), (1, "n4"), (2, "n2"))
    assert answered(requests, 1, None) == ("n1", "n4")
    assert answered(requests, 1, mark(seen().berths[1], "n0", "n1")) == ("n0", "n1", "n4")
    assert answered(requests, 0, seen().berths[0]) == ()
    assert ANNOTATION not in str(marked({"metadata": {}}, ()))
    kept = marked({"metadata": {"annotations": {"a": "b"}}}, ("n1", "n4"))
    assert kept["metadata"]["annotations"] == {"a": "b", ANNOTATION: "n1,n4"}


def test_a_request_that_was_carried_out_says_how_to_ask_again():
    berths = list(seen().berths.values())
    assert done_before(ASKED.replaced, berths) == []
    (told,) = done_before(ASKED.replaced, [mark(berths[1], "n1")])
    assert "db-1@n1 was carried out before" in told
    assert told.endswith("annotate berth db-1 berth.dev/replaced-")


def test_who_moves_and_what_a_run_that_died_has_begun():
    assert ordinals(find_moves(app(), seen(), ASKED)) == [1]
    two = LeaveRules(replaced=((0, "n0"), (2, "n2"), (1, "n7")))
    assert ordinals(find_moves(app(), seen(), two)) == [2, 0]
    (begun,) = find_moves(app(), seen(db_1="Releasing"), ASKED)
    assert (begun.begun, begun.asked, begun.why) == (True, True, ())
    assert find_moves(app(), seen(db_2="Releasing"), LeaveRules(replaced=((1, "n7"),))) == [], "another one's request"
    (left,) = find_moves(app(), seen(), LeaveRules(("n1",), replaced=((1, "n1"),)))
    assert (left.why, left.asked) == (None, False), "the node is not asked at all then"
    (both,) = find_moves(app(), seen(), ASKED, {1: ("spec.x",)})
    assert (both.why, both.asked) == (("spec.x",), True)


@pytest.mark.parametrize("given", [LeaveRules(), LeaveRules(places=((1, "n0"), (0, "n1"))), LeaveRules(ordinals=(1,))])
def test_data_is_given_up_by_name_and_node_alone(given):
    asked = LeaveRules(given.nodes, given.ordinals, given.places, ASKED.replaced)
    with pytest.raises(StateError) as refused:
        check_moves(app(), seen(), asked, find_moves(app(), seen(), asked), NODES)
    for word in ("default/db: replace asks", "db-1 on node n1 (LocalDisk d1)", "leave_data: [db-1@n1]", "Nothing was"):
        assert word in refused.value.message
    named = LeaveRules(places=((1, "n1"),), replaced=ASKED.replaced)
    check_moves(app(), seen(), named, find_moves(app(), seen(), named), NODES)
    check_moves(app(), seen(db_1="Selected"), ASKED, find_moves(app(), seen(db_1="Selected"), ASKED), NODES)


@pytest.mark.parametrize(("now", "node", "told"), [("Running", SILENT, "is lost"), ("Replacing", WELL, "disk_replace")])
def test_a_place_that_somebody_else_is_at_is_left_alone(now, node, told):
    observed = seen(db_1=now)
    with pytest.raises(StateError, match=told):
        check_moves(app(), observed, ASKED, find_moves(app(), observed, ASKED), {**NODES, "n1": node})


def test_the_old_berth_goes_and_its_history_says_why():
    (move,) = find_moves(app(), seen(), ASKED)
    (loss,) = losses(seen(), [move]).values()
    assert loss.why == "another berth was asked for (replace: db-1@n1)"
    old = seen().berths[1]
    new = {**old, "metadata": {**old["metadata"], "uid": "another"}}
    assert loss.takes(old)
    assert not loss.takes(new)
    (row,) = rows([move], [])
    assert (row["replaced"], row["fields"], row["disks"], row["data"]) == (True, [], ["d1"], "given up")
    assert words({**row, "to": "n9"}).startswith(
        "replaced (as was asked for): from node n1 to node n9; its data on Local"
    )
