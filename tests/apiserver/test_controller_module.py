"""The module controller on a real API server that has no nodes: what is written, refused and removed. None leads here
(tests/daemons/controller/test_module.py has one that does).

There is one controller in a cluster: what another test has left of it goes first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.berth.stateful.plugins.module_utils._glue import controller
from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.capacity import SELECTOR
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.apiserver.test_local_disk import Run, runner
from tests.support.kube import install_crds

pytestmark = pytest.mark.usefixtures("crds")
DEPLOY = Path(__file__).parents[2] / "deploy" / "controller"
IMAGE, NAME, NAMESPACE = "registry.example.com/berth:1", "berth-controller", "berth-system"
MADE = (
    *(kinds.SERVICE_ACCOUNT, kinds.CLUSTER_ROLE, kinds.CLUSTER_ROLE_BINDING, kinds.ROLE, kinds.ROLE_BINDING),
    *(kinds.CSI_DRIVER, kinds.DEPLOYMENT),
)
Mine = Callable[[], dict[str, Any]]


@pytest.fixture
def run(control_plane: Any) -> Iterator[Run]:
    operation = runner(controller.OPERATION, control_plane.kubeconfig)

    def call(check: bool = False, **options: Any) -> dict[str, Any]:
        shared = {"manifests": None, "namespace": NAMESPACE, "image": IMAGE, "wait": False}
        return operation(check, **controller.prepare({**shared, **options}))

    for moment in ("before", "after"):
        gone = call(state="absent", force=True)
        assert "msg" not in gone, (moment, gone)
        if moment == "before":
            yield call


@pytest.fixture
def mine(api: ApiClient) -> Mine:
    """The controller's objects and which version each is; what Kubernetes writes into a status is not the module's."""

    def look() -> dict[str, Any]:
        found = {}
        for kind in MADE:
            name = "local.berth.dev" if kind is kinds.CSI_DRIVER else NAME
            body = api.find(kind, name, NAMESPACE if kind.namespaced else None)
            if body is not None:
                meta = body["metadata"]
                found[kind.kind] = meta.get("generation") or meta["resourceVersion"]
        return found

    return look


def headers(result: dict[str, Any]) -> list[str]:
    return [each["after_header"].split()[0] for each in result["diff"] if not each["after_header"].startswith("Names")]


def test_it_is_written_once_changed_where_it_differs_and_removed(run: Run, mine: Mine, api: ApiClient):
    planned = run(check=True)
    assert planned["changed"], planned
    assert mine() == {}
    first = run()
    assert headers(first) == headers(planned) == [kind.kind for kind in MADE]
    before = mine()
    assert set(before) == {kind.kind for kind in MADE}
    again = run()
    assert (again["changed"], again["diff"]) == (False, []), again
    assert "apply" not in again["requests"]
    assert mine() == before

    changed = run(log_level="debug", flags={"orphan-interval": 300}, node_selector={"pool": "system"})
    assert headers(changed) == ["Deployment"]
    pod = api.get(kinds.DEPLOYMENT, NAME, NAMESPACE)["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"pool": "system"}
    given = {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}
    assert (given["BERTH_CONTROLLER_LOG_LEVEL"], given["BERTH_CONTROLLER_ORPHAN_INTERVAL"]) == ("debug", "300")
    assert headers(run()) == ["Deployment"]
    assert not run()["changed"]
    # Somebody else's hand is taken back.
    api.patch(kinds.CLUSTER_ROLE, NAME, None, {"rules": []})
    assert headers(run(check=True)) == ["ClusterRole"]
    assert headers(run()) == ["ClusterRole"]

    meta = {"name": NAME, "namespace": NAMESPACE}
    api.create(kinds.LEASE, {"metadata": meta, "spec": {"holderIdentity": "pod_1"}})
    capacity = {"name": "berth-told", "namespace": NAMESPACE, "labels": dict([SELECTOR.split("=")])}
    api.create(kinds.CSI_STORAGE_CAPACITY, {"metadata": capacity, "storageClassName": "none", "capacity": "1Gi"})
    planned = run(check=True, state="absent")
    assert set(mine()) == {kind.kind for kind in MADE}
    removed = run(state="absent")
    assert headers(removed) == headers(planned)
    assert set(headers(removed)) == {*(kind.kind for kind in MADE), "Lease", "CSIStorageCapacity"}
    assert headers(removed)[0] == "Deployment"
    assert mine() == {}
    assert api.find(kinds.LEASE, NAME, NAMESPACE) is None
    assert api.list(kinds.CSI_STORAGE_CAPACITY, NAMESPACE, labels=SELECTOR) == []
    assert not run(state="absent")["changed"]


def test_what_kubectl_apply_has_left_in_a_list_goes_with_the_first_run(
    run: Run, api: ApiClient, control_plane: Any, tmp_path: Path
):
    """Earlier releases were installed by it, with a variable that is none any more."""
    older = yaml.safe_load((DEPLOY / "deployment.yaml").read_text())
    older["spec"]["template"]["spec"]["containers"][0]["env"].insert(0, {"name": "OLDER", "value": "release"})
    (tmp_path / "older.yaml").write_text(yaml.safe_dump(older))
    run()
    api.delete(kinds.DEPLOYMENT, NAME, NAMESPACE)
    control_plane.kubectl("apply", "-f", str(tmp_path / "older.yaml"))
    assert headers(run(check=True)) == ["Deployment"]
    assert headers(run()) == ["Deployment"]
    live = api.get(kinds.DEPLOYMENT, NAME, NAMESPACE)
    assert "OLDER" not in [one["name"] for one in live["spec"]["template"]["spec"]["containers"][0]["env"]]
    assert live["metadata"]["generation"] == 2, "the pods are replaced once"
    assert not run()["changed"]


def test_what_was_applied_by_hand_is_taken_over(run: Run, mine: Mine, control_plane: Any, api: ApiClient):
    control_plane.kubectl("apply", *(f"-f{DEPLOY / file}" for file in ("rbac.yaml", "csidriver.yaml")))
    control_plane.kubectl("apply", "-f", str(DEPLOY / "deployment.yaml"))
    uid = api.get(kinds.DEPLOYMENT, NAME, NAMESPACE)["metadata"]["uid"]
    assert "msg" not in run()
    assert api.get(kinds.DEPLOYMENT, NAME, NAMESPACE)["metadata"]["uid"] == uid
    assert not run()["changed"]
    assert "msg" not in run(state="absent")
    assert mine() == {}


def test_custom_resources_of_another_release_are_refused_by_name(
    run: Run, mine: Mine, api: ApiClient, control_plane: Any
):
    disks = kinds.LOCAL_DISK.definition
    number = int(api.get(kinds.CRD, disks)["metadata"]["annotations"]["berth.dev/schema"])
    try:
        for schema, advice in ((number - 1, "upgrade it with the module crds"), (number + 1, "newer release")):
            api.patch(kinds.CRD, disks, None, {"metadata": {"annotations": {"berth.dev/schema": str(schema)}}})
            refused = run()
            said = f"CustomResourceDefinition {disks} has schema {schema}, and this release is made for schema {number}"
            assert said in refused["msg"], refused
            assert advice in refused["msg"]
            assert (refused["changed"], mine()) == (False, {})
            # The play's earlier tasks, which would have upgraded them, have changed nothing in a check mode.
            assert run(check=True)["changed"]
    finally:
        api.patch(kinds.CRD, disks, None, {"metadata": {"annotations": {"berth.dev/schema": str(number)}}})
        install_crds(control_plane.kubeconfig)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"image": None}, "image is missing"),
        ({"priority_class": "missing"}, "PriorityClass missing does not exist"),
        ({"flags": {"workers": 0}}, "flags.workers"),
        ({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}, "must be less than or equal to cpu limit"),
    ],
)
def test_what_is_wrong_is_refused_before_anything_is_touched(
    run: Run, mine: Mine, options: dict[str, Any], words: str
) -> None:
    refused = run(**options)
    assert words in refused["msg"], refused
    assert (refused["changed"], mine()) == (False, {})


def test_what_is_another_s_is_neither_written_over_nor_removed(run: Run, mine: Mine, api: ApiClient):
    api.create(kinds.CLUSTER_ROLE, {"metadata": {"name": NAME}, "rules": []})
    try:
        refused = run()
        assert f"ClusterRole {NAME} is there and is no part of controller {NAME}" in refused["msg"]
        assert not run(state="absent")["changed"]
        assert set(mine()) == {"ClusterRole"}
    finally:
        api.delete(kinds.CLUSTER_ROLE, NAME)


def test_it_stays_while_it_carries_applications_out(run: Run, mine: Mine, api: ApiClient, namespace: str):
    run()
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    named = {"apiVersion": kinds.STATEFUL_APP.api_version, "kind": kinds.STATEFUL_APP.kind}
    spec = {"driver": "controller", "template": template}
    api.create(kinds.STATEFUL_APP, {**named, "metadata": {"name": "db", "namespace": namespace}, "spec": spec})
    before = mine()
    refused = run(state="absent")
    assert f"is not removed while it carries StatefulApps out: {namespace}/db" in refused["msg"]
    assert mine() == before
    api.patch(kinds.STATEFUL_APP, "db", namespace, {"spec": {"driver": "playbook"}})
    assert run(state="absent")["changed"]
    assert mine() == {}


def test_it_is_once_in_a_cluster(run: Run, mine: Mine, api: ApiClient, namespace: str):
    run()
    before = mine()
    for options in ({}, {"state": "absent"}):
        refused = run(namespace=namespace, **options)
        assert f"controller {NAME} is installed in namespace {NAMESPACE} (ClusterRoleBinding" in refused["msg"]
    assert mine() == before
    assert api.find(kinds.DEPLOYMENT, NAME, namespace) is None


def test_it_is_not_taken_away_from_claims_that_need_it(run: Run, mine: Mine, api: ApiClient, name: str, namespace: str):
    run()
    api.create(kinds.STORAGE_CLASS, {"metadata": {"name": name}, "provisioner": "local.berth.dev"})
    claim = {"storageClassName": name, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    api.create(kinds.PVC, {"metadata": {"name": "waits", "namespace": namespace}, "spec": claim})
    try:
        kept = run(state="absent")
        assert f"controller {NAME} is not removed while claims need it: {namespace}/waits" in kept["msg"], kept
        assert (kept["changed"], kept["claims"]) == (False, [f"{namespace}/waits"])
        assert set(mine()) == {kind.kind for kind in MADE}
        forced = run(state="absent", force=True)
        assert (forced["changed"], forced["claims"]) == (True, [f"{namespace}/waits"])
        assert mine() == {}
    finally:
        api.delete(kinds.PVC, "waits", namespace)
        api.delete(kinds.STORAGE_CLASS, name)


def test_one_that_does_not_lead_is_told_with_what_is_missing(run: Run):
    late = run(wait=True, wait_timeout=1)
    assert late["changed"], late
    assert re.search(rf"controller {NAME} does not lead after 1 s: (of 2 pods |.*none leads)", late["msg"])


def test_as_a_task(run: Run, playbook: Any, mine: Mine):
    task = {"image": IMAGE, "wait": False}
    tasks = [{"name": "present", "berth.stateful.controller": task}]
    planned = playbook(tasks, "--check", "--diff").ok()
    assert planned.last["changed"]
    assert mine() == {}
    wrong = [{"name": "wrong", "berth.stateful.controller": {**task, "flags": {"resync": "soon"}}}]
    played = playbook([*tasks, {**tasks[0], "name": "again"}, *wrong])
    assert "flags.resync is 'soon'" in played.failed()["msg"]
    assert [each.result["changed"] for each in played.tasks if each.name in ("present", "again")] == [True, False]
