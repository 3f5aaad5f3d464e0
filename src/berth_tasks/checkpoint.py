"""What is kept for the next process: the snapshot of tasks' pods and the version that the watch has come to.

It lies in an SQLite file (sqlite_store) or in PostgreSQL (postgresql_store). No task depends on it: what is lost or
damaged is begun anew and filled from the API server, a store of a newer release is refused. One that cannot be used,
because its disk is full or its server is away, keeps nothing until it can, and then everything.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import fields
from typing import NamedTuple, Protocol, TypeVar

from berth_core.errors import ApiError, InputError, StateError
from berth_core.tasks.pods import Details, PodState
from berth_core.tasks.snapshot import Difference, PodKey, PodsSnapshot, differences

from .alike import Alike

_log = logging.getLogger(__name__)
T = TypeVar("T")
#: What stands in a row as it is; a row is flat, whatever a state is made of.
_PLAIN = tuple(each.name for each in fields(PodState) if each.name not in ("task_key", "details"))
_text = json.JSONEncoder().encode

#: The number of the layout that both stores have.
LAYOUT = 1
#: Seconds after which what a store is asked is broken off.
DEADLINE = 30.0


class Row(NamedTuple):
    """A pod as it is kept. ``state``: JSON in ASCII."""

    namespace: str
    name: str
    state: str


class Write(NamedTuple):
    """One save, all or nothing. ``whole``: instead of all that is there. No pod is in both ``rows`` and ``gone``."""

    rows: Sequence[Row]
    gone: Sequence[PodKey]
    version: int
    whole: bool


class DamagedError(ValueError):
    """What was kept cannot be read."""


class Store(Protocol):
    """Called by one thread at a time; ``abort`` by another one meanwhile.

    Everything raises StateError where the store cannot be used (`unusable`). It is closed then, and opened again.
    """

    name: str

    def open(self, cluster: str) -> None:
        """Of another cluster nothing is taken over. Raises InputError for a store of a newer release."""

    def read(self) -> tuple[int, Sequence[str]] | None:
        """The version and the states of the last write; None: there was none. Raises DamagedError."""

    def write(self, what: Write) -> None:
        """Keep it."""

    def forget(self) -> None:
        """Keep nothing any more."""

    def abort(self) -> None:
        """Have the other thread's call fail."""

    def close(self) -> None:
        """Give up what it holds; more than once does no harm. Raises nothing."""


def unusable(name: str, done: str, why: str, remedy: str) -> StateError:
    """``done``: what could not be done with it."""
    return StateError(
        f"store {name} cannot be {done} ({why}): no task depends on it, a restart lists the pods; {remedy}"
    )


def in_use(name: str, by: str, another: str) -> StateError:
    """A store, or its part of this cluster and namespace, is written by one process at a time."""
    return unusable(name, "shared", f"{by} writes it", f"end that process, or give this one another {another}")


def check_layout(name: str, layout: int) -> None:
    """Raises InputError."""
    if layout > LAYOUT:
        raise InputError(
            f"store {name} has layout {layout}, of a newer release; this one knows {LAYOUT}: "
            "give another store, or run the newer release"
        )


class Checkpoint:
    """``cluster`` tells one API server from another, and is asked once the store can be opened."""

    def __init__(self, store: Store, cluster: Callable[[], Awaitable[str]]) -> None:
        self._store, self._cluster = store, cluster
        self._open = False
        #: Whether all is there that was saved: by this process, and without a failure since.
        self._complete = False
        #: What was loaded, until something is saved: that is in the store.
        self._loaded: PodsSnapshot | None = None
        self._running: asyncio.Future[None] | None = None

    async def load(self) -> PodsSnapshot | None:
        """The snapshot as it was kept last; None: there is none, or it cannot be read.

        Raises InputError for a store of a newer release, and StateError where it cannot be used.
        """
        found: list[PodsSnapshot | None] = []
        try:
            await self._use(lambda: found.append(_snapshot(self._store.read())))
        except DamagedError as exc:
            _log.error("store %s cannot be read (%s): everything is listed", self._store.name, exc)
            await self._use(self._store.forget)
            return None
        self._loaded = found[0]
        return found[0]

    async def save(self, changes: Sequence[Difference], snapshot: PodsSnapshot) -> None:
        """For a store's subscriber. Raises StateError where it cannot be used.

        The first save writes what differs from what was loaded, as pods that went since then are not among the changes;
        where nothing was, everything. So does the one after a failure, which may have been written all the same.
        """
        if self._loaded is not None:
            write = changed(differences(self._loaded, snapshot), snapshot.version)
        elif self._complete:
            write = changed(changes, snapshot.version)
        else:
            write = Write([_row(pod) for pod in snapshot.all()], [], snapshot.version, whole=True)
        self._complete, self._loaded = False, None
        await self._use(lambda: self._store.write(write))
        self._complete = True

    async def close(self) -> None:
        """Break off what it is at, and close the store."""
        if self._running is not None:
            if not self._running.done():
                self._store.abort()
            await asyncio.gather(self._running, return_exceptions=True)  # who was cancelled does not look at it
        self._store.close()

    async def _use(self, call: Callable[[], None]) -> None:
        """In a thread; at most DEADLINE. A store that failed is opened anew the next time."""
        cluster = "" if self._open else await self._known_cluster()

        def work() -> None:
            if not self._open:
                self._store.open(cluster)
                self._open = True
            call()

        loop = asyncio.get_running_loop()
        self._running = loop.run_in_executor(None, work)
        timer = loop.call_later(DEADLINE, self._store.abort)
        try:
            # Who waits may be cancelled, and a thread may not: close() waits for it.
            await asyncio.shield(self._running)
        except (StateError, InputError):
            self._open = False
            self._store.close()
            raise
        finally:
            timer.cancel()

    async def _known_cluster(self) -> str:
        try:
            return await self._cluster()
        except ApiError as exc:
            remedy = "it is tried again; berth-tasks needs the rights of deploy/tasks/rbac.yaml"
            raise unusable(self._store.name, "opened", exc.message, remedy) from exc


def changed(changes: Iterable[Difference], version: int) -> Write:
    """In their order: of a pod that went and one of its name that came, the latter is kept."""
    last: dict[PodKey, PodState | None] = {}
    for change in changes:
        last[change.either.namespace, change.either.name] = change.new
    rows = [_row(pod) for pod in last.values() if pod is not None]
    return Write(rows, [key for key, pod in last.items() if pod is None], version, whole=False)


def _row(pod: PodState) -> Row:
    plain = {name: getattr(pod, name) for name in _PLAIN}
    names = {"namespace": pod.namespace, "task": pod.task_key[1]}
    return Row(pod.namespace, pod.name, _text({**names, **plain, **pod.details._asdict()}))


def _snapshot(kept: tuple[int, Sequence[str]] | None) -> PodsSnapshot | None:
    if kept is None:
        return None
    version, states = kept
    try:
        alike = Alike()
        pods = [_pod(state, alike) for state in states]
    except (TypeError, ValueError, KeyError) as exc:
        raise DamagedError(str(exc)) from exc
    return PodsSnapshot().replaced(pods, version)


def _pod(state: str, alike: Alike) -> PodState:
    found = json.loads(state)
    namespace = sys.intern(found.pop("namespace"))
    return PodState(
        task_key=(namespace, found.pop("task")),
        requests=alike.one(tuple((name, value) for name, value in found.pop("requests"))),
        details=alike.one(Details(**{name: found.pop(name) for name in Details._fields})),
        **found,
    )
