"""Preemption on the real API server, beside kube-scheduler: the same pods for both, each on nodes of its own.

Victims, nominated nodes, conditions and words are compared. A silent node is one that no kubelet and no kwok looks
after: a pod that is deleted there stays, going, until somebody takes it away.
"""

from __future__ import annotations

import asyncio

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.scheduler.world import PATIENCE, until

pytestmark = pytest.mark.slow

SIDE = "berth.dev/test-side"
PRIORITY_CLASS = kinds.Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False)
#: Priority classes: name, value, preemptionPolicy.
LEVELS = (
    ("1", 1, "PreemptLowerPriority"),
    ("50", 50, "PreemptLowerPriority"),
    ("100", 100, "PreemptLowerPriority"),
    ("polite", 50, "Never"),
)
ANYWHERE = [{"operator": "Exists"}]
SIDES = ("ours", "theirs")
#: The word of DynamicResources, which berth has not.
NOT_OURS = "no new claims to deallocate, "


class Stage:
    """The same scene twice: ``ours`` for the world's scheduler, ``theirs`` for kube-scheduler."""

    def __init__(self, world):
        self.world = world
        for level, value, policy in LEVELS:
            body = {"metadata": {"name": f"{world.name}-{level}"}, "value": value, "preemptionPolicy": policy}
            world.api.create(PRIORITY_CLASS, body)

    def node(self, suffix, cpu="2", silent=False):
        for side in SIDES:
            name = f"{side}-{suffix}"
            self._silent(name, cpu) if silent else self.world.node(name, cpu)
            labels = {"metadata": {"labels": {SIDE: f"{self.world.name}-{side}"}}}
            self.world.api.patch(kinds.NODE, self.name(side, suffix), None, labels)

    def _silent(self, suffix, cpu):
        capacity = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
        name = f"{self.world.name}-{suffix}"
        body = {"metadata": {"name": name}, "status": {"capacity": capacity, "allocatable": capacity}}
        self.world.api.create(kinds.NODE, body)
        self.world.nodes.append(name)

    def name(self, side, suffix):
        return f"{self.world.name}-{side}-{suffix}"

    def pod(self, name, cpu, level, node="", sides=SIDES, **spec):
        for side in sides:
            self.world.pod(
                f"{side}-{name}",
                cpu=cpu,
                schedulerName=self.world.name if side == "ours" else "default-scheduler",
                priorityClassName=f"{self.world.name}-{level}",
                nodeSelector={SIDE: f"{self.world.name}-{side}"},
                tolerations=ANYWHERE,
                **({"nodeName": self.name(side, node)} if node else {}),
                **spec,
            )

    def get(self, side, name):
        return self.world.get_pod(f"{side}-{name}")

    def nominated(self, side, name):
        return ((self.get(side, name) or {}).get("status") or {}).get("nominatedNodeName") or ""

    def disruption(self, side, name):
        """Reason and message of the condition DisruptionTarget, once the pod is being deleted."""
        pod = self.get(side, name) or {}
        found = [one for one in (pod.get("status") or {}).get("conditions") or () if one["type"] == "DisruptionTarget"]
        return (found[0]["reason"], found[0]["message"]) if found and "deletionTimestamp" in pod["metadata"] else None

    def running(self, *names):
        """Wait until kwok runs them."""
        for one in [f"{side}-{name}" for side in SIDES for name in names]:
            until(lambda one=one: self.world.get_pod(one)["status"].get("phase") == "Running", f"{one} does not run")

    def told(self, side, name, reason, words):
        """Wait until that is told of the pod."""
        pod = f"{side}-{name}"
        until(lambda: self.world.told(pod, reason, words), lambda: str(self.world.events(pod)))

    def room_is_made(self, side, wants, victim, suffix):
        """Wait until the node is nominated to the one, and the other has been asked to go."""
        scheduler = self.world.name if side == "ours" else "default-scheduler"
        said = ("PreemptionByScheduler", f"{scheduler}: preempting to accommodate a higher priority pod")
        until(
            lambda: self.nominated(side, wants) == self.name(side, suffix) and self.disruption(side, victim) == said,
            lambda: f"{self.world.story_of(f'{side}-{wants}')} {self.get(side, victim)}",
        )

    def take_away(self, side, name):
        flags = ("--grace-period=0", "--force", "--wait=false")
        self.world.cluster.kubectl("delete", "pod", f"{side}-{name}", "-n", self.world.name, *flags)

    def same_words(self, name):
        """Wait until both are refused with the same words."""

        def words(side):
            status, reason, message = self.world.condition(f"{side}-{name}")
            return status, reason, message.replace(NOT_OURS, "")

        until(
            lambda: words("ours")[2] and words("ours") == words("theirs"),
            lambda: f"{self.world.story_of(f'ours-{name}')}\n{self.world.story_of(f'theirs-{name}')}",
        )
        return words("ours")[2]

    def clear(self):
        for one in self.world.api.list(kinds.POD, self.world.name):
            name = one["metadata"]["name"]
            flags = ("--grace-period=0", "--force", "--wait=false", "--ignore-not-found")
            self.world.cluster.kubectl("delete", "pod", name, "-n", self.world.name, *flags)
        for level, _value, _policy in LEVELS:
            self.world.delete(PRIORITY_CLASS, f"{self.world.name}-{level}")


