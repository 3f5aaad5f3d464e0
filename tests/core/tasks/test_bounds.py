"""What bounds tasks beside their queues: ResourceQuotas of their namespace, and the ceiling of the backend."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from berth_core.app.quota import leaves_more
from berth_core.errors import InputError
from berth_core.tasks import admission
from berth_core.tasks.admission import Ledger, Verdict
from berth_core.tasks.bounds import BACKEND_CEILING, EXCEEDED_QUOTA, Bounds, demand_of, read_ceiling
from berth_core.tasks.held import TaskOffer
from berth_core.tasks.offers import Offer
from berth_core.tasks.queues import Queue
from berth_core.tasks.task import Task
from tests.core.tasks.samples import sized, task

NODES = {"n1": {"cpu": 64000, "memory": 2**36, "example.com/gpu": 8, "pods": 100}}
GPU = {"spec": {"containers": [{"name": "m", "image": "x", "resources": {"limits": {"example.com/gpu": "2"}}}]}}


def quota(hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    spec = {"hard": hard, **spec}
    return {"metadata": {"name": "most"}, "spec": spec, "status": {"hard": hard, "used": used or {}}}


def admit(tasks: list[Any], bounds: Bounds, *queues: Queue, used: dict[str, dict[str, int]] | None = None) -> Verdict:
    known = {("ns", queue.name): queue for queue in queues}
    free = [Offer(name, dict(has)) for name, has in NODES.items()]
    return admission.admit(tasks, Ledger(known, used or {}, bounds), NODES, free)


def names(verdict: Verdict) -> list[str]:
    return [one.name for one in verdict.admitted]


def elsewhere(name: str, cpu: int) -> Task:
    return replace(sized(name, cpu), key=("other", name))


@pytest.mark.parametrize(
    ("hard", "used", "starts", "words"),
    [
        ({"pods": "3"}, {"pods": "1"}, 2, "pods: hard 3, used 1, given meanwhile 2, requested 1"),
        ({"count/pods": "1"}, {}, 1, "count/pods: hard 1, used 0, given meanwhile 1, requested 1"),
        ({"requests.cpu": "500m"}, {"requests.cpu": "100m"}, 4, "requests.cpu: hard 500m, used 100m"),
        ({"cpu": "350m"}, {"cpu": "100m"}, 2, "cpu: hard 350m, used 100m, given meanwhile 200m, requested 100m"),
        ({"requests.memory": "1Gi", "secrets": "0"}, {}, 5, ""),
        ({"pods": "1"}, {"pods": "4"}, 0, "pods: hard 1, used 4, requested 1"),
        ({"requests.cpu": "0"}, {"requests.cpu": "2"}, 0, ""),
    ],
)
def test_so_many_start_as_a_quota_leaves_room_for(
    hard: dict[str, str], used: dict[str, str], starts: int, words: str
) -> None:
    """More than hard is used where the limit was lowered while pods ran."""
    verdict = admit([sized(f"t{number}", 100) for number in range(5)], Bounds({"ns": [quota(hard, used)]}))
    assert names(verdict) == [f"t{number}" for number in range(starts)]
    if words:
        reason, message = verdict.waiting["ns", f"t{starts}"]
        assert (reason, message.startswith(f"ResourceQuota most: {words}")) == (EXCEEDED_QUOTA, True), message


def test_other_namespaces_go_on_and_the_first_that_waits_is_not_overtaken() -> None:
    bounds = Bounds({"ns": [quota({"requests.cpu": "1"}, {"requests.cpu": "500m"})]})
    verdict = admit([sized("large", 600, priority=1), sized("small", 100), elsewhere("free", 600)], bounds)
    assert names(verdict) == ["free"]
    assert list(verdict.waiting) == [("ns", "large")]


def test_what_is_larger_than_the_whole_quota_is_told_and_holds_up_nobody() -> None:
    bounds = Bounds({"ns": [quota({"requests.cpu": "1"}), quota({"pods": "2"})]})
    gang = [sized(f"g{number}", 10, gang={"name": "g", "minCount": 3}) for number in range(3)]
    verdict = admit([sized("large", 1001, priority=9), *gang, sized("small", 100)], bounds)
    assert names(verdict) == ["small"]
    words = "ResourceQuota most: requests.cpu: hard 1, requested 1001m"
    assert verdict.waiting["ns", "large"] == (admission.NEVER_FITS, words)
    words = "gang of 3: ResourceQuota most: pods: hard 2, requested 3"
    assert verdict.waiting["ns", "g0"] == (admission.NEVER_FITS, words)


def test_a_gang_starts_whole_or_not_at_all() -> None:
    gang = [sized(f"g{number}", 10, gang={"name": "g", "minCount": 3}) for number in range(3)]
    left = quota({"pods": "4"}, {"pods": "2"})
    verdict = admit(gang, Bounds({"ns": [left]}))
    assert (names(verdict), verdict.waiting["ns", "g0"][0]) == ([], EXCEEDED_QUOTA)
    assert len(names(admit(gang, Bounds({"ns": [quota({"pods": "4"}, {"pods": "1"})]})))) == 3


def test_devices_and_scopes() -> None:
    """A quota with a scope counts the pods in it alone."""
    gpus = Bounds({"ns": [quota({"requests.example.com/gpu": "3"})]})
    assert names(admit([task("a", template=GPU), task("b", template=GPU)], gpus)) == ["a"]
    scoped = quota({"pods": "0"}, scopes=["BestEffort"])
    assert names(admit([sized("burstable", 100)], Bounds({"ns": [scoped]}))) == ["burstable"]
    none = {"spec": {"containers": [{"name": "m", "image": "x"}]}}
    assert names(admit([task("best-effort", template=none)], Bounds({"ns": [scoped]}))) == []
    select = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}
    of_class = quota({"pods": "0"}, scopeSelector=select)
    high = {"spec": {**none["spec"], "priorityClassName": "high"}}
    verdict = admit(
        [task("high", template=high), task("plain", template=none, queue="q")], Bounds({"ns": [of_class]}), Queue("q")
    )
    assert names(verdict) == ["plain"]


def test_pods_that_no_status_counts_yet_are_subtracted_and_so_is_room_that_is_held() -> None:
    offer = TaskOffer("ns", "o", "uid", "", "default", 0, (("cpu", 500), ("memory", 2**30)), 60)
    held = demand_of(offer)
    assert (held.usage["requests.cpu"], held.usage["requests.memory"], held.usage["count/pods"]) == (0.5, 2**30, 1)
    bounds = Bounds({"ns": [quota({"requests.cpu": "1"})]}, [("ns", held), ("ns", demand_of(sized("new", 300)))])
    assert names(admit([sized("large", 300)], bounds)) == []
    bounds = Bounds({"ns": [quota({"requests.cpu": "1"})]}, [("ns", held), ("other", demand_of(sized("new", 300)))])
    assert names(admit([sized("large", 300)], bounds)) == ["large"]


def test_filler_tasks_count_as_pods_alone() -> None:
    bounds = Bounds({"ns": [quota({"requests.cpu": "0", "pods": "1"})]}, (), {"cpu": 0, "pods": 9}, {}, {("ns", "low")})
    low = [sized(f"f{number}", 100, "low") for number in range(2)]
    verdict = admit(low, bounds, Queue("low", filler=True))
    assert (names(verdict), verdict.waiting["ns", "f1"][0]) == (["f0"], EXCEEDED_QUOTA)


def test_what_a_queue_waits_for_by_a_quota_is_lent_to_nobody_and_nobody_is_ended_for_it() -> None:
    owner = Queue("owner", ceiling={"cpu": 1000}, reclaim=True)
    guest = Queue("guest", ceiling={"cpu": 0}, borrowing={"cpu": 1000})
    bounds = Bounds({"ns": [quota({"requests.cpu": "2"}, {"requests.cpu": "1500m"})]})
    verdict = admit([sized("mine", 1000, "owner"), sized("theirs", 500, "guest")], bounds, owner, guest)
    assert (names(verdict), verdict.owed) == ([], [])
    assert {key[1]: why[0] for key, why in verdict.waiting.items()} == {
        "mine": EXCEEDED_QUOTA,
        "theirs": "NothingToBorrow",
    }


def test_the_ceiling_of_the_backend_is_over_all_namespaces_and_queues() -> None:
    bounds = Bounds(ceiling={"cpu": 1000, "pods": 4}, used={"cpu": 500, "pods": 1})
    tasks = [sized("a", 300), elsewhere("b", 300), sized("c", 200, "q"), sized("never", 1100, priority=9)]
    verdict = admit(tasks, bounds, Queue("q"))
    assert sorted(names(verdict)) == ["a", "c"]
    told = "all tasks of this backend may have cpu 1 (--ceiling)"
    assert verdict.waiting["other", "b"] == (BACKEND_CEILING, f"{told}: they have 1, asked for 300m")
    assert verdict.waiting["ns", "never"] == (admission.NEVER_FITS, f"asks for cpu 1100m, and {told}")
    bounds = Bounds(ceiling={"pods": 1})
    verdict = admit([sized("a", 1), sized("b", 1)], bounds)
    assert (names(verdict), verdict.waiting["ns", "b"][0]) == (["a"], BACKEND_CEILING)


def test_a_ceiling_is_read_in_whole_units_and_refused_by_the_name_of_its_setting() -> None:
    assert read_ceiling("--ceiling", "") == {}
    found = read_ceiling("--ceiling", "cpu=1500m, memory=1Gi,pods=7,example.com/gpu=2")
    assert found == {"cpu": 1500, "memory": 2**30, "pods": 7, "example.com/gpu": 2}
    for wrong in ("cpu", "cpu=1,cpu=2", "disk=1", "=1", "cpu=1,"):
        with pytest.raises(InputError, match=r"--ceiling is '.*': expected each resource once"):
            read_ceiling("--ceiling", wrong)
    with pytest.raises(InputError, match=r"--ceiling: cpu is -1: expected 0 or more"):
        read_ceiling("--ceiling", "cpu=-1")
    with pytest.raises(InputError, match="'many' is not a quantity"):
        read_ceiling("flags.ceiling", "pods=many")


@pytest.mark.parametrize(
    ("hard", "used", "more"),
    [
        ({"pods": "5"}, {"pods": "3"}, False),
        ({"pods": "4"}, {"pods": "3"}, False),
        ({"pods": "6"}, {"pods": "3"}, True),
        ({"pods": "5"}, {"pods": "2"}, True),
        ({"pods": "5"}, {"pods": "4"}, False),
        ({}, {}, True),
    ],
)
def test_whether_a_change_of_a_quota_may_leave_more(hard: dict[str, str], used: dict[str, str], more: bool) -> None:
    old, new = quota({"pods": "5"}, {"pods": "3"}), quota(hard, used)
    new["spec"] = old["spec"]  # the status follows
    assert leaves_more(old, new) is more
