"""TaskExecutor on the real API server: the backend makes its pods, and real workers run in them (process_kubelet)."""

from __future__ import annotations

import base64
import concurrent.futures
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_core.errors import ForbiddenError, StateError, TaskError
from berth_tasks.program import Endpoint, TaskExecutor
from tests.daemons.tasks import program
from tests.daemons.tasks.process_kubelet import ProcessKubelet
from tests.daemons.tasks.world import World, until
from tests.support.certificates import authority, pem
from tests.support.tcp import free_port

Make = Callable[..., TaskExecutor]
MODULE = """
import pathlib, time

def make(size):
    return "x" * size

def fails(words):
    raise LookupError(words, 7)

def sleeps(name):
    pathlib.Path(name).touch()
    time.sleep(600)
"""


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """Where workers run, and what they can import."""
    folder = tmp_path / "image"
    folder.mkdir()
    (folder / "parts.py").write_text(MODULE)
    return folder


@pytest.fixture
def kubelet(world: World, image: Path, start: Callable[..., Any]) -> Iterator[ProcessKubelet]:
    world.node(cpu="16")
    start("--running-after", "0")
    acting = ProcessKubelet(world, image)
    acting.start()
    yield acting
    acting.stop()


@pytest.fixture
def make(world: World, kubelet: ProcessKubelet) -> Iterator[Make]:
    """With the rights of the guide."""
    path = program.allow(world)

    def executor(**options: Any) -> TaskExecutor:
        return TaskExecutor(world.template("10m"), kubeconfig=str(path), **options)

    yield executor
    path.unlink()


def left(world: World) -> list[str]:
    """What the executor has made and not removed."""
    return [one["metadata"]["name"] for kind in (kinds.TASK, kinds.SECRET) for one in world.api.list(kind, world.name)]


def test_functions_run_as_tasks_and_nothing_of_them_is_left(world: World, make: Make) -> None:
    with make(name="sums", max_workers=4) as executor:
        root = executor.submit(math.sqrt, 2)
        failing = executor.submit("parts:fails", "flour")
        large = executor.submit("parts:make", 5000)
        assert root.result(120) == math.sqrt(2)
        assert isinstance(failing.exception(120), LookupError)
        assert failing.exception().args == ("flour", 7)
        refused = large.exception(120)
        assert isinstance(refused, TaskError)
        assert f"Task {world.name}/sums-" in refused.message
        words = "the result is too large: 5014 bytes of JSON, and at most 4096 are taken"
        assert words in refused.details["task"]["termination_message"], "it stands on the Task"
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(math.sqrt, 2)
    assert left(world) == []


def test_a_map_has_no_more_tasks_at_a_time_than_it_may(world: World, make: Make, kubelet: ProcessKubelet) -> None:
    with make(max_workers=3) as executor:
        assert list(executor.map(math.factorial, range(40), chunksize=4)) == [math.factorial(n) for n in range(40)]
        pods = len(kubelet._seen)
        assert pods == 10, "four items are one Task"
    assert 1 < kubelet.most_tasks <= 3
    assert left(world) == []


def test_a_future_that_is_cancelled_has_its_task_go(
    world: World, make: Make, kubelet: ProcessKubelet, image: Path
) -> None:
    executor = make(max_workers=1)
    try:
        running = executor.submit("parts:sleeps", "asleep")
        waiting = [executor.submit(math.sqrt, number) for number in range(3)]
        until((image / "asleep").exists, "it sleeps")
        assert (running.running(), waiting[0].running()) == (True, False)
        assert waiting[1].cancel()
        assert running.cancel()
        done, _not_done = concurrent.futures.wait([running], 60)
        assert done == {running}
        assert running.cancelled()
        until(lambda: kubelet.killed, "its pod goes")
        assert waiting[0].result(120) == 0.0, "the next one has its turn"
        assert waiting[2].result(120) == math.sqrt(2)
        assert waiting[1].cancelled()

        again = executor.submit("parts:sleeps", "again")
        until((image / "again").exists, "it sleeps")
        left_over = executor.submit(math.sqrt, 2)
        executor.shutdown(wait=False, cancel_futures=True)
        assert (left_over.cancelled(), again.cancelled()) == (True, False), "what runs is not cancelled by shutdown"
        assert again.cancel()
    finally:
        executor.shutdown(cancel_futures=True)
    assert left(world) == []


def test_a_task_that_somebody_deletes_and_one_that_is_killed_say_so(world: World, make: Make, image: Path) -> None:
    with make() as executor:
        for name, act, words in (
            ("deleted", lambda task: world.api.delete(kinds.TASK, task, world.name), "was deleted before it ended"),
            ("killed", lambda task: world.change(task, kill=True), "is Killed after"),
        ):
            future = executor.submit("parts:sleeps", name)
            until((image / name).exists, "it sleeps")
            act(future.task)
            failure = future.exception(120)
            assert isinstance(failure, TaskError)
            assert f"Task {world.name}/{future.task} {words}" in failure.message


def test_large_results_come_to_the_programs_endpoint_by_a_token_for_each_task(
    world: World, make: Make, tmp_path: Path, image: Path
) -> None:
    key, certificate = authority()
    files = {"certificate": tmp_path / "tls.crt", "key": tmp_path / "tls.key", "authority": tmp_path / "tls.crt"}
    files["certificate"].write_bytes(certificate)
    files["key"].write_bytes(pem(key))
    port = free_port()
    where = {name: str(path) for name, path in files.items()}
    endpoint = Endpoint(f"https://127.0.0.1:{port}", **where, host="127.0.0.1", port=port, most=50_000)
    with make(name="report", endpoint=endpoint, max_workers=4) as executor:
        results = [executor.submit("parts:make", 10_000 + number) for number in range(6)]
        assert [len(future.result(120)) for future in results] == [10_000 + number for number in range(6)]
        refused = executor.submit("parts:make", 50_000).exception(120)
        assert isinstance(refused, TaskError)
        assert "50014 bytes of JSON, and at most 50000 are taken" in refused.message
        sleeping = [executor.submit("parts:sleeps", str(number)) for number in range(2)]
        until(lambda: all((image / str(number)).exists() for number in range(2)), "they sleep")
        secret = world.api.get(kinds.SECRET, "report", world.name)
        tokens = [base64.b64decode(secret["data"][future.task]) for future in sleeping]
        assert len(set(tokens)) == 2
        (owner,) = world.api.get(kinds.TASK, sleeping[0].task, world.name)["metadata"]["ownerReferences"]
        assert owner["uid"] == secret["metadata"]["uid"], "who deletes the Secret deletes the Tasks"
        with pytest.raises(StateError, match=r"Secret .*/report is there: another executor has this name"):
            make(name="report", endpoint=endpoint._replace(port=free_port()))
        for future in sleeping:
            future.cancel()
    assert left(world) == []


def test_what_a_program_may_not_do_is_said_at_once(world: World, make: Make) -> None:
    world.api.delete(kinds.ROLE_BINDING, "task-program", world.name)

    def refusal() -> str:
        try:
            make().shutdown()
        except ForbiddenError as exc:
            return exc.message
        return ""

    assert f"cannot list tasks in namespace {world.name}: RBAC does not allow it" in until(refusal, "no right is left")
