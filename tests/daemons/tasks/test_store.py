"""The store of snapshots and its subscribers; the checkpoint on a disk that is full. No cluster but for the last."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from berth_core.errors import InputError, StateError
from berth_core.model.resources import POD
from berth_core.tasks.snapshot import Difference, PodsSnapshot, differences
from berth_core.tasks.task import UID_LABEL
from berth_kube import config
from berth_kube.client import KubeClient
from berth_tasks.checkpoint import Checkpoint, Write
from berth_tasks.polling_source import PodsPollingSnapshotSource
from berth_tasks.sqlite_store import SqliteStore
from berth_tasks.store import PodSnapshotStore
from tests.core.tasks.samples import pod, task
from tests.daemons.tasks.world import World, until

Start = Callable[..., Any]
ONE = task()


async def settled(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


def run(story: Callable[[PodSnapshotStore], Awaitable[None]]) -> None:
    async def whole() -> None:
        await story(PodSnapshotStore(lambda _changes: None))

    asyncio.run(whole())


class Reader:
    """What a subscriber knows from what it was told alone. ``broken``: it raises; ``open``: it may return."""

    def __init__(self) -> None:
        self.phases: dict[str, str] = {}
        self.calls = self.failed = 0
        self.broken = False
        self.open = asyncio.Event()
        self.open.set()

    async def __call__(self, changes: Sequence[Difference], _snapshot: PodsSnapshot) -> None:
        self.calls += 1
        await self.open.wait()
        if self.broken:
            self.failed += 1
            raise ValueError("a fault of its own")
        for old, new in changes:
            if new is not None:
                self.phases[new.uid] = new.phase
            elif old is not None:
                del self.phases[old.uid]


def test_who_is_slow_or_raises_is_told_what_it_missed_and_delays_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async def story(store: PodSnapshotStore) -> None:
        quick, slow, raising = Reader(), Reader(), Reader()
        for name, reader in (("quick", quick), ("slow", slow), ("raising", raising)):
            store.subscribe(name, reader)
        working = asyncio.ensure_future(store.run())
        slow.open.clear()
        raising.broken = True
        lives: list[tuple[str, bool, dict[str, str]]] = [
            ("Pending", True, {"pod-1": "Pending"}),
            ("Running", True, {"pod-1": "Running"}),
            ("Failed", True, {"pod-1": "Failed"}),
            ("Failed", False, {}),
        ]
        for version, (phase, there, known) in enumerate(lives, 1):
            store.tell(pod(ONE, 1, phase, version=version), version, there=there)
            await settled(lambda known=known: quick.phases == known)  # type: ignore[misc]
        store.tell(pod(ONE, 2, "Running", version=9), 9)
        await settled(lambda: quick.phases == {"pod-2": "Running"})
        assert (slow.calls, slow.phases, raising.phases) == (1, {}, {})
        raising.broken = False
        slow.open.set()
        await settled(lambda: slow.phases == raising.phases == quick.phases)
        assert slow.calls == 2, "all that came meanwhile is told at once"
        assert raising.failed
        working.cancel()

    run(story)
    assert "subscriber raising failed; it is told again" in caplog.text


def test_the_poll_finds_what_no_watch_has_told(world: World, plane: Any) -> None:
    """Pods that came and that went; a list is asked for again and again."""
    meta = {"labels": {"berth.dev/task": "job", "berth.dev/task-try": "1", UID_LABEL: "u"}, "namespace": world.name}
    body = {"metadata": {**meta, "name": "polled"}, "spec": world.template()["spec"]}

    async def whole() -> None:
        store = PodSnapshotStore(lambda _changes: None)
        async with KubeClient(config.load(str(plane.kubeconfig))) as client:
            polling = asyncio.ensure_future(PodsPollingSnapshotSource(client, store, 0.1).run())
            key = (world.name, "polled")
            await client.create(POD, body)
            await settled(lambda: store.snapshot.find(key) is not None)
            await client.delete(POD, "polled", world.name)
            await settled(lambda: store.snapshot.find(key) is None)
            polling.cancel()

    asyncio.run(whole())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Nothing more fits on that disk."""
    filler = folder / "filler"
    with filler.open("ab", buffering=0) as stream, suppress(OSError):
        while True:
            stream.write(os.urandom(4096))
    return filler


def kept(path: Path, cluster: str = "here", kind: Callable[[str], SqliteStore] = SqliteStore) -> Checkpoint:
    async def name() -> str:
        return cluster

    return Checkpoint(kind(str(path)), name)


async def loaded(path: Path, cluster: str = "here") -> PodsSnapshot | None:
    """What the next process finds."""
    checkpoint = kept(path, cluster)
    try:
        return await checkpoint.load()
    finally:
        await checkpoint.close()


