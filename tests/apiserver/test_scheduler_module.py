"""The module scheduler on a real API server that has no nodes: what is written, refused and removed. None leads here.

Every test has a scheduler and a namespace of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue import scheduler
from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.apiserver.test_local_disk import Run, runner
from tests.dev.hosts_help import eventually

pytestmark = pytest.mark.usefixtures("crds")
IMAGE = "registry.example.com/berth-scheduler:1"
MADE = (
    *(kinds.SERVICE_ACCOUNT, kinds.CLUSTER_ROLE, kinds.CLUSTER_ROLE_BINDING, kinds.ROLE, kinds.ROLE_BINDING),
    *(kinds.CONFIG_MAP, kinds.POD_DISRUPTION_BUDGET, kinds.DEPLOYMENT),
)
#: More is requested than is the limit.
TOO_MUCH = {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}
Mine = Callable[[], dict[str, Any]]


@pytest.fixture
def run(control_plane: Any, name: str, namespace: str) -> Iterator[Run]:
    operation = runner(scheduler.OPERATION, control_plane.kubeconfig)

    def call(check: bool = False, **options: Any) -> dict[str, Any]:
        shared = {"manifests": None, "name": name, "namespace": namespace, "image": IMAGE, "wait": False}
        return operation(check, **scheduler.prepare({**shared, **options}))

    yield call
    gone = call(state="absent", force=True)
    assert "msg" not in gone, gone


@pytest.fixture
def mine(api: ApiClient, name: str, namespace: str) -> Mine:
    """The scheduler's objects and which version each is; what a controller writes into a status is not the module's."""

    def look() -> dict[str, Any]:
        found = {}
        for kind in MADE:
            body = api.find(kind, name, namespace if kind.namespaced else None)
            if body is not None:
                meta = body["metadata"]
                found[kind.kind] = meta.get("generation") or meta["resourceVersion"]
        return found

    return look


def waiting_pod(api: ApiClient, namespace: str, scheduler_name: str) -> None:
    spec = {"schedulerName": scheduler_name, "containers": [{"name": "main", "image": "none"}]}
    pod = {"metadata": {"name": "waits", "namespace": namespace}, "spec": spec}
    # The namespace's own account is there a moment after it.
    eventually(lambda: api.create(kinds.POD, pod), 120, "the pod is taken")


def remove_pod(api: ApiClient, namespace: str) -> None:
    api.delete(kinds.POD, "waits", namespace)
    eventually(lambda: api.find(kinds.POD, "waits", namespace) is None, 120, "the pod goes")


def headers(result: dict[str, Any]) -> list[str]:
    return [each["after_header"].split()[0] for each in result["diff"]]


def deployment(api: ApiClient, name: str) -> dict[str, Any]:
    (found,) = [one for one in api.list(kinds.DEPLOYMENT) if one["metadata"]["name"] == name]
    return found


def test_it_is_written_once_changed_where_it_differs_and_removed(run: Run, mine: Mine, api: ApiClient, name: str):
    planned = run(check=True)
    assert planned["changed"], planned
    assert mine() == {}
    first = run()
    assert headers(first) == headers(planned) == [kind.kind for kind in MADE]
    assert first["scheduler_names"] == [name]
    before = mine()
    assert set(before) == {kind.kind for kind in MADE}
    again = run()
    assert (again["changed"], again["diff"]) == (False, []), again
    assert "apply" not in again["requests"]
    assert mine() == before

    # What is asked for additionally, and what is not asked for any more.
    selected = run(node_selector={"pool": "system"}, tolerations=[])
    assert headers(selected) == ["Deployment"]
    assert headers(run()) == ["Deployment"]
    assert "nodeSelector" not in deployment(api, name)["spec"]["template"]["spec"]
    assert not run()["changed"]

    # Another configuration is a change of the file, and of the pods that read it.
    other = run(config={"profiles": [{"percentageOfNodesToScore": 50}]})
    assert headers(other) == ["ConfigMap", "Deployment"]
    # Somebody else's hand is taken back.
    api.patch(kinds.CLUSTER_ROLE, name, None, {"rules": []})
    assert headers(run(check=True, config={"profiles": [{"percentageOfNodesToScore": 50}]})) == ["ClusterRole"]
    assert headers(run()) == ["ClusterRole", "ConfigMap", "Deployment"]

    planned = run(check=True, state="absent")
    assert set(mine()) == {kind.kind for kind in MADE}
    gone = run(state="absent", wait=True, wait_timeout=120)
    assert headers(gone) == headers(planned) == [kind.kind for kind in reversed(MADE)]
    assert mine() == {}
    assert not run(state="absent")["changed"]


def test_what_is_wrong_is_refused_before_anything_is_touched(run: Run, mine: Mine):
    for options, words in (
        ({"config": {"profiles": [{"plugins": {"score": {"enabled": [{"name": "Nope"}]}}}]}}, "config.profiles[0]"),
        ({"replicas": 0}, "replicas is 0"),
        ({"priority_class": "no-such-class"}, "PriorityClass no-such-class does not exist"),
        ({"manifests": [{"kind": "Job", "metadata": {"name": "x"}}]}, "Job is no kind that this module installs"),
        ({"cluster_ip": "10.96.0.9"}, "cluster_ip is nothing of mode: daemon"),
        ({"resources": {"requests": {"cpu": "lots"}}}, "resources.requests.cpu"),
        # What the API server alone knows: the Deployment is the last to be written, and is tried first.
        (TOO_MUCH, "(spec.template.spec.containers[0].resources.requests): "),
    ):
        for check in (True, False):
            refused = run(check, **options)
            if check and "priority_class" in options:  # the play may have made it by then
                continue
            assert words in refused.get("msg", ""), refused
            assert (refused["changed"], mine()) == (False, {})


def test_in_a_new_namespace_nothing_is_left_of_what_is_refused(run: Run, mine: Mine, api: ApiClient, name: str):
    new = f"{name}-new"
    refused = run(namespace=new, **TOO_MUCH)
    assert f"Deployment {new}/{name} (spec.template.spec.containers[0].resources.requests): " in refused["msg"]
    assert "must be less than or equal to cpu limit" in refused["msg"]
    assert "nothing was written" in refused["msg"]
    assert (refused["changed"], mine()) == (False, {})
    assert api.find(kinds.NAMESPACE, new) is None
    try:
        assert run(check=True, namespace=new)["changed"]
        assert api.find(kinds.NAMESPACE, new) is None
        assert headers(run(namespace=new))[0] == "Namespace"
        assert "msg" not in run(namespace=new, state="absent")
    finally:
        api.delete(kinds.NAMESPACE, new)


def test_what_is_another_s_is_neither_written_over_nor_removed(run: Run, mine: Mine, api: ApiClient, name: str):
    api.create(kinds.CLUSTER_ROLE, {"metadata": {"name": name}, "rules": []})
    try:
        refused = run()
        assert f"ClusterRole {name} is there and is no part of scheduler {name}" in refused["msg"]
        assert set(mine()) == {"ClusterRole"}
        assert not run(state="absent")["changed"]
        assert set(mine()) == {"ClusterRole"}
    finally:
        api.delete(kinds.CLUSTER_ROLE, name)


def test_the_same_scheduler_is_not_in_two_namespaces(run: Run, api: ApiClient, name: str):
    run()
    refused = run(namespace="default")
    assert "is installed in namespace" in refused["msg"]
    assert api.find(kinds.DEPLOYMENT, name, "default") is None


def test_it_is_not_taken_away_from_pods_that_wait_for_it(
    run: Run, mine: Mine, api: ApiClient, name: str, namespace: str
):
    run(config={"profiles": [{"schedulerName": name}, {"schedulerName": f"{name}-b"}]})
    waiting_pod(api, namespace, f"{name}-b")
    try:
        kept = run(state="absent")
        assert f"scheduler {name} is not removed while pods wait for it: {namespace}/waits" in kept["msg"]
        assert set(mine()) == {kind.kind for kind in MADE}
        forced = run(state="absent", force=True)
        assert (forced["changed"], forced["waiting"]) == (True, [f"{namespace}/waits"])
        assert mine() == {}
    finally:
        remove_pod(api, namespace)


def test_one_that_does_not_lead_is_told_with_what_is_missing(run: Run):
    late = run(wait=True, wait_timeout=1)
    assert late["changed"], late
    assert "does not lead after 1 s: " in late["msg"]


def test_its_pods_are_admitted_where_the_strictest_standard_is_held(
    run: Run, api: ApiClient, name: str, namespace: str
):
    strict = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    api.patch(kinds.NAMESPACE, namespace, None, {"metadata": {"labels": strict}})
    run()
    template = deployment(api, name)["spec"]["template"]
    meta = {"name": "strict", "namespace": namespace, "labels": template["metadata"]["labels"]}
    assert api.create(kinds.POD, {"metadata": meta, "spec": template["spec"]}, dry_run=True)
    loose = {**template["spec"], "hostNetwork": True}
    with pytest.raises(Exception, match="violates PodSecurity"):
        api.create(kinds.POD, {"metadata": meta, "spec": loose}, dry_run=True)


def test_as_a_task(run: Run, playbook: Any, mine: Mine, name: str, namespace: str):
    task = {"name": name, "namespace": namespace, "image": IMAGE, "wait": False}
    tasks = [{"name": "present", "berth.stateful.scheduler": task}]
    planned = playbook(tasks, "--check", "--diff").ok()
    assert planned.last["changed"]
    assert mine() == {}
    wrong = [{"name": "wrong", "berth.stateful.scheduler": {**task, "config": {"profiles": [{"plugin": 1}]}}}]
    played = playbook([*tasks, {**tasks[0], "name": "again"}, *wrong])
    assert "config.profiles[0].plugin: unknown field" in played.failed()["msg"]
    assert [each.result["changed"] for each in played.tasks if each.name in ("present", "again")] == [True, False]
