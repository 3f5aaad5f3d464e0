"""Victims that were found for a pod like one before: the same as found anew, and only rows that changed are tried."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from berth_core.cluster.columns import every_row
from berth_core.cluster.snapshot import Snapshot
from berth_core.cluster.trial import Trial
from berth_core.framework.cycle import place
from berth_core.framework.dry_run import DryRun
from berth_core.framework.kept import kept_for
from berth_core.framework.nominated import contested, crowded_out, said_of
from berth_core.framework.tried import Trials
from berth_core.model.placement import Placement, PlacementRequest
from berth_core.model.pod import PodInfo
from berth_core.plugins.table import make_profile
from berth_core.plugins.victims import find_victims, select_victims
from tests.core.cluster.objects import berth, container, node, pod

PROFILE = make_profile()
ASKED = [one for one in PROFILE.filters if one[0] in ("NodeResourcesFit", "NodeUnschedulable")]
NODES = ["n0", "n1", "n2"]
numbers, rows = st.integers(0, 5), st.sampled_from(NODES)
step = st.one_of(
    st.tuples(st.just("runs"), numbers, rows, st.integers(0, 3)),
    st.tuples(st.just("runs"), numbers, rows, st.integers(0, 3)),
    st.tuples(st.just("gone"), numbers, rows, st.just(0)),
    st.tuples(st.just("berth"), numbers, rows, st.booleans()),
    st.tuples(st.just("assumed"), numbers, rows, st.booleans()),
    st.tuples(st.just("budget"), st.integers(0, 2), rows, st.booleans()),
    st.tuples(st.just("nominated"), numbers, rows, st.sampled_from([0, 5, 9])),
    st.tuples(st.just("cordon"), numbers, rows, st.booleans()),
)


def wanted(priority=5, cpu="2", name="new", **spec):
    return PlacementRequest(PodInfo.from_manifest(pod(name, [container(cpu)], priority=priority, **spec)))


class World:
    """Nodes with pods of low priority, and pods that wait for their room."""

    def __init__(self) -> None:
        self.snapshot = Snapshot.from_objects(nodes=[node(name, "4") for name in NODES])
        self.nominated: dict[str, list[PodInfo]] = {}
        for number in range(6):
            self.runs(number, NODES[number % 3], 0)

    def runs(self, number, where, life):
        found = pod(f"p-{number}", [container(str(1 + number % 2))], node_name=where, priority=number - 1)
        found["metadata"]["labels"] = {"app": "web" if number % 2 else "db"}
        found["status"] = {"startTime": f"2026-01-0{life + 1}T00:00:00Z"}
        self.snapshot.upsert_pod(found)

    def gone(self, number, _where, _nothing):
        self.snapshot.remove_pod("default", f"p-{number}")

    def berth(self, number, where, there):
        if there:
            self.snapshot.upsert_berth(berth("p", number, where, {"cpu": "1"}))
        else:
            self.snapshot.remove_berth("default", f"p-{number}")

    def assumed(self, number, where, confirmed):
        request = wanted(1, "1", f"a-{number}")
        self.snapshot.assume(request, Placement(where))
        if confirmed:
            self.snapshot.put_pod(replace(request.pod, node_name=where))
            self.snapshot.forget(request)

    def budget(self, allowed, _where, there):
        if not there:
            self.snapshot.remove_budget("default", "web")
            return
        spec = {"selector": {"matchLabels": {"app": "web"}}}
        status = {"disruptionsAllowed": allowed}
        self.snapshot.upsert_budget(
            {"metadata": {"namespace": "default", "name": "web"}, "spec": spec, "status": status}
        )

    def nominated_pods(self, number, where, priority):
        listed = self.nominated.setdefault(where, [])
        if listed and number % 2:
            listed.pop()
            return
        pod = wanted(priority, "1", f"w-{number}").pod
        for others in self.nominated.values():  # a pod is nominated to one node
            others[:] = [one for one in others if one.uid != pod.uid]
        listed.append(pod)

    def cordon(self, _number, where, there):
        self.snapshot.upsert_node(node(where, "4", unschedulable=there))

    def check(self, request):
        """Compare what is kept with what is found anew, for victims and for who has to yield."""
        snapshot = self.snapshot
        run = DryRun(
            PROFILE, snapshot, request, place(PROFILE, snapshot, request, hints=False).diagnosis, self.nominated
        )
        every = every_row(len(NODES))
        kept, anew = find_victims(run, every), select_victims(run, every)
        assert kept[0] == anew[0]
        assert said_of(kept[1]) == said_of(anew[1])
        contest = contested(snapshot, request.pod, self.nominated)
        answers = [
            crowded_out(snapshot, request, ASKED, self.nominated, contest, trials)
            for trials in (kept_for(PROFILE, snapshot).trials, Trials())
        ]
        assert answers[0][0].tolist() == answers[1][0].tolist()
        assert said_of(answers[0][1]) == said_of(answers[1][1])


@settings(max_examples=60)
@given(st.lists(step, min_size=3, max_size=25))
def test_the_victims_are_those_found_anew(steps):
    world = World()
    for what, *arguments in steps:
        getattr(world, "nominated_pods" if what == "nominated" else what)(*arguments)
        world.check(wanted())
        world.check(wanted(2, "3"))


def takes(monkeypatch):
    """Count the pods that are taken off for a try."""
    taken = []
    real = Trial.take_off

    def counted(self, key, node_name):
        taken.append(key[1])
        real(self, key, node_name)

    monkeypatch.setattr(Trial, "take_off", counted)
    return taken


def test_only_the_row_that_changed_is_tried_again(monkeypatch):
    world = World()
    taken = takes(monkeypatch)

    def victims(name):
        taken.clear()
        request = wanted(9, "4", name)
        run = DryRun(PROFILE, world.snapshot, request, place(PROFILE, world.snapshot, request).diagnosis, {})
        find_victims(run, every_row(len(NODES)))
        return sorted(set(taken))

    assert victims("first") == [f"p-{number}" for number in range(6)]
    assert victims("second") == []
    world.runs(4, "n1", 2)  # no other room is taken, but it has started anew
    assert victims("third") == ["p-1", "p-4"]


def test_who_looks_at_other_nodes_is_tried_anew(monkeypatch):
    world = World()
    taken = takes(monkeypatch)
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}
    request = wanted(9, "4", affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    for _attempt in range(2):
        taken.clear()
        run = DryRun(PROFILE, world.snapshot, request, place(PROFILE, world.snapshot, request).diagnosis, {})
        find_victims(run, every_row(len(NODES)))
        assert len(set(taken)) == 6
