"""What the cluster's drift tells of objects that cannot be read."""

from __future__ import annotations

from berth_core.app.cluster_drift import cluster_drift, living
from berth_core.app.overview import overview, snapshot_of
from tests.core.app.report_world import cluster

SPEC = {"app": "bad", "ordinal": 0, "nodeName": "n1", "requests": {"memory": "lots"}}
BAD = {"metadata": {"namespace": "shop", "name": "bad-0", "uid": "bad"}, "spec": SPEC}


def lists():
    found = cluster()
    return {**found, "Berth": [*found["Berth"], BAD]}


def unreadable(findings):
    return [(one["object"], one["what"]) for one in findings if one["kind"] == "unreadable"]


def test_what_a_snapshot_has_left_out_is_told_with_or_without_it():
    (told,) = unreadable(cluster_drift(lists()))
    assert told[0] == "Berth shop/bad-0"
    assert "spec.requests.memory: 'lots' is not a quantity" in told[1][0]
    assert unreadable(cluster_drift(lists(), unreadable={})) == []


def test_the_snapshot_that_is_there_serves_overview_and_drift(monkeypatch):
    found = lists()
    snapshot = snapshot_of(living(found))
    expected = overview(living(found)), cluster_drift(found)
    monkeypatch.setattr("berth_core.cluster.snapshot.Snapshot.from_objects", None)
    shown = overview(living(found), snapshot=snapshot), cluster_drift(found, unreadable=snapshot.unreadable)
    assert shown == expected
