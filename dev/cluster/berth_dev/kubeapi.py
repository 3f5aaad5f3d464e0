# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A very small API client for what the cluster's own start needs. `control_plane`, `kwok` and `cluster` call this.

It verifies the server against the cluster's authority and presents a client certificate; one connection, kept open,
for one thread. It knows no kinds and keeps no state.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import urllib.parse
from pathlib import Path
from types import TracebackType
from typing import Any

from .errors import KubeError
from .pki import Pair


class ApiError(KubeError):
    """The API server answered with a Status: `status` (HTTP), `reason`, and its message."""

    def __init__(self, method: str, path: str, status: int, body: bytes) -> None:
        try:
            answer = json.loads(body)
            self.reason, message = str(answer.get("reason", "")), str(answer.get("message", ""))
        except (ValueError, AttributeError):
            self.reason, message = "", body[:300].decode(errors="replace")
        self.status = status
        super().__init__(f"{method} {path}: {status} {self.reason}: {message}")


class KubeApi:
    """Requests to `url`, as the client `pair`, trusting `ca` alone."""

    def __init__(self, url: str, ca: Path, pair: Pair, timeout: float = 30.0) -> None:
        parts = urllib.parse.urlsplit(url)
        context = ssl.create_default_context(cafile=str(ca))
        context.load_cert_chain(str(pair.cert), str(pair.key))
        self._connection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port, timeout=timeout, context=context
        )
        self.url = url

    def request(self, method: str, path: str, body: object = None, content: str = "application/json") -> Any:
        """Send one request; returns the decoded JSON, or the text. Raises ApiError, or KubeError without an answer."""
        data = None if body is None else json.dumps(body).encode()
        try:
            status, kind, answer = self._send(method, path, data, content)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise KubeError(f"{self.url}: {method} {path}: no answer: {error}") from error
        if status >= 400:
            raise ApiError(method, path, status, answer)
        return json.loads(answer) if kind.startswith("application/json") else answer.decode(errors="replace")

    def create(self, path: str, body: object) -> bool:
        """POST; False when it is there already."""
        try:
            self.request("POST", path, body)
        except ApiError as error:
            if error.status == http.HTTPStatus.CONFLICT and error.reason == "AlreadyExists":
                return False
            raise
        return True

    def delete(self, path: str) -> bool:
        """DELETE; False when it is gone already."""
        try:
            self.request("DELETE", path)
        except ApiError as error:
            if error.status == http.HTTPStatus.NOT_FOUND:
                return False
            raise
        return True

    def ready(self) -> bool:
        """True when /readyz says so."""
        try:
            self.request("GET", "/readyz")
        except KubeError:
            return False
        return True

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        with contextlib.suppress(OSError):
            self._connection.close()

    def __enter__(self) -> KubeApi:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, method: str, path: str, data: bytes | None, content: str) -> tuple[int, str, bytes]:
        headers = {"Accept": "application/json", **({"Content-Type": content} if data is not None else {})}
        self._connection.request(method, path, body=data, headers=headers)
        response = self._connection.getresponse()
        return response.status, response.headers.get("Content-Type", ""), response.read()
