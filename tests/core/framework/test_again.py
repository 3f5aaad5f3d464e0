"""A pod like one before: what is asked for it, counted exactly, and that the answer is that of asking everybody."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth_core.cluster import tally
from berth_core.cluster.columns import ints
from berth_core.cluster.journal import MOST, Journal
from berth_core.cluster.snapshot import Snapshot
from berth_core.errors import BerthError
from berth_core.framework.contract import (
    ALL_NODES,
    PODS_TOO,
    ROWS_ALONE,
    SUCCESS,
    Choice,
    Dirt,
    Verdict,
)
from berth_core.framework.cycle import place
from berth_core.framework.profile import Profile
from berth_core.model.labels import LabelSelector
from berth_core.model.placement import Placement, PlacementRequest
from berth_core.model.pod import PodInfo
from berth_core.plugins.table import DEFAULT_WEIGHTS, make_profile
from tests.core.cluster.objects import berth, container, node, pod, taint

SYSTEM = make_profile("system", {"PodTopologySpread": {"defaultingType": "System"}})
SIZE = 40
AVOIDS = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
PREFERS_B = {
    "preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 3, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}}
    ]
}


def spread(key, otherwise="DoNotSchedule", skew=1, **more):
    selector = {"labelSelector": AVOIDS["labelSelector"]}
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": otherwise, **selector, **more}


def wishes(weight):
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "podAffinityTerm": AVOIDS}]}


SPECS = [
    {},
    {"tolerations": [{"key": "k", "operator": "Exists"}]},
    {"nodeSelector": {"zone": "a"}},
    {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [AVOIDS]}}},
    {"priority": 7},
    {"topologySpreadConstraints": [spread("zone"), spread("kubernetes.io/hostname", "ScheduleAnyway")]},
    {"topologySpreadConstraints": [spread("kubernetes.io/hostname", skew=2), spread("zone", "ScheduleAnyway")]},
    {"topologySpreadConstraints": [spread("zone", "ScheduleAnyway", nodeTaintsPolicy="Honor")]},
    {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [AVOIDS]}}},
    {"affinity": {"podAntiAffinity": wishes(5)}},
    {"affinity": {"podAffinity": wishes(9), "nodeAffinity": PREFERS_B}},
]
NAMES = [f"n{number}" for number in range(6)]


def asked(number, spec=0, cpu="500m", app="web"):
    return PlacementRequest(
        PodInfo.from_manifest(pod(f"{app}-{number}", [container(cpu, "1Gi")], labels={"app": app}, **SPECS[spec]))
    )


def answered_alike(snapshot, request, profile=SYSTEM):
    """Compare the way that a pod goes with what all plugins say of all nodes: the choice, and every total."""
    kept, full = place(profile, snapshot, request), place(profile, snapshot, request, explain=True)
    assert kept.placement == full.placement
    assert kept.feasible == full.feasible
    if kept.placement is None:
        assert kept.diagnosis.message() == full.diagnosis.message()
    elif len(kept.feasible) > 1:
        assert kept.totals.tolist() == full.totals.tolist()
    else:
        assert kept.totals.tolist() == [0]
    return kept.placement


# -- the same answer, whatever happened between

rows = st.sampled_from(NAMES)
step = st.one_of(
    st.tuples(st.just("place"), st.integers(0, len(SPECS) - 1), st.sampled_from(["100m", "500m", None])),
    st.tuples(st.just("place"), st.just(0), st.just("500m")),
    st.tuples(st.just("place"), st.just(0), st.just("500m")),
    st.tuples(st.just("forget"), st.integers(0, 9), st.none()),
    st.tuples(st.just("confirm"), st.integers(0, 9), st.none()),
    st.tuples(st.just("node"), rows, st.sampled_from(["cordon", "soft", "hard", "zone", "bare", "small", "gone", ""])),
    st.tuples(st.just("avoids"), rows, st.sampled_from(["web", "db"])),
    st.tuples(st.just("leaves"), rows, st.none()),
    st.tuples(st.just("berth"), rows, st.booleans()),
    st.tuples(st.just("service"), st.sampled_from(["web", "db"]), st.booleans()),
    st.tuples(st.just("trial"), rows, st.none()),
)


class World:
    """A snapshot, and the pods that were placed on it."""

    def __init__(self) -> None:
        self.snapshot, self.placed, self.number = Snapshot(), [], 0
        for name in NAMES:
            self.node(name, "soft" if name == "n4" else "")

    def node(self, name, what):
        if what == "gone":
            self.snapshot.remove_node(name)
            return
        taints = {"soft": [taint("k", "PreferNoSchedule")], "hard": [taint("k")]}.get(what, [])
        labels = {"kubernetes.io/hostname": name, "zone": "b" if (what == "zone") != (name < "n2") else "a"}
        if what == "bare":
            del labels["zone"]
        size = {"small": ("1", "2Gi", "2")}.get(what, ("4", "8Gi", "6"))
        self.snapshot.upsert_node(node(name, *size, labels, taints, what == "cordon"))

    def place(self, spec, cpu):
        self.number += 1
        request = asked(self.number, spec, cpu)
        placement = answered_alike(self.snapshot, request)
        if placement is not None:
            self.snapshot.assume(request, placement)
            self.placed.append((request, placement))

    def forget(self, index, _nothing):
        if self.placed:
            self.snapshot.forget(self.placed.pop(index % len(self.placed))[0])

    def confirm(self, index, _nothing):
        if self.placed:
            request, placement = self.placed.pop(index % len(self.placed))
            self.snapshot.put_pod(replace(request.pod, node_name=placement.node))
            self.snapshot.forget(request)

    def avoids(self, name, app):
        terms = {"required" + "DuringSchedulingIgnoredDuringExecution": [AVOIDS]}
        self.snapshot.upsert_pod(
            pod(f"on-{name}", node_name=name, labels={"app": app}, affinity={"podAntiAffinity": terms})
        )

    def leaves(self, name, _nothing):
        self.snapshot.remove_pod("default", f"on-{name}")

    def berth(self, name, aside):
        self.snapshot.upsert_berth(berth("kept", 0, name, {"cpu": "3"}))
        if aside:
            kept = self.snapshot.set_aside("default", "kept-0")
            answered_alike(self.snapshot, asked(0))
            self.snapshot.put_back("default", "kept-0", kept)

    def service(self, app, there):
        if there:
            spec = {"selector": {"app": app}}
            self.snapshot.workloads.upsert_service({"metadata": {"name": app, "namespace": "default"}, "spec": spec})
        else:
            self.snapshot.workloads.remove_service("default", app)

    def trial(self, name, _nothing):
        if name in self.snapshot.nodes.row_of:
            with self.snapshot.trial() as trial:
                for one in self.snapshot.evictable_on(name):
                    trial.take_off((one.namespace, one.name), name)


@settings(max_examples=60)
@given(st.lists(step, min_size=5, max_size=40))
def test_the_answer_is_that_of_asking_everybody(steps):
    world = World()
    for what, first, second in steps:
        getattr(world, what)(first, second)
        if what != "place":
            answered_alike(world.snapshot, asked(0))
        answered_alike(world.snapshot, asked(0, world.number % len(SPECS)))


# -- what is asked


class Counting:
    """Lets every row pass, and counts what it is asked."""

    name = "Counting"
    filter_dirt = Dirt.ROW

    def __init__(self, **choice):
        self.pre_filters, self.rows, self.fails, self.choice = 0, 0, False, Choice(**choice)

    def reads(self, cycle):
        return ROWS_ALONE

    def pre_filter(self, cycle):
        self.pre_filters += 1
        return ALL_NODES

    def filter_key(self, cycle):
        return None

    def filter(self, cycle, rows):
        if self.fails:
            raise RuntimeError("on purpose")
        self.rows += len(rows)
        return Verdict(ints(len(rows)), (SUCCESS,))

    def reserve(self, cycle, row):
        return self.choice


class Silent(Counting):
    """Does not say what it looks at."""

    reads = None  # type: ignore[assignment]

    def __getattribute__(self, name):
        if name == "reads":
            raise AttributeError(name)
        return super().__getattribute__(name)


@pytest.fixture
def snapshot():
    return Snapshot.from_objects(nodes=[node(f"n{number:02}") for number in range(SIZE)])


def run(snapshot, profile, pods=10):
    """Place pods of one kind; return the rows that were computed, per pod."""
    computed = []
    for number in range(pods):
        request = asked(number)
        outcome = place(profile, snapshot, request)
        snapshot.assume(request, outcome.placement)
        computed.append(dict(outcome.counts.computed))
    return computed


def test_one_row_is_asked_about_and_nothing_else(snapshot):
    _first, *others = run(snapshot, SYSTEM)
    # Filtered once, rated by both that look at requests.
    assert others == [{"NodeResourcesFit": 2, "NodeResourcesBalancedAllocation": 1}] * 9


def test_prefilters_are_asked_once_for_a_kind_of_pod(snapshot):
    plugin = Counting()
    run(snapshot, Profile.build("p", [(plugin, 0)]))
    # With no score, one comparison of nothing: the first node takes all, and its row alone is asked about again.
    assert (plugin.pre_filters, plugin.rows) == (1, SIZE + 9)


def test_a_plugin_that_does_not_say_what_it_looks_at_is_asked_for_each_pod(snapshot):
    plugin = Silent()
    run(snapshot, Profile.build("p", [(plugin, 0)]))
    assert (plugin.pre_filters, plugin.rows) == (10, SIZE + 9)


def test_where_something_is_reserved_each_pod_is_asked_for(snapshot):
    plugin = Counting(volumes={"data": "pv-1"})
    run(snapshot, Profile.build("p", [(plugin, 0)]), 3)
    assert plugin.pre_filters == 3
    assert place(Profile.build("p", [(plugin, 0)]), snapshot, asked(7)).placement.volumes == {"data": "pv-1"}


def test_what_a_plugin_failed_to_say_is_asked_again(snapshot):
    plugin = Counting()
    profile = Profile.build("p", [(plugin, 0)])
    run(snapshot, profile, 2)
    plugin.fails = True
    with pytest.raises(RuntimeError, match="on purpose"):
        place(profile, snapshot, asked(8))
    plugin.fails, plugin.rows = False, 0
    place(profile, snapshot, asked(8))
    assert plugin.rows == 1


def test_a_kind_that_was_not_seen_for_long_compares_all_rows(snapshot, monkeypatch):
    first = asked(0, cpu="100m")
    answered_alike(snapshot, first)
    for number in range(2 * MOST + 2):
        snapshot.assume(asked(number % 30), Placement(f"n{number % 7:02}"))
    assert snapshot.journal.since(1) is None
    answered_alike(snapshot, asked(1, cpu="100m"))
    monkeypatch.setattr(snapshot.nodes, "generation", None)  # a kind that was just seen does not look at all of them
    assert place(SYSTEM, snapshot, asked(2, cpu="100m")).placement is not None


def test_a_full_node_leaves_and_an_emptied_one_comes_back(snapshot):
    small = Snapshot.from_objects(nodes=[node(f"n{number}", "1", "8Gi") for number in range(3)])
    placed = []
    for number in range(6):
        request = asked(number)
        placed.append((request, answered_alike(small, request)))
        small.assume(*placed[-1])
    assert answered_alike(small, asked(6)) is None
    small.forget(placed[3][0])
    assert answered_alike(small, asked(7)).node == placed[3][1].node


@pytest.mark.parametrize("name", [name for name, _weight in DEFAULT_WEIGHTS])
def test_every_plugin_of_ours_says_what_it_looks_at(name):
    plugin = make_profile("p", weights=[(name, 1)])
    assert plugin.readers is not None


def test_the_journal_forgets_the_oldest():
    journal = Journal()
    for generation in range(1, 2 * MOST + 2):
        journal.note(generation, generation % 3)
    assert journal.since(MOST) is None
    assert journal.since(MOST + 1) == [0, 1, 2]
    assert journal.since(2 * MOST) == [(2 * MOST + 1) % 3]
    assert journal.since(2 * MOST + 1) == []
    journal.forget(2 * MOST + 5)
    assert (journal.since(2 * MOST + 4), journal.since(2 * MOST + 5)) == (None, [])


# -- what is followed: pods elsewhere

FOLLOWED = ["hard spread", "spread over hosts", "soft spread", "near", "away", "likes"]


@pytest.mark.parametrize("spec", [5, 6, 7, 8, 9, 10], ids=FOLLOWED)
def test_what_a_pod_says_of_others_asks_about_no_row_but_the_one_that_changed(spec):
    snapshot = World().snapshot
    computed = []
    for number in range(4):
        request = asked(number, spec, "100m")
        outcome = place(SYSTEM, snapshot, request)
        snapshot.assume(request, outcome.require("it"))
        computed.append(sum(outcome.counts.computed.values()))
    assert computed[0] > 3 * len(NAMES)
    assert max(computed[2:]) <= 3


def test_a_bind_touches_one_domain_of_those_who_ask_for_one_of_its_labels(snapshot):
    web, db = (snapshot.count_pods("default", LabelSelector.from_labels({"app": app})) for app in ("web", "db"))
    ids = ints(SIZE)
    sums = [counts.by("all", lambda: (ids, 1)) for counts in (web, db)]
    snapshot.assume(asked(1), Placement("n03"))
    assert [one.version for one in sums] == [1, 0]
    assert (web.column.tolist(), sums[0].sums.tolist()) == ([0, 0, 0, 1] + [0] * (SIZE - 4), [1, 0])


def test_who_is_not_counted_any_more_is_asked_anew(monkeypatch):
    snapshot = World().snapshot
    monkeypatch.setattr(tally, "MAX_SELECTORS", 1)
    for number in range(6):
        app = ("web", "db")[number % 2]
        request = asked(number, 5, app=app)
        info = replace(request.pod, spread=tuple(of_app(one, app) for one in request.pod.spread))
        snapshot.assume(request, answered_alike(snapshot, replace(request, pod=info)))


def of_app(constraint, app):
    return replace(constraint, selector=LabelSelector.from_labels({"app": app}))


class Elsewhere(Counting):
    """Looks at pods elsewhere and follows none of them."""

    def reads(self, cycle):
        return PODS_TOO


def test_who_looks_at_pods_elsewhere_and_follows_none_is_asked_for_each_pod(snapshot):
    plugin = Elsewhere()
    run(snapshot, Profile.build("p", [(plugin, 0)]), 3)
    assert plugin.pre_filters == 3


class Loud(Counting):
    """Follows, and says too much."""

    score_dirt = Dirt.ALL
    alive = True

    def reads(self, cycle):
        return PODS_TOO

    def follow(self, cycle):
        return self

    def passes(self):
        return None

    def score_key(self, cycle):
        return None

    def score(self, *asked):
        return ints(len(asked[-1]), 101 if len(asked) == 1 else 1)


def test_a_score_that_is_followed_is_held_to_the_range(snapshot):
    profile = Profile.build("p", [(Loud(), 1)])
    place(profile, snapshot, asked(1))
    with pytest.raises(BerthError, match="plugin Counting scored outside 0 to 100"):
        place(profile, snapshot, asked(2))
