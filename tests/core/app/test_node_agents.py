"""How far Kubernetes is with the agents' pods."""

from __future__ import annotations

import pytest

from berth_core.app.node_agents import not_rolled_out


def daemon_set(generation=2, observed=2, wanted=3, updated=3, available=3):
    counts = {"desiredNumberScheduled": wanted, "updatedNumberScheduled": updated, "numberAvailable": available}
    return {"metadata": {"generation": generation}, "status": {"observedGeneration": observed, **counts}}


def pod(name, ready, **state):
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    status = {"phase": "Running", "conditions": conditions, "containerStatuses": [{"state": state}]}
    return {"metadata": {"name": name}, "spec": {"nodeName": "n1"}, "status": status}


def test_all_new_and_ready():
    assert not_rolled_out(daemon_set(), lambda: pytest.fail("nobody needs the pods")) == ""
    assert not_rolled_out(daemon_set(wanted=0, updated=0, available=0), list) == "", "no node wants one"


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (daemon_set(updated=1, available=2), "of 3 agents 1 are new and 2 are available"),
        (daemon_set(available=2), "of 3 agents 3 are new and 2 are available"),
        (daemon_set(observed=1), "of 3 agents 0 are new and 3 are available"),  # of the last upgrade
        ({"metadata": {"generation": 1}}, "of 0 agents 0 are new and 0 are available"),
    ],
)
def test_where_it_stands_and_who_is_waited_for(where, words):
    lame = pod("berth-agent-x", False, waiting={"reason": "CrashLoopBackOff"})
    told = not_rolled_out(where, lambda: [pod("berth-agent-a", True), lame])
    assert told == f"{words}; not Ready: berth-agent-x on node n1 (CrashLoopBackOff)"
    assert not_rolled_out(where, list) == words