@pytest.fixture
def stage(world):
    made = Stage(world)
    yield made
    made.clear()


def test_the_same_victims_on_the_same_node(stage, world, start):
    """One pod of low priority has to go where two would have to elsewhere; the one of more priority beside it stays."""
    for number in range(3):
        stage.node(str(number))
    stage.pod("low", "1500m", 1, node="0")
    stage.pod("beside", "400m", 50, node="0")
    stage.pod("two", "900m", 1, node="1")
    stage.pod("three", "900m", 1, node="1")
    stage.pod("high", "1900m", 100, node="2")
    stage.running("low", "beside", "two", "three", "high")
    start()
    stage.pod("wants", "1500m", 100)
    for side in SIDES:
        assert world.placed(f"{side}-wants") == [stage.name(side, "0")]
        assert stage.get(side, "low") is None
        for name in ("beside", "two", "three", "high"):
            assert "deletionTimestamp" not in stage.get(side, name)["metadata"], f"{side} {name}"
        uid = stage.get(side, "wants")["metadata"]["uid"]
        stage.told(side, "low", "Preempted", f"Preempted by pod {uid} on node {stage.name(side, '0')}")
        stage.told(side, "wants", "FailedScheduling", "Insufficient cpu")


def test_a_victim_that_somebody_else_has_ended_keeps_nobody_waiting(world, plane):
    """Its news may be over when the scheduler hears that it is gone, so the pod is tried again without it."""
    from berth_core.framework.contract import Nomination
    from berth_core.framework.nominated import Nominations
    from berth_kube import config
    from berth_kube.client import KubeClient
    from berth_scheduler.cluster import Cluster
    from berth_scheduler.preemption import Preempting, Preemptions
    from berth_scheduler.reports import Reports

    node = world.node()
    world.pod("victim", nodeName=node)
    world.pod("wants")

    async def scene():
        async with KubeClient(config.load(str(plane.kubeconfig))) as client:
            cluster, woken = Cluster(client), asyncio.Queue()
            watching = asyncio.ensure_future(cluster.run())
            await cluster.wait_synced()
            victim, wants = (cluster.pods.get(name, world.name) for name in ("victim", "wants"))
            preempting = Preempting(cluster)
            reports, nominations = Reports(client, {}), Nominations()
            preemptions = Preemptions(client, cluster, reports, preempting, nominations, woken.put_nowait)
            world.delete(kinds.POD, "victim")  # the loop waits meanwhile: the caches still have it
            nomination = Nomination(node, (victim["info"].victim_facts,))
            assert preemptions.begin(wants, world.name, nomination) == 1
            assert not preempting.pre_enqueue(wants["info"]).ok
            assert await asyncio.wait_for(woken.get(), PATIENCE) == wants["info"].uid
            assert preempting.pre_enqueue(wants["info"]).ok
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    asyncio.run(scene())


