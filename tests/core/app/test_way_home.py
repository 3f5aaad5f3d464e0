"""Whether a node takes a replica back, and that an update takes no pod from a node that does not."""

from __future__ import annotations

import pytest

from berth_core.app.update import roll
from berth_core.app.update_budgets import LATER, SOON, Restrictions
from berth_core.app.update_step import DELETE, PATCH
from berth_core.app.way_home import closed
from tests.core.app.test_update import Cluster, rules, template

WELL = {"type": "Ready", "status": "True"}


def node(*taints, status=None, **spec):
    return {"spec": {**spec, "taints": list(taints)}, "status": {"conditions": [status or WELL]}}


@pytest.mark.parametrize(
    ("there", "why"),
    [
        (node(), ""),
        (None, "its Node is deleted"),
        (node(unschedulable=True), "it is cordoned: kubectl uncordon n1"),
        (node(status={"type": "Ready", "status": "Unknown", "reason": "Silent"}), "Ready is Unknown: Silent"),
        (node({"key": "gone", "value": "soon", "effect": "NoSchedule"}), "it has the taint gone=soon:NoSchedule: take"),
        (node({"key": "gone", "effect": "NoExecute"}), "it has the taint gone:NoExecute: take it off"),
        (node({"key": "gone", "effect": "PreferNoSchedule"}), ""),
    ],
)
def test_why_a_node_takes_no_pod_back(there, why):
    told = closed("n1", there, {})
    assert told.startswith(why)
    assert bool(told) == bool(why)


def test_what_the_template_tolerates_closes_no_node():
    everything = {"tolerations": [{"operator": "Exists"}]}
    assert closed("n1", node({"key": "gone", "effect": "NoSchedule"}, unschedulable=True), everything) == ""
    only = {"tolerations": [{"key": "gone", "operator": "Exists"}]}
    assert closed("n1", node({"key": "gone", "effect": "NoSchedule"}, unschedulable=True), only).startswith(
        "it is cord"
    )


@pytest.fixture
def cluster():
    made = Cluster(2, old=template("one"), new=template("two"))
    for ordinal in range(2):
        made.pods[made.name(ordinal)]["spec"]["nodeName"] = f"n{ordinal}"
    return made


def shut(why):
    return Restrictions(closed={"n1": why})


def rolled(cluster, strategy, **more):
    return roll("db", range(2), cluster.pods, cluster.target(), rules(strategy), cluster.now, **more)


def test_nodes_are_asked_for_before_a_pod_is_made_anew_and_for_no_other_change(cluster):
    asked = rolled(cluster, "same_node", restrictions=None)
    assert (asked.asks, asked.nodes, asked.acts) == (True, ("n1",), ())
    assert rolled(cluster, "in_place_only", restrictions=None).nodes == ()


def test_no_pod_goes_that_could_not_come_back(cluster):
    found = rolled(cluster, "same_node", restrictions=shut("it is cordoned: kubectl uncordon n1"))
    assert found.acts == ()
    assert found.waits == ("node n1 to take pod db-1 back (it is cordoned: kubectl uncordon n1)",)
    assert found.again in (SOON, LATER), "nothing tells a driver of a change of the node"
    assert [act.do for act in rolled(cluster, "same_node", restrictions=shut("")).acts] == [DELETE]
    assert [act.do for act in rolled(cluster, "in_place_only", restrictions=shut("it is cordoned")).acts] == [PATCH]
