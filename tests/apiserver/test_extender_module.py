"""The module scheduler with mode: extender on a real API server that has no nodes: written, refused, removed.

Its pods run in tests/integration/scheduler/test_extender.py.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue import installation_check, scheduler
from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app import kube_schedulers
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.config.static_pod import DIGEST
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.config.stock import MANAGED
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.apiserver.test_local_disk import Run, runner
from tests.apiserver.test_scheduler_module import IMAGE, headers, remove_pod
from tests.dev.hosts_help import eventually
from tests.support.certificates import authority, pem

pytestmark = pytest.mark.usefixtures("crds")
MADE = (
    *(kinds.SERVICE_ACCOUNT, kinds.CLUSTER_ROLE, kinds.CLUSTER_ROLE_BINDING, kinds.SECRET, kinds.SERVICE),
    *(kinds.POD_DISRUPTION_BUDGET, kinds.DEPLOYMENT),
)
Mine = Callable[[], set[str]]


def tls() -> dict[str, str]:
    key, certificate = authority()
    return {"certificate": certificate.decode(), "key": pem(key).decode(), "client_ca": certificate.decode()}


@pytest.fixture
def run(control_plane: Any, name: str, namespace: str) -> Iterator[Run]:
    operation = runner(scheduler.OPERATION, control_plane.kubeconfig)

    def call(check: bool = False, **options: Any) -> dict[str, Any]:
        shared = {"mode": "extender", "manifests": None, "name": name, "namespace": namespace, "image": IMAGE}
        return operation(check, **scheduler.prepare({**shared, "wait": False, **options}))

    yield call
    gone = call(state="absent", force=True)
    assert "msg" not in gone, gone


@pytest.fixture
def mine(api: ApiClient, name: str, namespace: str) -> Mine:
    def look() -> set[str]:
        there = (kind for kind in MADE if api.find(kind, name, namespace if kind.namespaced else None) is not None)
        return {kind.kind for kind in there}

    return look


def pods_of(api: ApiClient, name: str, namespace: str) -> str:
    """Which configuration its pods begin with."""
    template = api.get(kinds.DEPLOYMENT, name, namespace)["spec"]["template"]
    return str(template["metadata"]["annotations"]["berth.dev/configuration"])


def test_it_is_written_once_changed_where_it_differs_and_removed(
    run: Run, mine: Mine, api: ApiClient, name: str, namespace: str
) -> None:
    first, second = tls(), tls()
    planned = run(check=True, tls=first)
    assert planned["changed"], planned
    assert (planned["url"], mine()) == (f"https://{name}.{namespace}.svc:9811", set())
    written = run(tls=first)
    assert headers(written) == headers(planned) == [kind.kind for kind in MADE]
    address = api.get(kinds.SERVICE, name, namespace)["spec"]["clusterIP"]
    assert written["url"] == f"https://{address}:9811"
    shown = str(written["diff"])
    for secret in (first["key"], base64.b64encode(first["key"].encode()).decode()):
        assert secret not in shown
    again = run(tls=first)
    assert (again["changed"], again["diff"], again["url"]) == (False, [], written["url"]), again
    assert "apply" not in again["requests"]

    # Another certificate replaces the pods; without one, the Secret that is there is taken.
    before = pods_of(api, name, namespace)
    assert headers(run(tls=second)) == ["Secret", "Deployment"]
    assert pods_of(api, name, namespace) != before
    assert not run()["changed"]

    # Its rights are its own, and less than a scheduler's.
    pod = api.get(kinds.DEPLOYMENT, name, namespace)["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["volumes"][0]["secret"]["secretName"]) == (name, name)
    rules = api.get(kinds.CLUSTER_ROLE, name)["rules"]
    held = {f"{verb} {one}" for rule in rules for one in rule["resources"] for verb in rule["verbs"]}
    assert not held & {"delete pods", "patch pods/status", "create events", "update resourceclaims", "get leases"}

    planned = run(check=True, state="absent")
    gone = run(state="absent", wait=True, wait_timeout=120)
    assert headers(gone) == headers(planned) == [kind.kind for kind in reversed(MADE)]
    assert mine() == set()
    assert not run(state="absent")["changed"]


def test_what_is_wrong_is_refused_before_anything_is_touched(run: Run, mine: Mine, namespace: str, name: str) -> None:
    for options, words in (
        ({}, f"Secret {namespace}/{name} does not exist: give tls, or make it with tls.crt, tls.key, ca.crt"),
        ({"tls": {**tls(), "key": "x"}}, "tls.key: expected PEM"),
        ({"tls": tls(), "replicas": 0}, "replicas is 0"),
        ({"tls": tls(), "name": "Ex"}, "name is 'Ex'"),
        ({"tls": tls(), "config": {"profiles": []}}, "config is nothing of mode: extender"),
        ({"tls": tls(), "priority_class": "no-such"}, "PriorityClass no-such does not exist"),
        ({"tls": tls(), "resources": {"requests": {"cpu": "lots"}}}, "resources.requests.cpu"),
        (
            {"tls": tls(), "resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}},
            "less than or equal to cpu limit",
        ),
        ({"tls": tls(), "cluster_ip": "192.0.2.1"}, f"Service {namespace}/{name} (spec.clusterIPs"),
    ):
        refused = run(**options)
        assert words in refused["msg"], refused
        assert (refused["changed"], mine()) == (False, set())


def test_a_secret_of_somebody_else_is_used_and_left(
    run: Run, mine: Mine, api: ApiClient, name: str, namespace: str
) -> None:
    data = {"tls.crt": "eA==", "tls.key": "eA=="}
    api.create(kinds.SECRET, {"metadata": {"name": name, "namespace": namespace}, "data": data})
    assert "lacks ca.crt" in run()["msg"]
    api.patch(kinds.SECRET, name, namespace, {"data": {"ca.crt": "eA=="}})
    run()
    before = pods_of(api, name, namespace)
    assert "is no part of scheduler" in run(tls=tls())["msg"]
    api.patch(kinds.SECRET, name, namespace, {"data": {"tls.crt": "eQ=="}})
    assert headers(run()) == ["Deployment"]
    assert pods_of(api, name, namespace) != before
    run(state="absent")
    assert mine() == {"Secret"}
    api.delete(kinds.SECRET, name, namespace)


def test_it_is_not_taken_away_from_pods_that_wait_for_it(
    run: Run, mine: Mine, api: ApiClient, name: str, namespace: str
) -> None:
    run(tls=tls())
    resources = {"requests": {MANAGED: "1"}, "limits": {MANAGED: "1"}}
    spec = {"schedulerName": name, "containers": [{"name": "main", "image": "none", "resources": resources}]}
    pod = {"metadata": {"name": "waits", "namespace": namespace}, "spec": spec}
    eventually(lambda: api.create(kinds.POD, pod), 120, "the pod is taken")
    try:
        kept = run(state="absent")
        assert f"scheduler {name} is not removed while pods wait for it: {namespace}/waits" in kept["msg"]
        assert mine() == {kind.kind for kind in MADE}
    finally:
        remove_pod(api, namespace)


def test_it_is_not_taken_away_from_a_kube_scheduler_that_asks_it(
    run: Run, mine: Mine, api: ApiClient, control_plane: Any, name: str
) -> None:
    """By the mirror of its static pod. With one that runs: tests/integration/scheduler/test_extender.py."""
    labels = dict(one.split("=") for one in kube_schedulers.LABELS.split(","))
    meta: dict[str, Any] = {"name": f"kube-scheduler-{name}", "namespace": kube_schedulers.NAMESPACE, "labels": labels}
    meta["annotations"] = {DIGEST: "abc"}
    spec = {"nodeName": name, "containers": [{"name": "kube-scheduler", "image": "none", "command": ["none"]}]}
    run(tls=tls())
    eventually(lambda: api.create(kinds.POD, {"metadata": meta, "spec": spec}), 120, "the pod is taken")
    try:
        kept = run(state="absent")
        assert kept["asking"] == [name], kept
        assert (
            f"is not removed while the kube-schedulers of these nodes ask it: {name}. Give each its own" in kept["msg"]
        )
        assert mine() == {kind.kind for kind in MADE}
        all_of_it = runner(installation_check.OPERATION, control_plane.kubeconfig)
        refused = all_of_it(**installation_check.prepare({"state": "absent", "parts": ["extender"], "manifests": None}))
        assert f"the kube-schedulers of these nodes ask the extender: {name}; give each its own" in refused["msg"]
        assert run(True, state="absent", given_back=[name])["changed"]
        assert run(state="absent", given_back=[name])["changed"]
        assert mine() == set()
    finally:
        api.delete(kinds.POD, meta["name"], kube_schedulers.NAMESPACE)


def test_one_that_does_not_answer_is_told_with_what_is_missing(run: Run) -> None:
    nowhere = {"a-node": "that-is-not-there"}  # fake nodes would have its pods Ready at once
    late = run(tls=tls(), wait=True, wait_timeout=1, node_selector=nowhere)
    assert late["changed"], late
    assert "does not answer after 1 s: " in late["msg"]


def test_its_pods_are_admitted_where_the_strictest_standard_is_held(
    run: Run, api: ApiClient, name: str, namespace: str
) -> None:
    strict = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    api.patch(kinds.NAMESPACE, namespace, None, {"metadata": {"labels": strict}})
    run(tls=tls())
    template = api.get(kinds.DEPLOYMENT, name, namespace)["spec"]["template"]
    meta = {"name": "strict", "namespace": namespace, "labels": template["metadata"]["labels"]}
    assert api.create(kinds.POD, {"metadata": meta, "spec": template["spec"]}, dry_run=True)


def test_as_a_task_its_name_is_the_shipped_one(playbook: Any, api: ApiClient) -> None:
    task = {"mode": "extender", "image": IMAGE, "wait": False, "tls": tls()}
    planned = playbook([{"name": "present", "berth.stateful.scheduler": task}], "--check", "--diff").ok()
    assert planned.last["changed"]
    assert planned.last["url"] == "https://berth-scheduler-extender.berth-system.svc:9811"
    assert task["tls"]["key"].splitlines()[1] not in planned.output  # type: ignore[index]
