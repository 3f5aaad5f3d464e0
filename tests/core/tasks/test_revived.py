"""What a queue could have on each node now: what is free there, less what others have before it, within its bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth_core.errors import StateError
from berth_core.tasks.admission import Ledger, admit
from berth_core.tasks.bounds import Bounds
from berth_core.tasks.held import TaskOffer
from berth_core.tasks.offers import Offer, total
from berth_core.tasks.queues import Queue
from berth_core.tasks.revived import Probe, revived
from tests.core.tasks.samples import sized
from tests.core.tasks.test_bounds import quota

NODES = {"n1": {"cpu": 4000, "memory": 800, "pods": 10}, "n2": {"cpu": 1000, "memory": 1000, "pods": 2}}
Used = Mapping[str, Mapping[str, int]]


def free() -> list[Offer]:
    return [Offer(name, dict(has)) for name, has in NODES.items()]


def revive(
    queues: Sequence[Queue] = (),
    tasks: Sequence[Any] = (),
    used: Used | None = None,
    bounds: Bounds | None = None,
    queue: str = "a",
    most: int = 300,
) -> dict[str, dict[str, int]]:
    known = {("ns", one.name): one for one in (queues or [Queue("a")])}
    ledger = Ledger(known, used or {}, bounds)
    found = revived(Probe("ns", queue), tasks, ledger, NODES, free(), most=most)
    return {offer.node: offer.free for offer in found}


def test_one_a_node_with_all_that_is_free_there() -> None:
    assert revive() == NODES
    assert revive(queue="default") == NODES, "which needs no object"
    assert revive(most=5) == {"n1": {**NODES["n1"], "pods": 5}}, "no more than one round starts"


def test_all_together_are_within_ceiling_quota_and_what_the_queue_may_have() -> None:
    limited = [Queue("a", ceiling={"cpu": 4500})]
    assert {name: has["cpu"] for name, has in revive(limited, used={"ns/a": {"cpu": 200}}).items()} == {
        "n1": 4000,
        "n2": 300,
    }
    ceiling = Bounds(ceiling={"cpu": 5000, "pods": 8}, used={"cpu": 3000, "pods": 5})
    assert revive(bounds=ceiling) == {"n1": {"cpu": 2000, "memory": 800, "pods": 3}}
    bounds = Bounds({"ns": [quota({"requests.memory": "900", "pods": "4"}, {"requests.memory": "50", "pods": "1"})]})
    assert revive(bounds=bounds) == {"n1": {"cpu": 4000, "memory": 800, "pods": 3}}
    assert revive(bounds=Bounds(ceiling={"pods": 1}, used={"pods": 1})) == {}


def test_those_whose_turn_is_sooner_have_theirs_before() -> None:
    """By priority and fair share: the other queue goes first until it has as much of what its share entitles it to."""
    queues = [Queue("a"), Queue("b", share=2)]
    waiting = [sized(f"b{number}", 1000, "b") for number in range(5)]
    used = {"ns/a": {"cpu": 1100}}
    assert total(revive(queues, waiting, used).values())["cpu"] == 2000, "b goes first until it has 3000"
    assert total(revive(queues, waiting).values())["cpu"] == 5000, "a has nothing yet, and comes first"
    assert total(revive(queues, waiting, {"ns/b": {"cpu": 1000}}).values())["cpu"] == 5000
    own = [sized("own", 3000, "a"), sized("next", 500, "a")]
    assert revive(queues, own)["n1"] == {"cpu": 500, "memory": 800, "pods": 8}
    assert revive(queues, [sized("large", 4000, "a"), sized("larger", 2000, "a")]) == {}, "the second waits for room"
    assert revive(queues, waiting, used, most=2) == {}, "a round's worth is before it"


def test_it_borrows_only_while_nobody_else_waits() -> None:
    queues = [Queue("a", ceiling={"cpu": 1000}, borrowing={"cpu": 2000}), Queue("b", ceiling={"cpu": 4000})]
    assert total(revive(queues).values())["cpu"] == 3000
    waiting = [sized(f"b{number}", 100, "b") for number in range(3)]
    assert total(revive(queues, waiting).values())["cpu"] == 1000
    assert total(revive(queues, waiting, {"ns/a": {"cpu": 1500}}).values())["cpu"] == 1500, "it comes last, and may"


def test_a_queue_of_which_nothing_is_given_says_why() -> None:
    with pytest.raises(StateError, match="UnknownQueue: there is no TaskQueue ns/nowhere"):
        revive(queue="nowhere")
    with pytest.raises(StateError, match="InvalidQueue: wrong"):
        revive([Queue("a", fault=("InvalidQueue", "wrong"))])


@given(
    ceilings=st.lists(st.tuples(st.integers(0, 6000), st.integers(0, 3000)), min_size=2, max_size=3),
    sizes=st.lists(st.tuples(st.integers(0, 2), st.integers(100, 2500)), max_size=6),
    used=st.lists(st.integers(0, 3000), min_size=3, max_size=3),
    most=st.integers(0, 8000),
)
def test_what_is_offered_on_a_node_is_given_in_the_next_round(
    ceilings: list[tuple[int, int]], sizes: list[tuple[int, int]], used: list[int], most: int
) -> None:
    """To whoever asks for just that in this queue, behind all that wait: offers and rounds go by the same rules."""
    queues = [
        Queue(f"q{number}", ceiling={"cpu": own}, borrowing={"cpu": more})
        for number, (own, more) in enumerate(ceilings)
    ]
    tasks = [sized(f"t{number}", cpu, f"q{at % len(queues)}") for number, (at, cpu) in enumerate(sizes)]
    has = {f"ns/{queue.name}": {"cpu": value} for queue, value in zip(queues, used, strict=False)}

    def bounds() -> Bounds:
        return Bounds(ceiling={"cpu": most}, used={})

    offered = revive(queues, tasks, has, bounds(), "q0")
    assert sum(one.get("cpu", 0) for one in offered.values()) <= most
    for node, amounts in offered.items():
        requests = tuple(sorted((name, value) for name, value in amounts.items() if name != "pods"))
        asks = TaskOffer("ns", "x", "uid-x", "~", "q0", -1, requests, 60)
        ledger = Ledger({("ns", queue.name): queue for queue in queues}, has, bounds())
        verdict = admit([*tasks, asks], ledger, NODES, free())
        assert asks in verdict.admitted, (node, amounts, verdict)
