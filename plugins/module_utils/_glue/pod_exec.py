# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a command in a container, by the WebSocket of pods/exec: its exit code, and the end of its output.

The connection is the API client's (the same TLS and identity), the WebSocket that of the package websocket-client,
which the package kubernetes brings. What the messages mean says berth_core.model.exec_channels.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..berth_core.errors import InputError, UnavailableError
from ..berth_core.model.api_errors import Request, api_error
from ..berth_core.model.exec_channels import SUBPROTOCOLS, Ended, Heard
from ..berth_core.model.resources import POD
from .client import ApiClient

try:
    import websocket
except ImportError:  # told where it is first needed
    websocket = None

_SWITCHED = 101


class Done(NamedTuple):
    """``ended``: how the command ended; None: not within its time. ``output``: the end of it, harmless to show."""

    ended: Ended | None
    output: str


def check_possible(client: ApiClient) -> None:
    """Raises InputError where no command can be run from here, whatever the API server says."""
    if websocket is None:
        import sys

        raise InputError(
            f"the Python package websocket-client is missing in {sys.executable}: a command in a pod needs it; install "
            f"it there: {sys.executable} -m pip install websocket-client"
        )
    client.check_direct("a command in a pod")


def run_in_pod(
    client: ApiClient, namespace: str, pod: str, container: str, command: Sequence[str], seconds: float
) -> Done:
    """Run it, for so many seconds at most. A command that takes longer is left alone: nobody can end it from outside.

    Raises ApiError where the API server refuses it, UnavailableError where the connection breaks.
    """
    deadline = time.monotonic() + seconds
    query = [("container", container), ("stdout", "true"), ("stderr", "true"), *(("command", one) for one in command)]
    asked = Request("create", POD, pod, namespace, "exec", client.source)
    heard = Heard()
    stream = None
    try:
        stream = _opened(client, POD.path(pod, namespace, "exec"), query, asked, seconds)
        return Done(_listen(stream, heard, deadline), heard.output())
    except (websocket.WebSocketTimeoutException, TimeoutError):
        return Done(None, heard.output())
    except (websocket.WebSocketException, OSError) as exc:
        raise UnavailableError(
            f"the connection to the command in pod {namespace}/{pod} broke: {type(exc).__name__}: {exc}; whether the "
            "command has ended is not known"
        ) from exc
    finally:
        if stream is not None:
            stream.shutdown()


def _opened(client: ApiClient, path: str, query: Sequence[tuple[str, str]], asked: Request, seconds: float) -> Any:
    connection, url, headers = client.dial(path, query)
    connection.settimeout(seconds)
    stream = websocket.WebSocket()
    try:
        stream.connect(
            url.replace("http", "ws", 1),
            socket=connection,
            header=headers,
            subprotocols=list(SUBPROTOCOLS),
            suppress_origin=True,
            redirect_limit=0,  # who is sent elsewhere would take the token along
        )
    except websocket.WebSocketBadStatusException as exc:
        connection.close()
        body = getattr(exc, "resp_body", None) or b""
        raise api_error(exc.status_code, body if isinstance(body, bytes) else str(body).encode(), asked) from exc
    except BaseException:
        connection.close()
        raise
    if stream.getstatus() != _SWITCHED or stream.getsubprotocol() not in SUBPROTOCOLS:
        stream.shutdown()
        raise UnavailableError(
            f"{asked.resource.describe(asked.name, asked.namespace)}: the API server answers {stream.getstatus()} and "
            f"the subprotocol {stream.getsubprotocol()}; expected 101 and one of {', '.join(SUBPROTOCOLS)}"
        )
    return stream


def _listen(stream: Any, heard: Heard, deadline: float) -> Ended | None:
    """Until the server closes the stream. None: the time is over, or it was closed without a word on the end."""
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return None
        stream.settimeout(left)
        kind, message = stream.recv_data()
        if kind == websocket.ABNF.OPCODE_CLOSE:
            ended = heard.ended()
            if ended is None:
                raise websocket.WebSocketException("it was closed before the command had ended")
            return ended
        heard.take(message)
        if heard.ended() is not None:
            return heard.ended()
