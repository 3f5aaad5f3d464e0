"""Hooks of an update against a real API server: what is foreseen, which rights they take, and how a refusal reads.

No kubelet is there that could run a command (kwok plays them): tests/integration/test_update_hooks.py has real ones.
"""

from __future__ import annotations

import pytest

from tests.apiserver.app.runner import calm, run
from tests.apiserver.app.test_stateful_app import NODES, writes
from tests.apiserver.app.test_update import options, uids, with_template
from tests.apiserver.app.world import local_disk
from tests.support.kube import client_for
from tests.support.team import options as as_team
from tests.support.team import team

HOOKS = {"before": ["drain", "now"], "after": ["undrain"], "timeout": 20}
EXEC = {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get", "create"]}


@pytest.fixture
def world(app_world):
    for node in NODES:
        app_world.add_disk(local_disk(node, 0))
    yield app_world
    app_world.clear()


def rows(result):
    return [(row["pod"], row["hook"], row["skipped"]) for row in result["hooks"]]


def test_check_mode_names_them_and_a_command_that_cannot_be_run_stops_the_update(world, kubeconfig):
    first = options(kubeconfig, replicas=2, update_hooks=HOOKS)
    assert "hooks" not in calm(run(first))
    before, second = uids(world), with_template(first, command=["sleep", "1"])
    seen = calm(run(second, check=True))
    assert rows(seen) == [(f"db-{ordinal}", hook, None) for ordinal in (1, 0) for hook in ("before", "after")]
    assert writes(seen) == {}
    failed = run(second)
    assert failed["failed"]
    assert "the hook before ('drain') in pod default/db-1 cannot be run: " in failed["msg"]
    assert "now" not in failed["msg"].split(), "of a command its first word alone is told"
    assert "the update stops here, and the pod was not touched. Run the task again" in failed["msg"]
    assert (failed["hook"]["pod"], failed["hook"]["exit_code"], failed["hooks"]) == ("db-1", None, [])
    assert uids(world) == before
    without = {**second, "update_hooks": None}
    calm(run(without))
    assert not set(uids(world).items()) & set(before.items())


def test_a_replica_that_is_not_ready_is_updated_without_the_hook_before_it(world, kubeconfig):
    hooks = {"before": ["drain"]}
    first = options(kubeconfig, replicas=1, update_hooks=hooks)
    calm(run(first))
    told = world.client.get(world.kinds.POD, "db-0", "default")["status"]["conditions"]
    conditions = [{**one, "status": "False"} if one["type"] == "Ready" else one for one in told]
    world.client.patch(world.kinds.POD, "db-0", "default", {"status": {"conditions": conditions}}, "status")
    second, skipped = with_template(first, command=["sleep", "1"]), [("db-0", "before", "the pod is not Ready")]
    assert rows(calm(run(second, check=True))) == skipped
    assert rows(calm(run(second))) == skipped
    assert not calm(run(second))["changed"]


def test_a_hook_after_is_owed_until_it_was_run(world, kubeconfig):
    first = options(kubeconfig, replicas=2, update_hooks={"after": ["undrain"]})
    calm(run(first))
    second = with_template(first)
    failed = run(second)
    assert "the hook after ('undrain') in pod default/db-1 cannot be run: " in failed["msg"]
    assert "and the pod has the new template" in failed["msg"]
    owed = {name: (one["metadata"].get("annotations") or {}) for name, one in world.berths("db").items()}
    assert [ordinal for ordinal, annotations in sorted(owed.items()) if "berth.dev/after-hook" in annotations] != []
    paused = {**second, "paused": True}
    seen = calm(run(paused, check=True))
    assert seen["changed"]
    assert rows(seen) == [("db-1", "after", None)]
    assert [row["pod"] for row in seen["outdated"]] == ["db-0"]
    again = run(second)
    assert "the hook after ('undrain') in pod default/db-1" in again["msg"], "the same one, and no other was begun"
    calm(run({**second, "update_hooks": None}))


def test_the_right_is_asked_for_before_anything_is_written(world, kubeconfig):
    name = "hooks-team"
    admin = client_for(kubeconfig)
    with team(kubeconfig, name):
        first = {**options(kubeconfig, namespace=name, replicas=1, update_hooks=HOOKS), **as_team(name)}
        calm(run(first))
        second = with_template(first)
        refused = run(second)
        assert refused["failed"]
        assert "lacks the right to: get pods/exec in namespace hooks-team; create pods/exec" in refused["msg"]
        assert writes(refused) == {}
        assert writes(run(second, check=True)) == {}
        role = {"metadata": {"name": "hooks", "namespace": name}, "rules": [EXEC]}
        admin.create(world.kinds.ROLE, role)
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "hooks"}
        subject = {"kind": "ServiceAccount", "name": "team", "namespace": name}
        body = {"metadata": role["metadata"], "roleRef": reference, "subjects": [subject]}
        admin.create(world.kinds.ROLE_BINDING, body)
        granted = run(second)
        assert "the hook before ('drain') in pod hooks-team/db-0 cannot be run" in granted["msg"], "it was tried"
        calm(run({**first, "state": "absent"}))


def test_a_primary_that_cannot_be_asked_stops_the_update(world, kubeconfig):
    first = options(kubeconfig, replicas=2)
    calm(run(first))
    before = uids(world)
    ask = {"update_order": "primary_last", "update_primary_command": ["is-primary", "now"]}
    second = {**with_template(first, command=["sleep", "1"]), **ask}
    assert writes(calm(run(second, check=True))) == {}
    failed = run(second)
    assert "update_primary_command ('is-primary') in pod default/db-0 cannot be run: " in failed["msg"]
    assert "no further replica is begun" in failed["msg"]
    assert "now" not in failed["msg"].split(), "of a command its first word alone is told"
    assert uids(world) == before
