"""The scheduler, which never hears of its binds while the file LOST is there: of every other one is even nothing sent.

Started by world.Process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from berth_core.errors import UnavailableError
from berth_kube.call import Call
from berth_scheduler.__main__ import main
from tests.support.wire import Send, around_pieces, around_send

_LOST = Path(os.environ["LOST"])
_binds = 0


def _lost() -> UnavailableError:
    return UnavailableError("no answer; it may or may not have been carried out")


def _is_sent() -> bool:
    global _binds
    _binds += 1
    return _binds % 2 == 0


async def _one(call: Call, send: Send) -> Any:
    if call.asked.subresource != "binding" or not _LOST.exists():
        return await send()
    if _is_sent():
        await send()
    raise _lost()


async def _piece(calls: Sequence[Call], send: Send) -> Any:
    if calls[0].asked.subresource != "binding" or not _LOST.exists():
        return await send()
    if _is_sent():
        await send()
    return [_lost() for _call in calls]


if __name__ == "__main__":
    around_send(_one)
    around_pieces(_piece)
    sys.exit(main())
