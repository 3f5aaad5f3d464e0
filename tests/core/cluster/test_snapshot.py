"""The tables: what counts on a node, and that a snapshot carried along by changes is the one read anew."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth_core.cluster.snapshot import Snapshot
from berth_core.errors import InputError
from berth_core.framework.cycle import place
from berth_core.model.labels import LabelSelector, Requirement
from berth_core.model.node import NodeInfo
from berth_core.model.placement import Placement, PlacementRequest
from berth_core.model.pod import PodInfo
from berth_core.plugins.table import DEFAULT_PROFILE
from tests.core.cluster.objects import GI, MI, berth, container, device, disk, node, pod, request
from tests.core.cluster.strategies import Cluster, changes, wanted


def used(snapshot, name="h1"):
    nodes = snapshot.nodes
    row = nodes.row_of[name]
    return {key: int(column[row]) for key, column in nodes.requested.items() if column[row]}


def of_claim(claim, **status):
    made = berth(f"pvc.{claim}", 0, "h1")
    return {**made, "metadata": {**made["metadata"], "name": f"pvc-{claim}"}, "status": status}


def test_the_berths_of_claims_leave_their_pod_as_any_other():
    """Both name it: it takes its own room, once, and is a victim like every pod without a Berth that keeps its room."""
    snapshot = Snapshot.from_objects(nodes=[node("h1")])
    snapshot.upsert_pod(pod("pg-1", [container("1", "1Gi")], node_name="h1"))
    for claim in ("data", "log"):
        snapshot.upsert_berth(of_claim(claim, phase="Bound"))
    before, generation = used(snapshot), snapshot.topology_generation
    for claim in ("data", "log"):
        snapshot.upsert_berth(of_claim(claim, phase="Running", podName="pg-1"))
    assert used(snapshot) == before
    assert len(snapshot.evictable_on("h1")) == 1
    assert snapshot.berths["default", "pvc-log"].phase == "Running"
    assert snapshot.topology_generation == generation, "what a status says takes nothing: no verdict is asked for again"
    for claim in ("data", "log"):
        snapshot.remove_berth("default", f"pvc-{claim}")
    assert used(snapshot) == {"cpu": 1000, "memory": GI, "pods": 1}


def test_rows_stand_by_name_whatever_the_order_of_arrival():
    snapshot = Snapshot.from_objects(nodes=[node("h3"), node("h1")])
    snapshot.upsert_node(node("h2", cpu="2"))
    assert snapshot.nodes.names == ["h1", "h2", "h3"]
    assert list(snapshot.nodes.allocatable["cpu"]) == [4000, 2000, 4000]
    snapshot.remove_node("h1")
    assert list(snapshot.nodes.allocatable["cpu"]) == [2000, 4000]


def test_nodes_taken_at_once_are_nodes_taken_one_by_one():
    """What runs on them was known before; verdicts that are kept meanwhile are those of no node at all."""
    many, one_by_one = Snapshot(), Snapshot()
    infos = [NodeInfo.from_object(node(name, labels={"zone": name[-1]})) for name in ("h3", "h1", "h2")]
    for snapshot in (many, one_by_one):
        snapshot.upsert_pod(pod("a", [container("1", "1Gi")], node_name="h2", labels={"app": "a"}))
        assert place(DEFAULT_PROFILE, snapshot, request()).placement is None
    many.fill_nodes(infos)
    for info in infos:
        one_by_one.put_node(info)
    for snapshot in (many, one_by_one):
        assert snapshot.nodes.names == ["h1", "h2", "h3"]
        assert used(snapshot, "h2") == {"cpu": 1000, "memory": GI, "pods": 1}
        assert list(snapshot.nodes.described) == list(snapshot.nodes.generation)
        assert snapshot.nodes.generation.min() > 0
        found = place(DEFAULT_PROFILE, snapshot, request())
        assert found.placement == Placement("h1")
        assert list(found.totals) == list(place(DEFAULT_PROFILE, snapshot, request(), explain=True).totals)
    many.put_node(replace(infos[1], unschedulable=True))
    assert place(DEFAULT_PROFILE, many, request()).placement == Placement("h3")


def test_pods_count_while_they_run_and_also_while_they_end():
    going = pod("b", [container("1")], node_name="h1")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    pods = [
        pod("a", [container("1", "1Gi")], node_name="h1", phase="Running"),
        going,
        pod("c", [container("1")], node_name="h1", phase="Succeeded"),
        pod("d", [container("1")], node_name="h1", phase="Failed"),
        pod("e", [container("1")]),
    ]
    assert used(Snapshot.from_objects(nodes=[node("h1")], pods=pods)) == {"cpu": 2000, "memory": GI, "pods": 2}


def test_a_berth_counts_until_its_pod_does():
    snapshot = Snapshot.from_objects(nodes=[node("h1"), node("h2")], berths=[berth("web", 0, "h1", {"cpu": "1"})])
    assert used(snapshot) == {"cpu": 1000, "pods": 1}
    snapshot.upsert_pod(pod("web-0", [container("2")]))
    assert used(snapshot) == {"cpu": 1000, "pods": 1}, "a pod without a node does not count yet"
    snapshot.upsert_pod(pod("web-0", [container("2")], node_name="h1"))
    assert used(snapshot) == {"cpu": 2000, "pods": 1}, "the pod instead of its berth, not beside it"
    snapshot.remove_pod("default", "web-0")
    assert used(snapshot) == {"cpu": 1000, "pods": 1}
    snapshot.remove_berth("default", "web-0")
    assert used(snapshot) == {}


def test_a_berth_whose_pod_has_ended_counts_again():
    snapshot = Snapshot.from_objects(
        nodes=[node("h1")],
        berths=[berth("web", 0, "h1", {"cpu": "1"})],
        pods=[pod("web-0", [container("2")], node_name="h1", phase="Failed")],
    )
    assert used(snapshot) == {"cpu": 1000, "pods": 1}


def test_a_pod_of_the_same_name_in_another_namespace_is_another():
    snapshot = Snapshot.from_objects(
        nodes=[node("h1")],
        berths=[berth("web", 0, "h1", {"cpu": "1"})],
        pods=[pod("web-0", [container("2")], namespace="other", node_name="h1")],
    )
    assert used(snapshot) == {"cpu": 3000, "pods": 2}


def test_an_assumption_counts_and_is_taken_back():
    snapshot = Snapshot.from_objects(nodes=[node("h1")], disks=[disk("d", "h1")])
    asked = request(pod("web-0", [container("1")]), [("data", GI)])
    snapshot.assume(asked, Placement("h1", {"data": "d"}))
    assert used(snapshot) == {"cpu": 1000, "pods": 1}
    assert place(DEFAULT_PROFILE, snapshot, request(disks=[("data", GI)], ordinal=1)).placement is None
    snapshot.upsert_berth(berth("web", 0, "h1", {"cpu": "1"}))
    assert used(snapshot) == {"cpu": 1000, "pods": 1}, "its berth was written: the same replica, counted once"
    snapshot.forget(asked)
    snapshot.forget(asked)
    assert used(snapshot) == {"cpu": 1000, "pods": 1}
    assert place(DEFAULT_PROFILE, snapshot, request(disks=[("data", GI)], ordinal=1)).placement is not None


def test_the_watch_word_of_a_bind_changes_nothing_that_was_assumed():
    """Since v1.35 a bind brings a pod the zone of its node: known from the first bind on, and unlearned as well."""
    zone = {"topology.kubernetes.io/zone": "z1"}
    snapshot = Snapshot.from_objects(nodes=[node("h1", labels=zone)])

    def bound(name, brought):
        asked = PlacementRequest(PodInfo.from_manifest(pod(name, [container("1")], labels={"app": "a"})))
        snapshot.assume(asked, Placement("h1"))
        before = snapshot.generation
        snapshot.upsert_pod(pod(name, [container("1")], node_name="h1", labels={"app": "a", **brought}))
        snapshot.forget(asked)
        in_zone = LabelSelector((Requirement("topology.kubernetes.io/zone", "In", ("z1",)),))
        return snapshot.generation - before, int(snapshot.count_pods("default", in_zone).column.sum())

    assert bound("a", zone) == (2, 1)
    assert bound("b", zone) == (0, 2)
    assert bound("c", zone) == (0, 3)
    assert bound("d", {}) == (2, 3)
    assert bound("e", {}) == (0, 3)
    assert used(snapshot) == {"cpu": 5000, "pods": 5}


def test_locks_of_a_pod_without_disks_stamp_no_row():
    snapshot = Snapshot.from_objects(nodes=[node("h1")])
    asked = request(pod("a", [container("1")]))
    snapshot.assume(asked, Placement("h1"))
    before = snapshot.generation
    snapshot.locked(asked)
    assert snapshot.generation == before


def test_what_runs_on_a_node_is_known_before_the_node_is():
    snapshot = Snapshot.from_objects(pods=[pod("a", [container("1")], node_name="h1")])
    snapshot.upsert_node(node("h1"))
    assert used(snapshot) == {"cpu": 1000, "pods": 1}
    snapshot.remove_node("h1")
    snapshot.upsert_node(node("h1"))
    assert used(snapshot) == {"cpu": 1000, "pods": 1}


def test_scoring_counts_a_berth_without_requests():
    snapshot = Snapshot.from_objects(nodes=[node("h1")], berths=[berth("web", 0, "h1")])
    assert {key: int(column[0]) for key, column in snapshot.nodes.nonzero.items()} == {"cpu": 100, "memory": 200 * MI}


def test_replicas_are_counted_by_selector_also_when_they_have_no_pod_yet():
    snapshot = Snapshot.from_objects(
        nodes=[node("h1"), node("h2")],
        pods=[
            pod("a", node_name="h1", labels={"app": "web"}),
            pod("b", node_name="h1", labels={"app": "web"}, namespace="x"),
        ],
        berths=[berth("web", 0, "h2", labels={"app": "web"})],
    )
    selector = LabelSelector.from_labels({"app": "web"})
    assert list(snapshot.count_pods("default", selector).column) == [1, 1]
    snapshot.upsert_pod(pod("c", node_name="h2", labels={"app": "web"}))
    snapshot.upsert_pod(pod("a", node_name="h1", labels={"app": "other"}))
    assert list(snapshot.count_pods("default", selector).column) == [0, 2]


def test_only_the_touched_row_is_stamped():
    snapshot = Snapshot.from_objects(nodes=[node("h1"), node("h2")])
    before = snapshot.nodes.generation.copy()
    snapshot.upsert_disk(disk("d", "h2"))
    assert list(snapshot.nodes.generation > before) == [False, True]
    stamped = snapshot.generation
    snapshot.upsert_node(node("h1"))
    assert snapshot.generation == stamped, "a node that says what it said before changes nothing"


def test_a_disk_that_moves_stamps_both_nodes():
    snapshot = Snapshot.from_objects(nodes=[node("h1"), node("h2"), node("h3")], disks=[disk("d", "h1")])
    before = snapshot.nodes.generation.copy()
    snapshot.upsert_disk(disk("d", "h2"))
    assert list(snapshot.nodes.generation > before) == [True, True, False]


def test_a_bad_object_is_refused_before_anything_changes():
    snapshot = Snapshot.from_objects(nodes=[node("h1")])
    before = snapshot.generation
    with pytest.raises(InputError, match="LocalDisk d"):
        snapshot.upsert_disk(disk("d", "h1", -1))
    assert (snapshot.generation, len(snapshot.disks)) == (before, 0)


BAD_BERTH = berth("bad", 0, "h1", {"cpu": "1", "memory": "lots"})


@pytest.mark.parametrize(
    ("requests", "why"),
    [
        ({"memory": "lots"}, "Berth default/bad-0: spec.requests.memory: 'lots' is not a quantity"),
        ({"cpu": "-1"}, "Berth default/bad-0: spec.requests.cpu: -1 is below 0"),
    ],
)
def test_a_berth_that_cannot_be_read_takes_its_node_and_no_other(requests, why):
    bad = berth("bad", 0, "h1", requests)
    snapshot = Snapshot.from_objects(nodes=[node("h1"), node("h2")], berths=[bad, berth("db", 0, "h2", {"cpu": "1"})])
    assert [problem.startswith(why) for problem in snapshot.problems()] == [True]
    assert list(snapshot.berths) == [("default", "db-0")]
    outcome = place(DEFAULT_PROFILE, snapshot, request(pod("x", [container(cpu="10m")])), explain=True)
    assert outcome.feasible == ("h2",)


def test_what_could_not_be_read_counts_no_longer_when_it_is_gone_or_mended():
    snapshot = Snapshot.from_objects(nodes=[node("h1")], berths=[BAD_BERTH])
    empty = columns(Snapshot.from_objects(nodes=[node("h1")]))
    snapshot.remove_berth("default", "bad-0")
    assert columns(snapshot) == empty
    snapshot.leave_out("Berth", BAD_BERTH, "why")
    assert columns(snapshot) != empty
    snapshot.upsert_berth(berth("bad", 0, "h1", {"cpu": "1"}))
    assert columns(snapshot) == columns(
        Snapshot.from_objects(nodes=[node("h1")], berths=[berth("bad", 0, "h1", {"cpu": "1"})])
    )


def test_a_readable_pod_counts_instead_of_its_unreadable_berth():
    its = pod("bad-0", [container(cpu="1")], node_name="h1")
    snapshot = Snapshot.from_objects(nodes=[node("h1")], pods=[its], berths=[BAD_BERTH])
    assert columns(snapshot) == columns(Snapshot.from_objects(nodes=[node("h1")], pods=[its]))


def test_an_unreadable_berth_of_a_claim_keeps_no_pods_room_as_a_readable_one_keeps_none():
    """Its pod is there beside it, and takes its own room."""
    bad = berth("pvc.data", 0, "h1", {"memory": "lots"})
    bad["status"] = {"podName": "web-0"}
    its = pod("web-0", [container(cpu="1")], node_name="h2")
    both = Snapshot.from_objects(nodes=[node("h1"), node("h2")], pods=[its], berths=[bad])
    assert columns(both) != columns(Snapshot.from_objects(nodes=[node("h1"), node("h2")], pods=[its]))
    outcome = place(DEFAULT_PROFILE, both, request(pod("x", [container(cpu="10m")])), explain=True)
    assert outcome.feasible == ("h2",)


UNREADABLE = {
    "nodes": (node("h9", cpu="lots"), "node h9: allocatable.cpu"),
    "pods": (
        pod("p9", [container(cpu="lots")], node_name="h1"),
        "pod default/p9: spec: container c: resources.requests.cpu",
    ),
    "disks": (disk("d9", "h1", size="big"), "LocalDisk d9: spec.identity.size"),
    "devices": (device("g9", "h1", capacity={"memory": "lots"}), "LocalDevice g9: spec.capacity.memory"),
    "pvs": ({"metadata": {"name": "v9"}, "spec": {"capacity": {"storage": "lots"}}}, "v9: spec.capacity.storage"),
    "pvcs": (
        {"metadata": {"name": "c9", "namespace": "n"}, "spec": {"resources": {"requests": {"storage": "lots"}}}},
        "PersistentVolumeClaim n/c9: spec.resources.requests.storage",
    ),
}


@pytest.mark.parametrize("part", UNREADABLE)
def test_one_object_that_cannot_be_read_is_named_and_hides_no_other(part):
    one, why = UNREADABLE[part]
    sound = {"nodes": [node("h1"), node("h2")], "disks": [disk("d", "h2")]}
    lists = {**sound, part: [*sound.get(part, ()), one]}
    snapshot = Snapshot.from_objects(**lists)
    (problem,) = snapshot.problems()
    assert why in problem
    assert snapshot.nodes.names == ["h1", "h2"]
    assert sorted(snapshot.disks.slot_of) == ["d"]
    assert not snapshot.devices.devices
    with pytest.raises(InputError, match=r"p9|h9|d9|g9|v9|c9"):
        snapshot.refuse_unreadable()


def columns(snapshot):
    nodes = snapshot.nodes
    rows = np.arange(len(nodes))
    tables = {
        f"{label}/{name}": column.tolist()
        for label, table in (
            ("allocatable", nodes.allocatable),
            ("requested", nodes.requested),
            ("nonzero", nodes.nonzero),
        )
        for name, column in table.items()
        if column.any()
    }
    ports = sorted((port, name) for port in (80, 81) for name in snapshot.nodes_with_port(host_port(port)))
    taints = [nodes.taint_sets[int(nodes.taint_set[row])] for row in rows]
    spread = {
        app: snapshot.count_pods("default", LabelSelector.from_labels({"app": app})).column.tolist()
        for app in ("web", "db")
    }
    return nodes.names, nodes.infos, tables, ports, taints, nodes.unschedulable.tolist(), spread


def host_port(port):
    return request(pod("x", [container(ports=[{"containerPort": 1, "hostPort": port}])])).pod.host_ports[0]


@given(st.lists(changes(), max_size=30))
def test_carried_along_is_read_anew(listed):
    cluster = Cluster()
    for index, change in enumerate(listed):
        cluster.apply(change)
        if index % 5 == 0:
            columns(cluster.snapshot)  # selectors that are counted from here on are kept up to date from here on
    assert columns(cluster.snapshot) == columns(cluster.rebuilt())


@given(st.lists(changes(), max_size=15), st.lists(changes(), max_size=6), st.lists(wanted(), min_size=1, max_size=2))
def test_kept_verdicts_are_those_of_a_full_evaluation(before, steps, asked):
    cluster = Cluster()
    for change in before:
        cluster.apply(change)
    for change in [None, *steps]:
        if change is not None:
            cluster.apply(change)
        # The same requests after every change: what was kept must have noticed it.
        for one in asked:
            answered_alike(cluster.snapshot, cluster.rebuilt(), one)


def answered_alike(snapshot, anew, asking):
    """Compare what is answered from kept columns with what the plugins say when all is read and asked anew."""
    kept, asked = place(DEFAULT_PROFILE, snapshot, asking), place(DEFAULT_PROFILE, anew, asking, explain=True)
    assert kept.placement == asked.placement
    assert kept.feasible == asked.feasible
    if kept.placement is None:
        assert kept.diagnosis.nodes == asked.diagnosis.nodes
        assert kept.diagnosis.message() == asked.diagnosis.message()
    elif len(kept.feasible) > 1:
        totals = {name: int(total) for name, total in zip(kept.feasible, kept.totals, strict=True)}
        assert totals == {name: score.total for name, score in asked.scores.items()}
    return kept


@given(st.lists(changes(), min_size=4, max_size=20), st.lists(st.one_of(wanted(), changes()), max_size=16))
def test_kept_verdicts_follow_assumptions(before, steps):
    cluster, assumed = Cluster(), {}
    for change in before:
        cluster.apply(change)
    for step in steps:
        if isinstance(step, tuple):
            cluster.apply(step)
            continue
        anew = cluster.rebuilt()
        for one, placement in assumed.values():
            anew.assume(one, placement)
        kept = answered_alike(cluster.snapshot, anew, step)
        if kept.placement is not None:
            cluster.snapshot.assume(step, kept.placement)
            assumed.pop(step.owner, None)  # an assumption that is made again is the youngest
            assumed[step.owner] = (step, kept.placement)
        elif assumed:
            one, _placement = assumed.pop(next(iter(assumed)))
            cluster.snapshot.forget(one)


@given(st.lists(changes(), max_size=25), st.lists(wanted(), min_size=1, max_size=6))
def test_assuming_and_forgetting_leaves_no_trace(listed, requests):
    cluster = Cluster()
    for change in listed:
        cluster.apply(change)
    for one in requests:
        outcome = place(DEFAULT_PROFILE, cluster.snapshot, one)
        if outcome.placement is not None:
            cluster.snapshot.assume(one, outcome.placement)
    for one in requests:
        cluster.snapshot.forget(one)
    assert columns(cluster.snapshot) == columns(cluster.rebuilt())
    for one in requests:
        assert (
            place(DEFAULT_PROFILE, cluster.snapshot, one).placement
            == place(DEFAULT_PROFILE, cluster.rebuilt(), one).placement
        )


def test_a_new_selector_looks_at_the_pods_with_its_label_alone():
    pods = [
        pod(f"{app}-{n}", node_name="a", labels={"app": app})
        for app, many in (("web", 2), ("db", 5))
        for n in range(many)
    ]
    snapshot = Snapshot.from_objects(nodes=[node("a")], pods=pods)
    asked = {
        "web": LabelSelector.from_labels({"app": "web"}),
        "either": LabelSelector((Requirement("app", "In", ("db", "web")),)),
        "all": LabelSelector((Requirement("app", "Exists"),)),
    }
    looked_at = {name: sum(1 for _each in snapshot._occupants.meant_by(one)) for name, one in asked.items()}
    assert looked_at == {"web": 2, "either": 7, "all": 7}
    with snapshot.trial() as trial:
        trial.take_off(("default", "web-0"), "a")
        assert [one.labels for one in snapshot._occupants.meant_by(asked["web"])] == [{"app": "web"}]
    for one in pods:
        snapshot.remove_pod("default", one["metadata"]["name"])
    assert not list(snapshot._occupants.meant_by(asked["either"]))
