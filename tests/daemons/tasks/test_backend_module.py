"""The module task_backend where pods are placed: fake nodes say that its pods run, a process leads in the name of one.

The process has the rights that the module wrote, and no others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue import task_backend
from ansible_collections.berth.stateful.plugins.module_utils._glue.base import Context, execute
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.tasks.filler import PRIORITY_CLASS
from tests.daemons.tasks.world import DEPLOY, World, until

Run = Callable[..., dict[str, Any]]
NAME, RUNNER, NAMESPACE = "berth-tasks", "berth-task-runner", "berth-system"
MADE = (
    *(kinds.SERVICE_ACCOUNT, kinds.CLUSTER_ROLE, kinds.CLUSTER_ROLE_BINDING, kinds.ROLE, kinds.ROLE_BINDING),
    kinds.DEPLOYMENT,
)


@pytest.fixture
def run(plane: Any) -> Iterator[Run]:
    """The module, with options; what it installed goes, and the rights that the other tests need come back."""
    defaults = {name: spec.get("default") for name, spec in task_backend.OPERATION.argument_spec().items()}
    shared = {"image": "registry.example.com/berth:1", "tolerations": [{"operator": "Exists"}], "wait_timeout": 120}

    def call(check: bool = False, **options: Any) -> dict[str, Any]:
        params = {**defaults, "kubeconfig": str(plane.kubeconfig), **shared, **options}
        context = Context(task_backend.prepare(params), check, lambda _text: None, environ={})
        return execute(task_backend.OPERATION, context)

    try:
        yield call
    finally:
        call(state="absent", force=True)
        plane.kubectl("apply", "-f", str(DEPLOY / "rbac.yaml"))


def there(world: World) -> set[str]:
    return {
        kind.kind for kind in MADE if world.api.find(kind, NAME, NAMESPACE if kind.namespaced else None) is not None
    }


def headers(result: dict[str, Any]) -> list[str]:
    return [" ".join(each["after_header"].split()[:2]) for each in result["diff"]]


def test_it_leads_runs_tasks_where_it_is_told_to_and_stays_while_one_has_not_ended(
    run: Run, world: World, start: Callable[..., Any]
) -> None:
    world.node()
    # Only the module's binding lets it run tasks here. Its other rights were applied by hand, and are taken over.
    world.api.delete(kinds.ROLE_BINDING, "tasks", world.name)
    options = {"replicas": 1, "namespaces": [world.name]}
    planned = run(check=True, **options)
    assert (planned["changed"], "Deployment" in there(world)) == (True, False), planned
    results: list[dict[str, Any]] = []
    waiting = threading.Thread(target=lambda: results.append(run(**options)))
    waiting.start()

    def pod() -> str:
        found = world.api.list(kinds.POD, NAMESPACE, labels=f"app.kubernetes.io/instance={NAME}")
        return found[0]["metadata"]["name"] if found and found[0]["status"]["phase"] == "Running" else ""

    name = until(pod, "its pod runs")
    assert waiting.is_alive(), results
    process = start("--identity", f"{name}_1", elect=True)
    waiting.join(120)
    (first,) = results
    assert (first.get("msg"), first["changed"], first["leader"], first["namespaces"]) == (
        *(None, True, name),
        [world.name],
    )
    assert headers(first) == headers(planned)
    again = run(**options)
    assert (again["changed"], again["leader"], "apply" in again["requests"]) == (False, name, False)
    assert not run(replicas=1)["changed"], "namespaces that are not given stay"

    world.submit("job")
    running = world.running("job")
    for refused in (run(state="absent"), run(replicas=1, namespaces=[])):
        assert f"while Tasks there have not ended: {world.name}/job" in refused["msg"], refused
        assert (refused["changed"], refused["tasks"]) == (False, [f"{world.name}/job"])
    assert there(world) == {kind.kind for kind in MADE}
    world.end(running)
    world.ended("job", "Succeeded")

    left = run(replicas=1, namespaces=[])
    assert ([one.split()[0] for one in headers(left)], left["namespaces"]) == (["RoleBinding"], [])
    assert world.api.find(kinds.ROLE_BINDING, RUNNER, world.name) is None
    assert run(replicas=1, namespaces=[world.name])["changed"]
    process.stop()
    planned = run(check=True, state="absent")
    assert there(world) == {kind.kind for kind in MADE}
    gone = run(state="absent")
    assert headers(gone) == headers(planned)
    assert ("msg" in gone, there(world), gone["tasks"]) == (False, set(), [])
    for kind, named, place in (
        (kinds.LEASE, NAME, NAMESPACE),
        (kinds.CLUSTER_ROLE, RUNNER, None),
        (kinds.ROLE_BINDING, RUNNER, world.name),
        (kinds.PRIORITY_CLASS, PRIORITY_CLASS, None),
    ):
        assert world.api.find(kind, named, place) is None
    assert world.statuses().keys() == {"job"}, "what people asked for stays"
    assert not run(state="absent")["changed"]
    assert len(headers(run(check=True, **options))) == len(MADE) + 3, "and all of it would come back"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"image": None}, "image is missing"),
        ({"priority_class": "missing"}, "PriorityClass missing does not exist"),
        ({"flags": {"policy": "lottery"}}, "flags.policy is 'lottery'"),
        ({"namespaces": ["default", "A"]}, "namespaces[1] is 'A'"),
        ({"namespaces": ["not-there"]}, "namespaces: not-there is not there: make it first"),
        ({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}, "must be less than or equal to cpu limit"),
    ],
)
def test_what_is_wrong_is_refused_before_anything_is_touched(
    run: Run, world: World, options: dict[str, Any], words: str
) -> None:
    before = there(world)
    refused = run(**options)
    assert words in refused["msg"], refused
    assert (refused["changed"], there(world)) == (False, before)
    assert "Deployment" not in before
