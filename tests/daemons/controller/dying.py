"""The controller, with a death at its n-th write to a claim's objects: a real SIGKILL at the wire, of the real program.

DIE_AT: which write (from 1); the death comes as soon as it was answered. Started by world.Process.
"""

from __future__ import annotations

import sys

from berth_controller.__main__ import main
from berth_core.model.resources import BERTH, LOCAL_DISK, PV, PVC
from tests.support.sending import die_after_write

COUNTED = (BERTH, LOCAL_DISK, PV, PVC)

if __name__ == "__main__":
    die_after_write(lambda call: call.asked.resource in COUNTED and call.asked.verb != "apply")
    sys.exit(main())
