# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The messages of a command in a container, over the WebSocket of pods/exec: the subprotocols v5 and v4. Pure.

Each message begins with a byte that names its channel. The output comes on two of them, and at the end a Status object
on the error channel says how the command ended.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

#: The first is preferred; they differ in what goes to the command's input alone.
SUBPROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDOUT, STDERR, ERROR = 1, 2, 3
#: How much of the output is kept, and of the Status object read, in bytes.
_KEPT, _MOST_STATUS = 2_000, 65_536


class Ended(NamedTuple):
    """``code``: the exit code; None: the command could not be run, and ``why`` says why."""

    code: int | None
    why: str = ""


class Heard:
    """What a command has said so far. Of its output, of both channels as it came, the last bytes alone are kept."""

    def __init__(self) -> None:
        self._output = b""
        self._cut = False
        self._status = b""

    def take(self, message: bytes) -> None:
        """Messages of other channels, and empty ones, say nothing."""
        channel, rest = message[:1], message[1:]
        if channel in (bytes([STDOUT]), bytes([STDERR])):
            output = self._output + rest[-_KEPT - 1 :]
            self._cut = self._cut or len(output) > _KEPT or len(rest) > _KEPT
            self._output = output[-_KEPT:]
        elif channel == bytes([ERROR]):
            self._status = (self._status + rest)[:_MOST_STATUS]

    def ended(self) -> Ended | None:
        """How it ended; None as long as nothing was said of it."""
        return ended(self._status)

    def output(self) -> str:
        """The end of the output, for people."""
        return ("..." if self._cut else "") + harmless(self._output.decode("utf-8", "replace")).strip()


def ended(status: bytes) -> Ended | None:
    """How a command ended by the Status object of its error channel; None for what is no whole one."""
    try:
        body = json.loads(status)
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict):
        return None
    if body.get("status") == "Success":
        return Ended(0)
    code = _exit_code(body) if body.get("reason") == "NonZeroExitCode" else None
    return Ended(code, harmless(str(body.get("message") or body.get("reason") or "no reason was given"))[:_KEPT])


def _exit_code(body: dict[str, Any]) -> int | None:
    details = body.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    for cause in causes if isinstance(causes, list) else ():
        if isinstance(cause, dict) and cause.get("reason") == "ExitCode" and str(cause.get("message")).isdecimal():
            return int(str(cause["message"])[:9])
    return None


def harmless(text: str) -> str:
    """The text without what a terminal would act on: control characters and the like are written out."""
    return "".join(one if one.isprintable() or one in "\n\t" else _written_out(one) for one in text)


def _written_out(one: str) -> str:
    return one.encode("unicode_escape").decode("ascii")
