"""What tells that nothing was written: blind to what earlier tests have left, and to nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import NODE, POD, STORAGE_CLASS

World = Callable[[], dict[str, str]]


def put_pod(api: ApiClient, namespace: str, name: str, **more: Any) -> None:
    spec = {"automountServiceAccountToken": False, "containers": [{"name": "c", "image": "none"}], **more}
    api.create(POD, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})


def test_pods_of_a_node_that_is_gone_go_without_being_missed(
    api: ApiClient, namespace: str, name: str, world: World
) -> None:
    """As the mirror of a static pod does, whose grace is 30 s and whose kubelet is nowhere."""
    api.create(NODE, {"metadata": {"name": name}})
    put_pod(api, namespace, "here", nodeName=name)
    assert f"pods/{namespace}/here" in world()
    api.delete(NODE, name)
    before = world()
    assert f"pods/{namespace}/here" not in before
    api.delete(POD, "here", namespace)
    assert world() == before


def test_what_changes_is_seen(api: ApiClient, namespace: str, name: str, world: World) -> None:
    put_pod(api, namespace, "waits", nodeSelector={"nowhere": "yes"}, schedulerName="nobody")
    before = world()
    api.create(STORAGE_CLASS, {"metadata": {"name": name}, "provisioner": "kubernetes.io/no-provisioner"})
    made = world()
    assert set(made) - set(before) == {f"storageclasses//{name}"}
    api.patch(POD, "waits", namespace, {"metadata": {"labels": {"a": "b"}}})
    changed = world()
    assert {key for key in changed if changed[key] != made.get(key)} == {f"pods/{namespace}/waits"}
    api.delete(STORAGE_CLASS, name)
    api.delete(POD, "waits", namespace)
    assert set(changed) - set(world()) == {f"storageclasses//{name}", f"pods/{namespace}/waits"}
