"""The module scheduler with mode: service on a real API server: account and rights, the token, beside a Deployment.

What runs on hosts with them: tests/integration/scheduler/test_scheduler_service.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue import node_agent_token, scheduler
from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.node_agents import token_claims
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.apiserver.test_local_disk import Run, runner
from tests.apiserver.test_scheduler_module import headers, remove_pod, waiting_pod

pytestmark = pytest.mark.usefixtures("crds")
RIGHTS = ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "Role", "RoleBinding", "RoleBinding"]
IN_THE_CLUSTER = ["ConfigMap", "PodDisruptionBudget", "Deployment"]


@pytest.fixture
def run(control_plane: Any, name: str, namespace: str) -> Iterator[Run]:
    operation = runner(scheduler.OPERATION, control_plane.kubeconfig)

    def call(check: bool = False, **options: Any) -> dict[str, Any]:
        shared = {"manifests": None, "mode": "service", "name": name, "namespace": namespace, "wait": False}
        return operation(check, **scheduler.prepare({**shared, **options}))

    yield call
    for mode in ("service", "daemon"):
        assert "msg" not in call(mode=mode, state="absent", force=True)


def test_account_and_rights_once_and_gone_again(run: Run, api: ApiClient, name: str, namespace: str) -> None:
    planned = run(check=True)
    assert api.find(kinds.SERVICE_ACCOUNT, name, namespace) is None
    first = run()
    assert headers(first) == headers(planned) == RIGHTS
    assert (first["scheduler_names"], first["leader"]) == ([name], "")
    lease = json.loads(first["configuration"])["leaderElection"]
    assert lease == {"resourceName": name, "resourceNamespace": namespace}
    assert not run()["changed"]
    assert headers(run(check=True, state="absent")) == headers(run(state="absent")) == RIGHTS[::-1]
    assert not run(state="absent")["changed"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"image": "registry.example.com/s:1"}, "image is nothing of mode: service"),
        ({"mode": "daemon"}, "image is missing, which mode: daemon runs"),
        ({"config": {"leaderElection": {"leaderElect": False}}}, "config.leaderElection.leaderElect"),
        ({"config": {"clientConnection": {"kubeconfig": "/x"}}}, "expected none, it is given its own account"),
        ({"name": "kube-scheduler"}, "that is the stock scheduler's"),
    ],
)
def test_what_is_wrong_is_refused_before_anything_is_touched(run: Run, options: dict[str, Any], words: str) -> None:
    refused = run(**options)
    assert words in refused["msg"], refused
    assert not refused["changed"]


def test_who_leads_renews_its_lease(run: Run, api: ApiClient, name: str, namespace: str) -> None:
    def lead(holder: str) -> str:
        spec = {"holderIdentity": holder, "renewTime": "2026-01-01T00:00:00.000000Z", "leaseDurationSeconds": 15}
        meta = {"name": name, "namespace": namespace}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}
        api.apply(kinds.LEASE, lease)
        return str(run(wait=True, wait_timeout=1)["msg"])

    assert "its Lease is held by nobody" in run(wait=True, wait_timeout=1)["msg"]
    # Who has died holds it too.
    assert "m1 holds its Lease and has not renewed it since" in lead("m1_x")
    assert run()["leader"] == "m1"
    assert headers(run(state="absent"))[-1] == "Lease"


def test_of_two_modes_under_one_name_the_last_takes_the_rights_along(
    run: Run, api: ApiClient, name: str, namespace: str
) -> None:
    run(config={"profiles": [{"schedulerName": name}, {"schedulerName": f"{name}-b"}]})
    assert headers(run(mode="daemon", image="s:1", wait=False)) == IN_THE_CLUSTER
    waiting_pod(api, namespace, f"{name}-b")
    try:
        assert headers(run(mode="daemon", state="absent", wait=False)) == IN_THE_CLUSTER[::-1]
        assert f"is not removed while pods wait for it: {namespace}/waits" in run(state="absent")["msg"]
    finally:
        remove_pod(api, namespace)
    run(mode="daemon", image="s:1", wait=False)
    assert headers(run(state="absent")) == ["RoleBinding", "Role"]
    assert api.find(kinds.CLUSTER_ROLE, name) is not None
    assert set(headers(run(mode="daemon", state="absent", wait=False))) == {*IN_THE_CLUSTER, *RIGHTS}


def test_a_token_of_its_account_is_bound_to_the_node(
    run: Run, api: ApiClient, control_plane: Any, name: str, namespace: str
) -> None:
    token = runner(node_agent_token.OPERATION, control_plane.kubeconfig)
    asked = {"node_name": name, "service_account": name, "namespace": namespace}
    assert "module scheduler with mode: service" in token(False, **asked)["msg"]
    run()
    api.create(kinds.NODE, {"metadata": {"name": name}})
    try:
        given = token(False, **asked)["token"]
        claims = token_claims(given)
        assert claims["sub"] == f"system:serviceaccount:{namespace}:{name}"
        assert claims["kubernetes.io"]["node"]["name"] == name
        assert token(False, current=given, **asked)["token"] == ""
    finally:
        api.delete(kinds.NODE, name)
