"""Health and metrics over real sockets and real TLS; logs line by line."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import prometheus_client
import pytest

from berth_core.errors import InputError
from berth_kube import logs
from berth_kube.metrics import Metrics
from berth_kube.queue import Reconciler
from berth_kube.serve import LIMITS, Server
from berth_kube.tls import Pem, Tls
from tests.support.certificates import authority, pem

Run = Callable[..., Any]


async def ask(server: Server, request: str, context: ssl.SSLContext | None = None) -> str:
    name = "localhost" if context else None
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context, server_hostname=name)
    writer.write(f"{request} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    text = (await reader.read()).decode()
    writer.close()
    return text


def test_health_and_metrics(run: Run) -> None:
    async def story() -> None:
        registry = prometheus_client.CollectorRegistry()
        wrong: list[str] = []
        server = Server(
            0,
            ready={
                "synced": lambda: wrong[0] if wrong else None,
                "sane": lambda: wrong[1] if len(wrong) == 1 else None,
            },
            metrics=lambda: prometheus_client.generate_latest(registry),
        )
        metrics = Metrics(registry)
        metrics.requests()("get", 200, 0.01)
        metrics.leading(lambda: True)

        async def work(_key: str) -> None:
            return None

        reconciler = Reconciler("disk", work, observe=metrics.reconciles("disk"))
        metrics.depth("disk", lambda: len(reconciler.queue))
        reconciler.queue.add("a")
        await server.start()
        assert (await ask(server, "GET /healthz")).startswith("HTTP/1.1 200")
        assert (await ask(server, "GET /readyz?verbose")).endswith("\r\n\r\nok\n")
        wrong.append("the first list has not come")
        answer = await ask(server, "GET /readyz")
        assert answer.startswith("HTTP/1.1 503")
        assert "[-]synced: the first list has not come" in answer
        assert "[-]sane: the check fails: IndexError" in answer
        text = await ask(server, "GET /metrics")
        for line in (
            'berth_api_requests_total{code="200",verb="get"} 1.0',
            'berth_queue_depth{controller="disk"} 1.0',
            "berth_leading 1.0",
        ):
            assert line in text
        assert (await ask(server, "POST /metrics")).startswith("HTTP/1.1 405")
        assert (await ask(server, "GET /secrets")).startswith("HTTP/1.1 404")
        assert (await ask(server, "HEAD /healthz")).endswith("\r\n\r\n")
        assert (await ask(server, "nonsense")) == ""
        await server.stop()
        with pytest.raises(ConnectionRefusedError):
            await ask(server, "GET /healthz")

    run(story())


def test_who_is_slow_takes_nobody_s_place(run: Run) -> None:
    counted: list[str] = []

    async def story() -> None:
        limits = LIMITS._replace(request_seconds=1.0, per_address=LIMITS.places)
        server = Server(0, refused=counted.append, limits=limits)
        await server.start()
        silent = [await asyncio.open_connection("127.0.0.1", server.port) for _index in range(LIMITS.places + 5)]
        for _reader, writer in silent:
            writer.write(b"GET /hea")
        assert "200" in await ask(server, "GET /healthz"), "while they all are there"
        for reader, _writer in silent:
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b"", "cut off"
        for _reader, writer in silent:
            writer.close()
        await server.stop()

    run(story())
    assert counted == ["places"] * 6 + ["slow"] * (LIMITS.places - 1)


def test_one_address_cannot_take_all_places(run: Run) -> None:
    counted: list[str] = []

    async def story() -> None:
        server = Server(0, refused=counted.append)
        await server.start()
        other, link = await asyncio.open_connection("127.0.0.1", server.port, local_addr=("127.0.0.2", 0))
        greedy = [await asyncio.open_connection("127.0.0.1", server.port) for _index in range(LIMITS.places * 2)]
        assert "200" in await ask(server, "GET /healthz"), "its oldest connections go, not its newest"
        link.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert b" 200" in await other.read()
        for writer in (link, *(writer for _reader, writer in greedy)):
            writer.close()
        await server.stop()

    run(story())
    assert set(counted) == {"address"}


def test_unfinished_handshakes_are_few_and_short(run: Run, tmp_path: Path) -> None:
    counted: list[str] = []

    async def story() -> None:
        trust = certificate(tmp_path)
        limits = LIMITS._replace(handshakes=4, handshake_seconds=0.5)
        files = (str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"))
        server = Server(0, tls=files, refused=counted.append, limits=limits)
        await server.start()
        silent = [await asyncio.open_connection("127.0.0.1", server.port) for _index in range(6)]
        assert "200" in await ask(server, "GET /healthz", trust)
        for reader, writer in silent:
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.close()
        await server.stop()

    run(story())
    assert counted == ["handshakes"] * 3 + ["slow"] * 3


def test_a_connection_that_was_refused_is_counted(run: Run) -> None:
    async def story() -> None:
        registry = prometheus_client.CollectorRegistry()
        refused = Metrics(registry).refused("metrics")
        server = Server(
            0,
            metrics=lambda: prometheus_client.generate_latest(registry),
            refused=refused,
            limits=LIMITS._replace(per_address=1),
        )
        await server.start()
        _reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        text = await ask(server, "GET /metrics")
        assert 'berth_connections_refused_total{port="metrics",reason="address"} 1.0' in text
        writer.close()
        await server.stop()

    run(story())


def certificate(folder: Path) -> ssl.SSLContext:
    """A new serving certificate in the folder's files; a context that trusts only it."""
    key, cert = authority()
    (folder / "tls.key").write_bytes(pem(key))
    (folder / "tls.crt").write_bytes(cert)
    return ssl.create_default_context(cadata=cert.decode())


