"""The policy berth-node-affinity on a real API server: a pod that comes back to its Berth names its node.

Pods are created as a dry run, which admission treats as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.base import Context, execute
from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils._glue.crds import OPERATION, prepare
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.dev.hosts_help import eventually

pytestmark = pytest.mark.usefixtures("crds")
FIELD = {"key": "metadata.name", "operator": "In", "values": ["node-7"]}
ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
Admitted = Callable[..., dict[str, Any]]


def terms_of(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


@pytest.fixture
def berth(api: ApiClient, namespace: str) -> Callable[..., None]:
    """Makes a Berth db-ORDINAL on a node, in a phase."""
    eventually(lambda: api.get(kinds.SERVICE_ACCOUNT, "default", namespace), 120, "the namespace's own account")

    def make(ordinal: int, node: str = "node-7", phase: str = "Running") -> None:
        name = f"db-{ordinal}"
        spec = {"app": "db", "ordinal": ordinal, "nodeName": node}
        body = {"metadata": {"name": name, "namespace": namespace}, "spec": spec}
        api.create(kinds.BERTH, {"apiVersion": kinds.BERTH.api_version, "kind": "Berth", **body})
        api.patch(kinds.BERTH, name, namespace, {"status": {"phase": phase}}, subresource="status")

    return make


@pytest.fixture
def admitted(api: ApiClient, namespace: str) -> Admitted:
    """The affinity that a pod would have; {}: none."""

    def look(name: str = "db-1", app: str = "db", **spec: Any) -> dict[str, Any]:
        meta = {"name": name, "namespace": namespace, "labels": {"berth.dev/app": app}}
        body = {"metadata": meta, "spec": {"containers": [{"name": "main", "image": "none"}], **spec}}
        return dict(api.create(kinds.POD, body, dry_run=True)["spec"].get("affinity") or {})

    return look


def in_force(admitted: Admitted) -> None:
    """An API server takes up a policy, and its Berths, a moment after they were written."""
    eventually(lambda: admitted() == terms_of({"matchFields": [FIELD]}), 60, "the policy in force")


def test_a_pod_that_comes_back_names_the_node_of_its_own_berth(berth: Any, admitted: Admitted) -> None:
    for ordinal in (0, 2, 11):
        berth(ordinal, f"node-{ordinal}")
    berth(1)
    in_force(admitted)
    for ordinal in (0, 2, 11):
        assert admitted(f"db-{ordinal}") == terms_of({"matchFields": [{**FIELD, "values": [f"node-{ordinal}"]}]})


def test_what_the_template_asks_for_stays(berth: Any, admitted: Admitted) -> None:
    berth(1)
    in_force(admitted)
    two = terms_of({"matchExpressions": [ZONE]}, {"matchExpressions": [{**ZONE, "values": ["b"]}]})
    found = admitted(affinity=two)["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    wanted = [{**term, "matchFields": [FIELD]} for term in two["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]]
    assert found == wanted
    term = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    others: dict[str, Any] = {
        "podAntiAffinity": {REQUIRED: [term]},
        "nodeAffinity": {preferred: [{"weight": 1, "preference": {"matchExpressions": [ZONE]}}]},
    }
    both = {**others["nodeAffinity"], **terms_of({"matchFields": [FIELD]})["nodeAffinity"]}
    assert admitted(affinity=others) == {**others, "nodeAffinity": both}


def test_who_does_not_come_home_is_left_alone(berth: Any, admitted: Admitted) -> None:
    berth(1)
    in_force(admitted)
    for ordinal, phase in enumerate(("Selected", "Reserved", "Replacing", "Releasing"), 20):
        berth(ordinal, phase=phase)
        assert admitted(f"db-{ordinal}") == {}, phase
    assert admitted("db-9") == {}, "it has no Berth"
    assert admitted(app="another") == {}, "the Berth is another app's"
    assert admitted(nodeName="node-3") == {}
    bare = terms_of({"matchFields": [{**FIELD, "values": ["node-3"]}]})
    assert admitted(affinity=bare) == bare


@pytest.fixture
def switch(control_plane: Any) -> Iterator[Callable[..., dict[str, Any]]]:
    """The module crds with the switch; on again at the end."""

    def run(on: bool, check: bool = False) -> dict[str, Any]:
        defaults = {name: spec.get("default") for name, spec in OPERATION.argument_spec().items()}
        params = prepare({**defaults, "kubeconfig": str(control_plane.kubeconfig), "node_affinity": on})
        return execute(OPERATION, Context(params, check, lambda text: None, environ={}))

    yield run
    assert not run(on=True).get("failed")


def test_it_is_turned_off_and_stays_so_until_it_is_turned_on(
    api: ApiClient, berth: Any, admitted: Admitted, switch: Callable[..., dict[str, Any]]
) -> None:
    both = (kinds.MUTATING_ADMISSION_POLICY_BINDING, kinds.MUTATING_ADMISSION_POLICY)
    berth(1)
    in_force(admitted)
    planned = switch(on=False, check=True)
    rows = [row for row in planned["policies"] if row["action"] != "none"]
    assert rows == [{"kind": one.kind, "name": "berth-node-affinity", "action": "delete"} for one in both]
    assert all(api.find(one, "berth-node-affinity") for one in both), "check mode"
    done = switch(on=False)
    assert (done["changed"], done["policies"], done["diff"]) == (True, planned["policies"], planned["diff"])
    assert not any(api.find(one, "berth-node-affinity") for one in both)
    eventually(lambda: admitted() == {}, 60, "the policy out of force")
    assert not switch(on=False)["changed"]
    assert switch(on=True)["changed"]
    in_force(admitted)
    assert not switch(on=True)["changed"]
