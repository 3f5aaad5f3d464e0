"""How far Kubernetes is with the agents' pods."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from berth_core.app.node_agents import asked_before, next_steps, not_rolled_out, pod_problem

NOW = datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)


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


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (
            {
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
                "lastState": {"terminated": {"message": "starts\nberth-agent: no such node\n"}},
            },
            "CrashLoopBackOff: berth-agent: no such node",
        ),
        ({"state": {"terminated": {"reason": "Error", "message": "x" * 400}}}, f"Error: {'x' * 300}"),
        ({"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no tag"}}}, "ImagePullBackOff: no tag"),
        ({"state": {"running": {}}}, "Running"),
    ],
)
def test_a_pod_s_problem_has_its_last_words(status, words):
    lame = pod("berth-agent-x", False)
    lame["status"]["containerStatuses"] = [status]
    assert pod_problem(lame) == f"berth-agent-x on node n1 ({words})"


def test_what_to_do_where_a_roll_out_stands_still():
    back = "other nodes keep theirs: run again with what is right, or with what was there (previous)"
    assert next_steps([], [], NOW) == back
    conditions = '[{"type": "Ready", "status": "False", "reason": "NotLooked", "message": "no look yet"}]'
    lease = {
        "metadata": {"name": "berth-agent-n1", "annotations": {"berth.dev/conditions": conditions}},
        "spec": {"holderIdentity": "h", "leaseDurationSeconds": 60, "renewTime": "2026-01-01T00:00:00.000000Z"},
    }
    said = "the agent of node n1 is not Ready: NotLooked no look yet"
    look = "see kubectl -n berth-system logs berth-agent-x"
    assert next_steps([pod("a", True), pod("berth-agent-x", False)], [lease], NOW) == f"{said}; {look}; {back}"
    lease["spec"]["renewTime"] = "2025-01-01T00:00:00.000000Z"  # of the agent before: it says nothing of this pod
    assert next_steps([pod("berth-agent-x", False)], [lease], NOW) == f"{look}; {back}"


def test_what_was_there_is_what_would_be_asked():
    spec = {"containers": [{"image": "i:1"}], "tolerations": [{"operator": "Exists"}]}
    daemon = {"spec": {"template": {"spec": spec}}}
    files = {"data": {"default.yaml": "", "n1.example.yaml": "node: n1.example"}}
    assert asked_before(daemon, files) == {
        "image": "i:1",
        "default_configuration": "",
        "configurations": {"n1.example": "node: n1.example"},
        "node_selector": None,
        "tolerations": [{"operator": "Exists"}],
    }
    assert asked_before(None, files) is None
