"""What no API server can be asked to do on demand: answers scripted byte by byte, over real sockets."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from berth_core.errors import ApiError, GoneError, InvalidError, UnavailableError
from berth_core.model.resources import CONFIG_MAP, NAMESPACE, POD
from berth_kube import config, connection, http1, http1_fast, retry, wire
from berth_kube.client import KubeClient
from berth_kube.credentials import Static

Run = Callable[..., Any]


def answer(status: int, body: Any = None, **headers: str) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(data)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + data


OK = answer(200, {"metadata": {"name": "x"}})


class Script:
    """A server that gives these answers, one for each request, and then closes; empty bytes close at once."""

    framing: Callable[[], http1.Framed] = http1.Framing

    def __init__(self, *answers: bytes) -> None:
        self.answers, self.requests = list(answers), []
        self.connections = self.open = 0
        self.speak: Callable[[bytes], None] = lambda _data: None

    async def answers_one(self) -> None:
        """Called before each answer."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = next(
                    (int(line[15:]) for line in head.lower().splitlines() if line.startswith("content-length")), 0
                )
                body = await reader.readexactly(length)
                self.requests.append((head.splitlines()[0], body))
                self.speak = writer.write
                await self.answers_one()
                data = self.answers.pop(0) if self.answers else b""
                if not data:
                    break
                writer.write(data)
                await writer.drain()
                if b"connection: close" in data:
                    break
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            self.open -= 1
            writer.close()


