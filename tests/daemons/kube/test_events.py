"""Events on the real API server: what is told, what becomes a series, and what must never wait."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from berth_core.model.resources import CONFIG_MAP, EVENT, NODE
from berth_kube import config
from berth_kube import events as room
from berth_kube.client import KubeClient
from berth_kube.event_record import cut, event_of, fact, reference
from berth_kube.events import WAITING, Recorder
from tests.daemons.kube.conftest import PATIENCE

Run = Callable[..., Any]
Connect = Callable[..., KubeClient]


@contextlib.asynccontextmanager
async def running(recorder: Recorder) -> AsyncIterator[None]:
    task = asyncio.ensure_future(recorder.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def seen(
    client: KubeClient, namespace: str, good: Callable[[list[dict[str, Any]]], bool]
) -> list[dict[str, Any]]:
    """The events of the namespace once they are as wanted."""
    end = time.monotonic() + PATIENCE
    while True:
        events = (await client.list(EVENT, namespace)).items
        if good(events):
            return events
        assert time.monotonic() < end, events
        await asyncio.sleep(0.1)


def test_a_fact_and_its_repetitions(run: Run, connect: Connect, namespace: str) -> None:
    async def story() -> None:
        async with connect() as client:
            item = await client.create(CONFIG_MAP, {"metadata": {"name": "a", "namespace": namespace}})
            recorder = Recorder(client, "berth.dev/test", "node-1", refresh=0.2)
            async with running(recorder):
                node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}}
                for _index in range(50):
                    recorder.event(item, "Warning", "Drift", "serial differs", action="Match", related=node)
                    await asyncio.sleep(0.02)
                (event,) = await seen(client, namespace, lambda events: _counts(events) == [50])
                assert event["regarding"] == reference(item)
                assert event["related"] == {"kind": "Node", "apiVersion": "v1", "name": "n1"}
                assert (event["type"], event["reason"], event["action"]) == ("Warning", "Drift", "Match")
                assert (event["reportingController"], event["reportingInstance"]) == ("berth.dev/test", "node-1")
                assert client.requests["create"] == 2
                assert client.requests["patch"] <= 10, "counted, not each sent"
                recorder.event(item, "Warning", "Drift", "another note")
                await seen(client, namespace, lambda events: len(events) == 2)
                await client.delete(EVENT, event["metadata"]["name"], namespace)
                recorder.event(item, "Warning", "Drift", "serial differs", action="Match", related=node)
                await seen(client, namespace, lambda events: sorted(_counts(events)) == [1, 51])

    run(story())


def _counts(events: list[dict[str, Any]]) -> list[int]:
    return [(event.get("series") or {"count": 1})["count"] for event in events]


def test_objects_of_the_cluster_are_told_in_default(run: Run, connect: Connect, name: str) -> None:
    async def story() -> None:
        async with connect() as client:
            recorder = Recorder(client, "berth.dev/test", "node-1")
            recorder.event({"kind": "Node", "apiVersion": "v1", "name": name}, "Normal", "Seen", "x" * 5000 + "ä")
            await recorder.flush(30)
            events = (await client.list(EVENT, "default", fields=f"regarding.name={name}")).items
            assert [len(event["note"].encode()) for event in events] == [1024]
            await client.delete(EVENT, events[0]["metadata"]["name"], "default")

    run(story())


def test_a_flood_waits_for_nobody(run: Run, connect: Connect, name: str, caplog: pytest.LogCaptureFixture) -> None:
    """100,000 different facts: no call blocks, what is too much is dropped and that is told once."""

    async def story() -> None:
        async with connect() as client:
            recorder = Recorder(client, "berth.dev/test", "node-1")
            about = {"kind": "Node", "apiVersion": "v1", "name": name}
            for i in range(100_000):
                recorder.event(about, "Normal", "Flood", f"number {i}")
            assert recorder.dropped == 100_000 - WAITING
            assert len(recorder._told) <= 4096

    with caplog.at_level(logging.WARNING, "berth_kube"):
        run(story())
    assert len(caplog.records) == 1
    assert "some are dropped" in caplog.text


def test_a_burst_is_written_whole(run: Run, connect: Connect, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half more facts at once than are remembered, by several writers: each becomes its Event, once."""
    monkeypatch.setattr(room, "REMEMBERED", 400)
    many = 600

    async def story() -> None:
        async with connect() as client:
            make: dict[str, Any] = {"rate": 1e6, "burst": many, "writers": 8, "waiting": 4 * many}
            recorder = Recorder(client, "berth.dev/test", "node-1", **make)
            for number in range(many):
                about = {"kind": "Pod", "apiVersion": "v1", "namespace": namespace, "name": f"p{number}"}
                recorder.event(about, "Normal", "Scheduled", "somewhere")
            async with running(recorder):
                end = time.monotonic() + PATIENCE
                while client.written < many:
                    assert time.monotonic() < end, client.written
                    await asyncio.sleep(0.1)
            events = (await client.list(EVENT, namespace)).items
            assert sorted(one["regarding"]["name"] for one in events) == sorted(f"p{i}" for i in range(many))
            assert (recorder.dropped, client.requests["create"]) == (0, many)

    run(story())


