"""TaskOffers: what they ask for, what they have room for, and the node on which a Task takes their place."""

from __future__ import annotations

from typing import Any

import pytest

from berth_core.errors import InputError
from berth_core.tasks.admission import Ledger, admit
from berth_core.tasks.held import TaskOffer, on_node, read_offer
from berth_core.tasks.offers import Offer
from berth_core.tasks.queues import Queue
from berth_core.tasks.reclaim import Held
from tests.core.tasks.samples import TEMPLATE, task
from tests.core.tasks.test_borrowing import Town, many, names, queue


def offer(name: str = "o", **spec: Any) -> TaskOffer:
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return read_offer({"metadata": meta, "spec": {"requests": {"cpu": "500m", "memory": "1Gi"}, "seconds": 30, **spec}})


def test_an_offer_waits_in_its_queue_among_the_tasks() -> None:
    """By priority, then age; it takes a pod's place on one node, and counts against the ceiling."""
    whole = {"n1": {"cpu": 1000, "memory": 2 << 30, "pods": 10}, "n2": {"cpu": 600, "memory": 2 << 30, "pods": 10}}
    free = [Offer(name, dict(has)) for name, has in whole.items()]
    wanted = [task("job"), offer("small"), offer("urgent", priority=1), offer("third")]
    queue = Queue("default", ceiling={"cpu": 1100})
    verdict = admit(wanted, Ledger({("ns", "default"): queue}, {}), whole, free)
    assert [(one.key, verdict.nodes[one.key]) for one in verdict.admitted] == [
        (("ns", "offer(urgent)"), "n1"),
        (("ns", "job"), "n1"),
        (("ns", "offer(small)"), "n2"),
    ]
    reason, words = verdict.waiting[("ns", "offer(third)")]
    assert (reason, "used 1100" in words) == ("Ceiling", True)


def small(name: str, of: str) -> TaskOffer:
    return offer(name, requests={"cpu": "100m"}, queue=of)


def test_what_is_held_of_borrowed_room_goes_back_before_what_runs_and_no_more_than_it_takes() -> None:
    town = Town(queue("own", 300, reclaim=True), queue("guest", 100, 400))
    town.runs("guest", 100, "2026-01-01T00:00:09Z")
    for held in (small(name, "guest") for name in ("o1", "o2", "o3")):
        town.held.append(Held(held.charge, f"ns/{held.queue}", held.requests, "n0", ""))
    verdict, back = town.round(*many("own", 1, 200), small("o4", "guest"))
    assert (names(verdict), back) == ([], ["uid-o3", "uid-o2"])
    assert verdict.waiting[("ns", "own0")][0] == "Lent"
    assert verdict.waiting[("ns", "offer(o4)")][0] == "NothingToBorrow", "who borrows holds no more of it meanwhile"
    assert town.round(small("mine", "own"))[1] == ["uid-o3"], "an offer of the owner is owed as its tasks are"
    assert town.round(*many("own", 9))[1] == ["uid-o3", "uid-o2", "uid-o1"], "what is the borrower's own runs on"


def test_what_is_held_of_a_queues_own_is_nobody_elses() -> None:
    town = Town(queue("own", 300, reclaim=True), queue("guest", 300, 300), nodes=(300,))
    for held in (small(name, "guest") for name in ("o1", "o2", "o3")):
        town.held.append(Held(held.charge, f"ns/{held.queue}", held.requests, "n0", ""))
    verdict, back = town.round(*many("own", 1))
    assert (verdict.waiting[("ns", "own0")][0], back) == ("NoRoom", [])


def test_room_is_for_what_asks_for_no_more() -> None:
    held = offer()
    assert held.room_for(task().requests)
    assert not held.room_for((("cpu", 501),))
    assert not held.room_for((("example.com/gpu", 1),))
    assert held.charge == ("uid-o", 0), "no try of a task has that number"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"seconds": 0}, "TaskOffer ns/o: spec.seconds is 0: expected 1 to 600"),
        ({"seconds": 601}, "expected 1 to 600"),
        ({"requests": {}}, r"spec\.requests is empty"),
        ({"requests": {"cpu": "-1"}}, r"spec\.requests\.cpu is below 0"),
        ({"requests": {"cpu": "many"}}, r"spec\.requests\.cpu: 'many' is not a quantity"),
    ],
)
def test_an_offer_that_is_wrong(spec: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        offer(**spec)


def test_a_pod_on_just_one_node_still_asks_for_what_it_asked() -> None:
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    field = "requiredDuringSchedulingIgnoredDuringExecution"

    def terms(template: dict[str, Any]) -> Any:
        return on_node(template, "n1")["spec"]["affinity"]["nodeAffinity"][field]["nodeSelectorTerms"]

    assert terms(TEMPLATE) == [here]
    zones = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]} for zone in ("a", "b")]
    affinity = {"podAffinity": {}, "nodeAffinity": {field: {"nodeSelectorTerms": zones}}}
    asked = {"spec": {**TEMPLATE["spec"], "affinity": affinity}}
    assert terms(asked) == [{**zone, **here} for zone in zones]
    assert on_node(asked, "n1")["spec"]["affinity"]["podAffinity"] == {}
    assert asked["spec"]["affinity"]["nodeAffinity"][field]["nodeSelectorTerms"] == zones, "the given one is left alone"