@pytest.fixture(autouse=True, params=[http1.Framing, http1_fast.FastFraming], ids=["h11", "httptools"])
def framing(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every answer is read by both parsers."""
    Script.framing = request.param
    yield
    Script.framing = http1.Framing


def play(run: Run, script: Script, story: Callable[[KubeClient], Any], **options: Any) -> Any:
    async def scene() -> Any:
        server = await asyncio.start_server(script.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        where = config.endpoint(f"http://127.0.0.1:{port}", "test")
        try:
            options.setdefault("framing", Script.framing)
            async with KubeClient(config.Config(where, None, Static({}), "test", "default"), **options) as client:
                return await story(client)
        finally:
            server.close()
            await server.wait_closed()

    return run(scene())


MAP = {"metadata": {"name": "a", "namespace": "n"}}


def test_what_a_burst_needed_is_not_kept_for_good(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (connection, wire):
        monkeypatch.setattr(module, "IDLE_SECONDS", 0.2)
    script = Script(*[OK] * 6)

    async def story(client: KubeClient) -> None:
        await asyncio.gather(*(client.get(NAMESPACE, "x") for _number in range(5)))
        assert script.connections > 1
        until = time.monotonic() + 60
        while script.open and time.monotonic() < until:
            await asyncio.sleep(0.02)
        assert script.open == 0
        assert (await client.get(NAMESPACE, "x"))["metadata"]["name"] == "x"

    play(run, script, story)


class Held(Script):
    """Answers nothing until it is let go."""

    def __init__(self, *answers: bytes) -> None:
        super().__init__(*answers)
        self.go_on = asyncio.Event()

    async def answers_one(self) -> None:
        await self.go_on.wait()


def test_what_was_never_sent_does_not_give_up_in_a_crowd(run: Run) -> None:
    """A server that stands still: who was sent fails in time, who stands in line is sent when there is a place."""
    script = Held(*[OK] * 20)

    async def story(client: KubeClient) -> None:
        asked = [asyncio.ensure_future(client.get(NAMESPACE, "x")) for _number in range(12)]
        turn = asyncio.ensure_future(client.turn())
        while client.line < 11:
            await asyncio.sleep(0)
        while sum(one.done() for one in asked) < 2:
            await asyncio.sleep(0.01)
        assert not turn.done()
        script.go_on.set()
        ended = await asyncio.gather(*asked, return_exceptions=True)
        await turn
        failed = [one for one in ended if isinstance(one, UnavailableError)]
        assert [one.reason for one in failed] == ["Timeout"] * 2
        assert (len(ended) - len(failed), len(script.requests), client.line) == (10, 12, 0)

    play(run, script, story, connections=2, timeout=0.5)


def test_who_says_how_long_waits_no_longer_in_line(run: Run) -> None:
    script = Held(OK)

    async def story(client: KubeClient) -> None:
        first = asyncio.ensure_future(client.get(NAMESPACE, "x"))
        while not script.requests:
            await asyncio.sleep(0.01)
        with pytest.raises(UnavailableError, match="all connections are busy"):
            await client.get(NAMESPACE, "y", timeout=0.1)
        script.go_on.set()
        await first
        assert len(script.requests) == 1

    play(run, script, story, connections=1)


def test_a_write_is_guarded_when_its_turn_has_come(run: Run) -> None:
    """Not when it joins the line: much may have happened since, the Lease may be lost."""
    script = Held(*[OK] * 2)

    def no() -> None:
        raise PermissionError("not now")

    async def story(client: KubeClient) -> None:
        asked = [asyncio.ensure_future(client.create(CONFIG_MAP, MAP)) for _number in range(2)]
        while not (script.requests and client.line):
            await asyncio.sleep(0.01)
        client.guard_writes(no)
        script.go_on.set()
        assert (await asked[0])["metadata"]["name"] == "x"
        with pytest.raises(PermissionError):
            await asked[1]
        assert len(script.requests) == 1

    play(run, script, story, connections=1)


def test_what_comes_unasked_is_nobodys_answer(run: Run) -> None:
    """Bytes between two exchanges: the connection is given up, and the next request gets its own answer."""
    script = Script(OK, answer(200, {"metadata": {"name": "late"}}), answer(200, {"metadata": {"name": "mine"}}))

    async def story(client: KubeClient) -> None:
        await client.get(NAMESPACE, "x")
        script.speak(script.answers.pop(0))
        while script.open:
            await asyncio.sleep(0.01)
        assert (await client.create(CONFIG_MAP, MAP))["metadata"]["name"] == "mine"
        assert (script.connections, len(script.requests)) == (2, 2)

    play(run, script, story)


def test_a_stream_that_nobody_reads_is_not_read_on(run: Run) -> None:
    """What the reader has not taken stays with the server: a slow reader costs bounded memory."""
    lines = [EVENT] * 40_000
    script = Script(stream(*lines))

    async def story(client: KubeClient) -> int:
        async with client.watch(CONFIG_MAP, "1", seconds=60) as events:
            await asyncio.sleep(0.5)
            assert events._connection is not None
            assert events._connection._held < 2 * connection.READ_BYTES
            return len([event async for event in events])

    assert play(run, script, story) == len(lines)


def test_later_says_when(run: Run) -> None:
    """429: it has not begun, so that even a create is sent again, not before the server said."""
    script = Script(answer(429, retry_after="1"), OK)
    began = time.monotonic()
    assert play(run, script, lambda client: client.create(CONFIG_MAP, MAP))["metadata"]["name"] == "x"
    assert time.monotonic() - began >= 1.0
    assert len(script.requests) == 2


def test_what_another_try_does_not_mend_is_asked_once(run: Run) -> None:
    """An older schema in the cluster than the daemon's: seconds of trying would change nothing."""
    script = Script(answer(500, {"message": ".status.workload: field not declared in schema"}), OK)
    body = {"metadata": {"name": "x", "namespace": "n"}, "status": {}}
    with pytest.raises(InvalidError, match="field not declared"):
        play(run, script, lambda client: client.apply(POD, body, subresource="status"))
    assert len(script.requests) == 1


def test_an_eviction_is_asked_once(run: Run) -> None:
    script = Script(answer(429, {"message": "disruption budget"}, retry_after="1"), OK)
    with pytest.raises(UnavailableError, match="disruption budget"):
        play(run, script, lambda client: client.create(POD, {}, name="p", namespace="n", subresource="eviction"))
    assert script.requests[0][0].startswith("POST /api/v1/namespaces/n/pods/p/eviction?")


def test_later_than_we_wait(run: Run) -> None:
    script = Script(answer(429, {"message": "calm down"}, retry_after="3600"))
    with pytest.raises(UnavailableError, match="calm down"):
        play(run, script, lambda client: client.get(NAMESPACE, "x", timeout=5))


def test_tries_are_bounded(run: Run) -> None:
    script = Script(*[answer(503, {"message": "busy"})] * 100)
    with pytest.raises(UnavailableError, match="busy"):
        play(run, script, lambda client: client.get(NAMESPACE, "x", timeout=60))
    assert len(script.requests) == retry.RETRIES + 1


def test_a_create_that_failed_inside_is_not_repeated(run: Run) -> None:
    script = Script(answer(500, {"message": "etcd"}), OK)
    with pytest.raises(UnavailableError, match="etcd"):
        play(run, script, lambda client: client.create(CONFIG_MAP, MAP))
    assert len(script.requests) == 1


def test_a_connection_that_ends_as_it_is_used(run: Run) -> None:
    """The server closes instead of answering the second request: a get goes again at once, a create does not."""
    script = Script(OK, b"", OK)

    async def story(client: KubeClient) -> Any:
        await client.get(NAMESPACE, "x")
        return await client.get(NAMESPACE, "x")

    assert play(run, script, story)["metadata"]["name"] == "x"
    assert (script.connections, len(script.requests)) == (2, 3)
    script = Script(OK, b"", OK)

    async def other(client: KubeClient) -> Any:
        await client.get(NAMESPACE, "x")
        return await client.create(CONFIG_MAP, MAP)

    with pytest.raises(UnavailableError, match="may or may not have been carried out"):
        play(run, script, other)


def test_a_server_that_closes_after_each_answer(run: Run) -> None:
    script = Script(*[answer(200, {}, connection="close")] * 3)

    async def story(client: KubeClient) -> None:
        for _index in range(3):
            await client.get(NAMESPACE, "x")

    play(run, script, story)
    assert script.connections == 3


def test_compressed(run: Run) -> None:
    body = gzip.compress(json.dumps({"x": "y" * 100_000}).encode())
    script = Script(answer(200, body, content_encoding="gzip"))
    assert len(play(run, script, lambda client: client.get(NAMESPACE, "x"))["x"]) == 100_000


@pytest.mark.parametrize(
    ("data", "kind", "message"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", UnavailableError, "no answer from the API server"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\nconnection: close\r\n\r\n{", UnavailableError, "no answer"),
        (answer(200, b"<html>"), ApiError, "the answer is not JSON"),
        (answer(200, b"x", content_encoding="gzip"), UnavailableError, "gzip is broken"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 100_000, UnavailableError, "no answer"),
    ],
    ids=["no HTTP", "cut", "no JSON", "no gzip", "endless head"],
)
def test_answers_that_are_none(run: Run, data: bytes, kind: type[ApiError], message: str) -> None:
    with pytest.raises(kind, match=message):
        play(run, Script(*[data] * 10), lambda client: client.get(NAMESPACE, "x", timeout=2))


