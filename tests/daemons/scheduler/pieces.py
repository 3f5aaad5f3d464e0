"""The scheduler, which says in its log how many binds leave in one piece. Started by world.Process.

With DIE_IN n it is ended by a real SIGKILL in the midst of the n-th piece: sent, and not yet answered.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from berth_core.model.resources import POD
from berth_kube.call import Call
from berth_scheduler.__main__ import main
from tests.support.wire import Send, around_pieces

_pieces = 0


async def _note(calls: Sequence[Call], send: Send) -> Any:
    global _pieces
    if calls[0].asked.resource != POD:
        return await send()
    _pieces += 1
    print(f"piece of {len(calls)} binds", file=sys.stderr, flush=True)
    if _pieces == int(os.environ.get("DIE_IN", "0")):
        asyncio.get_running_loop().call_later(0.02, os.kill, os.getpid(), signal.SIGKILL)
    return await send()


if __name__ == "__main__":
    around_pieces(_note)
    sys.exit(main())
