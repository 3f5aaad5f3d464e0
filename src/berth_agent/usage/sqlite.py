"""Samples in one SQLite file on the node: the default store.

Containers are named once and samples refer to them, so that a month of minutes of a hundred containers stays below
200 MB. The file is private. Every call runs in a thread, one at a time.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable, TypeVar

from berth_core.errors import StateError

from .samples import Sample

_T = TypeVar("_T")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS containers (
  id INTEGER PRIMARY KEY, namespace TEXT NOT NULL, pod TEXT NOT NULL, uid TEXT NOT NULL, container TEXT NOT NULL,
  UNIQUE (uid, container)
);
CREATE TABLE IF NOT EXISTS samples (
  time INTEGER NOT NULL, container INTEGER NOT NULL REFERENCES containers (id),
  cpu REAL NOT NULL, memory INTEGER NOT NULL,
  PRIMARY KEY (time, container)
) WITHOUT ROWID;
"""
_VERSION = 1
_BUSY_SECONDS = 10.0


class SqliteStore:
    """One file. Raises StateError where it cannot be had, is damaged, or its disk is full."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    async def write(self, samples: Sequence[Sample]) -> None:
        """Keep them, all or none."""
        await self._run(lambda connection: _write(connection, samples))

    async def read(self, since: int, until: int, namespace: str = "", pod: str = "") -> list[Sample]:
        """Those of [since, until), by time."""
        return await self._run(lambda connection: _read(connection, (since, until, namespace, namespace, pod, pod)))

    async def expire(self, before: int) -> int:
        """Forget those before that time, and give the room back to the filesystem."""
        return await self._run(lambda connection: _expire(connection, before))

    async def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    async def _run(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        return await asyncio.to_thread(self._locked, work)

    def _locked(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = _open(self.path)
                with self._connection:
                    return work(self._connection)
            except (sqlite3.Error, OSError) as exc:
                if self._connection is not None:
                    self._connection.close()
                    self._connection = None
                raise StateError(
                    f"samples cannot be kept in {self.path}: {exc}; make room, move the file away if it is damaged, or "
                    "set usage.path or usage.store"
                ) from exc


def _open(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(str(path), timeout=_BUSY_SECONDS, check_same_thread=False)
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version not in (0, _VERSION):
            raise sqlite3.DatabaseError(f"it is of version {version}, expected {_VERSION}")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA cache_size = -256")
        connection.executescript(_SCHEMA)
        connection.execute(f"PRAGMA user_version = {_VERSION}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _write(connection: sqlite3.Connection, samples: Sequence[Sample]) -> None:
    connection.executemany(
        "INSERT OR IGNORE INTO containers (namespace, pod, uid, container) VALUES (?, ?, ?, ?)",
        [(each.namespace, each.pod, each.uid, each.container) for each in samples],
    )
    connection.executemany(
        "INSERT OR REPLACE INTO samples SELECT ?, id, ?, ? FROM containers WHERE uid = ? AND container = ?",
        [(each.time, each.cpu, each.memory, each.uid, each.container) for each in samples],
    )


def _read(connection: sqlite3.Connection, asked: tuple[Any, ...]) -> list[Sample]:
    rows = connection.execute(
        "SELECT s.time, c.namespace, c.pod, c.uid, c.container, s.cpu, s.memory FROM samples s "
        "JOIN containers c ON c.id = s.container WHERE s.time >= ? AND s.time < ? "
        "AND (? = '' OR c.namespace = ?) AND (? = '' OR c.pod = ?) ORDER BY s.time, c.id",
        asked,
    )
    return [Sample(*row) for row in rows]


def _expire(connection: sqlite3.Connection, before: int) -> int:
    gone = connection.execute("DELETE FROM samples WHERE time < ?", (before,)).rowcount
    connection.execute("DELETE FROM containers WHERE id NOT IN (SELECT container FROM samples)")
    connection.execute("PRAGMA incremental_vacuum").fetchall()
    return gone
