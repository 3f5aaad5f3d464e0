"""The two sockets of a DRA kubelet plugin: the kubelet finds the agent by one, and asks for devices over the other.

The plugin's folder is made first, its socket next, the registration's socket last: a kubelet that sees the latter can
call at once. Both go when the agent stops. A kubelet that restarts finds the registration again by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Callable

from grpclib.const import Cardinality, Handler
from grpclib.server import Server, Stream

from berth_core.app.device_claim import DRIVER

from . import kubelet_messages as messages

log = logging.getLogger(__name__)
SERVICE = "v1.DRAPlugin"
DRA = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"
HEALTH_SERVICE = "/v1alpha1.DRAResourceHealth"
REGISTRATION = "/pluginregistration.Registration"
HEALTHY, UNHEALTHY = 1, 2
#: seconds between two looks at the sockets
_LOOK = 5.0

Answers = dict[str, dict[str, Any]]
Serve = Callable[[Sequence[Mapping[str, str]]], Awaitable[Answers]]


class Health:
    """The health of every device of the pool, and those who wait for it to change."""

    def __init__(self) -> None:
        self._devices: list[dict[str, Any]] = []
        self._changed = asyncio.Event()

    def set(self, pool: str, problems: Mapping[str, str], timeout: float) -> None:
        """``problems``: device of the pool -> what is wrong with it, empty when it is well. Good for ``timeout`` s."""
        self._devices = [
            {
                "device": {"pool_name": pool, "device_name": name},
                "health": UNHEALTHY if problem else HEALTHY,
                "last_updated_time": int(time.time()),
                "health_check_timeout_seconds": int(timeout),
                "message": problem[:1024],
            }
            for name, problem in sorted(problems.items())
        ]
        self._changed.set()
        self._changed = asyncio.Event()

    async def stream(self, stream: Stream[Any, Any]) -> None:
        """Tell one kubelet now and at each change, until it hangs up."""
        await stream.recv_message()
        while True:
            changed = self._changed
            await stream.send_message({"devices": self._devices})
            await changed.wait()


class DraService:
    """What the kubelet calls on the agent's socket."""

    def __init__(self, prepare: Serve, unprepare: Serve, health: Health) -> None:
        self._prepare, self._unprepare, self._health = prepare, unprepare, health

    def __mapping__(self) -> dict[str, Handler]:
        one, many = Cardinality.UNARY_UNARY, Cardinality.UNARY_STREAM
        asked = messages.CLAIMS
        return {
            f"{DRA}/NodePrepareResources": Handler(
                _answering(self._prepare),
                one,
                asked,
                messages.PREPARED_CLAIMS,
            ),
            f"{DRA}/NodeUnprepareResources": Handler(
                _answering(self._unprepare),
                one,
                asked,
                messages.UNPREPARED_CLAIMS,
            ),
            f"{HEALTH_SERVICE}/NodeWatchResources": Handler(
                self._health.stream,
                many,
                messages.NOTHING,
                messages.HEALTH,
            ),
        }


def _answering(serve: Serve) -> Callable[[Stream[Any, Any]], Awaitable[None]]:
    async def answer(stream: Stream[Any, Any]) -> None:
        asked = await stream.recv_message()
        await stream.send_message({"claims": await serve(asked["claims"] if asked else [])})

    return answer


class Registration:
    """Tells the kubelet who the agent is, and is told whether the kubelet took it."""

    def __init__(self, endpoint: str, told: Callable[[bool, str], None]) -> None:
        self._endpoint, self._told = endpoint, told

    def __mapping__(self) -> dict[str, Handler]:
        one = Cardinality.UNARY_UNARY
        return {
            f"{REGISTRATION}/GetInfo": Handler(
                self._info,
                one,
                messages.NOTHING,
                messages.PLUGIN_INFO,
            ),
            f"{REGISTRATION}/NotifyRegistrationStatus": Handler(
                self._status,
                one,
                messages.REGISTRATION_STATUS,
                messages.NOTHING,
            ),
        }

    async def _info(self, stream: Stream[Any, Any]) -> None:
        await stream.recv_message()
        await stream.send_message(
            {"type": "DRAPlugin", "name": DRIVER, "endpoint": self._endpoint, "supported_versions": [SERVICE]}
        )

    async def _status(self, stream: Stream[Any, Any]) -> None:
        said = await stream.recv_message() or {}
        self._told(bool(said.get("plugin_registered")), str(said.get("error", "")))
        await stream.send_message({})


class Sockets:
    """Both servers. ``root``: the kubelet's folder, the same path for it and for the agent."""

    def __init__(self, root: str, service: DraService, told: Callable[[bool, str], None]) -> None:
        self._plugin = os.path.join(root, "plugins", DRIVER, "dra.sock")
        self._registry = os.path.join(root, "plugins_registry", f"{DRIVER}-reg.sock")
        registration = Registration(self._plugin, told)
        self._servers = [
            (Server([service], codec=messages.Codec()), self._plugin),
            (Server([registration], codec=messages.Codec()), self._registry),
        ]

    async def run(self, wanted: Callable[[], bool]) -> None:
        """Serve while ``wanted``; returns too when somebody removed a socket (a kubelet's folder that was emptied).

        Raises OSError where the folder cannot be used.
        """
        started: list[tuple[Server, str]] = []
        try:
            for server, path in self._servers:
                await _listen(server, path)
                started.append((server, path))
            log.info("DRA plugin %s listens on %s", DRIVER, self._plugin)
            while wanted() and all(os.path.exists(path) for _server, path in self._servers):
                await asyncio.sleep(_LOOK)
            log.info(
                "DRA plugin %s stops: %s", DRIVER, "a socket was removed" if wanted() else "other settings are in force"
            )
        finally:
            for server, path in reversed(started):
                server.close()
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)


async def _listen(server: Server, path: str) -> None:
    """Listen on a socket that only root may use; one that a killed agent left behind is in the way."""
    os.makedirs(os.path.dirname(path), mode=0o750, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    before = os.umask(0o177)
    try:
        await server.start(path=path)
    finally:
        os.umask(before)
