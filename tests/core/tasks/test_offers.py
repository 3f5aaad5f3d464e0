"""Offers: who of those that wait gets what is free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth_core.errors import InputError
from berth_core.tasks import admission
from berth_core.tasks.admission import Ledger, Verdict
from berth_core.tasks.offers import Offer
from berth_core.tasks.policies import Policies
from berth_core.tasks.queues import Queue, read_queue
from berth_core.tasks.task import Task
from tests.core.tasks.samples import sized, task

NODE = {"cpu": 1000, "memory": 1000, "pods": 10}


def admit(
    tasks: list[Task],
    queues: list[Queue],
    nodes: int = 1,
    used: Mapping[str, Mapping[str, int]] | None = None,
    policy: str = "fair",
    most: int | None = None,
) -> Verdict:
    whole = {f"n{number}": dict(NODE) for number in range(nodes)}
    free = [Offer(name, dict(has)) for name, has in whole.items()]
    known = {("ns", queue.name): queue for queue in queues}
    return admission.admit(tasks, Ledger(known, used or {}), whole, free, Policies(default=policy), most=most)


def names(verdict: Verdict) -> list[str]:
    return [one.name for one in verdict.admitted]


def test_equal_shares_take_turns_and_unequal_ones_by_their_share() -> None:
    tasks = [sized(f"{queue}{number}", 100, queue) for queue in "ab" for number in range(10)]
    even = names(admit(tasks, [Queue("a"), Queue("b")]))
    assert (len(even), sum(name[0] == "a" for name in even)) == (10, 5)
    uneven = names(admit(tasks, [Queue("a", share=4), Queue("b")]))
    assert sum(name[0] == "a" for name in uneven) == 8
    owed = names(admit(tasks, [Queue("a"), Queue("b")], used={"ns/a": {"cpu": 500}}))
    assert sum(name[0] == "b" for name in owed) >= 7


def test_a_round_gives_so_many_and_says_that_there_may_be_more() -> None:
    tasks = [sized(f"{queue}{number}", 100, queue) for queue in "ab" for number in range(3)]
    verdict = admit(tasks, [Queue("a"), Queue("b")], most=4)
    assert (names(verdict), verdict.waiting, verdict.full) == (["a0", "b0", "a1", "b1"], {}, True)
    assert not admit(tasks, [Queue("a"), Queue("b")], most=6).full, "nobody is left"
    assert not admit(tasks, [Queue("a", ceiling={"cpu": 0}), Queue("b", ceiling={"cpu": 0})], most=1).full


def test_priority_of_a_queue_and_of_a_task() -> None:
    tasks = [sized("low", 600, "a"), sized("high", 600, "b"), sized("urgent", 300, "a", priority=5)]
    verdict = admit(tasks, [Queue("a"), Queue("b", priority=1)], policy="priority")
    assert names(verdict) == ["high", "urgent"]
    assert verdict.waiting[("ns", "low")][0] == "NoRoom"


def test_a_large_task_is_not_starved_by_small_ones_behind_it() -> None:
    verdict = admit([sized("a-large", 1000), sized("b-small", 100)], [], used={})
    assert names(verdict) == ["a-large"]
    tasks = [sized("first", 100), sized("large", 1000), sized("small", 100)]
    verdict = admit(tasks, [])
    assert names(verdict) == ["first"]
    assert set(verdict.waiting) == {("ns", "large")}


def test_what_never_fits_holds_up_nobody_and_says_why() -> None:
    verdict = admit([sized("huge", 5000, priority=9), sized("small", 100)], [])
    assert names(verdict) == ["small"]
    assert verdict.waiting[("ns", "huge")] == ("NeverFits", "asks for cpu 5000, and the largest node (n0) has 1000")


def test_a_device_that_no_node_has_is_named() -> None:
    gpu = replace(sized("gpu", 100), requests=(("cpu", 100), ("example.com/gqu", 2)))
    why = ("NeverFits", "asks for example.com/gqu 2, and no node has any example.com/gqu")
    assert admit([gpu], []).waiting[("ns", "gpu")] == why


def test_ceiling_and_unknown_queue() -> None:
    tasks = [sized("one", 100, "a"), sized("two", 100, "a"), sized("lost", 100, "nowhere")]
    verdict = admit(tasks, [Queue("a", ceiling={"cpu": 150})])
    assert names(verdict) == ["one"]
    assert verdict.waiting[("ns", "two")][0] == "Ceiling"
    assert "ceiling of cpu is 150, used 100, asked for 100" in verdict.waiting[("ns", "two")][1]
    assert verdict.waiting[("ns", "lost")][0] == "UnknownQueue"


@given(
    st.lists(st.tuples(st.integers(1, 1200), st.sampled_from("abc")), max_size=25),
    st.integers(0, 4),
    st.sampled_from(["fair", "priority"]),
)
def test_never_more_than_there_is(wanted: list[tuple[int, str]], nodes: int, policy: str) -> None:
    tasks = [sized(f"t{number}", cpu, queue) for number, (cpu, queue) in enumerate(wanted)]
    whole = {f"n{number}": dict(NODE) for number in range(nodes)}
    free = [Offer(name, dict(has)) for name, has in whole.items()]
    queues = {("ns", name): Queue(name, priority=ord(name), ceiling={"cpu": 1500}) for name in "abc"}
    verdict = admission.admit(tasks, Ledger(queues, {}), whole, free, Policies(default=policy))
    given_ = sum(dict(one.requests)["cpu"] for one in verdict.admitted)
    assert all(value >= 0 for offer in free for value in offer.free.values())
    assert given_ + sum(offer.free["cpu"] for offer in free) == 1000 * nodes
    for name in "abc":
        assert sum(dict(one.requests)["cpu"] for one in verdict.admitted if one.queue == name) <= 1500
    assert not {one.key for one in verdict.admitted} & set(verdict.waiting)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"share": 0}, "TaskQueue ns/q: spec.share is 0: expected 1 or more"),
        ({"ceiling": {"cpu": "-1"}}, "TaskQueue ns/q: spec.ceiling.cpu is below 0"),
        ({"ceiling": {"cpu": "many"}}, r"spec\.ceiling\.cpu: 'many' is not a quantity"),
        (
            {"borrowingLimit": {"cpu": 1}},
            r"spec\.borrowingLimit\.cpu is without spec\.ceiling\.cpu: say what is its own",
        ),
        ({"ceiling": {"cpu": 1}, "lendingLimit": {"cpu": -1}}, r"spec\.lendingLimit\.cpu is below 0"),
        ({"reclaim": "Always"}, "spec.reclaim is 'Always': expected one of Never, Any"),
    ],
)
def test_a_queue_that_is_wrong(spec: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_queue({"metadata": {"name": "q", "namespace": "ns"}, "spec": spec})


@pytest.mark.parametrize("name", ["example.com/gpu", "deviceclass.resource.kubernetes.io/fast", "hugepages-2Mi"])
def test_a_device_that_no_node_has_is_named_and_holds_up_nobody(name: str) -> None:
    resources = {"requests": {"cpu": "100m"}, "limits": {name: "1"}}
    template = {"spec": {"containers": [{"name": "m", "image": "x", "resources": resources}]}}
    wants = task("wants", template=template, priority=1)
    verdict = admit([wants, sized("plain", 100)], [])
    words = f"asks for {name} 1, and no node has any {name}"
    assert (verdict.waiting, names(verdict)) == ({("ns", "wants"): (admission.NEVER_FITS, words)}, ["plain"])
