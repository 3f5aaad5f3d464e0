"""What others take of nodes: a replica counts once, by what is known of it best."""

from __future__ import annotations

from berth_core.tasks.taken import BERTH, NOMINATED, POD, Taken, Takes

KEY = ("ns", "db-0")


def test_a_berth_counts_until_its_pod_has_a_node_and_again_when_that_is_gone() -> None:
    taken = Taken()
    assert not taken.put(KEY, BERTH, Takes("n1", {"cpu": 500, "example.com/gpu": 1, "pods": 1}))
    assert dict(taken.on("n1")) == {"cpu": 500, "example.com/gpu": 1, "pods": 1}
    assert taken.put(KEY, POD, Takes("n1", {"cpu": 400, "pods": 1})), "100m may be free"
    assert (taken.on("n1")["cpu"], taken.on("n1")["example.com/gpu"], taken.on("n1")["pods"]) == (400, 0, 1)
    taken.put(KEY, POD, None)
    assert taken.on("n1")["cpu"] == 500
    assert taken.put(KEY, BERTH, None)
    assert set(taken.on("n1").values()) == {0}


def test_a_nominated_pod_counts_where_room_is_made_and_then_where_it_runs() -> None:
    taken = Taken()
    taken.put(KEY, NOMINATED, Takes("n1", {"cpu": 400}))
    assert taken.on("n1")["cpu"] == 400
    assert taken.put(KEY, POD, Takes("n2", {"cpu": 400}))
    assert (taken.on("n1")["cpu"], taken.on("n2")["cpu"]) == (0, 400)
    taken.put(KEY, BERTH, Takes("n3", {"cpu": 9}))
    assert not taken.on("n3")
    assert not taken.put(KEY, POD, Takes("n2", {"cpu": 400})), "the same again frees nothing"
