"""The caches of a scheduler in the process of a test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from berth_scheduler.cluster import Cluster


@contextlib.asynccontextmanager
async def watching(cluster: Cluster) -> AsyncIterator[None]:
    """The watches tell what there is; afterwards they are silent."""
    task = asyncio.ensure_future(cluster.run())
    try:
        await asyncio.wait_for(cluster.wait_synced(), 120)
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
