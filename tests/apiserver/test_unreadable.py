"""A Berth that cannot be read, let in by an older schema: all readers go on, name it, and give its node to nobody."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.base import Context, Operation, execute
from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils._glue.placement_info import OPERATION as PLACEMENT_INFO
from ansible_collections.berth.stateful.plugins.module_utils._glue.report import OPERATION as REPORT
from ansible_collections.berth.stateful.plugins.module_utils._glue.resource_list import OPERATION as RESOURCE_LIST_INFO
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import InvalidError
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import BERTH, CRD
from berth_cli.__main__ import main
from tests.support.small_cluster import small_cluster

pytestmark = pytest.mark.usefixtures("crds")
WHY = "spec.requests.memory: 'lots' is not a quantity"


@pytest.fixture
def poisoned(api: ApiClient, name: str, namespace: str) -> Iterator[str]:
    """The name of a small cluster, on whose node NAME-a the bad Berth is."""
    whole = api.get(CRD, "berths.berth.dev")
    older = copy.deepcopy(whole)
    schema = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["requests"]["x-kubernetes-validations"]
    with small_cluster(api, name, namespace):
        api.replace(CRD, older)
        try:
            spec = {"app": "bad", "ordinal": 0, "nodeName": f"{name}-a", "requests": {"memory": "lots"}}
            metadata = {"name": "bad-0", "namespace": namespace}
            body = {"apiVersion": BERTH.api_version, "kind": "Berth", "metadata": metadata, "spec": spec}
            _until_taken(api, body)
        finally:
            now = api.get(CRD, "berths.berth.dev")
            api.replace(CRD, {**now, "spec": whole["spec"]})
        yield name
        api.delete(BERTH, "bad-0", namespace)


def _until_taken(api: ApiClient, body: dict[str, Any]) -> None:
    """The API server serves a changed schema a moment after it was written."""
    deadline = time.monotonic() + 30
    while True:
        try:
            api.create(BERTH, body)
            return
        except InvalidError:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def _run(control_plane: Any, operation: Operation, **options: Any) -> tuple[dict[str, Any], str]:
    defaults = {name: spec.get("default") for name, spec in operation.argument_spec().items()}
    params = {**defaults, "kubeconfig": str(control_plane.kubeconfig), **options}
    warnings: list[str] = []
    result = execute(operation, Context(params, False, warnings.append, environ={}))
    assert not result.get("failed"), result
    return result, " ".join(warnings)


def test_every_reader_goes_on_and_names_it(
    control_plane: Any, poisoned: str, namespace: str, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = f"Berth {namespace}/bad-0: {WHY}"
    found, warned = _run(control_plane, RESOURCE_LIST_INFO)
    assert bad in warned
    (row,) = (one for one in found["resources"]["unreadable"] if one["namespace"] == namespace)
    assert (row["kind"], row["name"]) == ("Berth", "bad-0")
    nodes = {one["name"]: one for one in found["resources"]["nodes"]}
    assert nodes[f"{poisoned}-a"]["free"]["memory"] < 0

    template = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"memory": "1Mi"}}}]}}
    found, warned = _run(control_plane, PLACEMENT_INFO, name="app", namespace=namespace, template=template, replicas=1)
    assert bad in warned
    assert f"{poisoned}-a" not in found["placements"][0]["best_nodes"]
    assert "Insufficient memory" in str(found["placements"][0]["nodes"][f"{poisoned}-a"])

    found, warned = _run(control_plane, REPORT, dest=str(tmp_path / "page.html"))
    assert bad in json.dumps(found["findings"])

    for command, status in (("show", 0), ("top", 0), ("drift", 1)):
        args = [command, "--kubeconfig", str(control_plane.kubeconfig)]
        assert main([*args, "-A"] if command == "show" else args) == status
        said = capsys.readouterr()
        assert command != "drift" or bad in said.out
