"""The daemons' API client: JSON in, JSON out, every refusal an error of berth_core. No other room makes requests.

    async with KubeClient(config.load()) as client:
        disk = await client.get(LOCAL_DISK, "h1-d0")
        await client.apply(LOCAL_DISK, {"metadata": {"name": "h1-d0"}, "status": {...}}, subresource="status")
        async with client.watch(LOCAL_DISK, version, seconds=300) as events:
            async for event in events: ...

Paths are known beforehand (berth_core.model.resources): no discovery, no typed models. Requests are counted by verb.
Decides nothing, and keeps nothing but connections. Made, used and closed inside one running loop.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from berth_core.errors import ApiError, NotFoundError
from berth_core.model.api_errors import Request
from berth_core.model.api_requests import WRITES, delete_options
from berth_core.model.resources import Resource

from .call import Call, Encode, encode
from .config import Config
from .http1 import Framed, Framing
from .reading import Obj, Reading
from .sending import Observe, Options, Sender
from .watch import Decode

#: What a patch is; a list of operations for kind "json".
Patch = Any


class KubeClient(Reading):
    """One API server, one identity.

    ``timeout`` is that of a whole request, tries and pauses included, from when one of the ``connections`` was free for
    it; each method that sends takes another by name, and that counts from the call. Watches have connections of their
    own. ``gzip`` asks for compressed answers: less on the network for more work on both sides. ``framing``: who takes
    HTTP apart, for a daemon that sends much that of http1_fast.py; ``decode`` and ``encode``: who reads and writes
    JSON, for such a daemon those of json_fast.py.
    ``observe(verb, status, seconds)`` is called after each try (status 0: no answer). Every method raises ApiError's
    children; UnavailableError means that nothing is known of what became of a write.
    """

    def __init__(
        self,
        config: Config,
        *,
        user_agent: str = "berth",
        field_manager: str = "berth",
        timeout: float = 30.0,
        connections: int = 8,
        gzip: bool = False,
        framing: Callable[[], Framed] = Framing,
        decode: Decode = json.loads,
        encode: Encode = encode,
        observe: Observe | None = None,
    ) -> None:
        sender = Sender(config, Options(user_agent, timeout, connections, gzip, framing), observe)
        super().__init__(config, field_manager, sender, decode, encode)

    async def __aenter__(self) -> KubeClient:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; requests under way fail."""
        await self._sender.close()

    @property
    def requests(self) -> Counter[str]:
        """Requests sent, tries included, by verb."""
        return self._sender.requests

    @property
    def writes(self) -> int:
        """Writes that were sent, tries included."""
        return sum(self.requests[verb] for verb in WRITES)

    @property
    def line(self) -> int:
        """Requests that wait for a connection: nothing of them is sent yet."""
        return self._sender.line

    async def turn(self) -> None:
        """Until a request that was made now would be sent."""
        await self._sender.turn()

    def guard_writes(self, check: Callable[[], None]) -> None:
        """Call ``check`` right before each write is sent (each try); what it raises, the writer gets.

        For `LeaderElection.check`, whose own requests go through another client.
        """
        self._sender.before_write = check

    def check_write(self) -> None:
        """Raise what a write would now, for one that somebody else is asked to make."""
        self._sender.before_write()

    @property
    def server(self) -> str:
        """The server's address, for messages."""
        return self._config.server

    @property
    def namespace(self) -> str:
        """The namespace of the kubeconfig's context, or of the pod."""
        return self._config.namespace

    # -- writing ---------------------------------------------------------------------------------------------------

    async def create(
        self,
        resource: Resource,
        body: Mapping[str, Any],
        *,
        name: str | None = None,
        namespace: str | None = None,
        subresource: str | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
        read: bool = True,
    ) -> Obj:
        """Create an object; with ``subresource`` (token, binding, eviction) POST to that of the object ``name``.

        ``read`` False: that it was created is all that is wanted; the answer is not read, and {} returned.
        """
        meta = body.get("metadata") or {}
        named = name or str(meta.get("name") or meta.get("generateName") or "")
        asked = Request("create", resource, named, namespace or meta.get("namespace"), subresource)
        call = self._call(asked, body=body, dry_run=dry_run, collection=not subresource)
        return await self._send(call, timeout, read)

    async def create_all(
        self,
        resource: Resource,
        bodies: Sequence[Mapping[str, Any]],
        *,
        subresource: str | None = None,
        look_after: float = 0.0,
    ) -> Sequence[ApiError | None]:
        """Create these, sent in one piece where the framing can; for each None, or why it was not created.

        Each has a name of its own: a create whose answer is lost is sent again, and one that is there already
        (ConflictError) may be the first try's. With ``subresource`` each is a POST to that of the object of its name,
        which is not sent again: UnavailableError says that nobody knows. Answers are not read, and not looked at before
        ``look_after`` seconds.
        """
        calls = [
            self._call(_creation(resource, body, subresource), body=body, collection=not subresource)._replace(
                checks=True
            )
            for body in bodies
        ]
        return await self._send_all(calls, look_after)

    async def _send_all(self, calls: Sequence[Call], look_after: float) -> Sequence[ApiError | None]:
        if len(calls) == 1:
            return [await self._refusal(calls[0])]
        answers = await self._sender.answers(calls, look_after)
        refused = [one if isinstance(one, ApiError) else None for one in answers]
        self.written += refused.count(None)
        return refused

    async def _refusal(self, call: Call) -> ApiError | None:
        try:
            await self._send(call, None, False)
        except ApiError as exc:
            return exc
        return None

    async def replace(
        self,
        resource: Resource,
        body: Mapping[str, Any],
        *,
        subresource: str | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> Obj:
        """PUT with the body's resourceVersion: the compare-and-swap of every lock. Raises ConflictError."""
        meta = body["metadata"]
        asked = Request("replace", resource, meta["name"], meta.get("namespace"), subresource)
        return await self._do(asked, timeout, body=body, dry_run=dry_run)

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        body: Patch,
        *,
        kind: str = "merge",
        subresource: str | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> Obj:
        """A patch: ``kind`` is merge, json (a list of operations; never sent twice) or strategic.

        With ``metadata.resourceVersion`` in a merge patch it is a compare-and-swap too.
        """
        asked = Request("patch", resource, name, namespace, subresource)
        return await self._do(asked, timeout, body=body, dry_run=dry_run, patch=kind)

    async def apply(
        self,
        resource: Resource,
        body: Mapping[str, Any],
        *,
        subresource: str | None = None,
        manager: str | None = None,
        force: bool = True,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> Obj:
        """Server-side apply: the daemon owns the fields of ``body``; with ``force`` also those of others."""
        meta = body["metadata"]
        return await self._do(
            Request("apply", resource, meta["name"], meta.get("namespace"), subresource),
            timeout,
            body={"apiVersion": resource.api_version, "kind": resource.kind, **body},
            dry_run=dry_run,
            query={"fieldManager": manager or self._manager, "force": "true" if force else "false"},
        )

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        version: str | None = None,
        grace_seconds: int | None = None,
        propagation: str = "Background",
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> bool:
        """Delete just the object that was seen (``uid``, ``version``); False where it was gone already.

        Raises ConflictError when another object has that name, or it has changed.
        """
        body = delete_options(uid, version, propagation)
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        try:
            await self._do(Request("delete", resource, name, namespace), timeout, body=body, dry_run=dry_run)
        except NotFoundError:
            return False
        return True

    async def delete_selected(
        self,
        resource: Resource,
        namespace: str,
        *,
        labels: str,
        fields: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Delete all that the selectors choose, by one request. The server deletes one after the other, by name."""
        query = {"labelSelector": labels, **({"fieldSelector": fields} if fields else {})}
        call = self._call(Request("deletecollection", resource, None, namespace), query=query, body=delete_options())
        await self._send(call, timeout, False)


def _creation(resource: Resource, body: Mapping[str, Any], subresource: str | None) -> Request:
    meta = body["metadata"]
    return Request("create", resource, meta["name"], meta.get("namespace"), subresource)
