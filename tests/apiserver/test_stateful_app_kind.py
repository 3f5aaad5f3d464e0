"""The kind StatefulApp on a real API server: its defaults, its scale, and who may have the controller make pods."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import ForbiddenError
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.support.kube import install_crds
from tests.support.team import team

pytestmark = pytest.mark.usefixtures("crds")
TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i"}]}}


def app(namespace: str, **spec: Any) -> dict[str, Any]:
    whole = {"metadata": {"name": "db", "namespace": namespace}, "spec": {"template": TEMPLATE, **spec}}
    return {"apiVersion": kinds.STATEFUL_APP.api_version, "kind": kinds.STATEFUL_APP.kind, **whole}


def test_one_that_nobody_has_looked_at_says_so(api: ApiClient, namespace: str) -> None:
    api.create(kinds.STATEFUL_APP, app(namespace))
    live = api.get(kinds.STATEFUL_APP, "db", namespace)
    assert (live["spec"]["driver"], live["spec"]["replicas"], live["spec"]["workload"]) == (
        "playbook",
        1,
        "StatefulSet",
    )
    (told,) = live["status"]["conditions"]
    assert (told["type"], told["status"], told["reason"]) == ("Ready", "Unknown", "WaitsForDriver")


def test_it_is_scaled_as_a_stateful_set_is(api: ApiClient, namespace: str, control_plane: Any) -> None:
    api.create(kinds.STATEFUL_APP, app(namespace, updateStrategy={"type": "SameNode", "partition": 1}))
    kubectl = ("--namespace", namespace)
    control_plane.kubectl(*kubectl, "scale", "sapp", "db", "--replicas=3")
    assert api.get(kinds.STATEFUL_APP, "db", namespace)["spec"]["replicas"] == 3
    status = {"replicas": 2, "selector": "berth.dev/app=db"}
    api.patch(kinds.STATEFUL_APP, "db", namespace, {"status": status}, "status")
    path = kinds.STATEFUL_APP.path("db", namespace, "scale")
    scale = json.loads(control_plane.kubectl("get", "--raw", path))
    assert (scale["spec"], scale["status"]) == ({"replicas": 3}, status)
    shown = control_plane.kubectl(*kubectl, "get", "sapp").splitlines()
    assert shown[0].split() == ["NAME", "REPLICAS", "READY", "UPDATED", "DRIVER", "STATE", "AGE"]
    with pytest.raises(Exception, match="at most replicas"):
        control_plane.kubectl(*kubectl, "scale", "sapp", "db", "--replicas=0")


@pytest.fixture(scope="module")
def teams(control_plane: Any) -> Iterator[ApiClient]:
    install_crds(control_plane.kubeconfig)
    with team(control_plane.kubeconfig, "team-sapp") as client:
        yield client


def test_the_controller_makes_pods_for_those_who_may_make_them(teams: ApiClient, api: ApiClient) -> None:
    mine = "team-sapp"
    made = teams.create(kinds.STATEFUL_APP, app(mine, driver="controller"))

    def told(name: str, client: ApiClient) -> Any:
        return client.patch(kinds.STATEFUL_APP, name, mine, {"status": {"replicas": 9}}, "status")["status"]["replicas"]

    with pytest.raises(ForbiddenError, match="only berth-controller writes its status"):
        told("db", teams)
    played = app(mine)
    played["metadata"]["name"] = "played"
    teams.create(kinds.STATEFUL_APP, played)
    assert (told("played", teams), told("db", api)) == (9, 9), "a playbook's, and whoever may in the whole cluster"
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "berth-app-operator"}
    api.delete(kinds.ROLE_BINDING, f"{mine}-berth-app-operator", mine)
    rules = [{"apiGroups": ["berth.dev"], "resources": ["statefulapps"], "verbs": ["get", "create", "patch", "delete"]}]
    own = {**role, "kind": "Role", "name": "objects"}
    subject = {"kind": "ServiceAccount", "name": "team", "namespace": mine}
    metadata = {"name": "objects", "namespace": mine}
    api.create(kinds.ROLE, {"metadata": metadata, "rules": rules})
    api.create(kinds.ROLE_BINDING, {"metadata": metadata, "roleRef": own, "subjects": [subject]})

    def change(body: dict[str, Any]) -> Any:
        return teams.patch(kinds.STATEFUL_APP, "db", mine, body)

    def refused() -> bool:
        try:
            change({"spec": {"replicas": 2}})
        except ForbiddenError as exc:
            return "only who may create pods" in exc.message
        return False

    from tests.dev.hosts_help import eventually

    eventually(refused, what="the right to pods is gone, and that to StatefulApps there")
    assert made["spec"]["driver"] == "controller"
    change({"metadata": {"annotations": {"looked": "yes"}}})
    change({"spec": {"driver": "playbook", "replicas": 2}})
    with pytest.raises(ForbiddenError, match="only who may create pods"):
        change({"spec": {"driver": "controller"}})
