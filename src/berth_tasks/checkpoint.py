"""What is kept on disk: the snapshot of tasks' pods and the version that the watch has come to. SQLite, in WAL mode.

A store that is lost or damaged is begun anew and filled from the API server; one of a newer release is refused. Where
the disk is full, nothing is kept until it has room: what is kept saves a list at the start and nothing more.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from berth_core.errors import InputError, StateError
from berth_core.tasks.pods import PodState
from berth_core.tasks.snapshot import Difference, PodsSnapshot

_log = logging.getLogger(__name__)

#: The number of the layout below.
LAYOUT = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS pods (namespace TEXT, name TEXT, state TEXT NOT NULL, PRIMARY KEY (namespace, name));
CREATE TABLE IF NOT EXISTS progress (one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL);
"""


class Checkpoint:
    """One file. ``cluster`` tells one API server from another: of another one nothing is taken over.

    Raises InputError for a store of a newer release, and StateError where the disk does not take it.
    """

    def __init__(self, path: str, cluster: str) -> None:
        self._path, self._cluster = path, cluster
        try:
            self._db = self._open()
        except sqlite3.OperationalError as exc:  # the disk's fault, or another process has locked it
            raise self._error("opened", exc) from exc
        except sqlite3.DatabaseError as exc:
            aside = Path(f"{path}.damaged")
            Path(path).replace(aside)
            _log.error(
                "store %s is damaged (%s): it lies in %s, and a new one is filled from the API server", path, exc, aside
            )
            self._db = self._open()

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)
        try:
            (layout,) = db.execute("PRAGMA user_version").fetchone()
            if layout > LAYOUT:
                raise InputError(
                    f"store {self._path} has layout {layout}, of a newer release; this one knows {LAYOUT}: "
                    "give another file, or run the newer release"
                )
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.executescript(_TABLES)
            db.execute("CREATE TABLE IF NOT EXISTS cluster (name TEXT PRIMARY KEY)")
            db.execute(f"PRAGMA user_version = {LAYOUT}")
            if db.execute("SELECT name FROM cluster").fetchall() != [(self._cluster,)]:
                self._forget(db)
        except BaseException:
            db.close()
            raise
        return db

    def _forget(self, db: sqlite3.Connection) -> None:
        db.executescript("DELETE FROM pods; DELETE FROM progress; DELETE FROM cluster;")
        db.execute("INSERT INTO cluster VALUES (?)", (self._cluster,))

    def load(self) -> PodsSnapshot | None:
        """The snapshot as it was kept last; None: there is none, or it cannot be read."""
        try:
            row = self._db.execute("SELECT version FROM progress").fetchone()
            pods = [_pod(state) for (state,) in self._db.execute("SELECT state FROM pods")]
        except (sqlite3.DatabaseError, TypeError, ValueError) as exc:
            _log.error("store %s cannot be read (%s): everything is listed", self._path, exc)
            try:
                self._forget(self._db)
            except sqlite3.Error as worse:
                raise self._error("emptied", worse) from worse
            return None
        return PodsSnapshot({(pod.namespace, pod.name): pod for pod in pods}, int(row[0])) if row else None

    async def save(self, changes: Sequence[Difference], snapshot: PodsSnapshot) -> None:
        """For a store's subscriber. All or nothing. Raises StateError where the disk does not take it."""
        try:
            await asyncio.to_thread(self._save, changes, snapshot.version)
        except sqlite3.Error as exc:
            raise self._error("written", exc) from exc

    def _save(self, changes: Sequence[Difference], version: int) -> None:
        # In their order: a pod that went and one of its name that came.
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            for old, new in changes:
                if new is not None:
                    db.execute("REPLACE INTO pods VALUES (?, ?, ?)", (new.namespace, new.name, json.dumps(asdict(new))))
                elif old is not None:
                    db.execute("DELETE FROM pods WHERE namespace = ? AND name = ?", (old.namespace, old.name))
            db.execute("REPLACE INTO progress VALUES (1, ?)", (version,))
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def _error(self, done: str, exc: sqlite3.Error) -> StateError:
        return StateError(
            f"store {self._path} cannot be {done} ({exc}): no task depends on it, a restart lists the pods;"
            " see to the disk, or give another file"
        )

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def _pod(state: str) -> PodState:
    found = json.loads(state)
    return PodState(**{**found, "requests": tuple((name, value) for name, value in found["requests"])})
