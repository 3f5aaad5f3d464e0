"""WorkQueue and Reconciler: no key twice at once, none forgotten, failures later each time; no cluster needed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from berth_core.errors import ConflictError, StateError
from berth_kube.queue import Bucket, Reconciler, WorkQueue

Run = Callable[[Any], Any]


def test_a_key_waits_once(run: Run) -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        for key in ("a", "b", "a"):
            queue.add(key)
        assert len(queue) == 2
        assert await queue.get() == "a"
        queue.add("a")
        assert len(queue) == 1, "not given out while it is worked on"
        assert await queue.get() == "b"
        getting = asyncio.ensure_future(queue.get())
        await asyncio.sleep(0)
        assert not getting.done()
        queue.done("a")
        assert await getting == "a"

    run(story())


def test_the_earlier_of_two_wishes(run: Run) -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("a", 3600)
        queue.add_after("a", 0.01)
        queue.add_after("a", 3600)
        assert await queue.get() == "a"
        assert not queue._later

    run(story())


def test_failures_come_back_later_each_time(run: Run) -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue(base=1.0, cap=60.0)
        pauses = []
        for _index in range(10):
            queue.add_limited("a")
            pauses.append(round(queue._later.pop("a").when() - asyncio.get_running_loop().time()))
        assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]
        assert queue.failures("a") == 10
        queue.forget("a")
        assert queue.failures("a") == 0

    run(story())


def test_a_bucket_lends() -> None:
    bucket = Bucket(rate=10.0, burst=2, now=0.0)
    assert [round(bucket.take(0.0), 3) for _index in range(4)] == [0.0, 0.0, 0.1, 0.2]
    assert round(bucket.take(0.3), 3) == 0.0
    assert round(bucket.take(100.0), 3) == 0.0


def test_a_cancelled_getter_loses_no_key(run: Run) -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        first, second = asyncio.ensure_future(queue.get()), asyncio.ensure_future(queue.get())
        await asyncio.sleep(0)
        queue.add("a")
        first.cancel()
        assert await second == "a"

    run(story())


def test_closing_drains(run: Run) -> None:
    async def story() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        queue.add_after("later", 0.01)
        queue.close()
        queue.add("refused")
        assert [await queue.get(), await queue.get()] == ["a", None]

    run(story())


def test_no_key_is_worked_on_twice_at_once(run: Run) -> None:
    """Ten workers, twenty keys, keys added all the time: each addition is followed by work that begins after it."""

    async def story() -> None:
        at_work: Counter[int] = Counter()
        began: dict[int, int] = {}
        added: dict[int, int] = {}
        clock = 0

        async def work(key: int) -> None:
            nonlocal clock
            clock += 1
            began[key] = clock
            at_work[key] += 1
            assert at_work[key] == 1
            await asyncio.sleep(0.001 * (key % 5))
            at_work[key] -= 1
            if clock % 7 == 0:
                raise ConflictError("again")

        reconciler = Reconciler("test", work, workers=10)
        running = asyncio.ensure_future(reconciler.run())
        for i in range(2000):
            clock += 1
            added[i % 20] = clock
            reconciler.queue.add(i % 20)
            if i % 10 == 0:
                await asyncio.sleep(0)
        reconciler.stop()
        await running
        assert all(began[key] > added[key] for key in added)

    run(story())


def test_errors_come_back_and_are_told(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> list[str]:
        tries: Counter[str] = Counter()
        results: list[str] = []
        done = asyncio.Event()

        async def work(key: str) -> float | None:
            tries[key] += 1
            if key == "again" and tries[key] == 1:
                return 0.01
            if tries[key] <= 3 and key != "again":
                raise {"state": StateError("not yet"), "bug": ZeroDivisionError()}[key]
            if len(tries) == 3 and min(tries.values()) >= 2 and min(tries["state"], tries["bug"]) >= 4:
                done.set()
            return None

        reconciler = Reconciler("test", work, observe=lambda result, _seconds: results.append(result))
        running = asyncio.ensure_future(reconciler.run())
        for key in ("state", "bug", "again"):
            reconciler.queue.add(key)
        while not done.is_set():
            reconciler.queue.add_after("again", 0.02)
            await asyncio.sleep(0.01)
        reconciler.stop()
        await running
        return results

    results = run(story())
    assert results.count("error") == 3
    assert results.count("fault") == 3
    assert "test state: not yet" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_stopping_at_once(run: Run) -> None:
    async def story() -> None:
        started, before = asyncio.Event(), asyncio.all_tasks()

        async def work(_key: str) -> None:
            started.set()
            await asyncio.sleep(3600)

        reconciler = Reconciler("test", work)
        running = asyncio.ensure_future(reconciler.run())
        reconciler.queue.add("a")
        await started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert asyncio.all_tasks() == before, "no worker is left"

    run(story())
