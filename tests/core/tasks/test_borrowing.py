"""Queues that lend each other what they do not use, and take it back: by waiting, and by killing the youngest."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from berth_core.tasks.admission import Ledger, Verdict, admit
from berth_core.tasks.offers import Offer, Wants, take
from berth_core.tasks.queues import Cohort, Queue
from berth_core.tasks.reclaim import Held, victims
from berth_core.tasks.task import Task
from tests.core.tasks.samples import sized

Used = dict[str, int]


class Town:
    """Queues of namespace ns, what runs of them, and the nodes."""

    def __init__(self, *queues: Queue, nodes: tuple[int, ...] = (100_000,)) -> None:
        self.whole = {f"n{number}": {"cpu": cpu, "pods": 1000} for number, cpu in enumerate(nodes)}
        self.queues = {("ns", queue.name): queue for queue in queues}
        self.held: list[Held] = []

    def runs(self, queue: str, cpu: int, started: str = "", node: str = "n0", going: bool = False) -> None:
        number = len(self.held)
        self.held.append(Held((f"u{number}", 1), f"ns/{queue}", (("cpu", cpu),), node, started, going))

    def used(self) -> dict[str, Used]:
        found: dict[str, Used] = {}
        for one in self.held:
            sums = found.setdefault(one.queue, {"cpu": 0})
            sums["cpu"] += dict(one.requests)["cpu"]
        return found

    def round(self, *tasks: Wants) -> tuple[Verdict, list[str]]:
        """Who starts, and whose tries are killed."""
        offers = [Offer(name, dict(has)) for name, has in self.whole.items()]
        for offer in offers:
            for one in self.held:
                if one.node == offer.node:
                    take(offer.free, one.requests)
        ledger = Ledger(self.queues, self.used())
        verdict = admit(tasks, ledger, self.whole, offers)
        return verdict, [uid for uid, _number in victims(verdict.owed, ledger, offers, self.held)]


def queue(name: str, own: int, borrow: int = 0, **more: Any) -> Queue:
    return Queue(name, ceiling={"cpu": own}, borrowing={"cpu": borrow} if borrow else {}, **more)


def names(verdict: Verdict) -> list[str]:
    return [one.name for one in verdict.admitted]


def many(prefix: str, count: int, cpu: int = 100, **spec: Any) -> list[Task]:
    return [sized(f"{prefix}{number}", cpu, prefix, **spec) for number in range(count)]


def test_what_others_do_not_use_is_borrowed_up_to_the_limit() -> None:
    verdict, _killed = Town(queue("a", 400), queue("b", 200, 300)).round(*many("b", 9))
    assert names(verdict) == ["b0", "b1", "b2", "b3", "b4"]
    assert verdict.waiting[("ns", "b5")] == (
        "Ceiling",
        "TaskQueue b: ceiling of cpu is 200, used 500, asked for 100, borrowing limit 300",
    )


def test_no_more_is_borrowed_than_others_leave() -> None:
    town = Town(queue("a", 400), queue("b", 200, 900))
    town.runs("a", 250)
    verdict, _killed = town.round(*many("b", 9))
    assert names(verdict) == ["b0", "b1", "b2"]
    reason, words = verdict.waiting[("ns", "b3")]
    assert (reason, words[-29:]) == ("NothingToBorrow", "100, and 50 is left to borrow")


def test_what_a_queue_keeps_is_lent_to_nobody() -> None:
    keeping = queue("a", 400, lending={"cpu": 100})
    assert names(Town(keeping, queue("b", 200, 900)).round(*many("b", 9))[0]) == ["b0", "b1", "b2"]
    town = Town(keeping, queue("b", 200, 900))
    town.runs("b", 300)
    verdict, _killed = town.round(*many("a", 4))
    assert names(verdict) == ["a0", "a1", "a2"]
    assert verdict.waiting[("ns", "a3")][0] == "Lent"


def test_a_queue_without_a_ceiling_neither_lends_nor_borrows() -> None:
    verdict, _killed = Town(Queue("free"), queue("b", 200, 900)).round(*many("b", 3), *many("free", 5, 1000))
    assert sorted(names(verdict)) == ["b0", "b1", "free0", "free1", "free2", "free3", "free4"]


def test_what_is_lent_comes_back_before_anybody_borrows_again() -> None:
    """The owner asks for more than one end gives back: the borrower does not get that little again and again."""
    town = Town(queue("a", 400), queue("b", 200, 400))
    for _each in range(5):
        town.runs("b", 100)
    verdict, killed = town.round(*many("a", 1, 400), *many("b", 3))
    assert (names(verdict), killed) == ([], [])
    assert verdict.waiting[("ns", "a0")] == (
        "Lent",
        "TaskQueue a: ceiling of cpu is 400, used 0, asked for 400, and b has borrowed it: it comes back as tasks end",
    )
    assert verdict.waiting[("ns", "b0")][0] == "NothingToBorrow"
    del town.held[2:]
    assert names(town.round(*many("a", 1, 400), *many("b", 3))[0]) == ["a0"]


def test_who_has_its_own_left_goes_before_who_borrows_whatever_the_policy_says() -> None:
    town = Town(queue("a", 400), queue("b", 100, 400), nodes=(500,))
    town.runs("a", 300)
    town.runs("b", 100)
    assert names(town.round(*many("b", 1), *many("a", 1))[0]) == ["a0"]


def test_without_a_borrowing_limit_queues_know_nothing_of_each_other() -> None:
    """A ceiling that was lowered under what runs costs no other queue anything."""
    town = Town(queue("a", 200), queue("b", 100))
    town.runs("b", 300)
    assert names(town.round(*many("a", 3))[0]) == ["a0", "a1"]


def test_the_youngest_of_the_borrowed_are_killed_and_no_more_than_it_takes() -> None:
    town = Town(queue("a", 300, reclaim=True), queue("b", 100, 300))
    for started in ("2026-01-01T00:00:04Z", "2026-01-01T00:00:02Z", "", "2026-01-01T00:00:03Z"):
        town.runs("b", 100, started)
    assert town.round(*many("a", 1, 200))[1] == ["u2", "u0"], "one that has not started is the youngest"
    assert town.round(*many("a", 3))[1] == ["u2", "u0", "u3"]
    assert town.round(*many("a", 9))[1] == ["u2", "u0", "u3"], "its own is left to the borrower"
    assert town.round(*many("a", 1, 400))[1] == []


def test_without_the_option_nobody_is_killed() -> None:
    town = Town(queue("a", 300), queue("b", 100, 300))
    for _each in range(4):
        town.runs("b", 100)
    assert town.round(*many("a", 1))[1] == []


def test_who_is_on_its_way_out_counts_as_gone() -> None:
    town = Town(queue("a", 300, reclaim=True), queue("b", 100, 300))
    for going in (False, False, False, True):
        town.runs("b", 100, going=going)
    verdict, killed = town.round(*many("a", 1))
    assert (names(verdict), killed) == ([], [])
    assert town.round(*many("a", 2))[1] == ["u2"]


def test_only_those_go_on_whose_node_there_is_room_afterwards() -> None:
    """The youngest is on a node that is of no use: it is spared. Where nobody's end makes room nobody is killed."""
    town = Town(queue("a", 300, reclaim=True), queue("b", 100, 300), Queue("free"), nodes=(150, 300))
    town.runs("b", 100, "2026-01-01T00:00:01Z", "n1")
    town.runs("b", 100, "2026-01-01T00:00:02Z", "n1")
    town.runs("b", 100, "2026-01-01T00:00:03Z", "n0")
    assert town.round(*many("a", 1, 200))[1] == ["u1"]
    town.runs("free", 100, node="n1")
    verdict, killed = town.round(*many("a", 1, 200))
    assert (verdict.waiting[("ns", "a0")][0], killed) == ("Lent", [])


