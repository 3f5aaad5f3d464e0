"""A team's account: the roles that berth ships, bound in its own namespace and, where they say so, in the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils._glue.auth import load_auth
from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import ForbiddenError
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.dev.hosts_help import eventually
from tests.support.kube import client_for, fail_on_warning


def options(namespace: str) -> dict[str, Any]:
    """A module's options that make it the team's."""
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    return {"impersonate_user": f"system:serviceaccount:{namespace}:team", "impersonate_groups": groups}


@contextmanager
def team(kubeconfig: Path | str, namespace: str) -> Iterator[ApiClient]:
    """The account's client, once rights and policies are in force: the API server takes them up a moment later."""
    admin = client_for(kubeconfig)
    admin.create(kinds.NAMESPACE, {"metadata": {"name": namespace}})
    admin.create(kinds.ROLE_BINDING, binding("berth-app-operator", namespace, namespace))
    admin.create(kinds.CLUSTER_ROLE_BINDING, binding("berth-disk-user", namespace))
    client = client_of(kubeconfig, namespace)
    eventually(lambda: _in_force(client, namespace), what="the team's rights and the policies are in force")
    try:
        yield client
    finally:
        for role in ("berth-disk-user", "berth-disk-wiper"):
            admin.delete(kinds.CLUSTER_ROLE_BINDING, f"{namespace}-{role}")
        admin.delete(kinds.NAMESPACE, namespace)


def client_of(kubeconfig: Path | str, namespace: str) -> ApiClient:
    """The client of the account ``team`` of a namespace, which need not be there."""
    return ApiClient(load_auth({"kubeconfig": str(kubeconfig), **options(namespace)}, {}), fail_on_warning)


def binding(role: str, team_namespace: str, namespace: str | None = None) -> dict[str, Any]:
    """A RoleBinding in ``namespace``, or a ClusterRoleBinding."""
    metadata = {"name": f"{team_namespace}-{role}", **({"namespace": namespace} if namespace else {})}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    subject = {"kind": "ServiceAccount", "name": "team", "namespace": team_namespace}
    return {"metadata": metadata, "roleRef": reference, "subjects": [subject]}


def _in_force(client: ApiClient, namespace: str) -> bool:
    """Two objects that RBAC allows and policies refuse."""
    volume = {"capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/"}}
    device = {"nodeName": "n1", "deviceClass": "gpu", "uuid": namespace}
    try:
        client.list(kinds.BERTH, namespace)
    except ForbiddenError:
        return False
    return all(
        _refused(client, kind, {"metadata": {"name": f"{namespace}-probe"}, "spec": spec})
        for kind, spec in ((kinds.PV, volume), (kinds.LOCAL_DEVICE, device))
    )


def _refused(client: ApiClient, kind: kinds.Resource, body: dict[str, Any]) -> bool:
    try:
        client.create(kind, body, dry_run=True)
    except ForbiddenError as exc:
        return kind is kinds.LOCAL_DEVICE or "ValidatingAdmissionPolicy 'berth-volumes'" in exc.message
    return False
