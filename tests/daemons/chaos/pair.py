"""Two controllers, of which each that ends is started anew within a second, as their Deployment would do it.

Made by `ground`. On a loaded machine a leader may lose its Lease at any time, and ends then, as it should.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import BerthError
from tests.daemons.controller.prepared import started
from tests.daemons.controller.world import Process, kubeconfig

FLAGS = ("--orphan-interval", "5", "--orphan-report-after", "5", "--orphan-repair-after", "0")
IDENTITIES = ("1", "2")


class Pair:
    """``api``: a client that nobody else uses."""

    def __init__(self, cluster: Any, api: ApiClient, folder: Path) -> None:
        self._cluster, self._api, self._folder = cluster, api, folder
        self._running: dict[str, Process] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="controllers", daemon=True)

    def start(self) -> Pair:
        for identity in IDENTITIES:
            self._begin(identity)
        self._thread.start()
        return self

    def stop(self) -> None:
        self._end.set()
        self._thread.join(60)
        for one in self._running.values():
            one.stop()

    def alive(self) -> list[Process]:
        """Those that have not ended; one that is paused has not."""
        return [one for one in list(self._running.values()) if one.process.poll() is None]

    def of(self, identity: Any) -> Process | None:
        """The one of that name, if it has not ended."""
        one = self._running.get(str(identity))
        return one if one is not None and one.process.poll() is None else None

    def rescued(self) -> list[str]:
        """What only a resync has found to do, of all that have run: see Process."""
        return [line for one in list(self._running.values()) for line in one.rescued()]

    def story(self) -> str:
        """The ends of their logs."""
        return "\n".join(f"{one.log.name}\n{one.text()[-3000:]}" for one in list(self._running.values()))

    def _run(self) -> None:
        while not self._end.wait(1):
            for identity, one in list(self._running.items()):
                if one.process.poll() is not None:
                    with contextlib.suppress(BerthError):  # the API server is away: the next round sees
                        self._begin(identity)

    def _begin(self, identity: str) -> None:
        config = kubeconfig(self._cluster, self._api, self._folder / f"controller-{identity}.kubeconfig")
        log = self._folder / f"controller-{identity}.log"
        self._running[identity] = Process(config, log, "--identity", identity, *FLAGS, start=started)