def test_a_checkpoint_on_a_full_disk_keeps_what_it_had(small_disk: Path) -> None:
    path = small_disk / "tasks.db"

    async def story() -> None:
        checkpoint = kept(path)
        first = PodsSnapshot().replaced([pod(ONE)], 7)
        await checkpoint.save([Difference(None, pod(ONE))], first)
        filler = fill(small_disk)
        many = [pod(task(f"t{number}"), uid=f"u{number}") for number in range(2000)]
        changes = [Difference(None, one) for one in many]
        with pytest.raises(StateError, match=r"store .*/tasks\.db cannot be written \(.*full\): no task depends on it"):
            await checkpoint.save(changes, PodsSnapshot().replaced(many, 9))
        filler.unlink()
        assert await checkpoint.load() == first
        await checkpoint.save([], PodsSnapshot().replaced([pod(ONE)], 8))
        await checkpoint.close()
        assert await loaded(path) == PodsSnapshot().replaced([pod(ONE)], 8)
        assert await loaded(path, "elsewhere") is None, "of another cluster nothing is taken over"

    asyncio.run(story())


def test_a_file_is_of_one_process_and_has_what_was_saved_last(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    both = PodsSnapshot().replaced([pod(ONE), pod(task("gone"), uid="gone")], 5)

    async def story() -> None:
        first, second = kept(path), kept(path)
        await first.save(differences(PodsSnapshot(), both), both)
        with pytest.raises(StateError, match=r"tasks\.db cannot be shared \(another process writes it\)"):
            await second.load()
        await first.close()
        assert await second.load() == both
        # A pod that went between the load and the first save is not among what the subscriber is told.
        one = PodsSnapshot().replaced([pod(ONE)], 6)
        await second.save(differences(PodsSnapshot(), one), one)
        replaced = PodsSnapshot().replaced([pod(ONE, uid="another", version=8)], 9)
        await second.save(differences(one, replaced), replaced)
        await second.close()
        assert await loaded(path) == replaced

    asyncio.run(story())


def test_the_first_save_writes_what_is_not_there_already(tmp_path: Path) -> None:
    """And everything where nothing was loaded."""
    path = tmp_path / "tasks.db"
    old = PodsSnapshot().replaced([pod(task(name), uid=name) for name in ("same", "newer", "gone")], 5)
    new = PodsSnapshot().replaced([pod(task("same"), uid="same"), pod(task("newer"), uid="newer", version=6)], 7)
    writes: list[tuple[int, int, int, bool]] = []

    class Told(SqliteStore):
        def write(self, what: Write) -> None:
            writes.append((len(what.rows), len(what.gone), what.version, what.whole))
            super().write(what)

    async def story() -> None:
        first, second = kept(path, kind=Told), kept(path, kind=Told)
        assert await first.load() is None
        await first.save(differences(PodsSnapshot(), old), old)
        await first.close()
        assert await second.load() == old
        await second.save(differences(PodsSnapshot(), new), new)
        await second.save([], new.applied([], 8))
        await second.close()
        assert writes == [(3, 0, 5, True), (1, 1, 7, False), (0, 0, 8, False)]
        assert await loaded(path) == new.applied([], 8)

    asyncio.run(story())


def test_a_store_that_cannot_be_opened_is_no_damaged_one(small_disk: Path) -> None:
    path = small_disk / "tasks.db"
    fill(small_disk)
    with pytest.raises(StateError, match="cannot be opened"):
        asyncio.run(loaded(path))
    assert not list(small_disk.glob("*.damaged"))
    (small_disk / "filler").unlink()
    assert asyncio.run(loaded(path)) is None
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(InputError, match="has layout 99, of a newer release"):
        asyncio.run(loaded(path))


def test_tasks_run_while_the_disk_is_full(world: World, start: Start, small_disk: Path) -> None:
    world.node()
    flags = ("--store", str(small_disk / "tasks.db"))
    filler = fill(small_disk)
    daemon = start(*flags)
    assert "cannot be opened" in daemon.text()
    world.submit("without")
    world.end(world.running("without"))
    world.ended("without", "Succeeded")
    daemon.stop()
    filler.unlink()
    daemon = start(*flags)
    fill(small_disk)
    names = [f"t{number}" for number in range(15)]
    big = {"spec": world.template()["spec"], "metadata": {"labels": {f"l{at}": "x" * 63 for at in range(9)}}}
    for name in names:
        world.submit(name, template=big)
    for name in names:
        world.end(world.running(name))
    for name in names:
        assert world.ended(name, "Succeeded")["tries"] == 1
    until(lambda: "subscriber checkpoint: store" in daemon.text() and "cannot be written" in daemon.text(), daemon.text)
    daemon.stop()
