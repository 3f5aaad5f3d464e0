"""The module storage_class on a real API server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.base import Context, execute
from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils._glue.storage_class import DEFAULT_ANNOTATION, OPERATION
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import PVC, STORAGE_CLASS

Module = Callable[..., dict[str, Any]]
World = Callable[[], dict[str, str]]


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
def module(control_plane: Any, api: ApiClient, name: str, warnings: list[str]) -> Iterator[Module]:
    def run(check: bool = False, **options: Any) -> dict[str, Any]:
        defaults = {option: spec.get("default") for option, spec in OPERATION.argument_spec().items()}
        params = {**defaults, "kubeconfig": str(control_plane.kubeconfig), "name": name, **options}
        return execute(OPERATION, Context(params, check, warnings.append, environ={}))

    yield run
    api.delete(STORAGE_CLASS, name)


def test_life(module: Module, api: ApiClient, name: str, world: World) -> None:
    before = world()
    planned = module(check=True, labels={"tier": "nvme"})
    assert planned["changed"]
    assert world() == before
    made = module(labels={"tier": "nvme"})
    assert made["requests"] == {"create": 1, "list": 1}
    assert made["diff"] == planned["diff"]
    live = api.get(STORAGE_CLASS, name)
    assert (live["provisioner"], live["reclaimPolicy"], live["volumeBindingMode"]) == (
        "local.berth.dev",
        "Retain",
        "WaitForFirstConsumer",
    )
    again = module(labels={"tier": "nvme"})
    assert (again["changed"], again["diff"], again["requests"]) == (False, [], {"list": 1})
    assert not module()["changed"], "what is not said is not touched"

    gone = module(check=True, state="absent")
    assert gone["changed"]
    assert api.find(STORAGE_CLASS, name)
    assert module(state="absent")["requests"] == {"list": 2, "delete": 1}
    assert not module(state="absent")["changed"]


def test_claims_that_wait_keep_it(
    module: Module, api: ApiClient, name: str, namespace: str, world: World, warnings: list[str]
) -> None:
    module()
    spec = {"storageClassName": name, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    for claim, more in (("data", {}), ("bound", {"volumeName": f"{name}-pv"})):
        api.create(PVC, {"metadata": {"name": claim, "namespace": namespace}, "spec": {**spec, **more}})
    before = world()
    for check in (True, False):
        refused = module(check=check, state="absent")
        assert (refused["failed"], refused["changed"], refused["claims"]) == (True, False, [f"{namespace}/data"])
        assert f"StorageClass {name} is not removed while claims that are not bound name it" in refused["msg"]
        assert "set force: true" in refused["msg"]
    assert (world(), warnings) == (before, [])
    assert module(check=True, state="absent", force=True)["changed"]
    assert world() == before
    gone = module(state="absent", force=True)
    assert (gone["changed"], gone["claims"]) == (True, [f"{namespace}/data"])
    assert f"claims keep their volumes without it ({namespace}/bound)" in warnings[-1]
    assert api.find(STORAGE_CLASS, name) is None


def test_no_claim_keeps_a_class_that_none_names(module: Module, api: ApiClient, name: str, namespace: str) -> None:
    module()
    spec = {"storageClassName": "other", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}
    api.create(PVC, {"metadata": {"name": "data", "namespace": namespace}, "spec": spec})
    gone = module(state="absent")
    assert (gone["changed"], gone["claims"]) == (True, [])


def test_what_can_change_changes(module: Module, api: ApiClient, name: str) -> None:
    module(annotations={"theirs": "kept"})
    options = {"labels": {"a": "b"}, "allow_volume_expansion": True, "default": False}
    planned = module(check=True, **options)
    (diff,) = planned["diff"]
    assert "theirs" not in str(diff)
    assert diff["after"]["allowVolumeExpansion"] is True
    assert "allowVolumeExpansion" not in diff["before"]
    assert module(**options)["requests"] == {"list": 1, "patch": 1}
    live = api.get(STORAGE_CLASS, name)
    assert live["metadata"]["annotations"] == {"theirs": "kept", DEFAULT_ANNOTATION: "false"}
    assert live["allowVolumeExpansion"] is True
    assert not module(**options)["changed"]


def test_a_second_default_is_warned_of(module: Module, api: ApiClient, name: str, warnings: list[str]) -> None:
    annotations = {DEFAULT_ANNOTATION: "true"}
    body = {"metadata": {"name": f"{name}-other", "annotations": annotations}, "provisioner": "x"}
    api.create(STORAGE_CLASS, body)
    try:
        assert module(default=True)["changed"]
        assert any(f"{name}-other" in text and "default too" in text for text in warnings)
        assert not module(default=True)["changed"]
    finally:
        api.delete(STORAGE_CLASS, f"{name}-other")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("reclaim_policy", "Delete"),
        ("volume_binding_mode", "Immediate"),
        ("provisioner", "example.dev/disks"),
        ("parameters", {"a": "b"}),
    ],
)
def test_what_never_changes_is_refused(module: Module, world: World, option: str, value: Any) -> None:
    module()
    before = world()
    for check in (True, False):
        result = module(check=check, **{option: value})
        assert result["failed"]
        assert not result["changed"]
        assert f"{option} is " in result["msg"]
        assert "remove the class first" in result["msg"]
        assert result["requests"] == {"list": 1}
    assert world() == before


def test_a_class_of_an_earlier_release_is_kept_by_its_provisioner(module: Module, world: World, name: str) -> None:
    earlier = "kubernetes.io/no-provisioner"
    module(provisioner=earlier)
    before = world()
    for check in (True, False):
        refused = module(check=check)
        assert refused["failed"]
        assert f"provisioner is '{earlier}', wanted 'local.berth.dev'" in refused["msg"]
        assert f"to leave it as it is say provisioner: {earlier}" in refused["msg"]
    assert not module(provisioner=earlier)["changed"]
    assert "leave it as it is" not in module(provisioner=earlier, reclaim_policy="Delete")["msg"]
    assert world() == before


def test_a_name_that_cannot_be(module: Module, world: World) -> None:
    before = world()
    result = module(name="Not_A_Name")
    assert (result["failed"], result["changed"], result["requests"]) == (True, False, {})
    assert "name is 'Not_A_Name': expected a DNS-1123 subdomain" in result["msg"]
    assert world() == before
