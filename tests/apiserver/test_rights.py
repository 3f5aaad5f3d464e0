"""What each component may do and, above all, what it may not: asked of the real API server, from the manifests.

The manifests say what is granted; that it suffices is proved by every test that runs a component under its account.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    Resource,
)
from tests.dev.hosts_help import eventually
from tests.support.kube import client_for

DEPLOY = Path(__file__).parents[2] / "deploy"
ACCOUNTS = {
    "agent": "berth-agent",
    "controller": "berth-controller",
    "scheduler": "berth-scheduler",
    "extender": "berth-scheduler-extender",
    "tasks": "berth-tasks",
}
REVIEW = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False)
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
WRITES = ("create", "update", "patch", "delete", "deletecollection")
RBAC, ADMISSION = "rbac.authorization.k8s.io", "admissionregistration.k8s.io"
#: group, resource[/subresource], verbs that none of berth's parts has, anywhere.
NOBODY = (
    ("", "secrets", VERBS),
    ("", "configmaps", WRITES),
    ("", "pods", ("create", "update", "patch", "deletecollection")),
    ("", "pods/exec", ("get", "create")),
    ("", "pods/attach", ("get", "create")),
    ("", "pods/portforward", ("get", "create")),
    ("", "pods/ephemeralcontainers", ("update", "patch")),
    ("", "nodes", WRITES),
    ("", "nodes/proxy", ("get", "create")),
    ("", "namespaces", WRITES),
    ("", "serviceaccounts", ("create", "update", "patch", "delete", "impersonate")),
    ("", "users", ("impersonate",)),
    ("", "groups", ("impersonate",)),
    ("", "persistentvolumes", ("deletecollection",)),
    ("", "persistentvolumeclaims", ("create", "update", "delete", "deletecollection")),
    ("apps", "statefulsets", WRITES),
    ("apps", "daemonsets", WRITES),
    ("batch", "jobs", WRITES),
    ("storage.k8s.io", "storageclasses", WRITES),
    (RBAC, "clusterroles", (*WRITES, "bind", "escalate")),
    (RBAC, "clusterrolebindings", WRITES),
    (RBAC, "roles", (*WRITES, "bind", "escalate")),
    (RBAC, "rolebindings", WRITES),
    (ADMISSION, "validatingadmissionpolicies", WRITES),
    (ADMISSION, "validatingadmissionpolicybindings", WRITES),
    (ADMISSION, "mutatingwebhookconfigurations", WRITES),
    ("apiextensions.k8s.io", "customresourcedefinitions", WRITES),
    ("certificates.k8s.io", "certificatesigningrequests", WRITES),
    ("berth.dev", "localdisks", ("delete", "deletecollection")),
    ("berth.dev", "localdevices", ("delete", "deletecollection")),
    ("berth.dev", "berths", ("deletecollection",)),
    ("berth.dev", "statefulapps", ("create", "update", "delete", "deletecollection")),
    ("berth.dev", "statefulapps/scale", WRITES),
    ("berth.dev", "tasks", WRITES),
    ("berth.dev", "taskbatches", WRITES),
    ("berth.dev", "taskbatchshards", ("delete", "deletecollection")),
    ("berth.dev", "taskoffers", ("create", "update", "deletecollection")),
    ("berth.dev", "taskqueues", WRITES),
    ("berth.dev", "localdisks/volumes", ("adopt",)),
)
#: What one of berth's parts has and these have not.
BUT_NOT = {
    "agent": (
        ("", "pods", ("delete",)),
        ("", "pods/binding", ("create",)),
        ("", "persistentvolumes", WRITES),
        ("", "persistentvolumeclaims", WRITES),
        ("berth.dev", "berths", WRITES),
        ("berth.dev", "berths/status", WRITES),
        ("berth.dev", "localdisks/wipe", ("create",)),
        ("berth.dev", "localdisks/volumes", ("create", "block")),
        ("resource.k8s.io", "resourceclaims", WRITES),
    ),
    "controller": (
        ("", "namespaces", ("list", "watch")),
        ("scheduling.k8s.io", "priorityclasses", ("list", "watch", *WRITES)),
        ("berth.dev", "localdisks/retained", ("update",)),
        ("", "pods", ("get", "delete")),
        ("", "pods/binding", ("create",)),
        ("", "pods/eviction", ("create",)),
        ("", "pods/status", WRITES),
        ("policy", "poddisruptionbudgets", VERBS),
        ("", "persistentvolumes", ("update", "patch")),
        ("berth.dev", "localdisks", ("create", "patch")),
        ("berth.dev", "localdevices", WRITES),
        ("resource.k8s.io", "resourceclaims", VERBS),
    ),
    "scheduler": (
        ("berth.dev", "localdisks/wipe", ("create",)),
        ("berth.dev", "localdisks/retained", ("update",)),
        ("", "persistentvolumes", ("patch", "delete")),
        ("berth.dev", "localdisks", ("create", "patch")),
        ("berth.dev", "localdisks/status", WRITES),
        ("berth.dev", "localdevices", WRITES),
        ("resource.k8s.io", "resourceslices", WRITES),
    ),
    "extender": (
        ("berth.dev", "localdisks/wipe", ("create",)),
        ("berth.dev", "localdisks/retained", ("update",)),
        ("", "pods", ("list", "watch", "delete")),
        ("", "pods/status", WRITES),
        ("", "persistentvolumes", ("patch", "delete")),
        ("berth.dev", "localdisks", ("create", "patch")),
        ("berth.dev", "localdisks/status", WRITES),
        ("berth.dev", "localdevices", WRITES),
        ("resource.k8s.io", "resourceclaims", VERBS),
    ),
    # It makes and deletes pods where somebody has bound berth-task-runner, and nowhere else.
    "tasks": (
        ("", "pods", ("get", "delete", "deletecollection")),
        ("", "pods/log", ("get",)),
        ("", "pods/binding", ("create",)),
        ("", "pods/status", WRITES),
        ("", "resourcequotas", ("get", *WRITES)),
        ("", "persistentvolumes", VERBS),
        ("", "persistentvolumeclaims", VERBS),
        ("berth.dev", "berths", ("get", *WRITES)),
        ("berth.dev", "localdisks", VERBS),
        ("berth.dev", "localdisks/wipe", ("create",)),
        ("berth.dev", "localdevices", VERBS),
        ("berth.dev", "tasks", ("get",)),
        ("resource.k8s.io", "resourceclaims", VERBS),
    ),
}
#: One right of each, so that a review that says no to everything is found out.
MAY = {
    "agent": ("berth.dev", "localdisks/status", "patch"),
    "controller": ("", "persistentvolumes", "create"),
    "scheduler": ("", "pods/binding", "create"),
    "extender": ("", "pods/binding", "create"),
    "tasks": ("berth.dev", "tasks/status", "patch"),
}


def rules() -> Iterator[tuple[str, dict[str, Any]]]:
    """(role, rule) of every manifest that is shipped."""
    for file in sorted([*DEPLOY.glob("*/rbac.yaml"), DEPLOY / "policies" / "roles.yaml"]):
        for document in yaml.safe_load_all(file.read_text()):
            for item in (document or {}).get("items", ()):
                for rule in item.get("rules") or ():
                    yield f"{file.parent.name}: {item['kind']} {item['metadata']['name']}", rule


def test_who_says_where_a_pods_room_is_can_say_nothing_else() -> None:
    """Who patches the status of pods can say a lot of them: it is a role of its own, and part of no other."""
    found = [(role, rule) for role, rule in rules() if "pods/status" in rule["resources"]]
    shipped = {role: rule["verbs"] for role, rule in found if role.startswith("policies: ")}
    assert shipped == {"policies: ClusterRole berth-update-hold": ["patch"]}
    (only,) = [rule for role, rule in rules() if role == "policies: ClusterRole berth-update-hold"]
    assert only == {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]}


def test_no_role_has_a_wildcard_or_a_right_over_rights() -> None:
    seen = list(rules())
    assert {name.partition(":")[0] for name, _rule in seen} == {*ACCOUNTS, "policies"}
    for role, rule in seen:
        for key in ("verbs", "resources", "apiGroups"):
            assert "*" not in rule.get(key, ()), (role, rule)
        assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"]), (role, rule)
        assert not any(name.endswith("/*") for name in rule.get("resources", ())), (role, rule)


def items_of(manifest: Path) -> list[dict[str, Any]]:
    return [item for one in yaml.safe_load_all(manifest.read_text()) for item in (one or {}).get("items", ())]


def namespaces(manifest: Path) -> set[str]:
    """Where it grants rights: what is granted in the whole cluster is granted in each of them."""
    found = {str(one["metadata"]["namespace"]) for one in items_of(manifest) if one["kind"] == "RoleBinding"}
    return found or {"default"}


def bound(manifest: Path, namespace: str) -> Iterator[dict[str, Any]]:
    """The rules of the roles that it binds in the whole cluster and in the namespace."""
    items = items_of(manifest)
    roles = {(one["kind"], one["metadata"]["name"]): one["rules"] for one in items if "rules" in one}
    for one in items:
        if one["kind"] == "ClusterRoleBinding" or (
            one["kind"] == "RoleBinding" and one["metadata"]["namespace"] == namespace
        ):
            yield from roles[one["roleRef"]["kind"], one["roleRef"]["name"]]


def gives(rule: dict[str, Any], group: str, what: str, verb: str) -> bool:
    """Whether the rule gives the right over every object of the kind, as the API server reads it."""
    subresource = what.partition("/")[2]
    resources = {what, "*", f"*/{subresource}"} if subresource else {what, "*"}
    return (
        not rule.get("resourceNames")
        and bool({group, "*"} & set(rule.get("apiGroups", ())))
        and bool({verb, "*"} & set(rule["verbs"]))
        and bool(resources & set(rule.get("resources", ())))
    )


@pytest.mark.parametrize(
    ("rule", "given"),
    [
        ({"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]}, True),
        ({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, True),
        ({"apiGroups": [""], "resources": ["*/exec"], "verbs": ["create"]}, True),
        ({"apiGroups": ["apps"], "resources": ["pods/exec"], "verbs": ["create"]}, False),
        ({"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}, False),
        ({"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get"]}, False),
        ({"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"], "resourceNames": ["a"]}, False),
        ({"nonResourceURLs": ["*"], "verbs": ["*"]}, False),
    ],
)
def test_a_wildcard_gives_what_it_covers(api: ApiClient, name: str, rule: dict[str, Any], given: bool) -> None:
    """By `gives` as by the API server."""
    user, who = f"system:serviceaccount:default:{name}", {"kind": "ServiceAccount", "name": name}
    meta, ref = {"metadata": {"name": name}}, {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
    known = {"apiGroups": ["example.com"], "resources": ["known"], "verbs": ["get"]}
    api.create(CLUSTER_ROLE, {**meta, "rules": [rule, known]})
    binding = {**meta, "roleRef": ref, "subjects": [{**who, "namespace": "default"}]}
    api.create(CLUSTER_ROLE_BINDING, binding)
    try:
        eventually(lambda: allowed(api, user, "example.com", "known", "get", "default"), what="the role is in force")
        assert gives(rule, "", "pods/exec", "create") == given
        assert allowed(api, user, "", "pods/exec", "create", "default") == given
    finally:
        api.delete(CLUSTER_ROLE_BINDING, name)
        api.delete(CLUSTER_ROLE, name)


def allowed(api: ApiClient, user: str, group: str, what: str, verb: str, namespace: str) -> bool:
    """The API server's word about one right."""
    resource, _slash, subresource = what.partition("/")
    attributes = {"group": group, "resource": resource, "subresource": subresource, "verb": verb}
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{user.split(':')[2]}", "system:authenticated"]
    spec = {"user": user, "groups": groups, "resourceAttributes": {**attributes, "namespace": namespace}}
    return bool(api.create(REVIEW, {"spec": spec, "metadata": {}})["status"]["allowed"])


