"""The controller, with a death at its n-th write to a claim's objects: a real SIGKILL at the wire, of the real program.

DIE_AT: which write (from 1); the death comes as soon as it was answered. Started by world.Process.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from berth_controller.__main__ import main
from berth_core.model.resources import BERTH, LOCAL_DISK, PV, PVC
from berth_kube.client import KubeClient

COUNTED = (BERTH, LOCAL_DISK, PV, PVC)
_written = 0


async def _send(self: KubeClient, call: Any, *more: Any) -> Any:
    global _written
    if not call.writes or call.asked.resource not in COUNTED or call.asked.verb == "apply":
        return await _real(self, call, *more)
    _written += 1
    try:
        return await _real(self, call, *more)
    finally:
        if _written == int(os.environ["DIE_AT"]):  # also where it was refused: it was the last thing that was done
            os.kill(os.getpid(), signal.SIGKILL)


_real = KubeClient._send
KubeClient._send = _send  # type: ignore[method-assign]

if __name__ == "__main__":
    sys.exit(main())
