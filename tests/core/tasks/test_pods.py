"""What is kept of a pod's end."""

from __future__ import annotations

from typing import Any

import pytest

from berth_core.tasks.pods import MOST_TERMINATION_MESSAGE, PodState, manifest, read_pod
from tests.core.tasks.samples import task


def ended(containers: list[tuple[int, str]], first: tuple[int, str] | None = None, **status: Any) -> PodState:
    """A pod whose containers ended so, and the init container before them. ``status``: more of its status."""

    def statuses(ends: list[tuple[int, str]]) -> list[dict[str, Any]]:
        return [{"name": "c", "state": {"terminated": {"exitCode": code, "message": left}}} for code, left in ends]

    body = manifest(task(), 1)
    body["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    more = {"initContainerStatuses": statuses([first]), **status} if first else status
    found = read_pod({**body, "status": {"phase": "Failed", "containerStatuses": statuses(containers), **more}})
    assert found is not None
    return found


def test_the_termination_message_is_the_main_containers_or_that_of_the_one_that_failed() -> None:
    assert ended([(0, "result"), (0, "sidecar")], (0, "init")).details.termination_message == "result"
    assert ended([(0, "result"), (3, "broken")]).details.termination_message == "broken"
    assert ended([], (3, "init failed")).details.termination_message == "init failed"
    assert ended([(0, "x" * 5000)]).details.termination_message == "x" * MOST_TERMINATION_MESSAGE
    assert ended([]).details.termination_message == ""


def test_whose_end_it_is_tells_whose_log_is_kept() -> None:
    def of(init: list[tuple[str, int]], containers: list[tuple[str, int]]) -> str:
        def statuses(ends: list[tuple[str, int]]) -> list[dict[str, Any]]:
            return [{"name": name, "state": {"terminated": {"exitCode": code}}} for name, code in ends]

        body = manifest(task(), 1)
        body["metadata"] |= {"uid": "u", "resourceVersion": "1"}
        status = {"initContainerStatuses": statuses(init), "containerStatuses": statuses(containers)}
        found = read_pod({**body, "status": {"phase": "Failed", **status}})
        assert found is not None
        return found.details.container

    assert of([("first", 0)], [("main", 0), ("beside", 3)]) == "beside"
    assert of([("first", 2)], [("main", 0)]) == "first"
    assert of([], [("main", 0), ("beside", 0)]) == "main"
    assert of([], []) == ""


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({}, ("", "")),
        ({"conditions": [{"type": "PodScheduled", "status": "True"}]}, ("", "")),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}]},
            ("Unschedulable", "no"),
        ),
        ({"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}, ("", "")),
        (
            {
                "initContainerStatuses": [{"state": {"waiting": {"reason": "PodInitializing"}}}],
                "containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}}],
            },
            ("ImagePullBackOff", "not found"),
        ),
    ],
)
def test_a_pod_that_is_pending_says_what_it_waits_for(status: dict[str, Any], told: tuple[str, str]) -> None:
    body = manifest(task(), 1)
    body["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    found = read_pod({**body, "status": {"phase": "Pending", **status}})
    assert found is not None
    assert (found.details.reason, found.details.message) == told


ASKED = "2026-03-01T10:00:30Z"


@pytest.mark.parametrize(
    ("finished", "disrupted"),
    [
        (("2026-03-01T10:00:40Z",), True),
        ((ASKED,), True),
        (("2026-03-01T10:00:10Z", "2026-03-01T10:00:31.5Z"), True),  # one of them had ended before
        (("2026-03-01T10:00:29Z",), False),  # by itself, and was deleted afterwards
        ((), True),  # none was ever started
        (("soon",), False),
    ],
)
def test_a_pod_that_was_deleted_while_it_ran_has_not_failed(finished: tuple[str, ...], disrupted: bool) -> None:
    """`deletionTimestamp` is when its grace is over, here of 10 s."""
    ends = [{"terminated": {"exitCode": 137, "reason": "Error", "finishedAt": one}} for one in finished]
    pod = manifest(task(), 1)
    pod["metadata"].update(
        uid="p", resourceVersion="7", deletionTimestamp="2026-03-01T10:00:40Z", deletionGracePeriodSeconds=10
    )
    listed = [{"name": str(index), "state": state} for index, state in enumerate(ends)]
    for phase in ("Failed", "Succeeded"):
        pod["status"] = {"phase": phase, "containerStatuses": listed}
        found = read_pod(pod)
        assert found is not None
        assert found.details.disrupted is (disrupted and phase == "Failed")
        if found.details.disrupted:
            assert found.details.reason == "Deleted"
    del pod["metadata"]["deletionTimestamp"]
    pod["status"]["phase"] = "Failed"
    found = read_pod(pod)
    assert found is not None
    assert not found.details.disrupted


def test_a_disruption_is_told_by_its_condition_or_by_the_pods_own_reason() -> None:
    """And not by what the container that was killed for it says."""
    target = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "drained"}
    found = ended([(137, "")], conditions=[target]).details
    assert (found.disrupted, found.reason, found.message) == (True, "EvictionByEvictionAPI", "drained")
    found = ended([(137, "")], conditions=[target], reason="Evicted", message="no memory").details
    assert (found.disrupted, found.reason, found.message) == (True, "Evicted", "no memory")
    found = ended([(137, "")], conditions=[{**target, "status": "False"}]).details
    assert (found.disrupted, found.reason) == (False, "")
