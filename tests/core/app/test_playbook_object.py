"""A StatefulApp of a playbook: what a run says in it, what counts as another one, and what its status says."""

from __future__ import annotations

import json
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from berth_core.app.in_service import GATE
from berth_core.app.observed import Observed
from berth_core.app.plan import Plan
from berth_core.app.playbook_object import (
    RUN_FAILED,
    body_of,
    changes,
    diff_of,
    failed,
    gate_was_opened,
    has_a_place,
    outcome_of,
)
from berth_core.app.stateful_app_object import CONTROLLER, PLAYBOOK
from berth_core.app.stateful_app_status import row_of
from berth_core.app.wanted import parse_app
from berth_core.errors import StateError, TimeoutExpired
from tests.core.app.samples import changed
from tests.core.app.test_stateful_app_object import ASKED, SET

APP = parse_app(changed())


def told(**more: Any) -> dict[str, Any]:
    own = None if "template" in more else 3
    asked = changed(**{"on_node_loss": "keep", "replicas": own, **more})
    return body_of(asked, asked["template"], parse_app(asked).replicas)


def as_served(body: dict[str, Any], **more: Any) -> dict[str, Any]:
    """As the API server keeps it: with the schema's defaults."""
    spec = {"driver": PLAYBOOK, "replicas": 1, "workload": "StatefulSet", **body["spec"], **more}
    spec["disks"] = [{"volumeMode": "Filesystem", **disk} for disk in spec.get("disks", ())]
    if "service" in spec:
        spec["service"] = {"clusterIP": "None", "publishNotReadyAddresses": False, **spec["service"]}
    meta = {**body["metadata"], "generation": 3, "uid": "u", "resourceVersion": "7"}
    return json.loads(json.dumps({"metadata": meta, "spec": spec}))


@pytest.mark.parametrize("more", ASKED)
def test_what_was_written_is_not_written_again(more: dict[str, Any]) -> None:
    body = told(**more)
    assert body["spec"]["driver"] == PLAYBOOK
    assert changes(as_served(body), body) == []


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ({"replicas": 5}, ["replicas"]),
        ({"quorum": 1}, ["quorum"]),
        ({"leaveNodes": ["n1"], "suspended": True}, ["leave_nodes", "suspended"]),
        ({"disks": [{"name": "data", "size": "3Gi"}]}, ["disks"]),
        ({"updateStrategy": {"type": "SameNode", "hold": True}}, ["update_hold", "update_strategy"]),
        ({"template": {"spec": {"containers": [{"name": "db", "image": "other"}]}}}, ["template"]),
    ],
)
def test_what_somebody_else_has_said_in_it_is_named(more: dict[str, Any], names: list[str]) -> None:
    body = told(replicas=3)
    assert changes(as_served(body, **more), body) == names
    before, after = diff_of(as_served(body, **more), body, names)
    assert before is not None
    assert list(before) != []
    assert before != after
    assert "containers" not in json.dumps([before, after]), "a template by its hash alone"


def test_a_new_one_is_shown_without_its_template() -> None:
    body = told(replicas=3)
    names = changes(None, body)
    before, after = diff_of(None, body, names)
    assert (before, after["replicas"]) == (None, 3)
    assert after["template"].startswith("revision ")


def test_the_number_of_replicas_is_said_also_where_a_manifest_says_it() -> None:
    assert told(template=SET, replicas=None)["spec"]["replicas"] == 7
    assert told(replicas=None)["spec"]["replicas"] == 1


def test_what_is_said_of_one_run_or_one_loss_is_left_out() -> None:
    once = {
        "on_node_loss": "release",
        "release_ordinals": [1],
        "confirm_fenced": ["n1"],
        "inventory_nodes": ["n1"],
        "update_hooks": {"before": ["true"]},
        "update_primary_command": ["primary"],
        "until": "Bound",
        "wait": True,
        "explain": True,
    }
    asked = changed(on_node_loss="keep", update_order="primary_last")
    assert told(**once, update_order="primary_last") == body_of(asked, asked["template"], 3)


