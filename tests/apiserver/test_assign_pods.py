"""The option assign_pods of the module scheduler: which pods a real API server gives the scheduler, and its removal.

The scheduler is one of mode: service, whose Lease the test renews: nobody places a pod here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from ansible_collections.berth.stateful.plugins.module_utils._glue import scheduler
from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.apiserver.test_local_disk import Run, runner
from tests.dev.hosts_help import eventually
from tests.support.kube import client_for

pytestmark = pytest.mark.usefixtures("crds")
PAIR = ["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"]
LABEL = "berth.dev/scheduler"
Assigned = Callable[..., str]


@pytest.fixture
def run(control_plane: Any, name: str, namespace: str) -> Iterator[Run]:
    operation = runner(scheduler.OPERATION, control_plane.kubeconfig)

    def call(check: bool = False, **options: Any) -> dict[str, Any]:
        shared = {"manifests": None, "mode": "service", "name": name, "namespace": namespace, "wait_timeout": 30}
        return operation(check, **scheduler.prepare({**shared, **options}))

    yield call
    assert "msg" not in call(state="absent", force=True)


@pytest.fixture
def leads(control_plane: Any, name: str, namespace: str) -> Iterator[None]:
    """Somebody renews the scheduler's Lease."""
    # Clients are not made by two threads at one moment.
    api, over = client_for(control_plane.kubeconfig), threading.Event()

    def renew() -> None:
        meta = {"name": name, "namespace": namespace}
        while not over.wait(0.3):
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            spec = {"holderIdentity": "h1_x", "renewTime": now, "leaseDurationSeconds": 15}
            api.apply(
                kinds.LEASE, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}
            )

    thread = threading.Thread(target=renew)
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.fixture
def apps(api: ApiClient, name: str) -> Iterator[str]:
    """A namespace whose pods are for the scheduler of that name."""
    apps = f"{name}-apps"
    api.create(kinds.NAMESPACE, {"metadata": {"name": apps, "labels": {LABEL: name}}})
    eventually(lambda: api.get(kinds.SERVICE_ACCOUNT, "default", apps), 120, "the namespace's own account")
    yield apps
    api.delete(kinds.NAMESPACE, apps)


def pod(namespace: str, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "none"}]
    return {
        "metadata": {"name": "waits", "namespace": namespace, "labels": labels or {}},
        "spec": {"containers": containers, **spec},
    }


def claims(storage_class: str) -> dict[str, Any]:
    """A volume that a pod brings with it."""
    asked = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": storage_class,
    }
    return {"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": asked}}}]}


@pytest.fixture
def given(api: ApiClient) -> Assigned:
    """Which scheduler a pod would have."""

    def look(*args: Any, **spec: Any) -> str:
        return str(api.create(kinds.POD, pod(*args, **spec), dry_run=True)["spec"]["schedulerName"])

    return look


def policies(result: dict[str, Any]) -> list[str]:
    return [each["after_header"] for each in result["diff"] if "AdmissionPolicy" in each["after_header"]]


