"""The module disk_replace as the third driver: halted at every request, killed there, and run again or given up.

What it does is the product's own: `run` of _glue.disk_replace, for a disk of the app's replica, a claim's, or nobody's.
"""

from __future__ import annotations

from ansible_collections.berth.stateful.plugins.module_utils._glue import disk_replace
from tests.core.lifecycle.race_module import Process, context
from tests.core.lifecycle.replica_world import GI

#: The disk that is put into the node for an exchange: there is no LocalDisk of it before.
SPARE = "d9"


class Exchange(Process):
    """Runs of disk_replace, one after the other: the LocalDisk ``old`` for ``new``."""

    def __init__(self, world, old, new=SPARE):
        super().__init__(world)
        self.old, self.new, self.result = old, new, None

    def aim(self, old, new):
        """The next run is asked for another exchange."""
        self.kill()
        self.old, self.new = old, new

    def run(self):
        identity = {"serial": f"S-{self.new}", "size": str(GI)}
        params = {
            "name": self.old,
            "new": {"name": self.new, "identity": identity},
            "until": "running",
            "mount_root": "/var/lib/berth/disks",
            "wait_timeout": 0,
        }
        self.result = disk_replace.run(context("disk_replace", self.client(), params))
