"""Which rights a run needs, made of the shipped objects, and what is said of those that are missing.

That they suffice is proved on a real API server: tests/apiserver/test_installation_check.py.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from berth_core.app.install_rights import EVERYTHING, PARTS, Needed, Right, Run, missing, needed
from tests.core.app.install_world import SHIPPED

ALL = tuple(part for part in PARTS if part != "agents_hosts")


def rights(*parts: str, state: str = "present", **more: object) -> set[str]:
    return {str(right) for right in needed(Run(state, parts, **more), SHIPPED).rights}  # type: ignore[arg-type]


def only(*allowed: str) -> Callable[[Right], bool]:
    return lambda right: str(right) in allowed


def test_each_part_needs_what_its_objects_and_its_module_need():
    assert rights("storage_classes") == {
        f"{verb} storageclasses.storage.k8s.io" for verb in ("list", "create", "patch")
    }
    assert rights("storage_classes", state="absent") == {
        "list persistentvolumeclaims",
        *(f"{verb} storageclasses.storage.k8s.io" for verb in ("list", "delete")),
    }
    controller = rights("controller", namespace="placing")
    assert {
        *("create namespaces", "patch deployments.apps in namespace placing", "get priorityclasses.scheduling.k8s.io"),
        *("create clusterroles.rbac.authorization.k8s.io", "create csidrivers.storage.k8s.io"),
    } <= controller
    assert not [text for text in controller if text.startswith(("delete", "update"))]
    assert not [text for text in controller if "berth-system" in text]
    gone = rights("controller", state="absent", namespace="placing")
    assert "delete deployments.apps in namespace placing" in gone
    assert "list persistentvolumeclaims" in gone
    assert not [text for text in gone if text.startswith(("create", "patch")) or text.endswith("namespaces")]
    assert "update customresourcedefinitions.apiextensions.k8s.io" in rights("crds")
    assert {"list berths.berth.dev", "list localdisks.berth.dev"} <= rights("crds", state="absent")


def test_agents_are_in_their_own_namespace_and_a_daemon_set_only_where_it_is_asked_for():
    hosts, cluster = rights("agents_hosts", namespace="placing"), rights("agents_daemonset", namespace="placing")
    assert "create serviceaccounts/token in namespace berth-system" in hosts
    assert not [text for text in hosts if "daemonsets" in text or "security.openshift.io" in text]
    assert "create daemonsets.apps in namespace berth-system" in cluster
    assert not [text for text in hosts | cluster if "placing" in text]
    assert [text for text in cluster if "openshift" in text] == [
        "list securitycontextconstraints.security.openshift.io"
    ]
    there = rights("agents_daemonset", openshift=True)
    assert "create securitycontextconstraints.security.openshift.io" in there


def test_a_namespace_that_is_there_needs_not_be_made():
    meta = {"name": "berth-system", "labels": {"app.kubernetes.io/part-of": "berth"}}
    there = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
    given = {"berth-system": there}
    assert {text for text in rights("controller", "agents_hosts", namespaces=given) if text.endswith("namespaces")} == {
        "get namespaces"
    }
    meta["labels"] = {}
    assert "patch namespaces" in rights("agents_hosts", namespaces=given)
    assert "patch namespaces" not in rights("controller", namespaces=given)


def test_who_may_everything_is_asked_once():
    asked: list[Right] = []

    def may(right: Right) -> bool:
        asked.append(right)
        return True

    assert missing(needed(Run("present", ALL), SHIPPED), may) == []
    assert asked == [EVERYTHING]


@pytest.mark.parametrize("state", ["present", "absent"])
def test_every_right_is_asked_for_once_and_every_missing_one_is_named(state: str):
    wanted = needed(Run(state, ALL), SHIPPED)
    asked: list[Right] = []

    def may(right: Right) -> bool:
        asked.append(right)
        return False

    said = missing(wanted, may)
    assert len(asked) == len(set(asked)) < 400
    assert said[: len(wanted.rights)] == [str(right) for right in wanted.rights]
    assert len(said) == len(set(said)) == len(wanted.rights) + len(wanted.grants)
    assert bool(wanted.grants) is (state == "present")


def test_a_role_needs_its_own_rights_or_the_right_to_give_them():
    wanted = Needed((), needed(Run("present", ("extender",)), SHIPPED).grants)
    (grant,) = wanted.grants
    own = [str(right) for right in grant.rights]
    assert missing(wanted, only(*own)) == []
    (text,) = missing(wanted, only(*own[1:]))
    role = "clusterroles.rbac.authorization.k8s.io berth-scheduler-extender"
    assert text == f"escalate and bind {role} (or what ClusterRole berth-scheduler-extender gives: {own[0]})"
    (text,) = missing(wanted, only(*own[1:], f"escalate {role}"))
    assert text.startswith(f"bind {role}")
    assert missing(wanted, only(f"escalate {role}", f"bind {role}")) == []


def test_the_roles_for_people_are_bound_by_nobody():
    """They are posted: the API server asks for escalate before they have a name."""
    wanted = Needed((), needed(Run("present", ("crds",)), SHIPPED).grants)
    texts = missing(wanted, only())
    assert {text.partition(" (")[0] for text in texts} == {"escalate clusterroles.rbac.authorization.k8s.io"}
    assert "or what ClusterRole berth-block-volumes gives: block localdisks/volumes.berth.dev" in texts[-2] + texts[-1]
    assert missing(wanted, only("escalate clusterroles.rbac.authorization.k8s.io")) == []


def test_a_scheduler_of_another_name_has_roles_of_that_name():
    grants = needed(Run("present", ("scheduler",), scheduler="batch"), SHIPPED).grants
    assert {grant.name for grant in grants} == {"batch"}


def test_a_review_asks_for_a_subresource_in_its_namespace():
    right = Right("create", "", "serviceaccounts/token", "berth-system", "berth-agent")
    assert right.review()["spec"]["resourceAttributes"] == {
        "verb": "create",
        "resource": "serviceaccounts",
        "subresource": "token",
        "namespace": "berth-system",
        "name": "berth-agent",
    }
