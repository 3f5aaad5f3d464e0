"""How often plugins were asked is counted exactly, pods like one another in one sum."""

from __future__ import annotations

from collections import Counter

from prometheus_client import CollectorRegistry

from berth_core.cluster.snapshot import Snapshot
from berth_core.framework.cycle import place
from berth_core.model.placement import PlacementRequest
from berth_core.model.pod import PodInfo
from berth_core.plugins.table import make_profile
from berth_scheduler.metrics import Metrics

PROFILE = make_profile()


def node(name: str):
    return {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "110"}}}


def pod(name: str, nominated: str = ""):
    containers = [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}]
    body = {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"containers": containers}}
    return {**body, "status": {"nominatedNodeName": nominated} if nominated else {}}


class Counted:
    """Asks the engine as the daemon does, and reads what is shown."""

    def __init__(self, nodes: int) -> None:
        self.registry = CollectorRegistry()
        self.metrics = Metrics(self.registry)
        self.snapshot = Snapshot.from_objects(nodes=[node(f"n{number}") for number in range(nodes)])
        self.filters, self.scores = Counter(), Counter()

    def ask(self, name: str, **wanted) -> None:
        request = PlacementRequest(PodInfo.from_manifest(pod(name)))
        counts = place(PROFILE, self.snapshot, request, hints=False, **wanted).counts
        self.filters.update(counts.filter)
        self.scores.update(counts.score)
        self.metrics.evaluated("mine", counts)

    def shown(self, point: str) -> dict[str, int]:
        return {
            one.labels["plugin"]: int(one.value)
            for family in self.registry.collect()
            for one in family.samples
            if one.name == "scheduler_plugin_evaluation_total"
            and one.labels["extension_point"] == point
            and one.labels["profile"] == "mine"
        }


def test_the_sums_are_those_of_all_cycles_also_where_pods_are_alike():
    counted = Counted(nodes=20)
    for number in range(5):
        counted.ask(f"a{number}")
        assert counted.shown("Filter") == dict(counted.filters)
        assert counted.shown("Score") == dict(counted.scores)
    assert counted.shown("Filter")["NodeResourcesFit"] == 5 * 20
    assert counted.shown("Score")["NodeResourcesFit"] == 5 * 20


def test_a_pod_with_a_place_costs_each_filter_one_node_and_no_score():
    counted = Counted(nodes=20)
    counted.ask("home", only_node="n7")
    assert set(counted.shown("Filter").values()) == {1}
    assert counted.shown("Score") == {}


def test_a_nominated_pod_asks_each_filter_of_its_node():
    counted = Counted(nodes=20)
    request = PlacementRequest(PodInfo.from_manifest(pod("waiting", "n3")))
    counts = place(PROFILE, counted.snapshot, request, hints=False, nominated={}).counts
    counted.metrics.evaluated("mine", counts)
    assert set(counted.shown("Filter").values()) == {1}
    assert counted.shown("Score") == {}
