"""The controller, noting down each request that it sends: the real program, looked at where its requests leave it.

NOTES: a file that gets a line for each: verb, kind, and what it was about. Watches and lists are left out: they live
with the process, not with a claim. Started by world.Process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from berth_controller.__main__ import main
from berth_kube.call import Call
from tests.support.sending import Send, around_pieces, around_send


async def note(call: Call, send: Send) -> Any:
    write(call)
    return await send()


async def note_all(calls: Sequence[Call], send: Send) -> Any:
    for call in calls:
        write(call)
    return await send()


def write(call: Call) -> None:
    asked = call.asked
    if asked.verb not in ("watch", "list"):
        kind = f"{asked.resource.kind}/{asked.subresource}" if asked.subresource else asked.resource.kind
        with open(os.environ["NOTES"], "ab") as notes:
            notes.write(f"{asked.verb} {kind} {call.target} ".encode() + (call.body or b"") + b"\n")


if __name__ == "__main__":
    around_send(note)
    around_pieces(note_all)
    sys.exit(main())
