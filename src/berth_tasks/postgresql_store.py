"""The checkpoints of several task backends, of several clusters, in one PostgreSQL. Called by the checkpoint.

Rows belong to one backend: a cluster, and the namespace of the Lease there. While a process has the store open, it
holds an advisory lock of its session on them, which goes with the session, however that ends (docs/decisions/0061).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from berth_core.errors import InputError, StateError

from .checkpoint import LAYOUT, Write, check_layout, in_use, unusable

SCHEMA = "berth_tasks"
#: What libpq does unless the URI says otherwise; seconds, and milliseconds of tcp_user_timeout.
_CONNECTION = {
    "fallback_application_name": "berth-tasks",
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30000,
}
#: What the server does: nothing is waited for without end, and a host that has gone gives its lock back.
_SESSION = {
    "statement_timeout": "20s",
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "30s",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
_SCHEMA = "CREATE SCHEMA IF NOT EXISTS berth_tasks"
_TABLES = (
    "CREATE TABLE IF NOT EXISTS berth_tasks.layout (number integer PRIMARY KEY)",
    """CREATE TABLE IF NOT EXISTS berth_tasks.checkpoints (
        id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
        cluster text NOT NULL, backend text NOT NULL, version bigint, saved timestamptz, UNIQUE (cluster, backend))""",
    """CREATE TABLE IF NOT EXISTS berth_tasks.pods (
        checkpoint bigint REFERENCES berth_tasks.checkpoints ON DELETE CASCADE,
        namespace text, name text, state text NOT NULL, PRIMARY KEY (checkpoint, namespace, name))""",
)
#: Held while tables are made, of which one process makes the first.
_MAKING = "SELECT pg_advisory_xact_lock(hashtextextended('berth_tasks', 0))"
_HOLDER = """
SELECT a.pid, coalesce(host(a.client_addr), 'its own host') FROM pg_locks l JOIN pg_stat_activity a USING (pid),
    (SELECT hashtextextended(%s, 0) AS key) k, pg_database d
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.database = d.oid AND d.datname = current_database()
    AND l.classid::bigint = (k.key >> 32) & 4294967295 AND l.objid::bigint = k.key & 4294967295
"""
_REMEDY = "see to the server, to the role's rights there and to its password, or give another store"
_NEW_ROWS = """
INSERT INTO berth_tasks.pods SELECT %s, * FROM unnest(%s::text[], %s::text[], %s::text[])
ON CONFLICT (checkpoint, namespace, name) DO UPDATE SET state = excluded.state
"""
_GONE_ROWS = """
DELETE FROM berth_tasks.pods WHERE checkpoint = %s
    AND (namespace, name) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