def test_room_on_nodes_is_taken_back_from_borrowers_too() -> None:
    town = Town(queue("a", 900, reclaim=True), queue("b", 100, 300), nodes=(300,))
    for _each in range(3):
        town.runs("b", 100)
    verdict, killed = town.round(*many("a", 1, 200))
    assert (verdict.waiting[("ns", "a0")][0], killed) == ("NoRoom", ["u2", "u1"])


def test_another_namespace_is_another_account() -> None:
    town = Town(queue("a", 300, reclaim=True), queue("b", 100, 300))
    town.queues[("other", "a")] = town.queues.pop(("ns", "a"))
    for _each in range(3):
        town.runs("b", 100)
    verdict, _killed = town.round(*many("b", 1))
    assert verdict.waiting[("ns", "b0")][0] == "NothingToBorrow"


LIMITS = st.integers(0, 5)


@given(
    st.lists(st.tuples(LIMITS, LIMITS, LIMITS), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), max_size=30),
)
def test_together_they_never_have_more_than_their_ceilings(
    limits: list[tuple[int, int, int]], wanted: list[tuple[int, int]]
) -> None:
    """And no queue has more than its own and its borrowing limit, nor anything of what another keeps."""
    queues = [
        Queue(str(number), ceiling={"cpu": own}, borrowing={"cpu": borrow}, lending={"cpu": lend})
        for number, (own, borrow, lend) in enumerate(limits)
    ]
    cohort = Cohort(queues, {})
    for number, value in wanted:
        name = str(number % len(queues))
        if not cohort.obstacle(name, (("cpu", value),))[0]:
            cohort.take(name, (("cpu", value),))
    has = {queue.name: cohort.used(queue.name).get("cpu", 0) for queue in queues}
    for one in queues:
        own = one.ceiling["cpu"]
        assert has[one.name] <= own + one.borrowing["cpu"]
        others = sum(each.ceiling["cpu"] - each.keeps("cpu") for each in queues if each is not one)
        assert has[one.name] <= own + others
    assert sum(has.values()) <= sum(queue.ceiling["cpu"] for queue in queues)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 4), st.sampled_from([1, -1])), max_size=20))
def test_what_is_taken_and_given_back_leaves_the_same(moves: list[tuple[str, int, int]]) -> None:
    queues = [queue("a", 4, 3, lending={"cpu": 2}), queue("b", 5, 2)]
    cohort = Cohort(queues, {})
    for name, value, sign in moves:
        if sign == 1 or cohort.used(name).get("cpu", 0) >= value:
            cohort.take(name, (("cpu", value),), sign)
    fresh = Cohort(queues, {queue.name: cohort.used(queue.name) for queue in queues})
    for name in "ab":
        for value in range(1, 9):
            assert cohort.obstacle(name, (("cpu", value),)) == fresh.obstacle(name, (("cpu", value),))
