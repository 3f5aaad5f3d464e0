"""What each component may do and, above all, what it may not: asked of the real API server, from the manifests.

The manifests say what is granted; that it suffices is proved by every test that runs a component under its account.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import Resource
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


def namespaces(manifest: Path) -> set[str]:
    """Where it grants rights: what is granted in the whole cluster is granted in each of them."""
    items = [item for one in yaml.safe_load_all(manifest.read_text()) for item in (one or {}).get("items", ())]
    return {str(one["metadata"]["namespace"]) for one in items if one["kind"] == "RoleBinding"} or {"default"}


@pytest.mark.parametrize("component", ACCOUNTS)
def test_what_a_component_may_not_do(control_plane: Any, crds: None, component: str) -> None:
    manifest = DEPLOY / component / "rbac.yaml"
    control_plane.kubectl("apply", "-f", str(manifest))
    api = client_for(control_plane.kubeconfig)

    def allowed(group: str, what: str, verb: str, namespace: str) -> bool:
        resource, _slash, subresource = what.partition("/")
        attributes = {"group": group, "resource": resource, "subresource": subresource, "verb": verb}
        user = f"system:serviceaccount:berth-system:{ACCOUNTS[component]}"
        groups = ["system:serviceaccounts", "system:serviceaccounts:berth-system", "system:authenticated"]
        spec = {"user": user, "groups": groups, "resourceAttributes": {**attributes, "namespace": namespace}}
        return bool(api.create(REVIEW, {"spec": spec, "metadata": {}})["status"]["allowed"])

    assert allowed(*MAY[component], "default"), "the rights are there"
    lease = ("coordination.k8s.io", "leases", "update", "kube-system")
    assert not allowed(*lease), "another component's lease"
    found = [
        f"{verb} {group}/{what} in {namespace}"
        for group, what, verbs in (*NOBODY, *BUT_NOT[component])
        for verb in verbs
        for namespace in namespaces(manifest)
        if allowed(group, what, verb, namespace)
    ]
    assert found == []