@pytest.mark.usefixtures("leads")
def test_pods_of_a_labelled_namespace_are_given_it_where_nobody_wrote_another(
    run: Run, api: ApiClient, given: Assigned, name: str, namespace: str, apps: str
) -> None:
    planned = run(check=True, assign_pods=True)
    assert "msg" not in planned, planned
    assert given(apps) == "default-scheduler"
    first = run(assign_pods=True)
    assert policies(first) == policies(planned) == [f"{kind} {name}-namespaces" for kind in PAIR]
    # Taken up when the task ends.
    assert given(apps) == name
    assert given(apps, schedulerName="default-scheduler") == name
    assert given(apps, schedulerName="another") == "another"
    assert given(apps, nodeName="h1") == "default-scheduler"
    assert given(apps, {LABEL: "default-scheduler"}) == "default-scheduler"
    assert given(apps, {LABEL: name}) == name
    assert given("default") == "default-scheduler"
    # Its own pods cannot wait for it.
    api.patch(kinds.NAMESPACE, namespace, None, {"metadata": {"labels": {LABEL: name}}})
    assert given(namespace) == "default-scheduler"

    again = run(assign_pods=True)
    assert (again["changed"], [row["action"] for row in again["policies"]]) == (False, ["none"] * 4)
    assert not set(again["requests"]) & {"apply", "create", "replace", "delete"}, again["requests"]
    # What would switch it off is taken back.
    off = [{"name": "never", "expression": "false"}]
    api.patch(kinds.MUTATING_ADMISSION_POLICY, f"{name}-namespaces", None, {"spec": {"matchConditions": off}})
    assert policies(run(assign_pods=True)) == [f"{PAIR[0]} {name}-namespaces"]
    assert given(apps) == name
    # Where it is not said, it stays as it is.
    assert not run()["changed"]
    assert policies(run(assign_pods=False)) == [f"{kind} {name}-namespaces (absent)" for kind in PAIR[::-1]]
    assert given(apps) == "default-scheduler"


@pytest.mark.usefixtures("leads")
def test_pods_that_bring_a_volume_of_a_storage_class(run: Run, api: ApiClient, given: Assigned, name: str) -> None:
    unknown = run(assign_pods=True, assign_storage_classes=[name])
    assert f"StorageClass {name} does not exist; nothing was written" in unknown["msg"]
    api.create(kinds.STORAGE_CLASS, {"metadata": {"name": name}, "provisioner": "local.berth.dev"})
    try:
        made = run(assign_pods=True, assign_storage_classes=[name])
        assert len(policies(made)) == 4, made
        assert given("default", **claims(name)) == name
        assert given("default", **claims("another")) == "default-scheduler"
        assert given("default", **claims(name), schedulerName="another") == "another"
        assert given("kube-system", **claims(name)) == "default-scheduler"
        # The class of a claim that is named cannot be seen.
        named = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
        assert given("default", **named) == "default-scheduler"
        assert policies(run(assign_pods=True)) == [f"{kind} {name}-storage-classes (absent)" for kind in PAIR[::-1]]
        assert given("default", **claims(name)) == "default-scheduler"
    finally:
        api.delete(kinds.STORAGE_CLASS, name)


def test_nothing_is_given_a_scheduler_that_does_not_lead(run: Run, given: Assigned, apps: str) -> None:
    late = run(assign_pods=True, wait_timeout=1)
    assert "does not lead after 1 s" in late["msg"], late
    assert given(apps) == "default-scheduler"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"assign_pods": True, "wait": False}, "assign_pods needs wait: true"),
        ({"assign_storage_classes": ["fast"]}, "it needs assign_pods: true"),
        ({"assign_pods": True, "assign_storage_classes": ["a'b"]}, 'assign_storage_classes[0] is "a\'b"'),
        ({"assign_pods": True, "mode": "extender"}, "assign_pods is nothing of mode: extender"),
        ({"state": "unassigned", "mode": "extender"}, "state: unassigned is nothing of mode: extender"),
        ({"assign_pods": True, "name": "a'b"}, 'name is "a\'b"'),
    ],
)
def test_what_is_wrong_is_refused_before_anything_is_touched(run: Run, options: dict[str, Any], words: str) -> None:
    refused = run(**options)
    assert words in refused["msg"], refused
    assert not refused["changed"]


def test_a_policy_of_that_name_that_is_another_s(run: Run, api: ApiClient, name: str, namespace: str) -> None:
    api.create(kinds.MUTATING_ADMISSION_POLICY_BINDING, binding(f"{name}-namespaces"))
    try:
        refused = run(assign_pods=True)
        assert "is there and is not berth's" in refused["msg"]
        assert api.find(kinds.SERVICE_ACCOUNT, name, namespace) is None
        run(state="absent")
        assert api.find(kinds.MUTATING_ADMISSION_POLICY_BINDING, f"{name}-namespaces") is not None
    finally:
        api.delete(kinds.MUTATING_ADMISSION_POLICY_BINDING, f"{name}-namespaces")


