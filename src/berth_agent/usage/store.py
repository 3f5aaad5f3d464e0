"""What a store of samples offers, and which one the settings mean. `sampler` calls `open_store`.

A store may be slow (it writes to a disk that may be full, or to a server that may be away): it is used from a thread or
awaits by itself, and what it raises is a BerthError that says what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from berth_core.app.agent_settings import Usage

from .samples import Sample


class Store(Protocol):
    """Somewhere to keep samples."""

    async def write(self, samples: Sequence[Sample]) -> None:
        """Keep them. Writing the same ones again changes nothing. Raises BerthError."""

    async def read(self, since: int, until: int, namespace: str = "", pod: str = "") -> list[Sample]:
        """Those of [since, until), by time; of one namespace or pod where it is named. Raises BerthError."""

    async def expire(self, before: int) -> int:
        """Forget those before that time; how many. A store that forgets by itself does nothing."""

    async def close(self) -> None:
        """Give up files and connections."""


def open_store(usage: Usage, node: str) -> Store | None:
    """The store of the settings; None for none. Raises BerthError."""
    if usage.store == "sqlite":
        from .sqlite import SqliteStore

        return SqliteStore(usage.path)
    if usage.store == "prometheus":
        from .prometheus import PrometheusStore

        return PrometheusStore(usage, node)
    return None
