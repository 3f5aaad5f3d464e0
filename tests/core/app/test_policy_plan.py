"""What becomes of a policy or role that comes with the definitions, given the one that is installed."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from berth_core.app.crd_plan import updated
from berth_core.app.policy_plan import (
    NODE_AFFINITY,
    check_policies,
    for_mount_root,
    mount_root_of,
    plan_policy,
    without_node_affinity,
)
from berth_core.errors import BerthError, InputError, StateError

FOLDER = Path(__file__).parents[3] / "deploy" / "policies"
SHIPPED = [item for file in sorted(FOLDER.glob("*.yaml")) for item in yaml.safe_load(file.read_text())["items"]]
POLICY = next(body for body in SHIPPED if body["kind"] == "ValidatingAdmissionPolicy")
ROLE = next(body for body in SHIPPED if body["kind"] == "ClusterRole")


def installed(body: dict[str, Any]) -> dict[str, Any]:
    """As the API server has it."""
    live = copy.deepcopy(body)
    live["metadata"].update({"uid": "u", "resourceVersion": "7", "managedFields": [{}]})
    live["metadata"]["labels"]["theirs"] = "x"
    match = live.get("spec", {}).get("matchConstraints")
    if match:
        for key, value in {"namespaceSelector": {}, "objectSelector": {}, "matchPolicy": "Equivalent"}.items():
            match.setdefault(key, value)
        for rule in match["resourceRules"]:
            rule["scope"] = "*"
        live["status"] = {"observedGeneration": 1}
    return live


@pytest.mark.parametrize("body", SHIPPED, ids=lambda body: f"{body['kind']}-{body['metadata']['name']}")
def test_server_defaults_and_others_labels_are_no_difference(body: dict[str, Any]) -> None:
    change = plan_policy(body, installed(body))
    assert (change.action, change.before) == ("none", change.after)
    assert plan_policy(body, None).action == "create"


@pytest.mark.parametrize(
    "added",
    [
        {"matchConditions": [{"name": "never", "expression": "false"}]},
        {"matchConstraints": {**POLICY["spec"]["matchConstraints"], "objectSelector": {"matchLabels": {"a": "b"}}}},
        {"matchConstraints": {**POLICY["spec"]["matchConstraints"], "excludeResourceRules": [{"resources": ["*"]}]}},
        {"failurePolicy": "Ignore"},
        {"validations": POLICY["spec"]["validations"][1:]},
    ],
)
def test_what_switches_a_policy_off_goes(added: dict[str, Any]) -> None:
    live = installed(POLICY)
    live["spec"].update(added)
    change = plan_policy(POLICY, live)
    assert change.action == "update"
    body = updated(change)
    assert body["spec"] == POLICY["spec"]
    assert body["metadata"]["resourceVersion"] == "7"
    assert body["metadata"]["labels"]["theirs"] == "x"


def test_a_right_that_somebody_added_to_a_role_goes() -> None:
    live = installed(ROLE)
    live["rules"].append({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]})
    change = plan_policy(ROLE, live)
    assert change.action == "update"
    assert updated(change)["rules"] == ROLE["rules"]


def test_what_is_not_berths_is_not_written_over() -> None:
    live = installed(ROLE)
    live["metadata"]["labels"] = {}
    with pytest.raises(StateError, match="is there and is not berth's"):
        plan_policy(ROLE, live)


def test_a_priority_class_stays_whoever_made_it() -> None:
    (body,) = [body for body in SHIPPED if body["kind"] == "PriorityClass"]
    assert (body["value"], body["preemptionPolicy"]) == (0, "Never")
    for metadata in ({"name": "berth-hold"}, body["metadata"]):
        assert plan_policy(body, {**body, "metadata": metadata, "value": 1000}).action == "none"


def test_volumes_are_where_agents_mount() -> None:
    made = [for_mount_root(body, "/mnt/disks/") for body in SHIPPED]
    (moved,) = [body for body, before in zip(made, SHIPPED, strict=True) if body != before]
    assert {"name": "mountRoot", "expression": "'/mnt/disks'"} in moved["spec"]["variables"]
    assert mount_root_of(moved) == "/mnt/disks"
    assert [for_mount_root(body, mount_root_of(None)) for body in SHIPPED] == SHIPPED


@pytest.mark.parametrize("root", ["relative", "/", "/a/../b", "/a' || true || '", "/a\\"])
def test_a_mount_root_that_is_none(root: str) -> None:
    with pytest.raises(BerthError, match="mount"):
        for_mount_root(POLICY, root)


@pytest.mark.parametrize("bad", ["text", {"kind": "Pod", "metadata": {"name": "x"}}, {"kind": "ClusterRole"}])
def test_bad_policies(bad: Any) -> None:
    with pytest.raises(InputError, match=r"policies\[0\] is a"):
        check_policies([bad])


def test_every_policy_denies_and_fails_closed() -> None:
    policies = {body["metadata"]["name"] for body in SHIPPED if body["kind"] == "ValidatingAdmissionPolicy"}
    bindings = [body["spec"] for body in SHIPPED if body["kind"] == "ValidatingAdmissionPolicyBinding"]
    assert {spec["policyName"] for spec in bindings} == policies
    assert all(spec["validationActions"] == ["Deny"] and len(spec) == 2 for spec in bindings)
    for body in SHIPPED:
        assert body["metadata"]["labels"] == {"app.kubernetes.io/part-of": "berth"}
        if body["kind"] == "ValidatingAdmissionPolicy":
            assert body["spec"]["failurePolicy"] == "Fail"


def test_what_only_saves_work_never_refuses_a_pod() -> None:
    (policy,) = [body["spec"] for body in SHIPPED if body["kind"] == "MutatingAdmissionPolicy"]
    (binding,) = [body["spec"] for body in SHIPPED if body["kind"] == "MutatingAdmissionPolicyBinding"]
    assert policy["failurePolicy"] == "Ignore"
    assert binding["paramRef"]["parameterNotFoundAction"] == "Allow"


def test_what_saves_work_is_all_that_is_left_out() -> None:
    kept, off = without_node_affinity(SHIPPED)
    assert [(body["kind"], body["metadata"]["name"]) for body in off] == list(NODE_AFFINITY)
    left = [(body["kind"], body["metadata"]["name"]) for body in SHIPPED if body not in kept]
    assert left == list(NODE_AFFINITY)
    assert without_node_affinity([]) == ([], off), "also where others are brought"