def test_events_stand_back_while_there_is_more_urgent_work(
    run: Run, connect: Connect, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each writer rests between two writes while the component is busy; later, or where too many wait, none does."""
    monkeypatch.setattr(room, "REST_SECONDS", 3600.0)
    busy = True

    async def story() -> None:
        nonlocal busy
        async with connect() as client:
            make: dict[str, Any] = {"rate": 1e6, "burst": 1000, "writers": 2, "waiting": 40}
            recorder = Recorder(client, "berth.dev/test", "node-1", busy=lambda: busy, **make)

            def tell(first: int, last: int) -> None:
                for number in range(first, last):
                    about = {"kind": "Pod", "apiVersion": "v1", "namespace": namespace, "name": f"p{number}"}
                    recorder.event(about, "Normal", "Scheduled", "somewhere")

            async def written(count: int) -> None:
                end = time.monotonic() + PATIENCE
                while client.written < count:
                    assert time.monotonic() < end, client.written
                    await asyncio.sleep(0.05)

            async with running(recorder):
                tell(0, 10)
                await asyncio.sleep(1)
                assert client.written == 0
                tell(10, 40)
                await written(10)  # more than half of those that may wait
                await asyncio.sleep(1)
                assert client.written < 40
                busy = False
                await written(40)

    run(story())


def test_without_their_notes_facts_are_one_series(run: Run, connect: Connect, namespace: str) -> None:
    """As client-go: the Event keeps the note it began with, and is counted on. Never two writes of one at once."""

    async def story() -> None:
        async with connect() as client:
            recorder = Recorder(client, "berth.dev/test", "node-1", refresh=0.0, writers=8, by_note=False)
            about = {"kind": "Pod", "apiVersion": "v1", "namespace": namespace, "name": "p"}
            async with running(recorder):
                for number in range(100):
                    recorder.event(about, "Warning", "FailedScheduling", f"0/{number} nodes are available")
                    await asyncio.sleep(0.001)
                (event,) = await seen(client, namespace, lambda events: _counts(events) == [100])
            assert event["note"] == "0/0 nodes are available"
            assert client.requests["create"] == 1

    run(story())


def test_who_may_not_write_events_works_on(run: Run, ours: Any, name: str, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with KubeClient(config.load(str(ours.user_kubeconfig(name)))) as client:
            recorder = Recorder(client, "berth.dev/test", "node-1")
            for i in range(5):
                recorder.event({"kind": NODE.kind, "apiVersion": "v1", "name": name}, "Normal", "Seen", f"number {i}")
            await recorder.flush(60)
            assert client.requests["create"] == 5

    with caplog.at_level(logging.INFO, "berth_kube"):
        run(story())
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(told) == 1
    assert "verb create on events.events.k8s.io" in told[0]
    assert "number 4" in caplog.text, "the log has what the API server has not"


def test_texts_are_cut_to_what_is_accepted() -> None:
    assert cut("abc", 3) == "abc"
    assert cut("äöü", 5) == "ä…"
    told = fact({"kind": "Node", "apiVersion": "v1", "name": "n" * 300}, "Normal", "r" * 200, "n", "", None)
    event = event_of(told, "c", "i" * 200, dt.datetime(2026, 1, 2, tzinfo=dt.UTC), 1)
    assert len(event["metadata"]["name"]) == 253
    assert len(event["reason"]) == len(event["action"]) == len(event["reportingInstance"]) == 128
    assert event["eventTime"] == "2026-01-02T00:00:00.000000Z"
