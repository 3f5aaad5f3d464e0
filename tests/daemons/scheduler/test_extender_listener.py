"""The extender's port by itself: real sockets, and everything that a client can do wrong. No control plane."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from berth_core.errors import InputError
from berth_kube.tls import ServerTls
from berth_scheduler.extender import command, messages
from berth_scheduler.extender.listener import LIMITS, MAX_BODY, Answer, Listener
from berth_scheduler.extender.messages import Refused
from tests.support.certificates import authority, pem

MB = 1 << 20


async def echo(path: str, body: bytes) -> Any:
    return {"path": path, "got": messages.decode(body)}


def serve(
    talk: Callable[[Listener], Awaitable[None]], tls: ServerTls | None = None, *, answer: Answer = echo, **options: Any
) -> None:
    options = {"limits": LIMITS._replace(per_address=LIMITS.places), **options}

    async def whole() -> None:
        listener = Listener("127.0.0.1", 0, frozenset({"/filter"}), answer, tls, **options)
        await listener.start()
        try:
            await asyncio.wait_for(talk(listener), 120)
        finally:
            await listener.stop()

    asyncio.run(whole())


def request(body: bytes, path: str = "/filter", method: str = "POST") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def answer(reader: asyncio.StreamReader) -> tuple[int, Any]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    size = next(int(line.split(":")[1]) for line in head.split("\r\n") if line.startswith("content-length"))
    return int(head.split()[1]), json.loads(await reader.readexactly(size))


async def ask(port: int, *parts: bytes, **options: Any) -> tuple[int, Any]:
    at = () if "sock" in options else ("127.0.0.1", port)
    reader, writer = await asyncio.open_connection(*at, **options)
    try:
        for part in parts:
            writer.write(part)
        await writer.drain()
        return await answer(reader)
    finally:
        writer.transport.abort()


def test_many_requests_on_one_connection() -> None:
    async def talk(listener: Listener) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        for number in range(3):
            writer.write(request(json.dumps({"n": number}).encode(), "/filter?timeout=5s"))
            assert await answer(reader) == (200, {"path": "/filter", "got": {"n": number}})
        writer.write(request(b'{"n": 3}')[:30])
        await writer.drain()
        writer.write(request(b'{"n": 3}')[30:])
        assert (await answer(reader))[1]["got"] == {"n": 3}
        writer.transport.abort()

    serve(talk)


def test_everything_that_is_wrong_has_an_answer_and_nobody_else_notices() -> None:
    cases = {
        request(b"{}", "/scores"): (404, "/scores: expected /filter"),
        request(b"", method="GET"): (405, "GET: expected POST"),
        request(b"{"): (400, "the body is not JSON"),
        request(b"\xff\xfe\x00"): (400, "the body is not JSON"),
        request(b"[" * 100_000): (400, "the body is not JSON"),
        request(b"[1]"): (400, "the body is a JSON list: expected an object"),
        b"\x16\x03\x01 hello\r\n\r\n": (400, "this is not HTTP/1.1"),
        b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n": (400, "this is not HTTP/1.1"),
        b"POST /filter HTTP/1.1\r\n" + b"X: " + b"y" * 40_000: (400, "this is not HTTP/1.1"),
    }

    async def talk(listener: Listener) -> None:
        for sent, (status, words) in cases.items():
            got = await ask(listener.port, sent)
            assert got[0] == status, (sent[:60], got)
            assert words in got[1]["Error"], (sent[:60], got)
            assert (await ask(listener.port, request(b"{}")))[0] == 200

    serve(talk)


def test_a_body_of_100_mb_is_refused_before_it_is_sent() -> None:
    async def talk(listener: Listener) -> None:
        head = f"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: {100 * MB}\r\n\r\n".encode()
        status, told = await ask(listener.port, head)
        assert (status, told["Error"]) == (413, f"the body has {100 * MB} bytes: expected at most {MAX_BODY}")

    serve(talk)


def test_a_body_that_says_nothing_of_its_size_is_refused_while_it_arrives() -> None:
    async def talk(listener: Listener) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        told = asyncio.ensure_future(answer(reader))
        chunk, sent = b"100000\r\n" + b" " * MB + b"\r\n", 0
        while sent < 100 and not told.done():
            writer.write(chunk)
            await asyncio.wait([told, asyncio.ensure_future(writer.drain())], return_when=asyncio.FIRST_COMPLETED)
            sent += 1
        status, document = await told
        assert (status, document["Error"]) == (413, f"the body has more than {MAX_BODY} bytes")
        assert sent < 100, "it was read to its end"
        writer.transport.abort()
        assert (await ask(listener.port, request(b"{}")))[0] == 200

    serve(talk)


def test_a_careful_client_is_told_to_go_on() -> None:
    async def talk(listener: Listener) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(b"POST /filter HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
        writer.write(b"{}")
        assert (await answer(reader))[0] == 200
        writer.transport.abort()

    serve(talk)


def test_64_connections_that_ask_nothing_lock_nobody_out() -> None:
    async def talk(listener: Listener) -> None:
        parts = (b"", b"POST /fil", request(b"{}" + b" " * 100)[:-90], request(b"{}"))
        held = [await asyncio.open_connection("127.0.0.1", listener.port) for _each in range(64)]
        for number, (_reader, writer) in enumerate(held):
            writer.write(parts[number % len(parts)])
        for reader, _writer in held[3::4]:  # these are idle after an answer
            assert (await answer(reader))[0] == 200
        for _each in range(3):
            assert (await ask(listener.port, request(b"{}")))[0] == 200
        for _reader, writer in held:
            writer.transport.abort()

    serve(talk)


async def trickle(port: int, sent: bytes, seconds: float) -> float:
    """Send a byte now and then; after how many seconds the other side had enough."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    began, over = time.monotonic(), asyncio.ensure_future(reader.read())
    for byte in sent:
        writer.write(bytes([byte]))
        await asyncio.wait([over], timeout=seconds)
        if over.done():
            break
    with contextlib.suppress(ConnectionError):
        assert await over == b""
    writer.transport.abort()
    return time.monotonic() - began


