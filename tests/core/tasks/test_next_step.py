"""One task and its pods: the next step in every situation."""

from __future__ import annotations

import pytest

from berth_core.errors import InputError
from berth_core.tasks import states
from berth_core.tasks.next_step import Delete, Record, Rest, Start, ended, live_state, next_step
from berth_core.tasks.pods import pod_name
from tests.core.tasks.samples import TEMPLATE, pod, task

OTHER = {"spec": {"containers": [{"name": "main", "image": "y"}]}}


def test_no_pod_starts_the_next_try() -> None:
    assert next_step(task(), []) == Start(1)
    assert next_step(task(status={"state": "Submitted", "tries": 2}), []) == Start(3)


def test_a_pod_that_runs_is_let_alone_and_one_of_another_task_is_not_looked_at() -> None:
    one = task()
    assert next_step(one, [pod(one)]) == Rest(pod(one))
    assert next_step(one, [pod(task("other"))]) == Start(1)


@pytest.mark.parametrize(
    ("code", "reason", "retries", "codes", "state", "failures"),
    [
        (0, "", 0, [], states.SUCCEEDED, 0),
        (1, "", 0, [], states.FAILED, 1),
        (1, "", 1, [], states.SUBMITTED, 1),
        (1, "", 1, [75], states.FAILED, 1),
        (75, "", 1, [75], states.SUBMITTED, 1),
        (137, "Evicted", 0, [], states.SUBMITTED, 0),
        (None, "NodeLost", 0, [75], states.SUBMITTED, 0),
    ],
)
def test_the_end_of_a_try(
    code: int | None, reason: str, retries: int, codes: list[int], state: str, failures: int
) -> None:
    one = task(retries=retries, retryExitCodes=codes)
    more = {"reason": reason} if reason else {}
    over = pod(one, 1, "Succeeded" if code == 0 else "Failed", code, **more)
    step = next_step(one, [over])
    assert isinstance(step, Record)
    assert step.pod == over
    assert (step.status.state, step.status.tries, step.status.failures) == (state, 1, failures)


def test_a_recorded_end_is_followed_by_deletion_and_never_by_another_record() -> None:
    done = task(status={"state": "Succeeded", "tries": 1})
    over = pod(done, 1, "Succeeded", 0)
    assert next_step(done, [over]) == Delete((over,))
    assert next_step(done, [pod(done, 1, "Succeeded", 0, going=True)]) == Rest()
    again = task(status={"state": "Submitted", "tries": 1, "failures": 1}, retries=1)
    failed = pod(again, 1, "Failed", 1)
    assert next_step(again, [failed]) == Delete((failed,))
    assert next_step(again, [pod(again, 1, "Failed", 1, going=True)]) == Start(2)


def test_other_content_takes_over() -> None:
    old = task()
    new = task(template=OTHER)
    assert next_step(new, [pod(old)]) == Start(2, states.CHANGE)
    assert next_step(new, [pod(old), pod(new, 2)]) == Delete((pod(old),))
    both = [pod(old, going=True), pod(new, 2)]
    assert next_step(new, both) == Rest(pod(new, 2))
    assert (live_state(new, both), live_state(new, both[1:]), live_state(new, [])) == (
        "Updated",
        "Running",
        "Submitted",
    )
    assert ended(new, pod(new, 2, "Failed", 1), states.UPDATED).state == states.FAILED


def test_an_old_pod_that_ends_while_the_new_one_runs_is_no_end_of_the_task() -> None:
    old, new = task(), task(template=OTHER)
    over = pod(old, 1, "Succeeded", 0)
    assert next_step(new, [over, pod(new, 2)]) == Delete((over,))


def test_kill_and_deletion() -> None:
    killed = task(kill=True)
    step = next_step(killed, [pod(killed)])
    assert isinstance(step, Record)
    assert (step.status.state, step.status.tries) == (states.KILLED, 1)
    going = task(going=True)
    assert next_step(going, [pod(going)]) == Delete((pod(going),))


def test_a_failed_pod_is_kept_when_asked_for() -> None:
    done = task(status={"state": "Failed", "tries": 2}, keepFailedPod=True)
    first, last = pod(done, 1, "Failed", 1), pod(done, 2, "Failed", 1)
    assert next_step(done, [first, last]) == Delete((first,))
    assert next_step(done, [last]) == Rest()
    going = task(status={"state": "Failed", "tries": 2}, keepFailedPod=True, going=True)
    assert next_step(going, [last]) == Delete((last,))


def test_one_name_for_a_try() -> None:
    assert pod_name(task(), 1) == pod_name(task(template=OTHER), 1)
    assert len({pod_name(task(name), number) for name in ("a", "b") for number in (1, 2)}) == 4


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"template": {"spec": {}}}, r"Task ns/job: spec\.template\.spec\.containers is empty"),
        ({"template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Always"}}}, "restartPolicy is 'Always'"),
        ({"retryExitCodes": [0]}, r"retryExitCodes is \[0\]: expected numbers from 1 to 255"),
        (
            {"template": {"spec": {"containers": [{"name": "m", "resources": {"requests": {"cpu": "-1"}}}]}}},
            r"containers\[0\]\.resources\.requests\.cpu is '-1': expected 0 or more",
        ),
        (
            {"template": {"spec": {"containers": [{"name": "m", "resources": {"requests": {"cpu": "x"}}}]}}},
            r"requests\.cpu: 'x' is not a quantity",
        ),
        (
            {"template": {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1500m"}}}]}}},
            r"containers\[0\]\.resources\.limits\.nvidia\.com/gpu is '1500m': expected a whole number",
        ),
        ({"queue": 3}, r"Task ns/job: spec\.queue must be a string"),
    ],
)
def test_bad_input_names_object_and_field(spec: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        task(**spec)
