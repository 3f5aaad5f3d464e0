"""The program's own endpoint for results, over TLS, without a cluster: who is let in, and what is taken."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from berth_core.errors import InputError
from berth_tasks.program import calls, pod
from berth_tasks.program.results import Endpoint, Results
from tests.support.certificates import authority, pem
from tests.support.tcp import free_port

MOST = 20_000


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Endpoint:
    folder = tmp_path_factory.mktemp("endpoint")
    key, certificate = authority()
    (folder / "tls.crt").write_bytes(certificate)
    (folder / "tls.key").write_bytes(pem(key))
    port, file = free_port(), str(folder / "tls.crt")
    return Endpoint(f"https://127.0.0.1:{port}", file, str(folder / "tls.key"), file, "127.0.0.1", port, MOST, 5)


@contextlib.asynccontextmanager
async def listening(endpoint: Endpoint) -> AsyncIterator[Results]:
    results = Results(endpoint)
    await results.start()
    try:
        yield results
    finally:
        await results.stop()


def put(endpoint: Endpoint, path: str, body: bytes, token: str, **headers: str) -> tuple[int, str]:
    context = ssl.create_default_context(cafile=endpoint.authority)
    given = {"Authorization": f"Bearer {token}", **headers}
    request = urllib.request.Request(endpoint.url + path, body, given, method="PUT")
    try:
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:
            return answer.status, ""
    except urllib.error.HTTPError as exc:
        return exc.code, exc.read().decode()


def test_one_result_a_pod_of_who_has_the_tasks_token(endpoint: Endpoint) -> None:
    async def main() -> None:
        async with listening(endpoint) as results:
            one, two = results.expect("py-1"), results.expect("py-2")
            assert one != two

            async def ask(*args: Any) -> tuple[int, str]:
                return await asyncio.to_thread(put, endpoint, *args)

            assert (await ask("/results/py-1/pod-a", b"1", two))[0] == 401, "that of another Task"
            assert (await ask("/results/py-3/pod-a", b"1", one))[0] == 401, "of none that runs"
            assert (await ask("/results/py-1/pod-a", b"1", "ä".encode().decode("latin-1")))[0] == 401
            assert (await ask("/other", b"1", one))[0] == 404
            status, words = await ask("/results/py-1/pod-a", b"x" * (MOST + 1), one)
            assert (status, f"has {MOST + 1} bytes: at most {MOST} are taken" in words) == (413, True), words
            assert (await ask("/results/py-1/pod-a", b"1", one))[0] == 200
            assert (await ask("/results/py-1/pod-a", b"1", one))[0] == 200, "the same, whose answer was lost"
            assert (await ask("/results/py-1/pod-a", b"2", one))[0] == 409
            assert (await ask("/results/py-1/pod-b", b"3", one))[0] == 200, "the pod of a later try"
            assert (results.forget("py-1"), results.forget("py-2")) == (b"3", None)
            assert (await ask("/results/py-1/pod-b", b"3", one))[0] == 401, "the Task has ended"

    asyncio.run(main())


def test_a_body_of_no_length_or_that_never_ends_is_not_waited_for(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    from berth_tasks.program import results as module

    monkeypatch.setattr(module, "LIMITS", module.LIMITS._replace(request_seconds=1.0))

    def raw(head: str) -> bytes:
        context = ssl.create_default_context(cafile=endpoint.authority)
        with (
            socket.create_connection(("127.0.0.1", endpoint.port), 30) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as talk,
        ):
            talk.sendall(head.encode())
            return talk.recv(200)

    async def main() -> None:
        async with listening(endpoint) as results:
            token = results.expect("py-1")
            head = f"PUT /results/py-1/a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
            assert b" 411 " in await asyncio.to_thread(raw, f"{head}Transfer-Encoding: chunked\r\n\r\n")
            began = time.monotonic()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                assert await asyncio.to_thread(raw, f"{head}Content-Length: 10\r\n\r\n123") == b""
            assert time.monotonic() - began < 20
            assert results.forget("py-1") is None

    asyncio.run(main())


def test_a_worker_sends_what_is_too_large_to_be_left(endpoint: Endpoint, tmp_path: Path) -> None:
    """And what is counted is what its Task says that it has sent."""

    def run(size: int, token: str) -> tuple[int, dict[str, Any]]:
        left = tmp_path / "left"
        environment = {
            "BERTH_TERMINATION_LOG": str(left),
            "BERTH_RESULTS_URL": f"{endpoint.url}/results/py-1/",
            "BERTH_RESULTS_CA": Path(endpoint.authority).read_text(),
            "BERTH_RESULTS_MOST": str(MOST),
            "BERTH_RESULTS_SECONDS": "2",
            "BERTH_RESULTS_TOKEN": token,
            "BERTH_POD_UID": f"pod-{size}",
            "HTTPS_PROXY": "http://127.0.0.1:1",
        }
        (tmp_path / "big.py").write_text("def make(size):\n    return 'x' * size\n")
        argv = [sys.executable, "-c", pod.WORKER, calls.call_text("big:make", [((size,), {})], "json", False)]
        done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, timeout=60, check=False)
        return done.returncode, json.loads(left.read_text())

    async def main() -> None:
        async with listening(endpoint) as results:
            token = results.expect("py-1")
            status, told = await asyncio.to_thread(run, 10_000, token)
            sent = results.forget("py-1")
            assert sent is not None
            assert (status, told) == (0, {"sent": hashlib.sha256(sent).hexdigest()})
            row = {"name": "py-1", "namespace": "ns", "state": "Succeeded", "termination_message": json.dumps(told)}
            assert calls.result_of(row, {}, sent) == "x" * 10_000
            status, told = await asyncio.to_thread(run, MOST, results.expect("py-1"))
            assert (status, f"{MOST + 14} bytes of JSON, and at most {MOST} are taken" in told["refused"]) == (2, True)
            status, told = await asyncio.to_thread(run, 10, "wrong")
            assert (status, "does not take the result: 401" in told["refused"]) == (2, True), told
        status, told = await asyncio.to_thread(run, 10, "any")
        assert (status, "cannot be reached at https://127.0.0.1" in told["refused"]) == (2, True), told

    asyncio.run(main())


def test_an_endpoint_that_no_pod_could_use_is_refused(endpoint: Endpoint) -> None:
    for wrong, words in (
        ({"url": "http://127.0.0.1:1"}, "expected https://HOST:PORT"),
        ({"authority": "/nowhere"}, "authority of the endpoint: /nowhere cannot be read"),
        ({"key": "/nowhere"}, "cannot be used"),
    ):
        with pytest.raises(InputError, match=words):
            Results(endpoint._replace(**wrong))