def test_head_and_body_have_one_deadline() -> None:
    counted: list[str] = []

    async def talk(listener: Listener) -> None:
        head = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\n\r\n"
        times = await asyncio.gather(
            trickle(listener.port, head + b" " * 900, 0.01),  # the head is whole in time, the body is not
            trickle(listener.port, request(b"{}").replace(b"Host: x", b"Host: " + b"x" * 200), 0.05),
            trickle(listener.port, head.replace(b"Content-Length: 999", b"Transfer-Encoding: chunked"), 0.05),
        )
        assert all(0.9 < seconds < 5 for seconds in times), times

    serve(talk, limits=LIMITS._replace(request_seconds=1.0), refused=counted.append)
    assert counted == ["slow"] * 3


def test_who_is_idle_between_requests_goes_in_silence() -> None:
    counted: list[str] = []

    async def talk(listener: Listener) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(request(b"{}"))
        assert (await answer(reader))[0] == 200
        assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.transport.abort()

    serve(talk, limits=LIMITS._replace(idle_seconds=0.2), refused=counted.append)
    assert counted == []


def test_one_address_cannot_take_all_places(caplog: pytest.LogCaptureFixture) -> None:
    counted: list[str] = []

    async def talk(listener: Listener) -> None:
        other, writer = await asyncio.open_connection("127.0.0.1", listener.port, local_addr=("127.0.0.2", 0))
        greedy = [await asyncio.open_connection("127.0.0.1", listener.port) for _each in range(20)]
        while len(counted) < 16:
            await asyncio.sleep(0.01)
        gone = [await asyncio.wait_for(reader.read(), 10) for reader, _writer in greedy[:16]]
        assert gone == [b""] * 16
        for one in (greedy[16], greedy[19], (other, writer)):
            one[1].write(request(b"{}"))
            assert (await answer(one[0]))[0] == 200
        for one in (*greedy, (other, writer)):
            one[1].transport.abort()

    with caplog.at_level(logging.WARNING):
        serve(talk, limits=LIMITS._replace(per_address=4), refused=counted.append)
    assert counted == ["address"] * 16
    (line,) = (one.getMessage() for one in caplog.records if "refused" in one.getMessage())
    assert "127.0.0.1: too many of one address: 1" in line


