"""What a wait tells whoever watches the run, and when."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.app import wait
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import TimeoutExpired
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import POD


def pod(name: str, waits: str = "", ready: bool = False, **more: str) -> dict[str, Any]:
    """``waits``: the reason of its container. ``more``: of its status."""
    state = {"waiting": {"reason": waits}} if waits else {}
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    status = {"phase": "Pending", "conditions": conditions, "containerStatuses": [{"name": "c", "state": state}]}
    meta = {"name": name, "ownerReferences": [{"kind": "StatefulSet"}]}
    return {"metadata": meta, "spec": {"nodeName": "n1"}, "status": {**status, **more}}


class Told:
    """Answers one list, then one stream of events after the other; keeps what was told before each event."""

    def __init__(self, first: list[dict[str, Any]], *streams: list[dict[str, Any]]) -> None:
        self.lists, self.words = 0, []
        self._now = {one["metadata"]["name"]: one for one in first}
        self._streams = iter(streams)

    def list_with_version(self, *_asked: Any, **_labels: Any) -> tuple[list[dict[str, Any]], str]:
        self.lists += 1
        return list(self._now.values()), str(self.lists)

    def watch(self, *_asked: Any) -> Any:
        for one in next(self._streams, ()):
            self._now[one["metadata"]["name"]] = one
            yield {"type": "MODIFIED", "object": one}

    def until(self, seconds: float = 60) -> None:
        missing = wait.pods_ready(["a-0", "a-1"])
        wait.until(self, POD, "default", None, seconds, missing, "pods", self.words.append)  # type: ignore[arg-type]


def test_a_reason_is_told_when_it_comes_and_once_and_nothing_else_is_told_again() -> None:
    told = Told(
        [pod("a-0"), pod("a-1")],
        [
            pod("a-0", "ContainerCreating"),
            pod("a-0", "ContainerCreating"),
            pod("a-1", ready=True),
            pod("a-0", "CrashLoopBackOff"),
            pod("a-0", ready=True),
        ],
    )
    told.until()
    assert told.words == [
        "waiting for pods: pod a-0 is Pending on node n1, not Ready; pod a-1 is Pending on node n1, not Ready",
        "waiting for pods: pod a-0 waits: container c: ContainerCreating",
        "waiting for pods: pod a-0 waits: container c: CrashLoopBackOff",
    ]
    assert told.lists == 1, "no request more for it"


def test_the_last_reason_is_in_the_failure() -> None:
    told = Told([pod("a-0", ready=True), pod("a-1")], [pod("a-1", "CrashLoopBackOff")])
    with pytest.raises(TimeoutExpired, match="still missing: pod a-1 waits: container c: CrashLoopBackOff"):
        told.until(0.3)


def test_a_pod_that_its_node_refused_is_told_although_another_one_is_there_already() -> None:
    refused = pod("a-1", phase="Failed", reason="OutOfcpu", message="cpu: requested 500, used 900")
    told = Told([pod("a-0", ready=True), pod("a-1")], [refused, pod("a-1")])
    end = r"\(one of that name has ended: Failed \(OutOfcpu: cpu: requested 500, used 900\)\)"
    with pytest.raises(TimeoutExpired, match=rf"missing: pod a-1 is Pending on node n1, not Ready {end}"):
        told.until(0.3)
