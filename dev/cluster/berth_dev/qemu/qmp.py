# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""QEMU's control socket (QMP): a command, its answer, an event. `vm` calls this.

Protocol: docs/interop/qmp-spec.txt of QEMU.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from ..errors import HostError

_GREETING_SECONDS = 15.0
_ANSWER_SECONDS = 60.0
_EVENT_SECONDS = 120.0


class Qmp:
    """One connection; QEMU takes one at a time. Use as a context manager."""

    def __init__(self, path: Path) -> None:
        self._events: list[dict[str, Any]] = []
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(_GREETING_SECONDS)
        try:
            _connect(self._socket, path)
            self._lines = self._socket.makefile("rb")
            self._read()  # the greeting
            self._socket.settimeout(_ANSWER_SECONDS)
            self.do("qmp_capabilities")
        except OSError as error:
            self._socket.close()
            raise HostError(f"virtual machine: its control socket {path} does not answer: {error}") from error
        except HostError:
            self._socket.close()
            raise

    def __enter__(self) -> Qmp:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Gone when QEMU has seen it: then it listens for the next one."""
        with contextlib.suppress(OSError):
            self._socket.settimeout(_GREETING_SECONDS)
            self._socket.shutdown(socket.SHUT_WR)
            while self._lines.readline():  # events that nobody waited for
                pass
        self._lines.close()
        self._socket.close()

    def do(self, execute: str, /, **arguments: Any) -> Any:
        """The answer to a command. HostError with QEMU's own words when it refuses."""
        self._socket.sendall(json.dumps({"execute": execute, "arguments": arguments}).encode() + b"\n")
        while "event" in (answer := self._read()):
            self._events.append(answer)
        if "error" in answer:
            raise HostError(f"virtual machine: {execute} {json.dumps(arguments)}: {answer['error']['desc']}")
        return answer["return"]

    def wait(self, event: str, **data: str) -> None:
        """Until that event, with this data, has come since the connection was made. HostError after two minutes."""
        self._socket.settimeout(_EVENT_SECONDS)
        until = time.monotonic() + _EVENT_SECONDS
        while not any(_matches(seen, event, data) for seen in self._events):
            if time.monotonic() > until:
                raise HostError(f"virtual machine: no event {event} {data} within {_EVENT_SECONDS:.0f} s")
            self._events.append(self._read())

    def _read(self) -> dict[str, Any]:
        try:
            line = self._lines.readline()
        except TimeoutError:
            raise HostError("virtual machine: QEMU says nothing on its control socket") from None
        if not line:
            raise HostError("virtual machine: QEMU has ended")
        answer: dict[str, Any] = json.loads(line)
        return answer


def _matches(seen: dict[str, Any], event: str, data: dict[str, str]) -> bool:
    return seen["event"] == event and all(seen.get("data", {}).get(key) == value for key, value in data.items())


def _connect(connection: socket.socket, path: Path) -> None:
    """By way of the folder's descriptor: a socket's address may have 108 bytes, a folder's name may be longer."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        connection.connect(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)
