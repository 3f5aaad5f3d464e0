"""The agent, with a SIGKILL right after its n-th write to one LocalDisk: a real death at the wire, of the real program.

Lies beside agent.pyz on a host and runs what is in there; in the environment DISK is the LocalDisk's name, DIE_AT which
write of this life is the last (from 1).
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "agent.pyz"))
os.environ.setdefault("MULTIDICT_NO_EXTENSIONS", "1")

from berth_agent.__main__ import main
from berth_kube.client import KubeClient

_written = 0


async def _send(self: KubeClient, call: Any, *more: Any, **options: Any) -> Any:
    global _written
    if not call.writes or call.asked.name != os.environ["DISK"]:
        return await _real(self, call, *more, **options)
    _written += 1
    try:
        return await _real(self, call, *more, **options)
    finally:
        if _written == int(os.environ["DIE_AT"]):
            os.kill(os.getpid(), signal.SIGKILL)


_real = KubeClient._send
KubeClient._send = _send  # type: ignore[method-assign]

if __name__ == "__main__":
    sys.exit(main())
