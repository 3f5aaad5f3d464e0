"""A kubelet's side of the agent's sockets, for tests without one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from grpclib.client import Channel, UnaryUnaryMethod
from grpclib.exceptions import StreamTerminatedError

from berth_agent.devices import kubelet_messages as messages
from berth_agent.devices.kubelet import REGISTRATION

#: How long an answer may take, in seconds.
PATIENCE = 5.0


async def call(path: Path | str, method: str, message: Any, asked: Any, answered: Any) -> Any:
    """What a server answers over its socket. Raises StreamTerminatedError where it dies meanwhile."""
    async with Channel(path=str(path), codec=messages.Codec()) as channel:
        try:
            return await UnaryUnaryMethod(channel, method, asked, answered)(message)
        except AttributeError as exc:
            if exc.name != "_transport":
                raise
            # grpclib takes it from a connection that is lost, also before the first stream
            raise StreamTerminatedError("Connection lost") from exc


def registration(root: Path) -> Path:
    """The socket by which a kubelet with that folder finds the agent."""
    return root / "plugins_registry" / "berth.dev-reg.sock"


def register(root: Path) -> bool:
    """Tell the agent that the kubelet has taken its DRA driver; False: nobody listens, or it has died meanwhile."""
    told = {"plugin_registered": True}
    method, shapes = f"{REGISTRATION}/NotifyRegistrationStatus", (messages.REGISTRATION_STATUS, messages.NOTHING)
    try:
        asyncio.run(asyncio.wait_for(call(registration(root), method, told, *shapes), PATIENCE))
    except (TimeoutError, OSError, StreamTerminatedError):
        return False
    return True
