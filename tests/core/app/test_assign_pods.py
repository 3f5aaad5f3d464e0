"""The admission policies that give pods a scheduler: which there are, for whom, and which of them go."""

from __future__ import annotations

from typing import Any

from berth_core.app import assign_pods
from berth_core.app.policy_plan import KINDS, check_policies, plan_policy

PAIR = ["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"]


def of(bodies: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(body["kind"], body["metadata"]["name"]) for body in bodies]


def test_one_for_namespaces_and_where_classes_are_named_one_for_them() -> None:
    assert of(assign_pods.objects("packing", "placing")) == [(kind, "packing-namespaces") for kind in PAIR]
    both = assign_pods.objects("packing", "placing", ["fast", "fast", "big"])
    assert of(both) == [(kind, name) for name in assign_pods.names("packing") for kind in PAIR]
    assert "in ['big', 'fast']" in both[2]["spec"]["matchConditions"][-1]["expression"]
    check_policies(both)


def test_a_binding_names_its_policy_and_every_object_says_whose_it_is() -> None:
    made = assign_pods.objects("packing", "placing", ["fast"])
    for policy, binding in zip(made[::2], made[1::2], strict=True):
        assert binding["spec"]["policyName"] == policy["metadata"]["name"]
        for body in (policy, binding):
            assert body["metadata"]["labels"]["app.kubernetes.io/instance"] == "packing"
            assert plan_policy(body, body).action == "none"


def test_the_pods_that_everything_stands_on_are_left_alone() -> None:
    labelled, _binding, classed, _other = assign_pods.objects("packing", "placing", ["fast"])
    for policy in (labelled, classed):
        (others,) = policy["spec"]["matchConstraints"]["namespaceSelector"]["matchExpressions"]
        assert (others["operator"], others["values"]) == ("NotIn", ["kube-system", "placing"])
    assert labelled["spec"]["matchConstraints"]["namespaceSelector"]["matchLabels"] == {assign_pods.LABEL: "packing"}
    assert "matchLabels" not in classed["spec"]["matchConstraints"]["namespaceSelector"]


def test_what_is_not_wanted_goes() -> None:
    everything = assign_pods.absent("packing")
    assert of(everything) == of(assign_pods.objects("packing", "placing", ["fast"]))
    left = assign_pods.absent("packing", assign_pods.objects("packing", "placing"))
    assert of(left) == [(kind, "packing-storage-classes") for kind in PAIR]
    assert assign_pods.absent("packing", everything) == []


def test_a_policy_is_made_before_its_binding_and_goes_after_it() -> None:
    assert KINDS.index(PAIR[0]) < KINDS.index(PAIR[1])
