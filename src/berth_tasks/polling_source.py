"""PodsPollingSnapshotSource: a whole list at an interval, the safety net of the watch. It never goes back in time."""

from __future__ import annotations

import asyncio
import logging

from berth_core.errors import BerthError
from berth_kube.client import KubeClient

from .store import PodSnapshotStore
from .watch_source import list_pods

_log = logging.getLogger(__name__)


class PodsPollingSnapshotSource:
    """Fills a store. ``interval``: seconds between two lists."""

    def __init__(self, client: KubeClient, store: PodSnapshotStore, interval: float) -> None:
        self._client, self._store, self._interval = client, store, interval

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(self._interval)
            try:
                self._store.replace(*await list_pods(self._client, self._store.shared))
            except BerthError as exc:
                _log.warning("%s; the next poll is in %g s", exc.message, self._interval)