def test_room_that_is_being_made_is_kept_for_its_pod(stage, world, start):
    """A victim takes its time. Until then its room is neither for pods of less priority, nor for ever."""
    stage.node("silent", silent=True)
    stage.pod("victim", "1500m", 1, node="silent", terminationGracePeriodSeconds=600)
    start()
    stage.pod("wants", "1500m", 50)
    for side in SIDES:
        stage.room_is_made(side, "wants", "victim", "silent")
    stage.pod("thief", "400m", 1)
    assert "Insufficient cpu" in stage.same_words("thief")
    stage.pod("above", "400m", 100)
    for side in SIDES:
        assert world.placed(f"{side}-above") == [stage.name(side, "silent")]
        stage.take_away(side, "victim")
        assert world.placed(f"{side}-wants") == [stage.name(side, "silent")]
    assert "Insufficient cpu" in stage.same_words("thief")
    for side in SIDES:
        assert not (stage.get(side, "thief")["spec"].get("nodeName"))


def test_a_new_scheduler_knows_what_is_nominated(stage, world, start):
    stage.node("silent", silent=True)
    stage.pod("victim", "1500m", 1, node="silent", sides=("ours",), terminationGracePeriodSeconds=600)
    first = start()
    stage.pod("wants", "1500m", 50, sides=("ours",))
    stage.room_is_made("ours", "wants", "victim", "silent")
    first.stop()
    stage.pod("thief", "400m", 1, sides=("ours",))
    start()
    world.refused("ours-thief", "Insufficient cpu")
    stage.take_away("ours", "victim")
    assert world.placed("ours-wants") == [stage.name("ours", "silent")]


def test_a_nomination_ends_with_its_node(stage, world, start):
    stage.node("silent", silent=True)
    stage.pod("victim", "1500m", 1, node="silent", sides=("ours",), terminationGracePeriodSeconds=600)
    start()
    stage.pod("wants", "1500m", 50, sides=("ours",))
    stage.room_is_made("ours", "wants", "victim", "silent")
    world.delete(kinds.NODE, stage.name("ours", "silent"))
    until(lambda: not stage.nominated("ours", "wants"), lambda: world.story_of("ours-wants"))
    stage.node("1")
    assert world.placed("ours-wants") == [stage.name("ours", "1")]


def test_who_may_never_preempt_does_not(stage, world, start):
    stage.node("0")
    stage.pod("low", "1500m", 1, node="0")
    start()
    stage.pod("polite", "1500m", "polite")
    assert stage.same_words("polite").endswith("preemption: not eligible due to preemptionPolicy=Never.")
    for side in SIDES:
        assert "deletionTimestamp" not in stage.get(side, "low")["metadata"]
        assert stage.nominated(side, "polite") == ""


def test_a_budget_protects_its_pods(stage, world, start):
    """Both nodes would do; the pod with a budget stays, though its priority is the lower one."""
    for number in range(2):
        stage.node(str(number))
    stage.pod("guarded", "1500m", 1, node="0", labels={"guarded": "yes"})
    stage.pod("free", "1500m", 50, node="1")
    spec = {"minAvailable": 2, "selector": {"matchLabels": {"guarded": "yes"}}}
    meta = {"name": "guard", "namespace": world.name}
    world.api.create(kinds.POD_DISRUPTION_BUDGET, {"metadata": meta, "spec": spec})

    def counted():
        status = world.api.get(kinds.POD_DISRUPTION_BUDGET, "guard", world.name).get("status") or {}
        return status.get("currentHealthy") == 2 and status.get("disruptionsAllowed") == 0

    until(counted, "nobody counts the budget's pods")
    start()
    stage.pod("wants", "1500m", 100)
    for side in SIDES:
        assert world.placed(f"{side}-wants") == [stage.name(side, "1")]
        assert "deletionTimestamp" not in stage.get(side, "guarded")["metadata"]
        assert stage.get(side, "free") is None
