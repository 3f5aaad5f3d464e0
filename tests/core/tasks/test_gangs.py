"""Gangs: a minimum of tasks is given at one time, or none; who counts as there; what can never be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from berth_core.errors import InputError
from berth_core.model.pod_groups import GROUP, MINIMUM
from berth_core.tasks.admission import Ledger, Verdict, admit
from berth_core.tasks.batch import FIELDS as BATCH_FIELDS
from berth_core.tasks.batch import read_batch
from berth_core.tasks.gangs import Members
from berth_core.tasks.offers import Offer, place
from berth_core.tasks.pods import manifest
from berth_core.tasks.queues import Queue
from berth_core.tasks.reclaim import Held, victims
from berth_core.tasks.task import FIELDS, Status, Task, check_new
from tests.core.tasks.samples import TEMPLATE, sized

KEY = "ns/default/ring"


def member(name: str, cpu: int = 100, least: int = 3, **spec: Any) -> Task:
    return sized(name, cpu, gang={"name": "ring", "minCount": least}, **spec)


def ring(count: int, cpu: int = 100, least: int = 3, **spec: Any) -> list[Task]:
    return [member(f"r{number}", cpu, least, **spec) for number in range(count)]


def round_of(tasks: list[Task], there: Members | None = None, queues: tuple[Queue, ...] = (), **nodes: int) -> Verdict:
    whole = {name: {"cpu": cpu, "pods": 99} for name, cpu in (nodes or {"n": 1000}).items()}
    offers = [Offer(name, dict(has)) for name, has in whole.items()]
    ledger = Ledger({("ns", queue.name): queue for queue in queues}, {})
    return admit(tasks, ledger, whole, offers, members={KEY: there} if there else {})


def names(verdict: Verdict) -> list[str]:
    return [one.name for one in verdict.admitted]


def test_the_minimum_starts_together_and_the_rest_when_it_is_placed() -> None:
    verdict = round_of(ring(5))
    assert names(verdict) == ["r0", "r1", "r2"]
    assert verdict.together == {("ns", f"r{number}"): 3 for number in range(3)}
    assert verdict.waiting[("ns", "r4")][0] == "GangStarts"
    assert names(round_of(ring(2), Members(pending=3))) == [], "its pods have no nodes yet"
    later = round_of(ring(2), Members(placed=1, pending=2))
    assert (names(later), later.together) == (["r0", "r1"], {}), "each by itself"


def test_none_starts_where_not_all_have_room() -> None:
    verdict = round_of([sized("small", 150, priority=1), *ring(3)], n=400)
    assert names(verdict) == ["small"]
    assert verdict.waiting[("ns", "r2")] == ("NoRoom", "gang of 3: 2 of them have room now")


def test_one_that_lacks_members_holds_up_nobody() -> None:
    verdict = round_of([*ring(2, priority=5), sized("other", 100)])
    assert names(verdict) == ["other"]
    assert verdict.waiting[("ns", "r0")] == ("GangIncomplete", "gang ring has 2 of the 3 tasks that start together")


@pytest.mark.parametrize(
    ("there", "count", "admitted", "together"),
    [
        (Members(pending=2), 1, 1, {3}),  # a backend died after two of the three pods
        (Members(placed=2), 1, 1, set()),  # one is tried again, while two run
        (Members(ended=2), 1, 1, set()),  # two are done, the third is tried again
        (Members(ended=1), 2, 2, {2}),
        (Members(ended=1), 1, 0, set()),
        (Members(placed=1), 2, 2, set()),
        (Members(placed=1), 1, 0, set()),
        (Members(ended=5), 2, 2, set()),
    ],
)
def test_who_runs_or_has_ended_counts(there: Members, count: int, admitted: int, together: set[int]) -> None:
    verdict = round_of(ring(count), there)
    assert (len(verdict.admitted), {*verdict.together.values()}) == (admitted, together)


@pytest.mark.parametrize(
    ("tasks", "queues", "words"),
    [
        (ring(3, 900), (), "gang of 3: asks for cpu 900, and the largest node (a) has 500"),
        (ring(3, 300), (), "gang of 3: if all nodes were empty 2 of them had room together"),
        (
            ring(3, 100, queue="q"),
            (Queue("q", ceiling={"cpu": 100}, borrowing={"cpu": 900}), Queue("o", ceiling={"cpu": 150})),
            "gang of 3: asks for cpu 300, and TaskQueue q may have 250",
        ),
    ],
)
def test_one_that_can_never_start_says_so_and_holds_up_nobody(
    tasks: list[Task], queues: tuple[Queue, ...], words: str
) -> None:
    after = sized("after", 100, tasks[0].queue)
    first = [replace(one, asked=one.asked._replace(priority=1)) for one in tasks]
    verdict = round_of([*first, after], None, queues, a=500, b=500)
    assert names(verdict) == ["after"]
    assert {verdict.waiting[one.key] for one in tasks} == {("NeverFits", words)}


def test_the_whole_gang_counts_against_the_ceiling() -> None:
    queue = Queue("q", ceiling={"cpu": 350})
    verdict = round_of([sized("one", 100, "q", priority=1), *ring(3, queue="q")], None, (queue,))
    assert names(verdict) == ["one"]
    assert verdict.waiting[("ns", "r0")] == (
        "Ceiling",
        "gang of 3: TaskQueue q: ceiling of cpu is 350, used 100, asked for 300",
    )


def test_what_was_lent_is_taken_back_for_all_of_it_or_for_none() -> None:
    queues = {("ns", "own"): Queue("own", ceiling={"cpu": 300}, reclaim=True)}
    queues["ns", "guest"] = Queue("guest", ceiling={"cpu": 100}, borrowing={"cpu": 300})
    whole = {"a": {"cpu": 200, "pods": 9}, "b": {"cpu": 200, "pods": 9}}

    def killed(*tasks: Task) -> list[str]:
        held = [Held((f"g{at}", 1), "ns/guest", (("cpu", 100),), "ab"[at % 2], "", False) for at in range(4)]
        offers = [Offer(name, {"cpu": 0, "pods": 7}) for name in whole]
        ledger = Ledger(queues, {"ns/guest": {"cpu": 400}})
        return [uid for uid, _number in victims(admit(tasks, ledger, whole, offers).owed, ledger, offers, held)]

    assert killed(*ring(3, queue="own")) == ["g3", "g2", "g1"]
    assert killed(*ring(2, 150, 2, queue="own")) == [], "two are left on one node, and one on the other"


def test_the_pods_of_a_gang_carry_its_group_and_others_do_not() -> None:
    first, second = member("r0"), member("r1")
    labels = [manifest(one, 1, 3)["metadata"]["labels"] for one in (first, second)]
    assert {one[GROUP] for one in labels} == {labels[0][GROUP]}
    assert (labels[0][GROUP][:5], labels[0][MINIMUM]) == ("ring-", "3")
    assert GROUP not in manifest(first, 1)["metadata"]["labels"]
    other = member("r0", queue="other")
    assert manifest(other, 1, 3)["metadata"]["labels"][GROUP] != labels[0][GROUP], "a gang is of one queue"


def batch(**spec: Any) -> Any:
    meta = {"name": "hashes", "namespace": "ns", "uid": "u", "resourceVersion": "1"}
    return read_batch({"metadata": meta, "spec": {"template": TEMPLATE, **spec}})


def test_a_batch_is_a_gang_of_its_elements() -> None:
    found = batch(count=5, gang={"minCount": 2})
    elements = [found.element(index, Status(), False) for index in range(5)]
    verdict = round_of(elements)
    assert names(verdict) == ["hashes[0]", "hashes[1]"]
    labels = manifest(elements[0], 1, 2)["metadata"]["labels"]
    assert labels[GROUP].startswith("hashes-")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"count": 3, "gang": {"minCount": 4}}, "minCount is 4, and 3 run at one time: expected no more than that"),
        ({"count": 9, "parallelism": 2, "gang": {"minCount": 4}}, "minCount is 4, and 2 run at one time"),
        ({"count": 9, "gang": {"minCount": 0}}, "minCount is 0: expected 1 to 1000"),
        ({"count": 9, "gang": {}}, "minCount is 0: expected 1 to 1000"),
        ({"count": 9, "gang": 2}, r"spec\.gang must be an object"),
        ({"items": [{"name": "a"}, {"needs": ["a"]}], "gang": {"minCount": 2}}, "exclude each other"),
    ],
)
def test_a_batch_that_cannot_be_one_is_refused(spec: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        batch(**spec)


def test_a_name_that_is_none() -> None:
    with pytest.raises(InputError, match=r"Task ns/job: spec\.gang\.name is 'No': expected a DNS-1123 label"):
        sized("job", 1, gang={"name": "No", "minCount": 2})


def test_an_offer_is_room_for_one_and_so_for_no_gang() -> None:
    """Of an object from before the schema said so, and of a program's options before the API server is asked."""
    words = (
        r"spec\.offer is 'o' and spec\.gang is there: an offer is room for one task, and a gang starts together; leave "
        "one of them out"
    )
    both: dict[str, Any] = {"offer": "o", "gang": {"name": "ring", "minCount": 2}}
    with pytest.raises(InputError, match=f"^Task ns/job: {words}$"):
        sized("job", 1, **both)
    with pytest.raises(InputError, match=f"^Task job: {words}$"):
        check_new("job", {"template": TEMPLATE, **both})
    assert sized("job", 1, offer="", gang=both["gang"]).gang is not None, "no offer is named"
    assert sized("job", 1, offer="o").asked.offer == "o"
    assert ("offer" in FIELDS, "offer" in BATCH_FIELDS) == (True, False), "elements have no room of their own"


def test_place_takes_all_or_nothing_and_the_largest_first() -> None:
    offers = [Offer("a", {"cpu": 300, "pods": 9}), Offer("b", {"cpu": 200, "pods": 9})]
    small, large = (("cpu", 100),), (("cpu", 200),)
    assert place(offers, [small, large, small, small, small]) == 4
    assert [offer.free["cpu"] for offer in offers] == [300, 200]
    assert place(offers, [small, small, small, large]) == 4
    assert [offer.free["cpu"] for offer in offers] == [0, 0]
