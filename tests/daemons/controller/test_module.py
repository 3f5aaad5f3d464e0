"""The module controller where pods are placed: fake nodes say that its pods run, a process leads in the name of one.

The process has the rights that the module wrote, and no others. The pods of a fake node do nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue import controller
from ansible_collections.berth.stateful.plugins.module_utils._glue.base import Context, execute
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.capacity import SELECTOR
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.controller.world import ACCOUNT, NAMESPACE, World, install, until

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(plane: Any) -> Iterator[Run]:
    """The module, with options; what it installed goes, and the rights that the other tests need come back."""
    defaults = {name: spec.get("default") for name, spec in controller.OPERATION.argument_spec().items()}
    shared = {"image": "registry.example.com/berth:1", "tolerations": [{"operator": "Exists"}], "wait_timeout": 120}

    def call(**options: Any) -> dict[str, Any]:
        params = {**defaults, "kubeconfig": str(plane.kubeconfig), **shared, **options}
        return execute(controller.OPERATION, Context(controller.prepare(params), False, lambda _text: None, environ={}))

    assert "msg" not in call(state="absent", force=True)
    try:
        yield call
    finally:
        call(state="absent", force=True)
        install(plane)


def test_it_waits_for_the_leader_and_stays_while_a_claim_needs_it(
    run: Run, world: World, nodes: list[str], start: Callable[..., Any]
) -> None:
    results: list[dict[str, Any]] = []
    waiting = threading.Thread(target=lambda: results.append(run(replicas=1)))
    waiting.start()

    def pod() -> str:
        found = world.api.list(kinds.POD, NAMESPACE, labels=f"app.kubernetes.io/instance={ACCOUNT}")
        return found[0]["metadata"]["name"] if found and found[0]["status"]["phase"] == "Running" else ""

    name = until(pod, "its pod runs")
    assert waiting.is_alive(), results
    process = start("--identity", f"{name}_1", "--schemas", _schemas(world))
    waiting.join(120)
    assert [(each.get("msg"), each["changed"], each.get("leader")) for each in results] == [(None, True, name)]
    again = run(replicas=1)
    assert (again["changed"], again["leader"]) == (False, name)

    world.storage_class()
    # Of a class that waits for the pod capacity is told.
    world.disk(nodes[1], 1, storageClassName=world.storage_class(waits=True, suffix="-waits"))
    disk = world.disk(nodes[0], 0)
    world.claim("data")
    world.wait_bound("data")
    until(lambda: world.api.list(kinds.CSI_STORAGE_CAPACITY, NAMESPACE, labels=SELECTOR), "capacity is told")
    kept = run(state="absent")
    assert f"is not removed while claims need it: {world.name}/data" in kept["msg"]
    assert (kept["changed"], kept["claims"]) == (False, [f"{world.name}/data"])

    world.delete(kinds.PVC, "data")
    until(lambda: not world.volumes() and disk not in world.locks(), "the disk is given up")
    process.stop()
    gone = run(state="absent")
    assert ("msg" in gone, gone["changed"], gone["claims"]) == (False, True, [])
    for kind in (kinds.CLUSTER_ROLE, kinds.CLUSTER_ROLE_BINDING):
        assert world.api.find(kind, ACCOUNT) is None
    for kind in (kinds.DEPLOYMENT, kinds.LEASE, kinds.SERVICE_ACCOUNT, kinds.ROLE, kinds.ROLE_BINDING):
        assert world.api.find(kind, ACCOUNT, NAMESPACE) is None
    assert world.api.find(kinds.CSI_DRIVER, "local.berth.dev") is None
    assert world.api.list(kinds.CSI_STORAGE_CAPACITY, NAMESPACE, labels=SELECTOR) == []


def _schemas(world: World) -> str:
    """As the module gave them to the pods."""
    pod = world.api.get(kinds.DEPLOYMENT, ACCOUNT, NAMESPACE)["spec"]["template"]["spec"]
    return str(next(one["value"] for one in pod["containers"][0]["env"] if one["name"] == "BERTH_CONTROLLER_SCHEMAS"))
