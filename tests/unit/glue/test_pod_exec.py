"""A command in a pod, against a server that answers as an API server may, or as none should. TLS: tests/integration."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.auth import load_auth
from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils._glue.pod_exec import check_possible, run_in_pod
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import (
    ForbiddenError,
    InputError,
    UnavailableError,
)
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.exec_channels import Ended

SUCCESS, EXITED = {"status": "Success"}, {"status": "Failure", "reason": "NonZeroExitCode", "message": "exit status 3"}
EXITED["details"] = {"causes": [{"reason": "ExitCode", "message": "3"}]}
CLOSE = b"\x88\x00"


def frame(channel: int, data: bytes) -> bytes:
    body = bytes([channel]) + data
    size = bytes([len(body)]) if len(body) < 126 else b"\x7e" + len(body).to_bytes(2, "big")
    return b"\x82" + size + body


def status(body: dict[str, Any]) -> bytes:
    return frame(3, json.dumps(body).encode())


class Server:
    """Answers each connection with ``status`` and headers and then with ``after``; the key is accepted as RFC 6455
    says. ``asked``: the heads of the requests."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.asked: list[str] = []
        self.head, self.after, self.stay = "101 Switching Protocols", b"", False
        self.protocol, self.body = "v5.channel.k8s.io", b""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _peer = self._listener.accept()
            except OSError:
                return
            with connection:
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(4096)
        self.asked.append(head.decode())
        key = re.search(r"Sec-WebSocket-Key: (\S+)", head.decode(), re.IGNORECASE)
        digest = hashlib.sha1(f"{key[1] if key else ''}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()
        lines = [f"HTTP/1.1 {self.head}", f"Sec-WebSocket-Accept: {base64.b64encode(digest).decode()}"]
        if self.head.startswith("101"):
            lines += ["Upgrade: websocket", "Connection: Upgrade"]
            lines += [f"Sec-WebSocket-Protocol: {self.protocol}"] if self.protocol else []
        else:
            lines += [f"Content-Length: {len(self.body)}", f"Location: {self.url}/elsewhere"]
        connection.sendall("\r\n".join([*lines, "", ""]).encode() + self.body + self.after)
        if self.stay:
            self._over.wait(60)

    def close(self) -> None:
        self._over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def client(url: str, **more: Any) -> ApiClient:
    return ApiClient(load_auth({"host": url, "api_key": "sesame", **more}, {}), pytest.fail)


def execute(server: Server, seconds: float = 30) -> Any:
    return run_in_pod(client(server.url), "ns", "db-0", "main", ["sh", "-c", "a b&c"], seconds)


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
def test_output_and_exit_code(server: Server, protocol: str) -> None:
    server.protocol, server.after = protocol, frame(1, b"one\n") + frame(2, b"two") + status(EXITED) + CLOSE
    done = execute(server)
    assert done == (Ended(3, "exit status 3"), "one\ntwo")
    head = server.asked[0]
    asked = "container=main&stdout=true&stderr=true&command=sh&command=-c&command=a+b%26c"
    assert head.startswith(f"GET /api/v1/namespaces/ns/pods/db-0/exec?{asked} HTTP/1.1\r\n")
    assert "Sec-WebSocket-Protocol: v5.channel.k8s.io,v4.channel.k8s.io\r\n" in head
    assert "authorization: Bearer sesame\r\n" in head


def test_a_command_that_says_nothing_until_its_time_is_over(server: Server) -> None:
    server.after, server.stay = frame(1, b"begun"), True
    assert execute(server, 0.2) == (None, "begun")


def test_a_ping_in_between(server: Server) -> None:
    server.after = b"\x89\x00" + frame(1, b"") + status(SUCCESS) + CLOSE
    assert execute(server).ended == Ended(0)


@pytest.mark.parametrize("after", [b"", CLOSE, frame(1, b"half") + CLOSE, b"\x82\x7e\xff\xffshort", b"\x70\x00"])
def test_a_stream_that_breaks_is_no_success(server: Server, after: bytes) -> None:
    server.after = after
    with pytest.raises(UnavailableError, match="the connection to the command in pod ns/db-0 broke"):
        execute(server)


def test_a_refusal_is_the_api_servers_own_word(server: Server) -> None:
    server.head = "403 Forbidden"
    server.body = json.dumps({"kind": "Status", "message": "pods is forbidden: no", "reason": "Forbidden"}).encode()
    with pytest.raises(ForbiddenError, match="pods is forbidden: no"):
        execute(server)


def test_nobody_is_followed_elsewhere_with_the_token(server: Server) -> None:
    server.head = "302 Found"
    with pytest.raises(UnavailableError):
        execute(server)
    assert len(server.asked) == 1


def test_another_protocol_is_not_guessed_at(server: Server) -> None:
    server.protocol, server.after = "", status(SUCCESS) + CLOSE
    with pytest.raises(UnavailableError):
        execute(server)


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(UnavailableError, match=f"the API server http://127.0.0.1:{port} .* cannot be reached"):
        run_in_pod(client(f"http://127.0.0.1:{port}"), "ns", "db-0", "main", ["a"], 5)


def test_a_proxy_is_refused_before_anybody_is_asked() -> None:
    behind = client("https://api.example:6443", proxy="http://proxy.example:3128")
    with pytest.raises(InputError, match="cannot be asked for through a proxy"):
        check_possible(behind)
    check_possible(client("https://api.example:6443", proxy="http://proxy.example:3128", no_proxy="api.example"))
    check_possible(client("https://api.example:6443"))
