"""The kinds Task and TaskQueue: what their schemas let in, and who may write a Task."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.base import Context, Operation, execute
from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils._glue.task import OPERATION as TASK
from ansible_collections.berth.stateful.plugins.module_utils._glue.task_batch import OPERATION as TASK_BATCH
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import ForbiddenError, InvalidError
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import Resource
from berth_dev.errors import DevError
from tests.support.team import client_of

pytestmark = pytest.mark.usefixtures("crds")
TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "none"}]}}


def task(namespace: str, name: str = "job", **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": namespace}
    return {
        "apiVersion": kinds.TASK.api_version,
        "kind": "Task",
        "metadata": meta,
        "spec": {"template": TEMPLATE, **spec},
    }


def queue(namespace: str, **spec: Any) -> dict[str, Any]:
    meta = {"name": "q", "namespace": namespace}
    return {"apiVersion": kinds.TASK_QUEUE.api_version, "kind": "TaskQueue", "metadata": meta, "spec": spec}


def test_defaults_and_the_way_of_no_return(api: ApiClient, namespace: str) -> None:
    made = api.create(kinds.TASK, task(namespace))
    spec = made["spec"]
    assert (spec["queue"], spec["retries"], spec["kill"], made["status"]) == (
        "default",
        0,
        False,
        {"state": "Submitted"},
    )
    api.patch(kinds.TASK, "job", namespace, {"spec": {"kill": True}})
    with pytest.raises(InvalidError, match="a killed task is not brought back"):
        api.patch(kinds.TASK, "job", namespace, {"spec": {"kill": False}})


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"retries": -1}, r"spec\.retries"),
        ({"retryExitCodes": [0]}, r"spec\.retryExitCodes\[0\]"),
        ({"queue": "No"}, r"spec\.queue"),
        ({"template": "x"}, r"spec\.template"),
    ],
)
def test_a_task_that_is_wrong(api: ApiClient, namespace: str, spec: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidError, match=words):
        api.create(kinds.TASK, task(namespace, **spec))


def test_a_batch_takes_no_offer(namespace: str, control_plane: Any) -> None:
    """An offer is room for one task; with a gang a Task takes none, either (tests/badinput/objects.py)."""
    batch = {**task(namespace, "many", count=2, offer="o"), "kind": "TaskBatch"}
    with pytest.raises(DevError, match=r'unknown field "spec\.offer"'):
        control_plane.kubectl("apply", "--filename", "-", stdin=json.dumps(batch))


def test_a_name_too_long_and_queues_that_are_wrong(api: ApiClient, namespace: str) -> None:
    with pytest.raises(InvalidError, match="at most 52 characters"):
        api.create(kinds.TASK, task(namespace, "x" * 53))
    for spec, words in (
        ({"share": 0}, "share"),
        ({"ceiling": {"cpu": "-1"}}, "a ceiling is a quantity of 0 or more"),
        ({"borrowingLimit": {"cpu": 1}}, "a borrowing limit needs a ceiling"),
        ({"ceiling": {"cpu": 1}, "lendingLimit": {"memory": "1Gi"}}, "a lending limit needs a ceiling"),
        ({"reclaim": "Always"}, "reclaim"),
        ({"filler": True, "share": 2}, "filler work is entitled to nothing"),
        ({"filler": True, "reclaim": "Any"}, "filler work is entitled to nothing"),
    ):
        with pytest.raises(InvalidError, match=words):
            api.create(kinds.TASK_QUEUE, queue(namespace, **spec))
    api.create(
        kinds.TASK_QUEUE, queue(namespace, share=2, ceiling={"cpu": 4, "memory": "1Gi"}, borrowingLimit={"cpu": 1})
    )
    low = queue(namespace, filler=True, ceiling={"cpu": 4})
    api.create(kinds.TASK_QUEUE, {**low, "metadata": {**low["metadata"], "name": "low"}})


@pytest.mark.parametrize(("operation", "kind"), [(TASK, kinds.TASK), (TASK_BATCH, kinds.TASK_BATCH)])
def test_a_queue_that_is_not_there_is_refused_by_the_module(
    api: ApiClient, namespace: str, control_plane: Any, operation: Operation, kind: Resource
) -> None:
    defaults = {name: spec.get("default") for name, spec in operation.argument_spec().items()}
    count = {"count": 2} if operation is TASK_BATCH else {}
    warned: list[str] = []

    def run(queue: str, check: bool = False) -> dict[str, Any]:
        asked = {"kubeconfig": str(control_plane.kubeconfig), "namespace": namespace, "template": TEMPLATE, **count}
        params = {**defaults, **asked, "name": "job", "queue": queue, "wait": False}
        return execute(operation, Context(params, check, warned.append, environ={}))

    api.create(kinds.TASK_QUEUE, queue(namespace))
    words = f"queue is 'nightly': there is no TaskQueue {namespace}/nightly; expected default, q"
    assert run("nightly")["msg"] == f"{words}. Create it first; nothing was submitted"
    assert api.find(kind, "job", namespace) is None
    assert (run("nightly", check=True)["changed"], warned) == (True, [f"{words}, or one that is made before"])
    assert [run("q")["changed"] for _time in range(2)] == [True, False]
    assert words in run("nightly")["msg"]
    assert api.get(kind, "job", namespace)["spec"]["queue"] == "q"


def test_who_writes_a_task_may_make_pods(api: ApiClient, namespace: str, control_plane: Any) -> None:
    """An account with tasks alone is refused; with pods it is let in."""
    from tests.dev.hosts_help import eventually

    api.create(kinds.SERVICE_ACCOUNT, {"metadata": {"name": "team", "namespace": namespace}})
    subject = {"kind": "ServiceAccount", "name": "team", "namespace": namespace}
    for name, group, what in (("tasks", "berth.dev", "tasks"), ("pods", "", "pods")):
        meta = {"name": name, "namespace": namespace}
        api.create(
            kinds.ROLE, {"metadata": meta, "rules": [{"apiGroups": [group], "resources": [what], "verbs": ["create"]}]}
        )
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role"}

    def bind(name: str) -> None:
        meta = {"name": name, "namespace": namespace}
        body = {"metadata": meta, "roleRef": {**ref, "name": name}, "subjects": [subject]}
        api.create(kinds.ROLE_BINDING, body)

    team = client_of(control_plane.kubeconfig, namespace)

    def make() -> str:
        try:
            team.create(kinds.TASK, task(namespace))
        except ForbiddenError as exc:
            return exc.message
        return ""

    bind("tasks")
    eventually(
        lambda: "only who may create pods" in make(), what="the right to Tasks is there, and that to pods is not"
    )
    bind("pods")
    eventually(lambda: not make(), what="with the right to pods it is let in")
