"""Several requests in one piece, before the first is answered: whose answer is whose, and what became of the rest.

Answers scripted byte by byte stand in test_wire.py's server; the real API server is killed in the midst.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from berth_core.errors import ConflictError, ForbiddenError, UnavailableError
from berth_core.model.resources import CONFIG_MAP, EVENT, POD
from berth_kube import http1_fast
from berth_kube.client import KubeClient
from berth_kube.connection import Connection
from berth_kube.events import Recorder
from berth_kube.http1 import END, FramingError, Head
from tests.daemons.kube import test_wire
from tests.daemons.kube.conftest import PATIENCE
from tests.daemons.kube.test_wire import EVENT as WATCHED
from tests.daemons.kube.test_wire import OK, Script, answer, play, stream

framing = test_wire.framing  # an autouse fixture: every answer is read by both parsers
Run = Callable[..., Any]
Connect = Callable[..., KubeClient]
CREATED = answer(201, {"metadata": {"name": "x"}})
CHUNKED = b"HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
HINTS = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"


def owing(count: int) -> http1_fast.FastFraming:
    one = http1_fast.FastFraming()
    for _number in range(count):
        one.request("POST", "/x", {"host": "h"}, b"{}")
    return one


def statuses(one: http1_fast.FastFraming) -> list[int]:
    """Of the answers that are whole."""
    found, head = [], None
    while (part := one.next()) is not None:
        if isinstance(part, Head):
            head = part
        elif part is END and head is not None:
            found.append(head.status)
    return found


@pytest.mark.parametrize("size", [1, 7, 50, 1 << 20])
def test_answers_come_in_the_order_of_the_requests(size: int) -> None:
    one = owing(6)
    data = b"".join([OK, CHUNKED, CREATED, HINTS + CREATED, answer(409, {"reason": "AlreadyExists"}), OK])
    for start in range(0, len(data), size):
        one.receive(data[start : start + size])
        assert len(data) - start <= size or not one.reusable()
    assert statuses(one) == [200, 201, 201, 201, 409, 200]
    assert one.reusable()
    one.receive(OK)
    assert (statuses(one), one.reusable()) == ([], False), "nobody has asked for it"


@pytest.mark.parametrize("size", [1, 1 << 20])
def test_a_server_that_closes_in_the_midst_has_answered_what_it_has_answered(size: int) -> None:
    one = owing(3)
    data = OK + answer(200, {}, connection="close") + OK

    def feed() -> None:
        for start in range(0, len(data), size):
            one.receive(data[start : start + size])

    with pytest.raises(FramingError):
        feed()
    assert statuses(one) == [200, 200]
    assert not one.reusable()


def maps(count: int, namespace: str = "n") -> list[dict[str, Any]]:
    return [{"metadata": {"name": f"m{number}", "namespace": namespace}} for number in range(count)]


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many requests left in each write to a connection."""
    sent: list[int] = []
    real = Connection._wait

    async def counted(self: Connection) -> None:
        if not self._streams and not self._answers:
            sent.append(self._asked)
        await real(self)

    monkeypatch.setattr(Connection, "_wait", counted)
    return sent


def test_each_gets_its_own_answer(run: Run, writes: list[int]) -> None:
    """Also where the framing sends one after the other."""
    refused = answer(403, {"reason": "Forbidden", "message": "no"})
    script = Script(CREATED, refused, answer(409, {"reason": "AlreadyExists"}), CREATED)
    found = play(run, script, lambda client: client.create_all(CONFIG_MAP, maps(4)))
    assert [type(one) for one in found] == [type(None), ForbiddenError, ConflictError, type(None)]
    assert [body.decode() for _line, body in script.requests] == [
        f'{{"metadata":{{"name":"m{number}","namespace":"n"}}}}' for number in range(4)
    ]
    fast = Script.framing is http1_fast.FastFraming
    assert (script.connections, writes) == (1, [4] if fast else [1, 1, 1, 1])


@pytest.mark.parametrize("end", [b"", CREATED.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1)])
def test_what_was_not_answered_is_sent_again_and_nothing_else(run: Run, end: bytes) -> None:
    """The connection ends after two or three answers: what is left was perhaps carried out, which a create of its own
    name is told by the second try."""
    script = Script(CREATED, CREATED, end, *[answer(409, {"reason": "AlreadyExists"})] * 4)
    found = play(run, script, lambda client: client.create_all(CONFIG_MAP, maps(4)))
    whole = 3 if end else 2
    assert [one is None for one in found] == [True] * whole + [False] * (4 - whole)
    assert [getattr(one, "reason", one) for one in found[whole:]] == ["AlreadyExists"] * (4 - whole)
    again = [body for _line, body in script.requests[3:]]
    assert sorted(again) == sorted(
        f'{{"metadata":{{"name":"m{n}","namespace":"n"}}}}'.encode() for n in range(whole, 4)
    )


def test_what_is_posted_to_a_subresource_is_not_sent_again(run: Run) -> None:
    """Whether a bind was carried out is asked by who wanted it. What certainly was not sent is sent."""
    script = Script(CREATED, answer(409, {"reason": "Conflict"}), b"", CREATED)
    pods = [{"metadata": {"name": f"p{number}", "namespace": "n"}} for number in range(4)]
    found = play(run, script, lambda client: client.create_all(POD, pods, subresource="binding"))
    fast = Script.framing is http1_fast.FastFraming
    unknown = UnavailableError if fast else type(None)
    assert [type(one) for one in found] == [type(None), ConflictError, UnavailableError, unknown]
    assert [line.split()[1].split("?")[0] for line, _body in script.requests] == [
        f"/api/v1/namespaces/n/pods/p{number}/binding" for number in range(3 if fast else 4)
    ]


