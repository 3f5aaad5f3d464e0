"""Filler tasks: what they may be, what their pods reserve, how much room there is for them, and who gives way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth_core.errors import InputError
from berth_core.model.pod import PodInfo
from berth_core.model.taint import Taint
from berth_core.tasks.account import Account
from berth_core.tasks.admission import Ledger, admit
from berth_core.tasks.filler import FILLER_LABEL, PRIORITY_CLASS, may_run, unfit
from berth_core.tasks.filler_room import HALF_LIFE, Filler, FillerRoom, Node, Sample
from berth_core.tasks.held import read_offer
from berth_core.tasks.next_step import ended
from berth_core.tasks.offers import Wants
from berth_core.tasks.pods import PodState, manifest, read_pod
from berth_core.tasks.queues import Queue, examined, read_queue
from berth_core.tasks.snapshot import Difference
from tests.core.tasks.samples import sized, task

MIB = 1024**2
NODE = Node({"cpu": 10_000, "memory": 10_000, "pods": 100})


# -- what may be filler --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"share": 2}, "share"),
        ({"ceiling": {"cpu": 4}, "borrowingLimit": {"cpu": 1}}, "borrowingLimit"),
        ({"ceiling": {"cpu": 4}, "lendingLimit": {"cpu": 1}}, "lendingLimit"),
        ({"reclaim": "Any"}, "reclaim"),
    ],
)
def test_a_filler_queue_is_entitled_to_nothing(spec: dict[str, Any], field: str) -> None:
    obj = {"metadata": {"name": "q", "namespace": "ns"}, "spec": {"filler": True, **spec}}
    with pytest.raises(InputError, match=rf"TaskQueue ns/q: spec\.filler is true and spec\.{field} is there"):
        read_queue(obj)
    assert examined(obj, []).fault[0] == "InvalidQueue"


def test_a_filler_queue_has_a_ceiling_a_priority_and_a_policy() -> None:
    spec = {"filler": True, "ceiling": {"cpu": 2}, "priority": 5, "policy": "priority", "share": 1, "reclaim": "Never"}
    queue = read_queue({"metadata": {"name": "q", "namespace": "ns"}, "spec": spec})
    assert (queue.filler, queue.ceiling, queue.priority) == (True, {"cpu": 2000}, 5)
    with pytest.raises(InputError, match=r"spec\.filler"):
        read_queue({"metadata": {"name": "q", "namespace": "ns"}, "spec": {"filler": "yes"}})


def asking(**requests: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "m", "image": "x", "resources": {"requests": requests}}]}}


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (task(gang={"name": "g", "minCount": 2}), "spec.gang is there"),
        (task(offer="held"), "spec.offer is 'held'"),
        (task(template=asking(**{"example.com/gpu": "1"})), "asks for example.com/gpu"),
        (task(template=asking(**{"ephemeral-storage": "1Gi"})), "asks for ephemeral-storage"),
        (
            read_offer({"metadata": {"name": "o", "namespace": "ns"}, "spec": {"requests": {"cpu": 1}, "seconds": 9}}),
            "TaskOffer ns/o holds room",
        ),
        (task(), ""),
        (task(template=asking(cpu="2", memory="1Gi", **{"example.com/gpu": "0"})), ""),
    ],
)
def test_what_cannot_be_filler_work_says_what_to_leave_out(wanted: Wants, words: str) -> None:
    said = unfit(wanted)
    assert said.startswith(words)
    assert bool(said) == bool(words)
    assert not words or f"TaskQueue ns/{wanted.queue} is of filler work" in said


# -- its pods ------------------------------------------------------------------------------------------------------


def made(resources: dict[str, Any], **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": resources}
    labels = {FILLER_LABEL: "cpu-1", "mine": "yes"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], **spec}}
    return manifest(task(template=template), 1, fills="n1")


def test_its_pod_reserves_nothing_and_is_below_all_on_just_that_node() -> None:
    body = made({"requests": {"cpu": "1", "memory": "64Mi"}}, priorityClassName="high", priority=9)
    spec = body["spec"]
    assert spec["containers"][0]["resources"] == {"requests": {"cpu": "0", "memory": "0"}}
    assert (spec["priorityClassName"], "priority" in spec) == (PRIORITY_CLASS, False)
    assert dict(PodInfo.from_manifest(body).requests) == {"cpu": 0, "memory": 0}
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]
    assert body["metadata"]["labels"][FILLER_LABEL] == f"cpu-1000_memory-{64 * MIB}"


def test_limits_stay_and_are_no_requests() -> None:
    body = made({"limits": {"memory": "1Gi", "ephemeral-storage": "1Gi"}}, initContainers=[{"name": "i", "image": "x"}])
    assert body["spec"]["containers"][0]["resources"] == {
        "limits": {"memory": "1Gi", "ephemeral-storage": "1Gi"},
        "requests": {"cpu": "0", "memory": "0", "ephemeral-storage": "0"},
    }
    assert body["spec"]["initContainers"][0]["resources"]["requests"] == {"cpu": "0", "memory": "0"}
    assert not any(value for _name, value in PodInfo.from_manifest(body).requests)


def pod_of(body: dict[str, Any], **status: Any) -> PodState:
    body = {**body, "metadata": {**body["metadata"], "uid": "p", "resourceVersion": "1"}, "status": status}
    found = read_pod(body)
    assert found is not None
    return found


def test_the_account_knows_what_its_task_asks_for_and_other_pods_are_no_filler() -> None:
    found = pod_of(made({"requests": {"cpu": "250m"}}), phase="Running")
    assert (found.filler, found.requests) == (True, (("cpu", 250),))
    account = Account()
    account.follow([Difference(None, found)], lambda _uid: "ns/low")
    (entry,) = account.entries().values()
    assert (entry.filler, account.used("ns/low")) == (True, {"cpu": 250})
    template = {**asking(cpu="1"), "metadata": {"labels": {FILLER_LABEL: "cpu-1"}}}
    assert not pod_of(manifest(task(template=template), 1)).filler, "whatever its template says"


def killed(limits: dict[str, str]) -> PodState:
    """By the kernel, for memory."""
    end = {"name": "main", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
    return pod_of(made({"limits": limits}), phase="Failed", containerStatuses=[end])


def test_who_is_killed_as_its_node_has_no_memory_left_has_not_failed() -> None:
    """With a limit of its own the kernel may have meant just that: this is its own failure."""
    assert killed({}).details.disrupted
    assert not killed({"memory": "1Gi"}).details.disrupted
    assert pod_of(made({}), phase="Failed", reason="Evicted").details.disrupted, "as any pod's"
    status = ended(task(), killed({}))
    assert (status.state, status.tries, status.failures) == ("Submitted", 1, 0)
    common = {"name": "main", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
    assert not pod_of(manifest(task(), 1), phase="Failed", containerStatuses=[common]).details.disrupted


def test_its_way_to_a_node_is_by_labels_taints_and_name() -> None:
    def may(taints: tuple[Taint, ...] = (), **spec: Any) -> bool:
        body = {"metadata": {"name": "p", "namespace": "ns"}, "spec": {"containers": [], **spec}}
        return may_run(PodInfo.from_manifest(body), "n1", {"pool": "a"}, taints)

    taint = Taint("memory", "", "NoSchedule")
    assert may()
    assert may(nodeSelector={"pool": "a"})
    assert not may(nodeSelector={"pool": "b"})
    assert not may((taint,))
    assert may((taint,), tolerations=[{"key": "memory", "operator": "Exists"}])
    assert not may(nodeName="n2")
    terms = [{"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["a"]}]}]
    wanted = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    assert not may(affinity={"nodeAffinity": wanted})


# -- room ----------------------------------------------------------------------------------------------------------


def used(cpu: int, memory: int = 0) -> dict[str, int]:
    return {"cpu": cpu, "memory": memory}


def filler(name: str, cpu: int, started: str = "1", node: str = "n", **more: Any) -> Filler:
    requests = (("cpu", cpu), ("memory", more.pop("memory", 0)))
    return Filler((name, 1), ("ns", name), node, requests, started, **more)


class Clock:
    """A room whose looks are 15 seconds apart."""

    def __init__(self, rest: float = 60.0, margin: float = 0.1) -> None:
        self.room, self.now = FillerRoom(margin, rest, 120.0), 1000.0
        self.nodes: Mapping[str, Node] = {"n": NODE}

    def look(self, total: int, *fillers: Filler, memory: int = 0, pods: Mapping[str, int] | None = None) -> None:
        """The node uses so much cpu in all, of which the pods use theirs."""
        self.now += 15
        uses = {("ns", name): used(cpu) for name, cpu in (pods or {}).items()}
        self.room.look({"n": Sample(self.now, used(total, memory))}, uses, fillers)

    def cpu(self, *fillers: Filler) -> int:
        """The room; 0: there is none."""
        found = self.room.offers(self.now, self.nodes, fillers)
        return found[0].free["cpu"] if found else 0

    def ends(self, *fillers: Filler) -> list[str]:
        return [uid for uid, _number in self.room.gives_way(self.now, self.nodes, fillers)]


def test_room_is_what_is_not_used_less_the_margin_whatever_is_reserved() -> None:
    clock = Clock()
    assert clock.cpu() == 0, "nothing was measured"
    clock.look(3000)
    assert clock.cpu() == 10_000 - 1000 - 3000
    assert clock.cpu(filler("a", 2000)) == 4000
    clock.nodes = {"n": NODE._replace(arriving=used(500))}
    assert clock.cpu() == 5500, "who is too new to be measured uses what it reserves"


def test_what_a_filler_uses_is_not_counted_twice_and_counts_where_it_is_more() -> None:
    clock, one = Clock(), filler("a", 2000)
    clock.look(5000, one, pods={"a": 1000})
    assert clock.cpu(one) == 10_000 - 1000 - 4000 - 2000
    clock.look(7000, one, pods={"a": 3000})
    assert clock.cpu(one) == 10_000 - 1000 - 4000 - 3000


def test_who_was_not_measured_yet_neither_makes_room_nor_has_anybody_go() -> None:
    """The node's 9,000 are others' 3,000 and its own 6,000, which nobody knows."""
    clock, one = Clock(), filler("a", 6000)
    clock.look(3000)
    clock.look(9000, one)
    assert clock.cpu(one) == 0
    assert clock.ends(one) == []
    clock.look(9000, one, pods={"a": 6000})
    assert clock.cpu(filler("a", 6000, going=True)) == 0
    clock.look(9000)  # it has ended; a part of what it used is in the sample
    clock.look(3000)
    assert clock.cpu() == 6000, "and nothing of it is left in the peak"


def test_a_peak_decays() -> None:
    clock = Clock()
    clock.look(7000)
    clock.look(1000)
    assert 2000 <= clock.cpu() < 2300
    clock.now += HALF_LIFE
    clock.look(1000)
    assert 5000 <= clock.cpu() < 5400
    clock.look(8000)
    assert clock.cpu() == 1000


def test_old_samples_and_nodes_that_take_no_pods_mean_no_room() -> None:
    clock = Clock()
    clock.look(1000)
    clock.nodes = {"n": NODE._replace(takes=False)}
    assert clock.cpu() == 0
    assert clock.room.whole(clock.nodes) == {}
    clock.nodes = {"n": NODE}
    assert clock.room.measured(clock.now)
    clock.now += 121
    assert not clock.room.measured(clock.now)
    assert clock.cpu() == 0
    assert clock.ends(filler("a", 9999)) == [], "nobody knows that anybody needs it"


def test_the_node_first_that_has_most_of_itself_free() -> None:
    room = FillerRoom(0.1, 60, 120)
    room.look({"a": Sample(1, used(5000)), "b": Sample(1, used(1000)), "c": Sample(1, used(1000, 8000))}, {}, [])
    found = room.offers(2, dict.fromkeys("abcd", NODE), [])
    assert [offer.node for offer in found] == ["b", "a", "c"], "and none where nothing was measured"


def test_pods_are_counted_too() -> None:
    clock = Clock()
    clock.look(0)
    clock.nodes = {"n": NODE._replace(pods=90)}
    assert clock.cpu() == 0
    clock.nodes = {"n": NODE._replace(pods=96)}
    assert clock.ends(filler("a", 0)) == ["a"]


# -- who gives way -------------------------------------------------------------------------------------------------

THREE = (filler("old", 2000, "1"), filler("young", 2000, "3"), filler("middle", 2000, "2"))


def test_the_youngest_go_and_no_more_than_it_takes() -> None:
    clock = Clock()
    clock.look(3500, *THREE)
    assert clock.ends(*THREE) == [], "within the half of the margin that is left to those who run"
    clock.look(3600 + 6000, *THREE, pods=dict.fromkeys(("old", "young", "middle"), 2000))
    assert clock.ends(*THREE) == ["young"]
    clock.look(6000 + 6000, *THREE, pods=dict.fromkeys(("old", "young", "middle"), 2000))
    assert clock.ends(*THREE) == ["young", "middle"]
    assert clock.ends(THREE[0], THREE[1]._replace(going=True), THREE[2]) == ["middle"], "who goes has gone"


def test_who_gives_back_nothing_of_what_is_lacking_stays() -> None:
    clock = Clock()
    fillers = (filler("a", 1000, "1", memory=8000), filler("b", 1000, "2"))
    clock.look(0, *fillers, memory=2000 + 8000, pods={"b": 0})
    clock.room.look({"n": Sample(clock.now + 1, used(0, 10_000))}, {("ns", "a"): used(0, 8000)}, fillers)
    assert clock.ends(*fillers) == ["a"]
    small = (filler("large", 3000, "1"), filler("small", 100, "2"))
    clock = Clock()
    clock.look(7000 + 3100, *small, pods={"large": 3000, "small": 100})
    assert clock.ends(*small) == ["large"], "the youngest is not enough, and without it there is enough"


def test_a_pod_that_comes_and_uses_nothing_yet_has_them_go() -> None:
    clock = Clock()
    clock.look(1000, *THREE)
    clock.nodes = {"n": NODE._replace(pods=1, arriving=used(4000))}
    assert clock.ends(*THREE) == ["young"]


def test_a_node_from_which_one_has_gone_takes_none_for_a_while() -> None:
    clock = Clock()
    clock.look(9000, THREE[0], pods={"old": 2000})
    clock.look(9900, THREE[0], pods={"old": 2000})
    assert clock.ends(THREE[0]) == ["old"]
    clock.look(0)
    clock.now += 40
    assert clock.cpu() == 0
    clock.now += 10
    assert clock.cpu() > 0


SMALL = st.integers(0, 4000)


@given(
    st.lists(st.tuples(SMALL, st.lists(st.tuples(st.integers(1, 3000), st.integers(0, 4000)), max_size=3)), max_size=12)
)
def test_after_each_look_there_is_room_for_others_or_no_filler_left(
    rounds: list[tuple[int, list[tuple[int, int]]]],
) -> None:
    """Others use what they like, tasks come and use more or less than they ask for: never longer than a look.

    But for the look after one has gone: of what that used a part may still be in the sample.
    """
    clock, running, uses, number, went = Clock(rest=0.0), [], {}, 0, False
    for others, coming in rounds:
        clock.look(others + sum(uses.values()), *running, pods=uses)
        gone = clock.ends(*running)
        running = [one for one in running if one.charge[0] not in gone]
        uses = {one.pod[1]: uses[one.pod[1]] for one in running}
        has = sum(max(dict(one.requests)["cpu"], uses[one.pod[1]]) for one in running)
        assert not running or went or others + has <= 9500
        went = bool(gone)
        for cpu, really in coming:
            room = clock.cpu(*running)
            if cpu <= room:
                number += 1
                running.append(filler(f"t{number}", cpu, str(number)))
                uses[f"t{number}"] = really
                assert others + sum(dict(one.requests)["cpu"] for one in running) <= 9000


# -- beside others -------------------------------------------------------------------------------------------------


def test_it_is_of_no_cohort_and_holds_up_nobody_who_has_another_way() -> None:
    """The backend asks for filler tasks apart: their queue lends nothing of its ceiling."""
    queues = {("ns", "low"): Queue("low", ceiling={"cpu": 5000}, filler=True)}
    clock = Clock()
    clock.look(1000)
    offers, whole = clock.room.offers(clock.now, clock.nodes, []), clock.room.whole(clock.nodes)
    wanted = [sized("lost", 100, "low", priority=9), sized("huge", 9500, "low", priority=8), sized("a", 3000, "low")]
    wanted += [sized("b", 3000, "low")]
    ways = {"lost": (), "huge": ("n",), "a": ("n",), "b": ("n",)}
    verdict = admit(wanted, Ledger(queues, {}), whole, offers, ways=lambda one: ways[one.name])
    assert [one.name for one in verdict.admitted] == ["a"]
    assert verdict.nodes == {("ns", "a"): "n"}
    why = {name: reason for (_ns, name), (reason, _words) in verdict.waiting.items()}
    assert why == {"lost": "NoRoom", "huge": "NeverFits", "b": "Ceiling"}
    assert not verdict.owed
