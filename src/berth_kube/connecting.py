"""Opens connections, with verified TLS, and says in one line why one cannot be opened. Called by wire.py alone."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from typing import Callable

from .connection import Connection
from .exchange import CERTIFICATE, NAME, REFUSED, TIMEOUT, Endpoint, WireError
from .http1 import Framed, Framing

CONNECT_SECONDS = 10.0


async def connect(
    endpoint: Endpoint, context: ssl.SSLContext | None, deadline: float, framing: Callable[[], Framed] = Framing
) -> Connection:
    """A new connection. Raises WireError (nothing was sent)."""
    loop = asyncio.get_running_loop()
    seconds = max(0.0, min(CONNECT_SECONDS, deadline - loop.time()))
    opening = loop.create_task(_open(endpoint, context, framing))
    try:
        await asyncio.wait({opening}, timeout=seconds)
        if not opening.done():
            raise WireError(TIMEOUT, f"no connection within {seconds:.0f} s", sent=False)
        made = opening.result()
    except asyncio.CancelledError:
        opening.add_done_callback(_abandon)
        raise
    except OSError as exc:
        raise connect_error(exc) from exc
    finally:
        opening.cancel()
    return made


async def _open(endpoint: Endpoint, context: ssl.SSLContext | None, framing: Callable[[], Framed]) -> Connection:
    name = None if context is None else endpoint.server_name or endpoint.host
    transport, made = await asyncio.get_running_loop().create_connection(
        lambda: Connection(framing()), endpoint.host, endpoint.port, ssl=context, server_hostname=name
    )
    _keep_alive(transport.get_extra_info("socket"))
    return made


def _abandon(opening: asyncio.Task[Connection]) -> None:
    """A connection that was ready just when nobody wanted it any more."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().abort()


def connect_error(exc: OSError) -> WireError:
    """Why there is no connection, in one word and one line."""
    if isinstance(exc, ssl.SSLError):
        return WireError(CERTIFICATE, _tls_text(exc), sent=False)
    if isinstance(exc, socket.gaierror):
        return WireError(NAME, f"its name does not resolve: {exc.strerror}", sent=False)
    text = errno.errorcode.get(exc.errno or 0, type(exc).__name__)
    return WireError(REFUSED, f"{exc.strerror or exc} ({text})", sent=False)


def _tls_text(exc: ssl.SSLError) -> str:
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"its certificate does not verify: {exc.verify_message}"
    return f"TLS fails: {exc.reason or exc}"


def _keep_alive(sock: socket.socket | None) -> None:
    """A host that vanished is noticed after about a minute, also under a watch that says nothing by itself."""
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
