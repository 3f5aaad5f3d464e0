"""Samples of containers: from a real kubelet's summary, into SQLite, into Prometheus's wire format and back."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from berth_agent.usage.prometheus import CPU, MEMORY, PrometheusStore
from berth_agent.usage.remote import Series, compress, decompress, read_response, write_request
from berth_agent.usage.samples import Sample, samples_of
from berth_agent.usage.sqlite import SqliteStore
from berth_core.app.agent_settings import Usage
from berth_core.errors import ApiError, InputError, StateError, UnavailableError


def sample(time: int, pod: str = "db-0", container: str = "db", cpu: float = 0.5, memory: int = 1 << 20) -> Sample:
    return Sample(time, "default", pod, f"uid-{pod}", container, cpu, memory)


def test_a_summary_gives_one_sample_for_each_container_that_has_figures() -> None:
    figures = {"cpu": {"usageNanoCores": 250_000_000}, "memory": {"workingSetBytes": 4096}}
    summary = {
        "pods": [
            {
                "podRef": {"name": "db-0", "namespace": "default", "uid": "u1"},
                "containers": [{"name": "db", **figures}, {"name": "new", "cpu": {}, "memory": {}}],
            },
            {"podRef": {"name": "empty", "namespace": "default", "uid": "u2"}},
        ]
    }
    assert samples_of(summary, 60) == [Sample(60, "default", "db-0", "u1", "db", 0.25, 4096)]
    assert samples_of({}, 60) == []


def run(work: Callable[[], Awaitable[Any]]) -> Any:
    return asyncio.run(work())  # type: ignore[arg-type]


def test_sqlite_keeps_what_was_written_once_and_forgets_by_time(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "usage.sqlite"

    async def work() -> None:
        store = SqliteStore(str(path))
        await store.write([sample(60), sample(60, "db-1"), sample(120)])
        await store.write([sample(120, cpu=0.75)])  # the same minute again: the last word counts
        await store.close()
        store = SqliteStore(str(path))
        assert [(each.time, each.pod, each.cpu) for each in await store.read(0, 1000)] == [
            (60, "db-0", 0.5),
            (60, "db-1", 0.5),
            (120, "db-0", 0.75),
        ]
        assert await store.read(60, 120, "default", "db-1") == [sample(60, "db-1")]
        assert await store.read(60, 120, "other") == []
        assert await store.expire(120) == 2
        assert [each.time for each in await store.read(0, 1000)] == [120]
        await store.close()

    run(work)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    left = sqlite3.connect(path)
    assert left.execute("SELECT pod FROM containers").fetchall() == [("db-0",)]
    left.close()


@pytest.mark.parametrize("damage", [b"this is no database" * 100, b""])
def test_a_store_that_cannot_be_had_says_which_and_works_again_afterwards(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "usage.sqlite"

    async def work() -> None:
        store = SqliteStore(str(path))
        if damage:
            path.write_bytes(damage)
        else:
            path.mkdir()
        with pytest.raises(StateError, match=r"usage\.sqlite"):
            await store.write([sample(60)])
        path.unlink() if damage else path.rmdir()
        await store.write([sample(60)])
        assert await store.read(0, 100) == [sample(60)]
        await store.close()

    run(work)


# Composed after the format's description: literals, and copies that overlap what they make.
SNAPPY = [
    (b"", b"\x00"),
    (b"abc", b"\x03\x08abc"),
    (b"a" * 100, b"\x64\x00a\xfe\x01\x00\x8a\x01\x00"),
]


@pytest.mark.parametrize(("text", "packed"), SNAPPY)
def test_snappy_as_others_write_it_is_read(text: bytes, packed: bytes) -> None:
    assert decompress(packed) == text


@given(st.binary(max_size=300_000))
def test_what_is_compressed_comes_back(data: bytes) -> None:
    assert decompress(compress(data)) == data


@given(st.binary(max_size=200))
def test_no_answer_of_a_server_can_do_more_than_be_refused(data: bytes) -> None:
    with contextlib.suppress(ApiError):
        read_response(data)


def receiver(answers: list[tuple[int, bytes]], got: list[tuple[str, dict[str, str], bytes]]) -> Any:
    """A server that takes what is posted, and answers as told. It checks nothing: the tests do."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        lines = head.splitlines()
        headers = {key.lower(): value.strip() for key, _sep, value in (line.partition(":") for line in lines[1:])}
        got.append((lines[0], headers, await reader.readexactly(int(headers["content-length"]))))
        status, body = answers.pop(0)
        writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (status, len(body)) + body)
        await writer.drain()
        writer.close()

    return serve


def labels(time_series: Series) -> dict[str, str]:
    return dict(time_series.labels)


def test_remote_write_sends_sorted_labels_and_milliseconds_and_reads_back_the_same(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    got: list[tuple[str, dict[str, str], bytes]] = []

    async def work() -> None:
        written = [
            Series({"__name__": CPU, **WHO}, [(60_000, 0.5)]),
            Series({"__name__": MEMORY, **WHO}, [(60_000, 1048576.0)]),
        ]
        answers = [(204, b""), (400, b"out of order"), (200, response([written[0]])), (200, response([written[1]]))]
        server = await asyncio.start_server(receiver(answers, got), "127.0.0.1", 0)
        base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        usage = Usage("prometheus", url=f"{base}/api/v1/write", read_url=f"{base}/api/v1/read", token_file=str(token))
        store = PrometheusStore(usage, "h1")
        await store.write([sample(60)])
        with pytest.raises(ApiError, match="refuses with 400: out of order"):
            await store.write([sample(60)])
        assert await store.read(0, 100, "default") == [sample(60)]
        await store.close()
        server.close()
        with pytest.raises(UnavailableError):
            await store.write([sample(60)])

    run(work)
    line, headers, body = got[0]
    assert line == "POST /api/v1/write HTTP/1.1"
    assert headers["authorization"] == "Bearer secret"
    assert headers["content-encoding"] == "snappy"
    assert headers["x-prometheus-remote-write-version"] == "0.1.0"
    sent = read_response(response_of_write(body))
    assert [list(each.labels) for each in sent] == [sorted(each.labels) for each in sent]
    assert [(each.labels["__name__"], each.points) for each in sent] == [
        (CPU, [(60_000, 0.5)]),
        (MEMORY, [(60_000, 1048576.0)]),
    ]


WHO = {"node": "h1", "namespace": "default", "pod": "db-0", "uid": "uid-db-0", "container": "db"}


def response(series: list[Series]) -> bytes:
    """A ReadResponse with one result: its series have the same shape as those of a WriteRequest."""
    return response_of_write(write_request(series))


def response_of_write(body: bytes) -> bytes:
    content = decompress(body)
    size = len(content)
    return compress(b"\x0a" + bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14]) + content)


def test_a_store_without_read_url_says_so() -> None:
    async def work() -> None:
        with pytest.raises(InputError, match="read_url"):
            await PrometheusStore(Usage("prometheus", url="http://127.0.0.1:1/w"), "h1").read(0, 1)

    run(work)
