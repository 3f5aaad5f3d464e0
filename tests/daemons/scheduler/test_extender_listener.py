"""The extender's port by itself: real sockets, and everything that a client can do wrong. No control plane."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from berth_core.errors import InputError
from berth_kube.serve import ServerTls
from berth_scheduler.extender import messages
from berth_scheduler.extender.listener import CONNECTIONS, MAX_BODY, Listener
from berth_scheduler.extender.messages import Refused
from tests.support.certificates import authority, pem

MB = 1 << 20


async def echo(path: str, body: bytes) -> Any:
    return {"path": path, "got": messages.decode(body)}


def serve(talk: Callable[[Listener], Awaitable[None]], tls: ServerTls | None = None) -> None:
    async def whole() -> None:
        listener = Listener("127.0.0.1", 0, frozenset({"/filter"}), echo, tls)
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


async def ask(port: int, *parts: bytes, **tls: Any) -> tuple[int, Any]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, **tls)
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


def test_one_connection_too_many_is_cut_off() -> None:
    async def talk(listener: Listener) -> None:
        idle = [await asyncio.open_connection("127.0.0.1", listener.port) for _each in range(CONNECTIONS)]
        for reader, writer in idle:  # each has been taken in once it has had an answer
            writer.write(request(b"{}"))
            assert (await answer(reader))[0] == 200
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await ask(listener.port, request(b"{}"))
        idle[0][1].write(request(b"{}"))
        assert (await answer(idle[0][0]))[0] == 200
        for _reader, writer in idle:
            writer.transport.abort()

    serve(talk)


def test_only_clients_with_a_certificate_are_answered(tmp_path: Path) -> None:
    key, certificate = authority()
    cert_file, key_file = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert_file.write_bytes(certificate)
    key_file.write_bytes(pem(key))
    tls = ServerTls(str(cert_file), str(key_file), str(cert_file))
    known, stranger = (ssl.create_default_context(cafile=str(cert_file)) for _each in range(2))
    known.load_cert_chain(cert_file, key_file)
    other_key, other = authority()
    (tmp_path / "other.pem").write_bytes(other + pem(other_key))
    impostor = ssl.create_default_context(cafile=str(cert_file))
    impostor.load_cert_chain(tmp_path / "other.pem")

    async def talk(listener: Listener) -> None:
        assert (await ask(listener.port, request(b"{}"), ssl=known))[0] == 200
        for context in (stranger, impostor):
            with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                await ask(listener.port, request(b"{}"), ssl=context)
        assert (await ask(listener.port, request(b"{}"), ssl=known))[0] == 200

    serve(talk, tls)


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