def test_tls_and_a_certificate_that_is_replaced(run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        first = certificate(tmp_path)
        server = Server(0, tls=(str(tmp_path / "tls.crt"), str(tmp_path / "tls.key")))
        await server.start()
        assert "200" in await ask(server, "GET /healthz", first)
        second = certificate(tmp_path)
        assert "200" in await ask(server, "GET /healthz", second)
        with pytest.raises(ssl.SSLCertVerificationError):
            await ask(server, "GET /healthz", first)
        (tmp_path / "tls.crt").write_text("half a certifi")
        assert "200" in await ask(server, "GET /healthz", second)
        assert "200" in await ask(server, "GET /healthz", second)
        third = certificate(tmp_path)
        assert "200" in await ask(server, "GET /healthz", third)
        await server.stop()

    with caplog.at_level(logging.ERROR):
        run(story())
    assert len([record for record in caplog.records if "the last one stays" in record.getMessage()]) == 1


def test_an_authority_that_is_replaced_counts_for_a_client(run: Run, tmp_path: Path) -> None:
    async def story() -> None:
        certificate(tmp_path)
        trust = tmp_path / "ca.crt"
        trust.write_bytes(authority()[1])
        client = Tls("this test", Pem(path=str(trust)), None)
        server = Server(0, tls=(str(tmp_path / "tls.crt"), str(tmp_path / "tls.key")))
        await server.start()
        with pytest.raises(ssl.SSLCertVerificationError):
            await ask(server, "GET /healthz", client.context())
        trust.write_bytes((tmp_path / "tls.crt").read_bytes())  # and nothing else
        assert "200" in await ask(server, "GET /healthz", client.context())
        await server.stop()

    run(story())


def test_addresses_and_certificates_that_cannot_be(run: Run, tmp_path: Path) -> None:
    async def story() -> None:
        server = Server(0)
        await server.start()
        with pytest.raises(InputError, match=rf"cannot listen on 127\.0\.0\.1:{server.port}"):
            await Server(server.port).start()
        await server.stop()
        (tmp_path / "x").write_text("no pem")
        with pytest.raises(InputError, match=r"serving certificate .*/x with key .*/x cannot be used"):
            Server(0, tls=(str(tmp_path / "x"), str(tmp_path / "x")))

    run(story())


@pytest.fixture
def log() -> Callable[..., list[str]]:
    """What a record looks like in each form."""

    def render(message: str, *args: Any, **fields: Any) -> list[str]:
        lines = []
        for form in logs.FORMATS:
            stream = io.StringIO()
            handler = logging.StreamHandler(stream)
            handler.setFormatter(logs.Formatter(form))
            logger = logging.Logger("berth_test")  # noqa: LOG001 - of nobody else
            logger.addHandler(handler)
            logger.warning(message, *args, extra=fields)
            lines.append(stream.getvalue())
        return lines

    return render


def test_a_line_in_both_forms(log: Callable[..., list[str]]) -> None:
    logfmt, structured = log("wiped %s", "it", disk="h1-d0", seconds=3.5, note='a "b"\nc', none=None)
    assert logfmt.count("\n") == 1
    assert (
        'level=warning logger=berth_test msg="wiped it" disk=h1-d0 seconds=3.5 note="a \\"b\\"\\nc" none=null' in logfmt
    )
    content = json.loads(structured)
    assert (content["msg"], content["disk"], content["seconds"], content["none"]) == ("wiped it", "h1-d0", 3.5, None)
    assert content["ts"].endswith("Z")


SECRETS = (
    "Authorization: Bearer abcdefgh12345678",
    "eyJhbGciOiJSUzI1NiIs.eyJpc3MiOiJrdWJlcm5l.c2lnbmF0dXJl",
    "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIIrYSSNQFaA2Hwf1duRSxKtL\n-----END EC PRIVATE KEY-----",
)


@pytest.mark.parametrize("secret", SECRETS, ids=["header", "token", "key"])
def test_secrets_never(log: Callable[..., list[str]], secret: str) -> None:
    for line in log("sent %s", secret, detail=secret, deep={"headers": [secret]}, api_token="plain-text"):
        for part in ("abcdefgh12345678", "eyJpc3MiOiJrdWJlcm5l", "MHcCAQEEIIrYSSNQFaA2Hwf1duRSxKtL", "plain-text"):
            assert part not in line


def test_traces_are_one_line() -> None:
    record = logging.LogRecord("x", logging.ERROR, "f", 1, "failed", (), None)
    try:
        raise ValueError("Bearer abcdefgh12345678")
    except ValueError as exc:
        record.exc_info = (type(exc), exc, exc.__traceback__)
    line = logs.Formatter("logfmt").format(record)
    assert "\n" not in line
    assert "ValueError: Bearer ***" in line


def test_forms_that_are_not_known() -> None:
    with pytest.raises(ValueError, match="expected one of logfmt, json"):
        logs.setup("xml")
