"""The agent's port: /metrics, /healthz, /readyz, with TLS where the settings name a certificate. Run by `agent`.

When the settings name another port or certificate, the old port is closed and the new one opened.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Callable

from berth_core.app.agent_settings import Metrics, Settings
from berth_core.errors import InputError
from berth_kube.serve import Server

from .figures import Family, Figures

LOG = logging.getLogger("berth_agent.serving")
_RETRY = 30.0


async def serve(registry: Figures, settings: Callable[[], Settings], is_ready: Callable[[], bool]) -> None:
    """Until cancelled. A port that cannot be had is told of and tried again: the disks matter more."""
    refused = registry.counter(
        "berth_agent_connections_refused_total", "Connections to this port refused or cut off.", ["reason"]
    )
    while True:
        wanted = settings().metrics
        server = await _start(registry, wanted, is_ready, refused)
        pause = settings().intervals.poll if server is not None or not wanted.port else _RETRY
        try:
            await asyncio.sleep(pause)
            while server is not None and settings().metrics == wanted:
                await asyncio.sleep(settings().intervals.poll)
        finally:
            if server is not None:
                await server.stop()


async def _start(registry: Figures, wanted: Metrics, is_ready: Callable[[], bool], refused: Family) -> Server | None:
    if not wanted.port:
        return None
    tls = (wanted.tls_certificate, wanted.tls_key) if wanted.tls_certificate else None
    ready = {"published": lambda: None if is_ready() else "not everything that was seen is published yet"}
    try:
        server = Server(
            wanted.port,
            wanted.address,
            tls=tls,
            ready=ready,
            metrics=registry.text,
            refused=lambda reason: refused.add(1.0, reason),
        )
        await server.start()
    except InputError as exc:
        LOG.warning("figures are not served: %s", exc.message)
        return None
    LOG.info("figures at %s:%d/metrics", wanted.address, server.port)
    return server
