"""The module kube_scheduler_info on a real API server; a pod by hand stands for the mirror of a static one.

With a kubelet that starts it: tests/integration/scheduler/test_extender.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue import kube_scheduler_info
from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.kube_schedulers import LABELS, NAMESPACE
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.config.static_pod import DIGEST
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.apiserver.test_local_disk import Run, runner
from tests.dev.hosts_help import eventually


@pytest.fixture
def info(control_plane: Any) -> Run:
    return runner(kube_scheduler_info.OPERATION, control_plane.kubeconfig)


@pytest.fixture
def pod(api: ApiClient, name: str) -> Iterator[str]:
    """Of a node that has the test's name."""
    container = {
        "name": "kube-scheduler",
        "image": "registry.k8s.io/kube-scheduler:v1.36.4",
        "command": ["kube-scheduler"],
    }
    labels = dict(one.split("=") for one in LABELS.split(","))
    meta = {"name": f"kube-scheduler-{name}", "namespace": NAMESPACE, "labels": labels, "annotations": {DIGEST: "abc"}}
    body = {"metadata": meta, "spec": {"nodeName": name, "containers": [container]}}
    eventually(lambda: api.create(kinds.POD, body), 120, "the pod is taken")
    yield str(meta["name"])
    api.delete(kinds.POD, str(meta["name"]), NAMESPACE)


def test_who_is_ready_with_which_configuration(info: Run, api: ApiClient, pod: str, name: str) -> None:
    asked = info(node_names=[name, "other"], configuration="abc")
    assert asked["unready"] == [
        f"not Ready: {pod} on node {name} (Pending)",
        "node other has no kube-scheduler",
    ]
    late = info(node_names=[name], wait=True, wait_timeout=1)
    assert late["msg"] == f"not Ready after 1 s: not Ready: {pod} on node {name} (Pending)"
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    api.patch(kinds.POD, pod, NAMESPACE, {"status": ready}, "status")
    assert info(node_names=[name], configuration="")["unready"] == [f"{pod} has configuration abc, not its own"]
    good = info(node_names=[name], configuration="abc", wait=True, wait_timeout=30)
    assert good["schedulers"] == [
        {"node": name, "name": pod, "ready": True, "version": "v1.36.4", "configuration": "abc", "problem": ""}
    ]
    assert (good["changed"], good["unready"], list(good["requests"])) == (False, [], ["list"])
    assert name in [each["node"] for each in info()["schedulers"]]