def granted(control_plane: Any, user: str, namespace: str) -> list[dict[str, Any]]:
    """All rules that the account has there, of the whole cluster and of the namespace, from any binding."""
    api_version, kind = "authorization.k8s.io/v1", "SelfSubjectRulesReview"
    question = json.dumps({"apiVersion": api_version, "kind": kind, "spec": {"namespace": namespace}})
    path = f"/apis/{api_version}/selfsubjectrulesreviews"
    answer = control_plane.kubectl("create", "--raw", path, "-f", "-", "--as", user, stdin=question)
    return list(json.loads(answer)["status"]["resourceRules"])


def rights_of(rules: Iterable[dict[str, Any]]) -> set[tuple[str, ...]]:
    """Each right by itself, with the names that it is for."""
    return {
        (group, what, verb, *sorted(rule.get("resourceNames") or ()))
        for rule in rules
        for group in rule.get("apiGroups", ())
        for what in rule.get("resources", ())
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("component", ACCOUNTS)
def test_what_a_component_may_not_do(control_plane: Any, crds: None, component: str) -> None:
    """All that it has is asked for at once in each namespace: a thousand single questions take a minute."""
    manifest = DEPLOY / component / "rbac.yaml"
    control_plane.kubectl("apply", "-f", str(manifest))
    api, user = client_for(control_plane.kubeconfig), f"system:serviceaccount:berth-system:{ACCOUNTS[component]}"
    assert allowed(api, user, *MAY[component], "default"), "the rights are there"
    lease = ("coordination.k8s.io", "leases", "update", "kube-system")
    assert not allowed(api, user, *lease), "another component's lease"
    found = []
    for namespace in namespaces(manifest):
        wanted = rights_of(bound(manifest, namespace))
        # The API server takes up a role a moment after it was written.
        has = eventually(
            lambda namespace=namespace, wanted=wanted: (
                rights_of(rules := granted(control_plane, user, namespace)) >= wanted and rules
            ),
            what="what the manifest grants is in force",
        )
        assert any(gives(rule, *MAY[component]) for rule in has), "it would be seen"
        found += [
            f"{verb} {group}/{what} in {namespace}"
            for group, what, verbs in (*NOBODY, *BUT_NOT[component])
            for verb in verbs
            if any(gives(rule, group, what, verb) for rule in has)
        ]
    assert found == []