def binding(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"policyName": name}}


@pytest.mark.usefixtures("leads")
def test_removal_begins_with_the_policies_and_stays_for_pods_that_came_meanwhile(
    run: Run, api: ApiClient, control_plane: Any, name: str, namespace: str, apps: str
) -> None:
    run(assign_pods=True)
    api.create(kinds.POD, pod(apps))
    kept = run(state="absent")
    assert f"is not removed while pods wait for it: {apps}/waits" in kept["msg"]
    assert "before that state: unassigned" in kept["msg"]
    assert api.find(kinds.MUTATING_ADMISSION_POLICY, f"{name}-namespaces") is not None

    # The policies go; the pods that have it are waited for, and the scheduler stays for them.
    assert run(check=True, state="unassigned")["waiting"] == [f"{apps}/waits"]
    stays = run(state="unassigned", wait_timeout=1)
    assert f"stays for those that wait for it after 1 s: {apps}/waits" in stays["msg"]
    assert stays["changed"]
    assert api.find(kinds.MUTATING_ADMISSION_POLICY, f"{name}-namespaces") is None
    assert api.find(kinds.SERVICE_ACCOUNT, name, namespace) is not None
    # Somebody places it, as the scheduler would.
    threading.Timer(2, bind, (client_for(control_plane.kubeconfig), apps)).start()
    assert (run(state="unassigned")["changed"], run(state="unassigned")["waiting"]) == (False, [])
    assert run(state="absent")["changed"]
    assert not run(state="absent")["changed"]


def bind(api: ApiClient, namespace: str) -> None:
    meta = {"name": "waits", "namespace": namespace}
    target = {"apiVersion": "v1", "kind": "Node", "name": "h1"}
    api.create(BINDING, {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target})


BINDING = kinds.Resource("", "v1", "bindings", "Binding", True)


@pytest.mark.usefixtures("leads")
def test_a_pod_that_comes_while_it_is_being_removed_is_not_left_behind(
    run: Run, api: ApiClient, control_plane: Any, name: str, namespace: str, apps: str
) -> None:
    run(assign_pods=True)
    # Between the look at the pods and the removal of the last right, as fast as it can.
    other, over = client_for(control_plane.kubeconfig), threading.Event()

    def come() -> None:
        while not over.is_set():
            if other.find(kinds.MUTATING_ADMISSION_POLICY_BINDING, f"{name}-namespaces") is None:
                other.create(kinds.POD, {**pod(apps, schedulerName=name)})
                return

    thread = threading.Thread(target=come)
    thread.start()
    try:
        stays = run(state="absent", wait_timeout=1)
    finally:
        over.set()
        thread.join()
    assert f"stays for those that wait for it after 1 s: {apps}/waits" in stays["msg"], stays
    assert api.find(kinds.SERVICE_ACCOUNT, name, namespace) is not None


def test_a_server_without_such_policies_is_refused_with_the_way_out(
    run: Run, monkeypatch: pytest.MonkeyPatch, api: ApiClient, name: str, namespace: str
) -> None:
    older = kinds.MUTATING_ADMISSION_POLICY._replace(version="v0")
    monkeypatch.setitem(scheduler.policies._RESOURCES, "MutatingAdmissionPolicy", older)
    refused = run(assign_pods=True)
    assert f"write schedulerName: {name} into the pods instead" in refused["msg"], refused
    assert api.find(kinds.SERVICE_ACCOUNT, name, namespace) is None
    # And has none of them to remove.
    assert "msg" not in run(assign_pods=False, wait=False)


def test_as_a_task(playbook: Any, name: str, namespace: str) -> None:
    task = {"mode": "service", "name": name, "namespace": namespace, "assign_pods": True}
    planned = playbook([{"name": "plan", "berth.stateful.scheduler": task}], "--check", "--diff").ok()
    assert planned.last["policies"][0]["action"] == "create", yaml.safe_dump(planned.last)
