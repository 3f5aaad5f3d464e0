"""What a client reads: an object, a list page by page, a watch. client.py's KubeClient is one of these, and writes too.

Knows what a request is and who sends it. Keeps nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple

from berth_core.errors import ApiError, GoneError, NotFoundError
from berth_core.model.api_errors import Request
from berth_core.model.resources import Resource

from .call import Call, Encode, make_call, plain_get
from .config import Config
from .sending import Sender
from .watch import Decode, Watch

Obj = dict[str, Any]
#: Objects on one page of a list: bounds the memory of reading and the work of one request.
PAGE = 500


class Listing(NamedTuple):
    """Objects, the resourceVersion from which a watch goes on, and the token of the next page (empty: the last)."""

    items: list[Obj]
    version: str
    token: str = ""


class Reading:
    """The reading half of `KubeClient`."""

    def __init__(self, config: Config, manager: str, sender: Sender, decode: Decode, encode: Encode) -> None:
        self._config, self._manager, self._sender = config, manager, sender
        self._decode, self._encode = decode, encode
        #: writes that the API server carried out
        self.written = 0

    async def get(
        self, resource: Resource, name: str, namespace: str | None = None, *, timeout: float | None = None
    ) -> Obj:
        """One object. Raises NotFoundError."""
        return await self._do(Request("get", resource, name, namespace), timeout)

    async def find(
        self, resource: Resource, name: str, namespace: str | None = None, *, timeout: float | None = None
    ) -> Obj | None:
        """Like get, and None where there is no such object (or no such kind)."""
        try:
            return await self.get(resource, name, namespace, timeout=timeout)
        except NotFoundError:
            return None

    async def page(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        limit: int = PAGE,
        token: str = "",
        version: str | None = None,
        timeout: float | None = None,
        decode: Decode | None = None,
    ) -> Listing:
        """One page of a list (``limit`` 0: all at once). ``version`` "0": whatever the server has in its cache.

        ``decode``: who reads it, for one that wants a part of each object. Raises GoneError when the token is too old.
        """
        asked = {"labelSelector": labels, "fieldSelector": fields, "limit": str(limit) if limit else None}
        asked.update({"continue": token} if token else {"resourceVersion": version})
        query = {key: value for key, value in asked.items() if value}
        answer = await self._send(
            self._call(Request("list", resource, None, namespace), query=query), timeout, decode=decode
        )
        meta, items = answer.get("metadata") or {}, answer.get("items") or []
        for item in items:  # a list's items carry neither; everything downstream wants whole objects
            item.setdefault("apiVersion", resource.api_version)
            item.setdefault("kind", resource.kind)
        return Listing(items, str(meta.get("resourceVersion") or ""), str(meta.get("continue") or ""))

    async def pages(
        self, resource: Resource, namespace: str | None = None, *, limit: int = PAGE, **select: Any
    ) -> AsyncGenerator[Listing, None]:
        """A list page by page; the server makes one while the one before it is read. To be closed (``aclose``).

        Raises GoneError when it takes longer than the server remembers.
        """
        page = await self.page(resource, namespace, limit=limit, **select)
        while page.token:
            coming = asyncio.ensure_future(self.page(resource, namespace, limit=limit, token=page.token, **select))
            try:
                await asyncio.sleep(0)  # it is asked for now
                yield page
                page = await coming
            finally:
                coming.cancel()
        yield page

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str | None = None,
        fields: str | None = None,
        limit: int = PAGE,
        timeout: float | None = None,
    ) -> Listing:
        """All objects (of all namespaces, when none is named), as of one moment, read page by page."""
        select: dict[str, Any] = {"labels": labels, "fields": fields, "timeout": timeout}
        page = await self.page(resource, namespace, limit=limit, **select)
        items, version = page.items, page.version
        while page.token:
            try:
                page = await self.page(resource, namespace, limit=limit, token=page.token, **select)
            except GoneError:  # took longer than the server remembers: once more, in one go
                return await self.page(resource, namespace, limit=0, **select)
            items += page.items
        return Listing(items, version)

    def watch(
        self,
        resource: Resource,
        version: str,
        *,
        seconds: float,
        namespace: str | None = None,
        labels: str | None = None,
        fields: str | None = None,
        decode: Decode | None = None,
        look_after: float = 0.0,
    ) -> Watch:
        """Events after ``version``, for at most about ``seconds``; to be used with ``async with``. See `Watch`.

        ``decode``: who reads a line of it, for one that wants a part of each object. ``look_after``: seconds between
        two looks at what has come while very much comes; what comes now and then is told at once.
        """
        asked = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(max(1, int(seconds))),
            "labelSelector": labels,
            "fieldSelector": fields,
        }
        query = {key: value for key, value in asked.items() if value is not None}
        call = self._call(Request("watch", resource, None, namespace), query=query)
        return Watch(
            lambda: self._sender.stream(call, seconds, look_after), call.asked, self._sender, decode or self._decode
        )

    async def raw(self, path: str, *, timeout: float | None = None) -> bytes:
        """GET of any path of the server (``/readyz``, ``/metrics``, a kubelet's ``/stats/summary``), as it is."""
        asked = Request("get", Resource("", "", path, path, False), None, None, source=self._config.source)
        return (await self._sender.answer(plain_get(path, asked), timeout)).body

    # -- one request -----------------------------------------------------------------------------------------------

    def _call(self, asked: Request, **options: Any) -> Call:
        return make_call(asked._replace(source=self._config.source), self._manager, encode=self._encode, **options)

    async def _do(self, asked: Request, timeout: float | None, **options: Any) -> Obj:
        return await self._send(self._call(asked, **options), timeout)

    async def _send(self, call: Call, timeout: float | None, read: bool = True, decode: Decode | None = None) -> Obj:
        answer = await self._sender.answer(call, timeout)
        self.written += call.writes
        if not read:
            return {}
        try:
            body = (decode or self._decode)(answer.body) if answer.body else {}
        except ValueError as exc:
            what = call.asked.resource.describe(call.asked.name, call.asked.namespace)
            raise ApiError(f"cannot {call.asked.verb} {what}: the answer is not JSON", answer.head.status) from exc
        return body if isinstance(body, dict) else {}
