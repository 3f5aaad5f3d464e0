"""The scheduler, with a death at its n-th write to a pod's or claim's objects: a real SIGKILL, of the real program.

DIE_AT: which write (from 1); the death comes as soon as it was answered. Started by world.Process.
"""

from __future__ import annotations

import sys

from berth_core.model.resources import BERTH, LOCAL_DISK, POD, PV, PVC
from berth_kube.call import Call
from berth_scheduler.__main__ import main
from tests.support.sending import die_after_write

COUNTED = (BERTH, LOCAL_DISK, PV, PVC)


def counts(call: Call) -> bool:
    asked = call.asked
    return asked.resource in COUNTED or (asked.resource == POD and asked.subresource == "binding")


if __name__ == "__main__":
    die_after_write(counts)
    sys.exit(main())