"""


def check(option: str, uri: str) -> None:
    """What libpq does not take. Raises InputError that names the option."""
    try:
        conninfo_to_dict(uri)
    except psycopg.ProgrammingError as exc:
        raise InputError(f"{option}: {_one_line(exc)}; expected a connection URI of libpq") from exc


class PostgresqlStore:
    """A Store: the rows of ``backend``, the namespace of its Lease, in a cluster that `open` names."""

    def __init__(self, uri: str, backend: str) -> None:
        self.name = uri
        self._backend = backend
        self._connection: psycopg.Connection[Any] | None = None
        self._socket: socket.socket | None = None
        self._id = 0

    def open(self, cluster: str) -> None:
        with self._told("opened"):
            given: dict[str, Any] = {**_CONNECTION, **conninfo_to_dict(self.name), "client_encoding": "utf8"}
            self._connection = db = psycopg.connect(make_conninfo(**given), autocommit=True)
            # Of the store's own, so that abort() finds one that is open, whatever libpq does with its own meanwhile.
            self._socket = socket.socket(fileno=os.dup(db.fileno()))
            for name, value in _SESSION.items():
                db.execute("SELECT set_config(%s, %s, false)", (name, value))
            self._make_tables()
            (layout,) = self._one("SELECT coalesce(max(number), 0) FROM berth_tasks.layout")
            check_layout(self.name, layout)
            self._lock(f"berth_tasks {cluster} {self._backend}")
            key = (cluster, self._backend)
            db.execute(
                "INSERT INTO berth_tasks.checkpoints (cluster, backend) VALUES (%s, %s) ON CONFLICT DO NOTHING", key
            )
            (self._id,) = self._one("SELECT id FROM berth_tasks.checkpoints WHERE cluster = %s AND backend = %s", key)

    def _make_tables(self) -> None:
        """Where one is missing: a role that may make none uses what others have made."""
        names = ("layout", "checkpoints", "pods")
        if all(self._one(f"SELECT to_regclass('{SCHEMA}.{name}') IS NOT NULL")[0] for name in names):
            return
        with self._db.transaction():
            self._db.execute(_MAKING)
            if not self._one("SELECT to_regnamespace(%s) IS NOT NULL", (SCHEMA,))[0]:
                self._db.execute(_SCHEMA)
            for statement in _TABLES:
                self._db.execute(statement)
            self._db.execute(
                "INSERT INTO berth_tasks.layout SELECT %s WHERE NOT EXISTS (SELECT FROM berth_tasks.layout)", (LAYOUT,)
            )

    def _lock(self, key: str) -> None:
        if self._one("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", (key,))[0]:
            return
        row = self._db.execute(_HOLDER, (key,)).fetchone()
        by = f"session {row[0]} of {row[1]}" if row else "another session"
        raise in_use(self.name, f"{by}, of the same cluster and --namespace {self._backend},", "namespace or store")

    def read(self) -> tuple[int, Sequence[str]] | None:
        with self._told("read"):
            version = self._one("SELECT version FROM berth_tasks.checkpoints WHERE id = %s", (self._id,))[0]
            if version is None:
                return None
            rows = self._db.execute("SELECT state FROM berth_tasks.pods WHERE checkpoint = %s", (self._id,))
            return version, [state for (state,) in rows.fetchall()]

    def forget(self) -> None:
        with self._told("emptied"), self._db.transaction():
            self._forget()
            self._progress(None)

    def write(self, what: Write) -> None:
        with self._told("written"), self._db.transaction():
            if what.whole:
                self._forget()
            if what.gone:
                self._db.execute(_GONE_ROWS, (self._id, *_columns(what.gone)))
            if what.rows:
                self._db.execute(_NEW_ROWS, (self._id, *_columns(what.rows)))
            self._progress(what.version)

    def _forget(self) -> None:
        self._db.execute("DELETE FROM berth_tasks.pods WHERE checkpoint = %s", (self._id,))

    def _progress(self, version: int | None) -> None:
        statement = "UPDATE berth_tasks.checkpoints SET version = %s, saved = now() WHERE id = %s RETURNING id"
        self._one(statement, (version, self._id))

    def abort(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    @property
    def _db(self) -> psycopg.Connection[Any]:
        if self._connection is None:
            raise psycopg.OperationalError("it is closed")
        return self._connection

    def _one(self, statement: str, values: Sequence[Any] = ()) -> tuple[Any, ...]:
        row = self._db.execute(statement.encode(), values).fetchone()
        if row is None:
            raise psycopg.DataError(f"the row {self._id} of {SCHEMA}.checkpoints has been deleted")
        found: tuple[Any, ...] = row
        return found

    @contextmanager
    def _told(self, done: str) -> Iterator[None]:
        try:
            yield
        except (psycopg.Error, OSError) as exc:
            raise self._error(done, exc) from exc

    def _error(self, done: str, exc: Exception) -> StateError:
        return unusable(self.name, done, _one_line(exc), _REMEDY)


def _columns(rows: Sequence[tuple[str, ...]]) -> list[list[str]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _one_line(exc: Exception) -> str:
    return " ".join(str(exc).split())
