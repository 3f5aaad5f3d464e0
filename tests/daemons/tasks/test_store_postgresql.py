"""Checkpoints in a real PostgreSQL, which is killed, stopped and damaged. No cluster but for the last."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_core.errors import InputError, StateError
from berth_core.tasks.pods import Details, PodState
from berth_core.tasks.snapshot import PodsSnapshot, differences
from berth_tasks import checkpoint
from berth_tasks.checkpoint import Checkpoint
from berth_tasks.postgresql_store import PostgresqlStore
from tests.core.tasks.samples import pod, task
from tests.daemons.tasks.postgresql import PASSWORD, PostgreSQL
from tests.daemons.tasks.world import World, until

EMPTY = PodsSnapshot()
T = TypeVar("T")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSQL]:
    made = PostgreSQL()
    try:
        yield made.start()
    finally:
        made.stop()


@pytest.fixture
def postgresql(server: PostgreSQL, monkeypatch: pytest.MonkeyPatch) -> PostgreSQL:
    """Without tables and sessions of an earlier test; the password is where the guide says."""
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    sessions = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'berth-tasks'"
    server.start().sql(sessions)
    server.sql("SET client_min_messages = error; DROP SCHEMA IF EXISTS berth_tasks CASCADE")
    return server


def kept(server: PostgreSQL, cluster: str = "one", backend: str = "berth-system", **uri: str) -> Checkpoint:
    """A process that does not lead by itself."""

    async def name() -> str:
        return cluster

    return Checkpoint(PostgresqlStore(server.uri(**uri), backend), name)


def pods(*names: str, phase: str = "Running") -> list[PodState]:
    return [pod(task(name), phase=phase, uid=f"uid-{name}", version=3) for name in names]


def snapshot(version: int, *names: str, phase: str = "Running") -> PodsSnapshot:
    return EMPTY.replaced(pods(*names, phase=phase), version)


async def ended(call: Callable[[], Awaitable[T]]) -> T:
    """Its answer, once the server has ended the session that was closed before: it takes a moment to notice."""
    end = time.monotonic() + 10
    while True:
        try:
            return await call()
        except StateError as exc:
            if "cannot be shared" not in exc.message or time.monotonic() > end:
                raise
        await asyncio.sleep(0.05)


async def save(store: Checkpoint, old: PodsSnapshot, new: PodsSnapshot) -> PodsSnapshot:
    """A store that has failed opens a session anew."""
    await ended(lambda: store.save(differences(old, new), new))
    return new


async def loaded(server: PostgreSQL, **which: str) -> PodsSnapshot | None:
    """What the next process finds."""
    store = kept(server, **which)
    try:
        return await ended(store.load)
    finally:
        await store.close()


def test_what_is_saved_is_loaded_and_each_has_its_own(postgresql: PostgreSQL) -> None:
    """Two clusters, and two backends of one of them; odd characters come back as they were."""

    async def story() -> None:
        first, other, third = kept(postgresql), kept(postgresql, "two"), kept(postgresql, backend="nightly")
        assert [await one.load() for one in (first, other, third)] == [None, None, None]
        odd = replace(*pods("a"), details=Details(termination_message="é\x00\ud800'; DROP"))
        now = EMPTY.replaced([odd, *pods("b", "c")], 7)
        await first.save(differences(EMPTY, now), now)
        theirs = await save(other, EMPTY, snapshot(900, "a", "z"))
        # c went, b changed, a was replaced by another of its name
        new = [pod(task("a"), uid="another", version=8), *pods("b", phase="Succeeded")]
        then = EMPTY.replaced(new, 9)
        await first.save(differences(now, then), then)
        for one in (first, other, third):
            await one.close()
        assert await loaded(postgresql) == then
        assert (await loaded(postgresql, cluster="two"), await loaded(postgresql, backend="nightly")) == (theirs, None)

    asyncio.run(story())
    rows = postgresql.sql("SELECT cluster, backend, version FROM berth_tasks.checkpoints ORDER BY 1, 2")
    assert rows.splitlines() == ["one|berth-system|9", "one|nightly|", "two|berth-system|900"]


def test_what_went_before_the_first_save_is_not_kept(postgresql: PostgreSQL) -> None:
    """Its going is no change of which a subscriber is told: it began after that."""

    async def story() -> None:
        store = kept(postgresql)
        await save(store, EMPTY, snapshot(5, "a", "gone"))
        await store.close()
        store = kept(postgresql)
        assert await ended(store.load) == snapshot(5, "a", "gone")
        await save(store, EMPTY, snapshot(6, "a"))
        await store.close()
        assert await loaded(postgresql) == snapshot(6, "a")

    asyncio.run(story())


def test_a_second_writer_is_refused_until_the_first_has_gone(postgresql: PostgreSQL) -> None:
    async def story() -> None:
        first, second = kept(postgresql), kept(postgresql)
        now, later = await save(first, EMPTY, snapshot(5, "a")), snapshot(6, "b")
        session = postgresql.sql("SELECT pid FROM pg_stat_activity WHERE application_name = 'berth-tasks'")
        for refused in (second.load(), second.save(differences(EMPTY, later), later)):
            with pytest.raises(StateError) as said:
                await refused
            for words in (
                f"session {session} of its own host, of the same cluster and --namespace berth-system",
                "end",
            ):
                assert words in said.value.message, said.value.message
        assert await first.load() == now, "and what it keeps is as it was"
        # As when its process is killed: the session ends, and with it the lock.
        postgresql.sql(f"SELECT pg_terminate_backend({session}, 10000)")
        assert await second.load() == now
        for words in ("cannot be written", "cannot be shared"):
            with pytest.raises(StateError, match=words):
                await first.save(differences(now, later), later)
        assert await second.load() == now
        for one in (first, second):
            await one.close()

    asyncio.run(story())


def test_nothing_is_lost_or_doubled_when_the_server_is_killed_between_saves(postgresql: PostgreSQL) -> None:
    async def story() -> None:
        store = kept(postgresql)
        now = await save(store, EMPTY, snapshot(5, "a", "b", "c"))
        for number in range(3):
            postgresql.kill()
            newer = snapshot(10 + number, "a", f"new-{number}", phase="Failed")
            with pytest.raises(StateError, match=r"cannot be (written|opened) \(.*\): no task depends on it"):
                await save(store, now, newer)
            postgresql.start()
            assert await loaded(postgresql) == now, "what was saved last is there, and nothing of what failed"
            now = await save(store, now, newer)
        postgresql.kill()
        postgresql.start()
        await store.close()
        assert await loaded(postgresql) == now

    asyncio.run(story())


def test_a_save_whose_answer_was_lost_may_have_been_made(postgresql: PostgreSQL) -> None:
    """The next one says everything: a pod that only that save has written does not stay."""

    async def story() -> None:
        store = kept(postgresql)
        now = await save(store, EMPTY, snapshot(5, "a"))
        written = PostgresqlStore.write

        def lost(self: PostgresqlStore, what: Any) -> None:
            written(self, what)
            raise checkpoint.unusable(self.name, "written", "no answer", "")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PostgresqlStore, "write", lost)
            with pytest.raises(StateError, match="no answer"):
                await save(store, now, snapshot(6, "a", "short-lived"))
        await save(store, now, snapshot(7, "a"))
        await store.close()
        assert await loaded(postgresql) == snapshot(7, "a")

    asyncio.run(story())


@contextmanager
def frozen(postgresql: PostgreSQL) -> Iterator[None]:
    """Every process of it is stopped: it takes connections and says nothing."""
    assert postgresql.process is not None
    found = postgresql.sql("SELECT pid FROM pg_stat_activity WHERE application_name = 'berth-tasks'").split()
    processes = [postgresql.process.pid, *map(int, found)]
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


def test_a_server_that_hangs_holds_nobody_up(postgresql: PostgreSQL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "DEADLINE", 0.5)

    async def story() -> None:
        store = kept(postgresql, connect_timeout="2")
        now = await save(store, EMPTY, snapshot(5, "a"))
        with frozen(postgresql):
            began = time.monotonic()
            with pytest.raises(StateError, match="cannot be written"):
                await save(store, now, snapshot(6, "b"))
            with pytest.raises(StateError, match="cannot be opened"):
                await save(store, now, snapshot(6, "b"))
            assert time.monotonic() - began < 20
        async with asyncio.timeout(60):
            while True:
                try:
                    await save(store, now, snapshot(7, "b"))
                    break
                except StateError:  # the server ends the old session first
                    await asyncio.sleep(0.1)
        monkeypatch.setattr(checkpoint, "DEADLINE", 30)
        with frozen(postgresql):
            saving = asyncio.ensure_future(save(store, now, snapshot(8, "c")))
            await asyncio.sleep(0.2)
            saving.cancel()
            began = time.monotonic()
            await store.close()
            assert time.monotonic() - began < 10, "a daemon that is told to stop does not wait for it"
        assert await loaded(postgresql) == snapshot(7, "b")

    asyncio.run(story())


def test_a_save_is_all_or_nothing(postgresql: PostgreSQL) -> None:
    async def story() -> None:
        store = kept(postgresql)
        now = await save(store, EMPTY, snapshot(5, "a", "b"))
        # What is written last is refused.
        postgresql.sql("ALTER TABLE berth_tasks.checkpoints ADD CONSTRAINT small CHECK (version < 100)")
        with pytest.raises(StateError, match=r"cannot be written .*small"):
            await save(store, now, snapshot(200, "b", "c"))
        assert await ended(store.load) == now
        await save(store, now, snapshot(50, "c"))
        await store.close()
        assert await loaded(postgresql) == snapshot(50, "c")

    asyncio.run(story())


@pytest.mark.parametrize("damage", ["no JSON", "[]", '{"name": "a"}', '{"unknown": 1, "requests": []}'])
def test_a_row_that_cannot_be_read_has_everything_listed(
    damage: str, postgresql: PostgreSQL, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        for which in ("one", "two"):
            store = kept(postgresql, which)
            await save(store, EMPTY, snapshot(5, "a", "b"))
            await store.close()
        postgresql.sql(
            f"UPDATE berth_tasks.pods SET state = '{damage}' WHERE (checkpoint, name) ="
            " (SELECT id, (SELECT max(name) FROM berth_tasks.pods) FROM berth_tasks.checkpoints WHERE cluster = 'one')"
        )
        store = kept(postgresql)
        assert await ended(store.load) is None
        assert "everything is listed" in caplog.text
        assert await store.load() is None
        await save(store, EMPTY, snapshot(9, "c"))
        await store.close()
        assert await loaded(postgresql) == snapshot(9, "c")
        assert await loaded(postgresql, cluster="two") == snapshot(5, "a", "b"), "the other one's is as it was"

    asyncio.run(story())


def test_a_newer_layout_is_refused_and_lost_tables_are_made_again(postgresql: PostgreSQL) -> None:
    async def story() -> None:
        store = kept(postgresql)
        now = await save(store, EMPTY, snapshot(5, "a"))
        for lost in (
            "DROP TABLE berth_tasks.pods",
            "DELETE FROM berth_tasks.checkpoints",
            "DROP SCHEMA berth_tasks CASCADE",
        ):
            postgresql.sql(f"SET client_min_messages = error; {lost}")
            newer = snapshot(now.version + 1, "a", "b")
            with pytest.raises(StateError, match="cannot be written"):
                await save(store, now, newer)
            now = await save(store, now, newer)
            assert await store.load() == newer
        await store.close()
        postgresql.sql("UPDATE berth_tasks.layout SET number = 99")
        with pytest.raises(InputError, match="has layout 99, of a newer release; this one knows 1"):
            await loaded(postgresql)
        postgresql.sql("UPDATE berth_tasks.layout SET number = 1")
        assert await loaded(postgresql) == now

    asyncio.run(story())


def test_a_role_without_the_right_to_make_tables_uses_those_of_others(postgresql: PostgreSQL) -> None:
    postgresql.sql(f"DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}'")

    async def story() -> None:
        with pytest.raises(StateError, match=r"permission denied for database postgres.*role's rights"):
            await loaded(postgresql, user="guest")
        assert await loaded(postgresql) is None
        with pytest.raises(StateError, match="permission denied for schema berth_tasks"):
            await loaded(postgresql, user="guest")
        postgresql.sql(
            "GRANT USAGE ON SCHEMA berth_tasks TO guest;"
            " GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA berth_tasks TO guest"
        )
        store = kept(postgresql, "guests", user="guest")
        await save(store, EMPTY, snapshot(5, "a"))
        await store.close()
        assert await loaded(postgresql, cluster="guests") == snapshot(5, "a")

    asyncio.run(story())
    postgresql.sql("DROP OWNED BY guest; DROP ROLE guest")


@pytest.mark.parametrize(
    ("uri", "environment", "words"),
    [
        ({"user": "nobody"}, {}, "password authentication failed"),
        ({}, {"PGPASSWORD": "wrong"}, "password authentication failed"),
        ({"database": "missing"}, {}, 'database "missing" does not exist'),
        (
            {"sslmode": "verify-full", "sslrootcert": "/no/such.crt", "host": "127.0.0.1", "port": "1"},
            {},
            "such.crt|refused",
        ),
    ],
)
def test_what_is_wrong_is_said_and_the_password_is_not(
    postgresql: PostgreSQL,
    monkeypatch: pytest.MonkeyPatch,
    uri: dict[str, str],
    environment: dict[str, str],
    words: str,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(StateError, match=words) as said:
        asyncio.run(loaded(postgresql, **uri))
    assert PASSWORD not in said.value.message
    assert "\n" not in said.value.message


def test_several_begin_at_one_moment(postgresql: PostgreSQL) -> None:
    """Tables are made once, whoever comes first."""

    async def story() -> None:
        stores = [kept(postgresql, f"cluster-{number}") for number in range(8)]
        await asyncio.gather(*(save(store, EMPTY, snapshot(5, "a")) for store in stores))
        for store in stores:
            await store.close()

    asyncio.run(story())
    assert postgresql.sql("SELECT count(*) FROM berth_tasks.pods") == "8"
    assert postgresql.sql("SELECT number FROM berth_tasks.layout") == "1"


def test_many_pods_are_kept_in_one_save(postgresql: PostgreSQL) -> None:
    names = [f"task-{number}" for number in range(3000)]

    async def story() -> None:
        store = kept(postgresql)
        now = await save(store, EMPTY, snapshot(5, *names))
        now = await save(store, now, snapshot(6, *names[:1000], phase="Succeeded"))
        await store.close()
        assert await loaded(postgresql) == now

    asyncio.run(story())


def test_tasks_run_while_postgresql_is_away(world: World, start: Callable[..., Any], postgresql: PostgreSQL) -> None:
    world.node()
    options: dict[str, Any] = {"environment": {"PGPASSWORD": PASSWORD}}
    flags = ("--store", postgresql.uri())
    saved = "SELECT count(*) FROM berth_tasks.pods"
    daemon = start(*flags, **options)
    world.submit("stays")
    staying = world.running("stays")
    until(lambda: postgresql.sql(saved) == "1", daemon.text)
    second = start(*flags, **options)
    until(lambda: "of the same cluster and --namespace" in second.text(), second.text)
    second.stop()
    postgresql.kill()
    world.submit("meanwhile")
    world.end(world.running("meanwhile"))
    world.ended("meanwhile", "Succeeded")
    world.no_pods("meanwhile")
    until(lambda: "subscriber checkpoint: store" in daemon.text(), daemon.text)
    postgresql.start()
    until(lambda: postgresql.sql(f"{saved} WHERE name = '{staying['metadata']['name']}'") == "1", daemon.text)
    # Killed, and what ended meanwhile is found by going on from what was kept.
    daemon.process.kill()
    daemon.process.wait()
    world.end(staying)
    daemon = start(*flags, "--log-level", "debug", **options)
    assert world.ended("stays", "Succeeded")["tries"] == 1
    until(lambda: postgresql.sql(saved) == "0", daemon.text)
    postgresql.kill()
    daemon.stop()
    daemon = start(*flags, **options)
    assert "cannot be opened" in daemon.text()
    world.submit("without")
    world.end(world.running("without"))
    world.ended("without", "Succeeded")
    postgresql.start()
    uid = world.api.get(kinds.NAMESPACE, "kube-system")["metadata"]["uid"]
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'berth-tasks'"
    until(lambda: postgresql.sql(sessions) == "1", daemon.text)
    assert postgresql.sql("SELECT cluster, backend FROM berth_tasks.checkpoints") == f"{uid}|berth-system"