def stream(*lines: bytes, end: bool = True) -> bytes:
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(line), line) for line in lines)
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    return head + chunks + (b"0\r\n\r\n" if end else b"")


EVENT = b'{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"7"}}}\n'


async def watched(client: KubeClient) -> list[str]:
    async with client.watch(CONFIG_MAP, "1", seconds=60) as events:
        return [f"{event.type} {event.version}" async for event in events]


def test_a_watch_in_pieces(run: Run) -> None:
    """Lines do not care where chunks begin and end."""
    both = EVENT + EVENT.replace(b"7", b"8")
    script = Script(stream(*[both[i : i + 5] for i in range(0, len(both), 5)]))
    assert play(run, script, watched) == ["ADDED 7", "ADDED 8"]
    assert "watch=1&allowWatchBookmarks=true&resourceVersion=1&timeoutSeconds=60" in script.requests[0][0]


def test_a_watch_that_is_cut(run: Run) -> None:
    with pytest.raises(UnavailableError, match="cannot watch configmaps"):
        play(run, Script(stream(EVENT, EVENT[:20], end=False)), watched)


def test_a_watch_that_ends_in_a_line(run: Run) -> None:
    assert play(run, Script(stream(EVENT, EVENT[:20])), watched) == ["ADDED 7"]


def test_errors_inside_a_watch(run: Run) -> None:
    gone = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}
    with pytest.raises(GoneError, match="too old"):
        play(run, Script(stream(EVENT, json.dumps(gone).encode() + b"\n")), watched)
    with pytest.raises(ApiError, match="sent no event"):
        play(run, Script(stream(b"[]\n")), watched)


def test_a_silent_watch_is_cut(run: Run) -> None:
    """The server should end it; one that does not is left after a while."""

    async def story(client: KubeClient) -> None:
        async with client.watch(CONFIG_MAP, "1", seconds=0.2) as events:
            async for _event in events:
                pass

    with pytest.raises(UnavailableError, match="no complete answer in time"):
        play(run, Script(stream(EVENT, end=False).replace(b"connection: close\r\n", b"")), story, timeout=0.5)


def test_a_page_that_is_too_old(run: Run) -> None:
    """A list that took longer than the server remembers is read once more, in one go."""
    first = {"metadata": {"resourceVersion": "5", "continue": "next"}, "items": [{"metadata": {"name": "a"}}]}
    whole = {"metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"name": "b"}}, {"metadata": {"name": "c"}}]}
    gone = answer(410, {"kind": "Status", "reason": "Expired", "message": "the continue token is too old"})
    script = Script(answer(200, first), gone, answer(200, whole))
    listing = play(run, script, lambda client: client.list(CONFIG_MAP, limit=1))
    assert [item["metadata"]["name"] for item in listing.items] == ["b", "c"]
    assert listing.version == "9"
    assert ["limit=1" in request for request, _body in script.requests] == [True, True, False]
    assert "continue=next" in script.requests[1][0]
    assert "resourceVersion" not in script.requests[1][0]
