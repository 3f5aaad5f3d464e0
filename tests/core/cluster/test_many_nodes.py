"""Nodes that come one by one, as from a watch: what is copied and looked up, counted."""

from __future__ import annotations

import random

import pytest

from berth_core.cluster.columns import ints, with_row
from berth_core.cluster.nodes import NodeTable
from berth_core.cluster.snapshot import Snapshot
from tests.core.cluster.objects import node, pod

NODES = [node(f"n{number:04}", str(1 + number % 7), labels={"zone": str(number % 3)}) for number in range(600)]


@pytest.fixture
def indexed(monkeypatch):
    """Count how often all names are gone through."""
    made, kept = [], NodeTable.row_of.fget

    def row_of(table):
        if table._row_of is None:
            made.append(len(table.names))
        return kept(table)

    monkeypatch.setattr(NodeTable, "row_of", property(row_of))
    return made


def rooms(nodes):
    """Put nodes in one by one; return the table, and the different places that a column has stood at."""
    snapshot, seen = Snapshot(), []
    for one in nodes:
        snapshot.upsert_node(one)
        room = snapshot.nodes.allocatable["cpu"].base
        if not seen or seen[-1] is not room:
            seen.append(room)
    return snapshot, seen


def facts(snapshot):
    table = snapshot.nodes
    columns = [*table.allocatable.values(), *table.requested.values(), *table.nonzero.values(), table.unschedulable]
    taints = [table.taint_sets[number] for number in table.taint_set.tolist()]
    zones = [table.labels.values("zone")[number] for number in table.labels.ids("zone").tolist()]
    return table.names, table.infos, table.row_of, [one.tolist() for one in columns], taints, zones


def test_nodes_in_order_are_copied_as_often_as_their_number_doubles(indexed):
    snapshot, seen = rooms(NODES)
    assert len(seen) == 7, "16, 32, ... 1024: twice what there is, when it is full"
    assert [len(one) for one in seen] == [16, 32, 64, 128, 256, 512, 1024]
    assert indexed == []
    assert facts(snapshot) == facts(Snapshot.from_objects(nodes=NODES))


def test_nodes_in_any_order_are_indexed_when_somebody_asks(indexed):
    mixed = random.Random(1).sample(NODES, len(NODES))
    snapshot, seen = rooms(mixed)
    assert (len(seen), indexed) == (7, [])
    snapshot.upsert_pod(pod("p", node_name="n0007"))
    snapshot.upsert_pod(pod("q", node_name="n0008"))
    assert indexed == [600]
    anew = Snapshot.from_objects(nodes=NODES, pods=[pod("p", node_name="n0007"), pod("q", node_name="n0008")])
    assert facts(snapshot) == facts(anew)


def test_after_one_is_gone_the_next_has_a_room_of_its_own():
    snapshot, _seen = rooms(NODES[:20])
    snapshot.remove_node("n0003")
    snapshot.upsert_node(NODES[300])
    snapshot.upsert_node(NODES[3])
    assert facts(snapshot) == facts(Snapshot.from_objects(nodes=[*NODES[:20], NODES[300]]))


def test_a_row_is_put_into_the_room_behind_the_column():
    first = with_row(ints(3, 7), 1)
    second = with_row(first, 4)
    assert first.base is second.base
    assert second.tolist() == [7, 0, 7, 7, 0]
    assert with_row(second, 0).tolist() == [0, 7, 0, 7, 7, 0]