def test_who_is_being_answered_is_not_cut_off() -> None:
    counted: list[str] = []
    asked, go = asyncio.Semaphore(0), asyncio.Event()

    async def slowly(path: str, body: bytes) -> Any:
        asked.release()
        await go.wait()
        return await echo(path, body)

    async def talk(listener: Listener) -> None:
        first = [asyncio.ensure_future(ask(listener.port, request(b"{}"))) for _each in range(2)]
        for _each in first:
            await asked.acquire()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await ask(listener.port, request(b"{}"))
        go.set()
        assert [(await one)[0] for one in first] == [200, 200]
        assert (await ask(listener.port, request(b"{}")))[0] == 200

    serve(talk, limits=LIMITS._replace(places=2), refused=counted.append, answer=slowly)
    assert counted == ["places"]


class Identities:
    """The files of a server that asks for certificates, and the contexts of those who show one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cert, self.key, self.client_ca = (folder / name for name in ("cert.pem", "key.pem", "ca.pem"))
        key, self.certificate = authority()
        self.cert.write_bytes(self.certificate)
        self.key.write_bytes(pem(key))

    def client(self, trusted: bool = True) -> ssl.SSLContext:
        """A new certificate; ``trusted``: which from now on is the authority of clients."""
        key, certificate = authority()
        (self.folder / "client.pem").write_bytes(certificate + pem(key))
        if trusted:
            self.client_ca.write_bytes(certificate)
        context = self.stranger()
        context.load_cert_chain(self.folder / "client.pem")
        return context

    def stranger(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.certificate.decode())

    def tls(self) -> ServerTls:
        return ServerTls(str(self.cert), str(self.key), str(self.client_ca))


async def refused(port: int, context: ssl.SSLContext) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
        await ask(port, request(b"{}"), ssl=context)


def test_only_clients_with_a_certificate_are_answered(tmp_path: Path) -> None:
    files = Identities(tmp_path)
    impostor, known = files.client(trusted=False), files.client()

    async def talk(listener: Listener) -> None:
        assert (await ask(listener.port, request(b"{}"), ssl=known))[0] == 200
        for context in (files.stranger(), impostor):
            await refused(listener.port, context)
        assert (await ask(listener.port, request(b"{}"), ssl=known))[0] == 200

    serve(talk, files.tls())


def test_other_authorities_of_clients_count_from_the_next_connection_on(tmp_path: Path) -> None:
    files = Identities(tmp_path)
    first = files.client()

    async def talk(listener: Listener) -> None:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            before = files.client()
            before.maximum_version = version
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, ssl=before)
            writer.write(request(b"{}"))
            assert (await answer(reader))[0] == 200
            session = writer.get_extra_info("ssl_object").session
            after = files.client()  # nothing but the authority's file has changed
            assert (await ask(listener.port, request(b"{}"), ssl=after))[0] == 200
            await refused(listener.port, before)
            assert not await asyncio.to_thread(resumed, listener.port, before, session)
            writer.transport.abort()
        files.client_ca.write_text("half a certifi")
        assert (await ask(listener.port, request(b"{}"), ssl=after))[0] == 200
        await refused(listener.port, first)

    serve(talk, files.tls())


def resumed(port: int, context: ssl.SSLContext, session: ssl.SSLSession) -> bool:
    """Whether an answer is had with what is left of a connection that an authority of yesterday let in."""
    plain = socket.create_connection(("127.0.0.1", port), 10)
    try:
        with context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as link:
            link.sendall(request(b"{}"))
            return bool(link.recv(1))
    except OSError:
        return False
    finally:
        plain.close()


def test_a_client_with_a_certificate_finds_a_place_beside_unfinished_handshakes(tmp_path: Path) -> None:
    files, counted = Identities(tmp_path), list[str]()
    known = files.client()

    async def talk(listener: Listener) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, ssl=known)
        silent = []
        for number in range(30):
            here = ("127.0.0.1", 0) if number % 2 else (f"127.0.0.{number + 2}", 0)
            silent.append(await asyncio.open_connection("127.0.0.1", listener.port, local_addr=here))
            silent[-1][1].write(b"\x16\x03\x01")
        for _each in range(3):
            assert (await ask(listener.port, request(b"{}"), ssl=known))[0] == 200
        writer.write(request(b"{}"))  # the connection that was there from the start
        assert (await answer(reader))[0] == 200
        assert counted.count("handshakes") >= 26
        for other, link in silent:
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(other.read(), 10) == b""
            link.transport.abort()
        assert set(counted[-3:]) == {"slow"}, "the last ones have had their time"
        writer.transport.abort()

    limits = LIMITS._replace(handshakes=4, handshake_seconds=1.0)
    serve(talk, files.tls(), limits=limits, refused=counted.append)


def test_the_handshake_of_a_known_address_is_not_the_one_that_goes(tmp_path: Path) -> None:
    files = Identities(tmp_path)
    known = files.client()

    async def talk(listener: Listener) -> None:
        assert (await ask(listener.port, request(b"{}"), ssl=known))[0] == 200
        late = socket.create_connection(("127.0.0.1", listener.port), 10)  # says nothing yet
        silent = []
        for number in range(8):
            here = (f"127.0.1.{number + 1}", 0)
            silent.append(await asyncio.open_connection("127.0.0.1", listener.port, local_addr=here))
            silent[-1][1].write(b"\x16")
        got = await ask(listener.port, request(b"{}"), sock=late, ssl=known, server_hostname="127.0.0.1")
        assert got[0] == 200
        for _reader, writer in silent:
            writer.transport.abort()

    serve(talk, files.tls(), limits=LIMITS._replace(handshakes=4))


@pytest.mark.parametrize("loop", [None, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_nothing_is_left_of_connections_that_were_cut_off(tmp_path: Path, loop: Any) -> None:
    files = Identities(tmp_path)
    known = files.client()

    async def silent(port: int) -> int:
        """Connections that say nothing until they are cut off; how many files are open then."""
        held = [await asyncio.open_connection("127.0.0.1", port) for _each in range(12)]
        for reader, writer in held:
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.transport.abort()
        assert (await ask(port, request(b"{}"), ssl=known))[0] == 200
        await asyncio.sleep(0.1)
        return len(os.listdir("/proc/self/fd"))

    async def whole() -> None:
        limits = LIMITS._replace(handshakes=4, per_address=4, handshake_seconds=0.3)
        listener = Listener("127.0.0.1", 0, frozenset({"/filter"}), echo, files.tls(), limits=limits)
        await listener.start()
        before = await silent(listener.port)
        assert await silent(listener.port) <= before
        await listener.stop()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(asyncio.wait_for(whole(), 60))


def settings(*given: str) -> command.Settings:
    parser = argparse.ArgumentParser()
    command.add_extend(parser.add_subparsers())
    return command.read(parser.parse_args(["extend", *given]), {})


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "10.0.0.5", "node-1.example.com", ""])
def test_an_address_for_others_needs_authorities_of_clients(address: str, tmp_path: Path) -> None:
    certificate, key, authorities = (str(tmp_path / name) for name in ("crt", "key", "ca"))
    for file in (certificate, key, authorities):
        Path(file).touch()
    tls = "--tls-certificate", certificate, "--tls-key", key
    with pytest.raises(InputError, match=r"--address .*: whoever reaches it could bind pods.*--client-ca.*127.0.0.1"):
        settings("--address", address)
    with pytest.raises(InputError, match="--client-ca"):
        settings("--address", address, *tls)
    asked = settings("--address", address, *tls, "--client-ca", authorities)
    assert asked.address == address


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_a_loopback_address_needs_none(address: str) -> None:
    assert settings("--address", address).address == address


def test_authorities_that_cannot_be_read(tmp_path: Path) -> None:
    key, certificate = authority()
    (tmp_path / "pair.pem").write_bytes(certificate + pem(key))
    with pytest.raises(InputError, match="cannot be used"):
        ServerTls(str(tmp_path / "pair.pem"), str(tmp_path / "pair.pem"), str(tmp_path / "missing.pem"))


POD = {"metadata": {"name": "p", "namespace": "n"}, "spec": {}}


def test_nodes_by_name_and_whole() -> None:
    names = messages.asked({"Pod": POD, "NodeNames": ["a", "b"]})
    assert messages.filtered(names, {"b"}, {"a": "no disk"}) == {
        "Nodes": None,
        "NodeNames": ["b"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {"a": "no disk"},
        "Error": "",
    }
    nodes = [{"metadata": {"name": name, "labels": {"x": "y"}}} for name in "ab"]
    whole = messages.asked({"Pod": POD, "Nodes": {"items": nodes}, "NodeNames": None})
    answered = messages.filtered(whole, {"b"}, {"a": "no disk"})
    assert (answered["NodeNames"], answered["Nodes"]["items"]) == (None, [nodes[1]])
    assert messages.prioritized(whole, {"b": 7}) == [{"Host": "a", "Score": 0}, {"Host": "b", "Score": 7}]


def test_victims_are_answered_by_their_uids() -> None:
    victim = {"metadata": {"name": "v", "uid": "u1"}}
    expected = {"Pods": [{"UID": "u1"}], "NumPDBViolations": 2}
    whole = {"a": {"Pods": [victim], "NumPDBViolations": 2}, "b": {"Pods": [], "NumPDBViolations": 0}}
    short = {"a": expected, "b": {"Pods": [], "NumPDBViolations": 0}}
    for field, victims in (("NodeNameToVictims", whole), ("NodeNameToMetaVictims", short)):
        question = messages.preempting({"Pod": POD, field: victims})
        assert messages.preempted(question, {"a"}) == {"NodeNameToMetaVictims": {"a": expected}}


@pytest.mark.parametrize(
    ("read", "document", "path"),
    [
        (messages.asked, {"NodeNames": []}, "Pod"),
        (messages.asked, {"Pod": {}, "NodeNames": []}, "Pod.metadata.name"),
        (messages.asked, {"Pod": POD}, "neither Nodes nor NodeNames"),
        (messages.asked, {"Pod": POD, "NodeNames": [1]}, "NodeNames"),
        (messages.asked, {"Pod": POD, "Nodes": {"items": [{}]}}, r"Nodes.items\[0\].metadata.name"),
        (messages.bind_asked, {"PodName": "p", "PodNamespace": "n", "PodUID": 3, "Node": "a"}, "PodUID"),
        (messages.preempting, {"Pod": POD}, "NodeNameToVictims"),
        (messages.preempting, {"Pod": POD, "NodeNameToMetaVictims": {"a": 1}}, r"NodeNameToMetaVictims\[a\]"),
    ],
)
def test_what_cannot_be_read_is_named(read: Callable[[Any], Any], document: Any, path: str) -> None:
    with pytest.raises(Refused, match=path) as caught:
        read(document)
    assert caught.value.status == 400
