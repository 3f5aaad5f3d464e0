"""Samples in a Prometheus (or anything that speaks its remote write and remote read). The server keeps retention.

Series berth_container_cpu_cores and berth_container_memory_working_set_bytes, with labels node, namespace, pod, uid,
container. Authority and token come from files that are read again when they change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from berth_core.app.agent_settings import Usage
from berth_core.errors import ApiError, InputError, UnavailableError
from berth_kube import wire
from berth_kube.config import endpoint
from berth_kube.credentials import TokenFile
from berth_kube.exchange import Endpoint, Response, WireError
from berth_kube.tls import Pem, Tls

from .remote import Series, read_request, read_response, write_request
from .samples import Sample

CPU, MEMORY = "berth_container_cpu_cores", "berth_container_memory_working_set_bytes"
_SECONDS = 20.0
_HEADERS = {"content-type": "application/x-protobuf", "content-encoding": "snappy", "user-agent": "berth-agent"}
_WRITE = {"x-prometheus-remote-write-version": "0.1.0"}
_READ = {"x-prometheus-remote-read-version": "0.1.0", "accept-encoding": "snappy"}


class PrometheusStore:
    """One server. Made inside a running loop."""

    def __init__(self, usage: Usage, node: str) -> None:
        self.usage, self.node = usage, node
        self._token = TokenFile(usage.token_file, {}) if usage.token_file else None
        self._wires: dict[str, wire.Wire] = {}

    async def write(self, samples: Sequence[Sample]) -> None:
        """Send them. Raises ApiError with the status: 4xx says that the server will never take them."""
        series = [each for sample in samples for each in self._series(sample)]
        await self._post(self.usage.url, write_request(series), _WRITE)

    async def read(self, since: int, until: int, namespace: str = "", pod: str = "") -> list[Sample]:
        """Ask the server at usage.read_url."""
        if not self.usage.read_url:
            raise InputError("usage.read_url is not set: this store is only written")
        wanted = {"node": self.node, **{key: text for key, text in (("namespace", namespace), ("pod", pod)) if text}}
        found: dict[tuple[Any, ...], dict[str, float]] = {}
        for name in (CPU, MEMORY):
            body = read_request(since * 1000, until * 1000 - 1, {**wanted, "__name__": name})
            for series in read_response(await self._post(self.usage.read_url, body, _READ)):
                labels = series.labels
                key = tuple(labels.get(label, "") for label in ("namespace", "pod", "uid", "container"))
                for time, value in series.points:
                    found.setdefault((time // 1000, *key), {})[name] = value
        whole = sorted((key, values) for key, values in found.items() if len(values) == 2)
        return [Sample._make((*key, values[CPU], int(values[MEMORY]))) for key, values in whole]

    async def expire(self, before: int) -> int:  # noqa: ARG002 - a store of a protocol
        """The server's own business."""
        return 0

    async def close(self) -> None:
        """Close every connection."""
        for each in self._wires.values():
            await each.close()
        self._wires.clear()

    def _series(self, sample: Sample) -> list[Series]:
        labels = {
            "node": self.node,
            "namespace": sample.namespace,
            "pod": sample.pod,
            "uid": sample.uid,
            "container": sample.container,
        }
        at = sample.time * 1000
        return [
            Series({**labels, "__name__": CPU}, [(at, sample.cpu)]),
            Series({**labels, "__name__": MEMORY}, [(at, float(sample.memory))]),
        ]

    async def _post(self, url: str, body: bytes, more: dict[str, str]) -> bytes:
        where = endpoint(url, "usage")
        headers = {**_HEADERS, **more, **(await self._token.headers() if self._token else {})}
        try:
            answer = await _exchange(self._wire(url, where), where.prefix, headers, body)
        except WireError as exc:
            raise UnavailableError(f"no answer from {url}: {exc.text}") from exc
        status = answer.head.status
        if status >= 300:
            text = answer.body.decode(errors="replace")[:200].strip()
            raise ApiError(f"{url} refuses with {status}: {text}", status)
        return answer.body

    def _wire(self, url: str, where: Endpoint) -> wire.Wire:
        if url not in self._wires:
            trust = Pem(path=self.usage.ca_file) if self.usage.ca_file else None
            tls = Tls(url, trust, None) if where.tls else None
            # the prefix is this request's whole path
            bare = where._replace(prefix="")
            self._wires[url] = wire.Wire(bare, lambda: tls.context() if tls else None, 1)
        return self._wires[url]


async def _exchange(server: wire.Wire, path: str, headers: dict[str, str], body: bytes) -> Response:
    deadline = asyncio.get_running_loop().time() + _SECONDS
    await server.enter(deadline)
    try:
        return await server.exchange("POST", path, headers, body, deadline)
    finally:
        server.leave()
