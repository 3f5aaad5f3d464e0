"""What is kept of a pod's end."""

from __future__ import annotations

from typing import Any

from berth_core.tasks.pods import MOST_TERMINATION_MESSAGE, PodState, manifest, read_pod
from tests.core.tasks.samples import task


def ended(containers: list[tuple[int, str]], first: tuple[int, str] | None = None) -> PodState:
    """A pod whose containers ended so, and the init container before them."""

    def statuses(ends: list[tuple[int, str]]) -> list[dict[str, Any]]:
        return [{"name": "c", "state": {"terminated": {"exitCode": code, "message": left}}} for code, left in ends]

    body = manifest(task(), 1)
    body["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    more = {"initContainerStatuses": statuses([first])} if first else {}
    found = read_pod({**body, "status": {"phase": "Failed", "containerStatuses": statuses(containers), **more}})
    assert found is not None
    return found


def test_the_termination_message_is_the_main_containers_or_that_of_the_one_that_failed() -> None:
    assert ended([(0, "result"), (0, "sidecar")], (0, "init")).termination_message == "result"
    assert ended([(0, "result"), (3, "broken")]).termination_message == "broken"
    assert ended([], (3, "init failed")).termination_message == "init failed"
    assert ended([(0, "x" * 5000)]).termination_message == "x" * MOST_TERMINATION_MESSAGE
    assert ended([]).termination_message == ""
