"""A proxy before the API server that counts requests by verb, the same way for whoever comes through it.

It speaks plain HTTP on 127.0.0.1 and is the administrator towards the API server, whose certificate it verifies. For
benches only: it lives as long as one measurement.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import urllib3
import yaml

from ansible_collections.berth.stateful.plugins.module_utils._glue.auth import load_auth
from ansible_collections.berth.stateful.plugins.module_utils._glue.transport import connection_pool

WRITES = ("create", "update", "patch", "delete")
_HOP_BY_HOP = ("connection", "keep-alive", "transfer-encoding", "host", "content-length", "accept-encoding")
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def verb_of(method: str, target: str) -> str:
    """The API's verb for an HTTP request; ``discovery`` for questions about what the API server is."""
    url = urlsplit(target)
    parts = [part for part in url.path.split("/") if part]
    rest = parts[2:] if parts[:1] == ["api"] else parts[3:] if parts[:1] == ["apis"] else []
    if not rest:
        return "discovery"
    if method != "GET":
        return _VERBS[method]
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    if len(rest) > 1:
        return "get"
    return "watch" if parse_qs(url.query).get("watch", ["0"])[0] in ("1", "true") else "list"


class Counting:
    """``counts`` by verb since the last `reset`; ``listed`` by path."""

    def __init__(self, kubeconfig: Path) -> None:
        auth = load_auth({"kubeconfig": str(kubeconfig)}, {})
        self.host = str(auth.configuration.host).rstrip("/")
        self.pool = connection_pool(auth, self.host, 60)
        self.lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        self.counts: Counter[str] = Counter()
        self.listed: Counter[str] = Counter()

    def note(self, method: str, target: str) -> None:
        verb = verb_of(method, target)
        with self.lock:
            self.counts[verb] += 1
            if verb == "list":
                self.listed[urlsplit(target).path] += 1

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def writes(self) -> int:
        return sum(self.counts[verb] for verb in WRITES)

    def told(self) -> str:
        return ", ".join(f"{verb} {count}" for verb, count in sorted(self.counts.items())) or "none"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    counting: Counting

    def _pass_on(self) -> None:
        self.counting.note(self.command, self.path)
        length = int(self.headers.get("content-length") or 0)
        headers = {key: value for key, value in self.headers.items() if key.lower() not in _HOP_BY_HOP}
        answer = self.counting.pool.request(
            self.command,
            self.counting.host + self.path,
            body=self.rfile.read(length) if length else None,
            headers=headers,
            retries=False,
        )
        self.send_response_only(answer.status)
        for key, value in answer.headers.items():
            if key.lower() not in (*_HOP_BY_HOP, "content-encoding"):
                self.send_header(key, value)
        self.send_header("content-length", str(len(answer.data)))
        self.end_headers()
        self.wfile.write(answer.data)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass_on  # noqa: N815 - the names are the library's

    def log_message(self, *_args: Any) -> None:
        """Say nothing: the counts are the log."""


@contextmanager
def counting_proxy(kubeconfig: Path, folder: Path) -> Iterator[tuple[Counting, Path]]:
    """The counts, and a kubeconfig that leads through the proxy."""
    counting = Counting(kubeconfig)
    handler = type("Handler", (_Handler,), {"counting": counting})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path = folder / "counted-kubeconfig.yml"
    path.write_text(yaml.safe_dump(config))
    try:
        yield counting, path
    finally:
        server.shutdown()
        server.server_close()
        counting.pool.clear()
        assert isinstance(counting.pool, urllib3.PoolManager)