def test_keys_and_values_that_json_has_otherwise_are_no_difference() -> None:
    template = {
        "metadata": {"annotations": {1: "a", "b": None}},
        "spec": {"containers": [{"name": "db", "image": "i"}]},
    }
    body = body_of(changed(on_node_loss="keep"), template, 1)
    kept = as_served(body)
    del kept["spec"]["template"]["metadata"]["annotations"]["b"]
    assert changes(kept, body) == []


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=10,
    )
)
def test_whatever_stands_in_a_template_is_the_same_when_it_is_read_back(value: Any) -> None:
    body = body_of(changed(on_node_loss="keep"), {"spec": {"more": value, "containers": []}}, 1)
    assert changes(as_served(body), body) == []


def test_a_name_that_no_stateful_set_could_have_has_no_object() -> None:
    assert (has_a_place("d" * 52), has_a_place("d" * 53)) == (True, False)


def test_the_gate_is_one_of_before_where_the_object_has_it() -> None:
    gate = {"readinessGates": [{"conditionType": GATE}]}
    template = changed()["template"]
    gated = {**template, "spec": {**template["spec"], **gate}}
    assert gate_was_opened(as_served(told(template=gated)))
    inside = {**SET, "spec": {**SET["spec"], "template": gated}}
    assert gate_was_opened(as_served(told(template=inside)))
    assert not gate_was_opened(as_served(told()))
    assert not gate_was_opened(None)
    assert not gate_was_opened({**as_served(told()), "spec": {"template": "nonsense"}})


def pod(ordinal: int, ready: bool = True) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": str(ready)}]
    status = {"phase": "Running", "conditions": conditions}
    return {"metadata": {"name": f"db-{ordinal}"}, "spec": {"nodeName": "n1"}, "status": status}


def seen(*pods: dict[str, Any]) -> Observed:
    return Observed("db", "default", pods={one["metadata"]["name"]: one for one in pods})


def test_the_status_speaks_of_the_end_of_the_last_run() -> None:
    whole = seen(*(pod(ordinal) for ordinal in range(APP.replicas)))
    done = outcome_of(APP, whole, Plan(), None)
    assert (done.done, done.reason) == (True, "Running")
    assert done.message == "when stateful_app ran last, every replica was there, as asked for, and Ready"
    back = outcome_of(APP, whole, Plan(), "3")
    assert "rollbackTo 3" in back.message
    lacking = outcome_of(APP, seen(*whole.pods.values(), pod(1, ready=False)), Plan(), None)
    assert (lacking.done, lacking.stalled, lacking.reason) == (False, False, "WaitsForPods")
    assert lacking.message.startswith("when stateful_app ran last: pod db-1 ")
    assert outcome_of(APP, seen(), Plan(update=(0,)), None).reason == "Updating"
    exchanged = outcome_of(APP, whole, Plan(replacing=(0,)), None)
    assert "a disk of db-0 is being exchanged" in exchanged.message
    still = parse_app(changed(suspended=True))
    rests = outcome_of(still, seen(), Plan(), None)
    assert (rests.done, rests.reason) == (True, "Suspended")


def test_what_no_waiting_mends_is_stalled_and_so_is_a_run_that_failed() -> None:
    broken = pod(0, ready=False)
    waiting = {"reason": "InvalidImageName", "message": "no"}
    broken["status"]["containerStatuses"] = [{"name": "db", "state": {"waiting": waiting}}]
    told = outcome_of(APP, seen(broken), Plan(), None)
    assert (told.stalled, told.reason, "InvalidImageName" in told.message) == (True, "Blocked", True)
    late = failed(TimeoutExpired("waited 5 s"))
    assert (late.stalled, late.reason) == (True, RUN_FAILED)
    assert late.message == "the last run of stateful_app failed: waited 5 s"
    assert failed(StateError("paused", update_paused={"pod": "db-1"})).reason == "UpdatePaused"


def test_that_a_run_is_due_is_said_of_a_playbooks_app_alone() -> None:
    condition = {"type": "Ready", "status": "True", "reason": "Running", "message": "all well", "observedGeneration": 2}
    body = {**as_served(told()), "status": {"conditions": [condition]}}
    row = row_of(body)
    assert (row["state"], "a run of it is due" in row["message"]) == ("Outdated", True)
    body["spec"]["driver"] = CONTROLLER
    assert (row_of(body)["state"], row_of(body)["message"]) == ("Outdated", "all well")
