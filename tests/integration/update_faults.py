"""What gets in the way of an update that is under way: a budget, taints, a pod on the cpu that a replica has released,
and a pod that a replica's node has taken before it can resize that.

Each function expects Ready replicas, leaves them so, and is called by test_stateful_app_update, whose cluster it uses.
The run is in the background, so that one and the same waits, says for what, and goes on.
"""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.quantity import cpu_milli
from tests.dev.hosts_help import apply, eventually, get, node_ready, pod, running
from tests.integration.test_stateful_app_hosts import second_scheduler
from tests.support.hosts import PIPELINED
from tests.support.playbook import _kill_with_workers, environment

#: Seconds for what takes two or three on a machine that does nothing else.
PATIENCE = 120
LABEL, TAINT = "berth.dev/app", "proof=yes"
#: Of the members and a pod that no update touches, so that it allows something at times: three of these four.
BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "few", "namespace": "default"},
    "spec": {
        "minAvailable": 3,
        "selector": {"matchExpressions": [{"key": LABEL, "operator": "In", "values": ["journal", "guard"]}]},
    },
}


class Background:
    """A run of the plays whose output is read while it waits. Use as a context manager."""

    def __init__(self, plays: list[dict[str, Any]], folder: Path) -> None:
        self._log, self._record = folder / "background.log", folder / "background.jsonl"
        self._playbook = folder / "background.yml"
        self._playbook.write_text(yaml.safe_dump(plays))

    def __enter__(self) -> Background:
        program = Path(sys.executable).parent / "ansible-playbook"
        with self._log.open("wb") as log:
            self._running = subprocess.Popen(
                [str(program), "-v", "-i", "localhost,", str(self._playbook)],
                env=environment(self._record, PIPELINED),
                cwd=self._playbook.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._running.poll() is None:
            _kill_with_workers(self._running)
        print(self._log.read_text())

    def says(self, pattern: str) -> None:
        """Wait until it has said so, and see that it goes on waiting."""
        eventually(lambda: re.search(pattern, self._log.read_text()), PATIENCE, f"a run that says {pattern!r}")
        assert self._running.poll() is None, "it has ended"

    def fails(self, pattern: str) -> None:
        """It ends, and says so."""
        assert self._running.wait(PATIENCE) != 0
        text = self._log.read_text()
        assert re.search(pattern, text, re.DOTALL), text

    def ends_well(self) -> None:
        assert self._running.wait(PATIENCE) == 0


def _soon(test: Callable[[], Any], what: str) -> None:
    eventually(test, PATIENCE, what)


def _node(app: Any, name: str) -> str:
    return str(get(app.cluster, "pod", name)["spec"]["nodeName"])


def _unscheduled(app: Any, name: str) -> str:
    """What its scheduler says of a pod without a node."""
    told = get(app.cluster, "pod", name)["status"].get("conditions") or ()
    return next((one["message"] for one in told if one["type"] == "PodScheduled" and one["status"] == "False"), "")


def a_budget_and_taints(app: Any, puts: Any, changes: dict[str, Any]) -> None:
    """An update waits for the budget first, then for the second replica's node, whose pod is evicted meanwhile."""
    cluster, before = app.cluster, app.pods()
    first, second, third = before
    node = _node(app, "journal-1")
    guard = pod("guard", _node(app, "journal-2"), "exec sleep 1000000")
    guard["metadata"]["labels"] = {LABEL: "guard"}
    guard["spec"]["containers"][0]["readinessProbe"] = {"exec": {"command": ["ls", "/ready"]}, "periodSeconds": 1}
    apply(cluster, guard, BUDGET)
    running(cluster, "guard")
    with Background(app.play(wait_timeout=PATIENCE, **changes), app.folder) as update:
        budget = "PodDisruptionBudget default/few to allow the disruption of pod journal-2"
        update.says(rf"waiting for the update: {budget} \(it allows 0 now, 3 of 4 pods are healthy, 3 have to be;")
        assert app.pods() == before, "none was touched"
        puts.go_on()

        cluster.kubectl("taint", "node", node, f"{TAINT}:NoSchedule")
        cluster.kubectl("exec", "guard", "--", "touch", "/ready")
        update.says(rf"node {node} to take pod journal-1 back \(it has the taint {TAINT}:NoSchedule: take it off")
        assert app.pods()[:2] == [first, second], "the two others are as they were"
        assert app.pods()[2] != third, "the budget has allowed it"

        cluster.kubectl("taint", "node", node, f"{TAINT}:NoExecute")
        _soon(lambda: "untolerated taint" in _unscheduled(app, "journal-1"), "a new journal-1 that waits for its node")
        assert second not in app.pods(), "it was evicted"
        assert app.pods()[0] == first, "no other goes while one is away"
        puts.go_on()

        cluster.kubectl("taint", "node", node, "proof-")
        update.ends_well()
    assert not set(app.pods()) & set(before)
    cluster.kubectl("delete", "pod/guard", "pdb/few", "--now")


def a_squatter_on_the_released_cpu(app: Any, puts: Any, log: Any, changes: dict[str, Any]) -> None:
    """The kubelet refuses the new pod, which a scheduler has bound that does not look at room; until the squatter goes.

    The pod waits for that scheduler until the squatter, which no scheduler has seen, runs on its node.
    """
    cluster, (*others, mine) = app.cluster, app.pods()
    node = _node(app, "journal-2")
    assert node_ready(cluster, node) == "True"
    most = cpu_milli(get(cluster, "node", node)["status"]["allocatable"]["cpu"]) * 6 // 10
    asks = {"requests": {"cpu": f"{most}m"}}
    squatter = pod("squatter", node, "exec sleep 1000000")
    squatter["spec"]["containers"][0]["resources"] = asks
    bound_blindly = copy.copy(app)
    bound_blindly.template = {"spec": {**app.template["spec"], "schedulerName": "second"}}
    changes = {**changes, "resources": asks, "options": {"partition": 2}}
    with Background(bound_blindly.play(wait_timeout=PATIENCE, **changes), app.folder) as update:
        _soon(lambda: len(app.pods()) == 3 and mine not in app.pods(), "a new pod of journal-2")
        apply(cluster, squatter)
        running(cluster, "squatter")
        with second_scheduler(cluster):
            _soon(lambda: _refused(log), "journal-2 OutOfcpu")
            late = bound_blindly.module(wait_timeout=12, **changes).failed()
            assert re.search(r"missing: pod journal-2 .*has ended: Failed \(OutOfcpu: ", late["msg"]), late["msg"]
            assert app.pods()[:2] == others, "the two others are as they were"
            puts.go_on()
            cluster.kubectl("delete", "pod", "squatter", "--now")
            update.ends_well()
    assert app.pods()[:2] == others
    assert app.pods(".status.containerStatuses[0].resources.requests.cpu")[2] == f"{most}m"
    assert _node(app, "journal-2") == node


def _refused(log: Any) -> bool:
    return any(one["status"].get("reason") == "OutOfcpu" for _what, one in log.events())


def a_resize_that_its_node_puts_off(app: Any, changes: dict[str, Any]) -> dict[str, Any]:
    """A pod comes to the node while the update of ledger-0 waits for a budget, and has seen that there is room for the
    greater size. The node puts the resize off until that pod is gone. Returns the changes as they are done then.
    """
    cluster, node = app.cluster, _node(app, "ledger-0")
    free = _free_cpu(cluster, node)
    half = f"{free // 2}m"
    resources = {**changes["resources"], "requests": {**changes["resources"]["requests"], "cpu": half}}
    changes = {**changes, "resources": resources}
    guard = pod("guard", node, "exec sleep 1000000")
    guard["metadata"]["labels"] = {LABEL: "guard"}
    guard["spec"]["containers"][0]["readinessProbe"] = {"exec": {"command": ["false"]}}
    spec = {"minAvailable": 1, "selector": {"matchExpressions": [_either("ledger", "guard")]}}
    squatter = pod("squatter", node, "exec sleep 1000000")
    squatter["spec"]["containers"][0]["resources"] = {"requests": {"cpu": f"{free * 3 // 4}m"}}
    apply(cluster, guard, {**BUDGET, "spec": spec})
    running(cluster, "guard")
    with Background(app.play(wait_timeout=PATIENCE, **changes), app.folder) as update:
        update.says("waiting for the update: PodDisruptionBudget default/few to allow the disruption of pod ledger-0")
        apply(cluster, squatter)
        running(cluster, "squatter")
        cluster.kubectl("delete", "pdb", "few")
        update.says("waiting for the update: pod ledger-0 to be resized: Deferred: ")
        cluster.kubectl("delete", "pod", "squatter", "--now")
        update.ends_well()
    cluster.kubectl("delete", "pod", "guard", "--now")
    assert app.pods(".status.containerStatuses[0].resources.requests.cpu") == [half]
    return changes


def _either(*apps: str) -> dict[str, Any]:
    return {"key": LABEL, "operator": "In", "values": list(apps)}


def _free_cpu(cluster: Any, node: str) -> int:
    """In thousandths, by the requests of the pods on the node."""
    pods = get(cluster, "pods", "--all-namespaces", "--field-selector", f"spec.nodeName={node}")["items"]
    asked = [
        one.get("resources", {}).get("requests", {}).get("cpu", 0)
        for each in pods
        for one in each["spec"]["containers"]
    ]
    return cpu_milli(get(cluster, "node", node)["status"]["allocatable"]["cpu"]) - sum(map(cpu_milli, asked))
