"""The checkpoint in one SQLite file, in WAL mode. Called by the checkpoint, in its thread.

The file is locked by the process that has it open, and is free when that ends, however it does.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from berth_core.errors import StateError

from .checkpoint import LAYOUT, DamagedError, Write, check_layout, in_use, unusable

_log = logging.getLogger(__name__)

_TABLES = """
CREATE TABLE IF NOT EXISTS pods (namespace TEXT, name TEXT, state TEXT NOT NULL, PRIMARY KEY (namespace, name));
CREATE TABLE IF NOT EXISTS progress (one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS cluster (name TEXT PRIMARY KEY);
"""
_FORGET = ("DELETE FROM pods", "DELETE FROM progress")
#: Nobody reads the rows while the process lives: those of 5,000 pods would lie in 2 MB of its memory.
CACHE_KB = 256


class SqliteStore:
    """A Store: one file, of one cluster. A damaged file is laid aside."""

    def __init__(self, path: str) -> None:
        self.name = path
        self._connection: sqlite3.Connection | None = None

    def open(self, cluster: str) -> None:
        try:
            self._open(cluster)
        except sqlite3.OperationalError as exc:  # the disk's fault, or another process has locked it
            raise self._error("opened", exc) from exc
        except sqlite3.DatabaseError as exc:
            self.close()
            aside = Path(f"{self.name}.damaged")
            Path(self.name).replace(aside)
            _log.error("store %s is damaged (%s): it lies in %s, and a new one is filled", self.name, exc, aside)
            with self._told("opened"):
                self._open(cluster)

    def _open(self, cluster: str) -> None:
        self._connection = db = sqlite3.connect(self.name, check_same_thread=False, isolation_level=None)
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        (layout,) = db.execute("PRAGMA user_version").fetchone()
        check_layout(self.name, layout)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute(f"PRAGMA cache_size = -{CACHE_KB}")
        db.executescript(_TABLES)
        db.execute(f"PRAGMA user_version = {LAYOUT}")
        if db.execute("SELECT name FROM cluster").fetchall() != [(cluster,)]:
            with self._transaction():
                self._execute(*_FORGET, "DELETE FROM cluster")
                db.execute("INSERT INTO cluster VALUES (?)", (cluster,))

    def read(self) -> tuple[int, Sequence[str]] | None:
        try:
            row = self._db.execute("SELECT version FROM progress").fetchone()
            states = [state for (state,) in self._db.execute("SELECT state FROM pods")]
            return (int(row[0]), states) if row else None
        except (sqlite3.DatabaseError, TypeError, ValueError) as exc:
            raise DamagedError(str(exc)) from exc

    def forget(self) -> None:
        with self._told("emptied"), self._transaction():
            self._execute(*_FORGET)

    def write(self, what: Write) -> None:
        with self._told("written"), self._transaction():
            if what.whole:
                self._execute(*_FORGET)
            self._db.executemany("DELETE FROM pods WHERE namespace = ? AND name = ?", what.gone)
            self._db.executemany("REPLACE INTO pods VALUES (?, ?, ?)", what.rows)
            self._db.execute("REPLACE INTO progress VALUES (1, ?)", (what.version,))

    def abort(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):  # closed meanwhile
                self._connection.interrupt()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def _db(self) -> sqlite3.Connection:
        if self._connection is None:
            raise self._error("used", sqlite3.ProgrammingError("it is closed"))
        return self._connection

    def _execute(self, *statements: str) -> None:
        for statement in statements:
            self._db.execute(statement)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    @contextmanager
    def _told(self, done: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as exc:
            raise self._error(done, exc) from exc

    def _error(self, done: str, exc: sqlite3.Error) -> StateError:
        if getattr(exc, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
            return in_use(self.name, "another process", "file")
        return unusable(self.name, done, str(exc), "see to the disk, or give another file")