def test_later_is_said_to_one_alone(run: Run) -> None:
    script = Script(CREATED, answer(429, retry_after="0"), CREATED, CREATED)
    assert list(play(run, script, lambda client: client.create_all(CONFIG_MAP, maps(3)))) == [None] * 3
    assert len(script.requests) == 4


def test_none_is_sent_by_who_may_not_write(run: Run) -> None:
    script = Script(CREATED)

    def no() -> None:
        raise PermissionError("not now")

    async def story(client: KubeClient) -> None:
        client.guard_writes(no)
        with pytest.raises(PermissionError):
            await client.create_all(CONFIG_MAP, maps(3))
        assert (script.requests, client.written) == ([], 0)

    play(run, script, story)


def test_what_comes_after_a_look_is_not_missed(run: Run) -> None:
    """The answers come one after the other, over several looks."""

    class Slow(Script):
        async def answers_one(self) -> None:
            await asyncio.sleep(0.02)

    script = Slow(*[CREATED] * 20)
    found = play(run, script, lambda client: client.create_all(CONFIG_MAP, maps(20), look_after=0.05))
    assert list(found) == [None] * 20


def test_a_server_that_says_nothing_is_left_at_the_deadline(run: Run) -> None:
    """Also where nothing is read for a while."""
    script = Script(*[b"x"] * 100)
    found = play(run, script, lambda client: client.create_all(CONFIG_MAP, maps(2), look_after=0.1), timeout=0.5)
    assert all(isinstance(one, UnavailableError) for one in found)


def facts(recorder: Recorder, namespace: str, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        about = {"kind": "Pod", "apiVersion": "v1", "namespace": namespace, "name": f"p{number}"}
        recorder.event(about, "Normal", "Scheduled", 'somewhere "else"\n')


FAST: dict[str, Any] = {"framing": http1_fast.framing()}
MAKE: dict[str, Any] = {"rate": 1e6, "burst": 10_000, "together": 32, "gather": 0.05, "writers": 2}


def test_events_go_out_together(run: Run, connect: Connect, namespace: str, writes: list[int]) -> None:
    """The real API server takes requests behind each other: few writes, few looks at the answers."""

    async def story() -> None:
        async with connect(**FAST) as client:
            recorder = Recorder(client, "berth.dev/test", "node-1", **MAKE)
            facts(recorder, namespace, 320)
            running = asyncio.ensure_future(recorder.run())
            end = time.monotonic() + PATIENCE
            while client.written < 320:
                assert time.monotonic() < end, client.written
                await asyncio.sleep(0.05)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            events = (await client.list(EVENT, namespace)).items
            assert sorted(one["regarding"]["name"] for one in events) == sorted(f"p{i}" for i in range(320))
            assert {one["note"] for one in events} == {'somewhere "else"\n'}
            assert [one for one in writes if one > 1] == [32] * 10

    run(story())


def test_an_api_server_that_is_killed_in_the_midst_has_each_event_once(
    run: Run, connect: Connect, namespace: str, ours: Any
) -> None:
    """Those of a bundle that had no answer are sent again under their own names: none is lost, none is there twice."""

    async def story() -> None:
        async with connect(timeout=60.0, **FAST) as client:
            recorder = Recorder(client, "berth.dev/test", "node-1", **{**MAKE, "together": 200, "gather": 0.0})
            facts(recorder, namespace, 400)
            running = asyncio.ensure_future(recorder.run())
            while await count(client, namespace) < 20:
                await asyncio.sleep(0.001)
            before = client.written
            await asyncio.to_thread(ours.restart_apiserver, kill=True)
            end = time.monotonic() + PATIENCE
            while client.written < 200 or recorder._queue.qsize():
                assert time.monotonic() < end, client.written
                await asyncio.sleep(0.05)
                if recorder._failing:  # dropped, as an Event whose tries have come to an end is; it is told again
                    facts(recorder, namespace, 400)
            assert before < 400, "nothing was under way"
            while await count(client, namespace) < 400:
                assert time.monotonic() < end, await count(client, namespace)
                await asyncio.sleep(0.1)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            events = (await client.list(EVENT, namespace)).items
            assert sorted(one["regarding"]["name"] for one in events) == sorted(f"p{i}" for i in range(400))

    run(story())


async def count(client: KubeClient, namespace: str) -> int:
    return len((await client.list(EVENT, namespace)).items)


@pytest.mark.parametrize(("look_after", "apart"), [(0.0, 0.01), (0.2, 0.01), (0.2, 0.0)])
def test_a_watch_is_looked_at_now_and_then_only_while_very_much_comes(
    run: Run, monkeypatch: pytest.MonkeyPatch, look_after: float, apart: float
) -> None:
    """What comes now and then is told at once; those that come while nobody looks cost one turn of the loop."""
    count = 30 if apart else 20_000
    script, looks = Script(stream(WATCHED, end=False).replace(b"connection: close\r\n", b"")), 0
    real = Connection.data_received

    def counted(self: Connection, data: bytes) -> None:
        nonlocal looks
        looks += 1
        real(self, data)

    monkeypatch.setattr(Connection, "data_received", counted)

    async def story(client: KubeClient) -> int:
        async with client.watch(CONFIG_MAP, "1", seconds=60, look_after=look_after) as events:
            assert (await anext(events)).version == "7"
            for _number in range(count):
                script.speak(b"%x\r\n%s\r\n" % (len(WATCHED), WATCHED))
                await asyncio.sleep(apart)
            script.speak(b"0\r\n\r\n")
            return len([event async for event in events])

    assert play(run, script, story) == count
    assert looks >= count if apart else looks < count / 4
