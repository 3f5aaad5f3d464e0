"""Which pod the Berth of a claim names, and whose it is."""

from __future__ import annotations

import itertools

import pytest

from berth_core.app.claim_pods import ClaimPod, claim_pod, named_pod, workload_of


def pod(owner=None, labels=None, **meta):
    owners = [] if owner is None else [{"kind": owner[0], "name": owner[1], "controller": True}]
    return {"metadata": {"name": "p", "labels": labels or {}, "ownerReferences": owners, **meta}, "status": {}}


HASH = {"pod-template-hash": "6b9f"}


@pytest.mark.parametrize(
    ("found", "workload"),
    [
        (pod(("StatefulSet", "pg")), "StatefulSet pg"),
        (pod(("ReplicaSet", "web-6b9f"), HASH), "Deployment web"),
        (pod(("ReplicaSet", "web-6b9f")), "ReplicaSet web-6b9f"),  # made by hand
        (pod(("ReplicaSet", "web-6b9f"), {"pod-template-hash": "b9f"}), "ReplicaSet web-6b9f"),
        (pod(("Job", "load")), "Job load"),
        (pod(), ""),
        (pod(ownerReferences=[{"kind": "Backup", "name": "b"}]), ""),  # no controller
    ],
)
def test_the_workload_of_a_pod_is_what_controls_it(found, workload):
    assert workload_of(found) == workload


def test_a_pod_that_goes_is_not_ready():
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    assert claim_pod({**pod(), "status": ready}) == ClaimPod("p", "", True, False)
    assert claim_pod({**pod(deletionTimestamp="now"), "status": ready}) == ClaimPod("p", "", False, True)


def test_the_pod_that_is_named_stays_first_whatever_the_order():
    going, idle, serving = (
        ClaimPod("a", "", False, True),
        ClaimPod("b", "", False, False),
        ClaimPod("c", "", True, False),
    )
    for pods in itertools.permutations((going, idle, serving)):
        assert named_pod(pods, None) == serving
        assert named_pod(pods, "b") == idle
        assert named_pod(pods, "a") == serving, "it goes, and another one has come"
    assert named_pod([going], "a") == going
    assert named_pod([], "a") is None
