"""The scheduler, with a death at its n-th write to a pod's or claim's objects: a real SIGKILL, of the real program.

DIE_AT: which write (from 1); the death comes as soon as it was answered. Started by world.Process.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from berth_core.model.resources import BERTH, LOCAL_DISK, POD, PV, PVC
from berth_kube.client import KubeClient
from berth_scheduler.__main__ import main

COUNTED = (BERTH, LOCAL_DISK, PV, PVC)
_written = 0


async def _send(self: KubeClient, call: Any, *more: Any) -> Any:
    global _written
    asked = call.asked
    if not call.writes or not (asked.resource in COUNTED or (asked.resource == POD and asked.subresource == "binding")):
        return await _real(self, call, *more)
    _written += 1
    mine = _written
    try:
        return await _real(self, call, *more)
    finally:
        if mine == int(os.environ["DIE_AT"]):  # also where it was refused: it was the last thing that was done
            os.kill(os.getpid(), signal.SIGKILL)


_real = KubeClient._send
KubeClient._send = _send  # type: ignore[method-assign]

if __name__ == "__main__":
    sys.exit(main())
