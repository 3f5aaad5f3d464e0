"""The real daemons, looked at or ended where their requests leave them: every KubeClient of this process.

A program, started in a daemon's place (`dying`); in the environment

DAEMON   the package whose `__main__` it runs
DIE_AT   with COUNTED: a real SIGKILL as soon as the n-th write that counts was answered, also by a refusal; from 1
LAST     with COUNTED: a real SIGKILL as soon as a write that counts was answered whose like is not in that file, which
         has a line for each that was the last of some process. Alike are those that differ in numbers, times and uids
COUNTED  a regular expression over `verb Kind[/subresource] name`, from the first letter to the last
NOTES    a file that gets a line for each request but lists and watches: verb, kind, and what it was about
"""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from berth_kube.call import Call
from berth_kube.client import KubeClient

Send = Callable[[], Awaitable[Any]]


def around_send(do: Callable[[Call, Send], Awaitable[Any]]) -> None:
    """Have ``do(call, send)`` called instead of each request; ``send()`` sends it, and returns the answer.

    Requests that go out in one piece are left out (`KubeClient.create_all`): see `around_pieces`.
    """
    real = KubeClient._send

    async def _send(self: KubeClient, call: Call, *more: Any, **options: Any) -> Any:
        return await do(call, lambda: real(self, call, *more, **options))

    KubeClient._send = _send  # type: ignore[method-assign]


def around_pieces(do: Callable[[Sequence[Call], Send], Awaitable[Any]]) -> None:
    """Have ``do(calls, send)`` called instead of each piece of several requests; ``send()`` sends it."""
    real = KubeClient._send_all

    async def _send_all(self: KubeClient, calls: Sequence[Call], *more: Any, **options: Any) -> Any:
        if len(calls) == 1:  # goes alone
            return await real(self, calls, *more, **options)
        return await do(calls, lambda: real(self, calls, *more, **options))

    KubeClient._send_all = _send_all  # type: ignore[method-assign]


def around_all(do: Callable[[Sequence[Call], Send], Awaitable[Any]]) -> None:
    """The same for requests that go alone and for those that go in one piece."""
    around_send(lambda call, send: do([call], send))
    around_pieces(do)


def dying(daemon: str, at: int, counted: str) -> dict[str, Any]:
    """What a Process is told, so that it is that daemon and dies after that write."""
    environment = {"DAEMON": daemon, "DIE_AT": str(at), "COUNTED": counted}
    return {"module": "tests.support.wire", "environment": environment}


def dying_after_each(daemon: str, last: Path, counted: str) -> dict[str, Any]:
    """The same, for processes that follow one another: each dies after a write that none has died after; see LAST."""
    environment = {"DAEMON": daemon, "LAST": str(last), "COUNTED": counted}
    return {"module": "tests.support.wire", "environment": environment}


def die_after_write(at: int, counted: str) -> None:
    """See DIE_AT and COUNTED. Of a piece all are answered first."""
    pattern, written = re.compile(counted), 0

    async def do(calls: Sequence[Call], send: Send) -> Any:
        nonlocal written
        before = written
        written += sum(call.writes and pattern.fullmatch(words(call)) is not None for call in calls)
        last = before < at <= written
        try:
            return await send()
        finally:
            if last:  # also where the answer was a refusal: the write is with the API server
                os.kill(os.getpid(), signal.SIGKILL)

    around_all(do)


def die_after_new_write(last: Path, counted: str) -> None:
    """See LAST and COUNTED."""
    pattern = re.compile(counted)

    async def do(calls: Sequence[Call], send: Send) -> Any:
        made = {content(call) for call in calls if call.writes and pattern.fullmatch(words(call))}
        new = made.difference(last.read_text().splitlines() if last.exists() else ())
        try:
            return await send()
        finally:
            if new:  # written down now: of two that are under way at once only one is the last
                with open(last, "a") as lines:
                    lines.writelines(f"{each}\n" for each in sorted(new))
                os.kill(os.getpid(), signal.SIGKILL)

    around_all(do)


def note_down(file: str) -> None:
    """See NOTES. Lists and watches are left out: they live with the process, not with an object."""

    async def do(calls: Sequence[Call], send: Send) -> Any:
        with open(file, "ab") as notes:
            for call in calls:
                if call.asked.verb not in ("watch", "list"):
                    notes.write(f"{call.asked.verb} {kind(call)} {call.target} ".encode() + (call.body or b"") + b"\n")
        return await send()

    around_all(do)


def kind(call: Call) -> str:
    """`Kind` or `Kind/subresource`."""
    asked = call.asked
    return f"{asked.resource.kind}/{asked.subresource}" if asked.subresource else str(asked.resource.kind)


def words(call: Call) -> str:
    """What COUNTED is matched against."""
    return f"{call.asked.verb} {kind(call)} {call.asked.name or ''}"


def content(call: Call) -> str:
    """What is written, without what is another number, time or uid in each life."""
    body = json.dumps(json.loads(call.body), sort_keys=True) if call.body else ""
    return re.sub(r"[0-9a-f:.-]*[0-9][0-9a-f:.-]*", "#", f"{words(call)} {body}")


def main() -> int:
    """The daemon, to its end."""
    daemon = importlib.import_module(os.environ["DAEMON"] + ".__main__")
    if "DIE_AT" in os.environ:
        die_after_write(int(os.environ["DIE_AT"]), os.environ["COUNTED"])
    if "LAST" in os.environ:
        die_after_new_write(Path(os.environ["LAST"]), os.environ["COUNTED"])
    if "NOTES" in os.environ:
        note_down(os.environ["NOTES"])
    return int(daemon.main() or 0)


if __name__ == "__main__":
    sys.exit(main())
