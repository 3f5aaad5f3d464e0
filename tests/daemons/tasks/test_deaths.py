"""The backend is killed at random while tasks run; pods are deleted by hand, etcd is compacted: each task ends once.

`make tasks-chaos TASKS=5000 KILLS=50 SEED=7` sets BERTH_TASKS_MANY, BERTH_TASKS_KILLS and BERTH_TASKS_SEED; without
them that is a short run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_kube import config
from berth_kube.client import KubeClient
from tests.daemons.kube.test_informer import forget_history
from tests.daemons.tasks.kubelets import Kubelets
from tests.daemons.tasks.metrics import charged
from tests.daemons.tasks.world import FINAL, World, until
from tests.support.tcp import free_port

Start = Callable[..., Any]
TASKS, KILLS = int(os.environ.get("BERTH_TASKS_MANY") or 150), int(os.environ.get("BERTH_TASKS_KILLS") or 5)
SEED = int(os.environ.get("BERTH_TASKS_SEED") or 7)
PATIENCE = 120 + TASKS / 5


class Witness(threading.Thread):
    """Watches the Tasks, and counts how often each of them comes to a final state."""

    def __init__(self, plane: Any, namespace: str) -> None:
        super().__init__(daemon=True)
        self._kubeconfig, self._namespace = str(plane.kubeconfig), namespace
        self.ends: Counter[str] = Counter()
        self._states: dict[str, str] = {}
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()

    def run(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._watch())
        self._loop.close()

    async def _watch(self) -> None:
        self._task = asyncio.current_task()
        async with KubeClient(config.load(self._kubeconfig)) as client:
            version = (await client.list(kinds.TASK, self._namespace)).version
            self._ready.set()
            while True:
                async with client.watch(kinds.TASK, version, seconds=300, namespace=self._namespace) as events:
                    async for event in events:
                        version = event.version or version
                        if event.type == "MODIFIED":
                            self._see(event.object)

    def _see(self, obj: dict[str, Any]) -> None:
        name, state = obj["metadata"]["name"], (obj.get("status") or {}).get("state", "")
        if state in FINAL and self._states.get(name) != state:
            self.ends[name] += 1
        self._states[name] = state

    def begin(self) -> Witness:
        self.start()
        assert self._ready.wait(60)
        return self

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._task.cancel)
        self.join(60)


@pytest.mark.promise
@pytest.mark.timeout(300 + TASKS)
def test_every_task_ends_once_whenever_the_backend_dies(
    world: World, plane: Any, start: Start, kubelets: Kubelets, tmp_path: Path
) -> None:
    """Deaths come in pairs, all along: one while it works, the next one soon after it has begun anew."""
    for number in range(4):
        world.node(str(number), cpu="4")
    witness = Witness(plane, world.name).begin()
    chance, flags = random.Random(SEED), ("--store", str(tmp_path / "tasks.db"))
    port = free_port()
    began, daemon = time.monotonic(), start(*flags, "--port", str(port))
    with ThreadPoolExecutor(1) as people:
        submitted = people.submit(lambda: [world.submit(f"t{number}", retries=1) for number in range(TASKS)])
        for death in range(KILLS):
            goal = TASKS * (death - death % 2) // (KILLS + 1)
            until(lambda goal=goal: len(witness.ends) >= goal, daemon.text, PATIENCE)
            time.sleep(chance.uniform(0.05, 0.5))
            daemon.process.kill()
            daemon.process.wait()
            daemon = start(*flags, "--port", str(port))
        submitted.result()

    # The watch says when, and not a list each moment: that of thousands would be most of the work.
    until(lambda: len(witness.ends) == TASKS, lambda: f"{len(witness.ends)} of {TASKS} {daemon.text()}", PATIENCE)
    seconds = time.monotonic() - began
    until(lambda: not world.api.list(kinds.POD, world.name), lambda: world.api.list(kinds.POD, world.name), PATIENCE)
    statuses = world.statuses()
    witness.stop()
    until(lambda: charged(port) == 0, lambda: charged(port), PATIENCE)
    assert set(witness.ends.values()) == {1}, [name for name, count in witness.ends.items() if count != 1]
    assert len(statuses) == TASKS
    for name, status in statuses.items():
        wanted = {"Succeeded": (0, status["tries"] - 1), "Failed": (1, 2)}[status["state"]]
        assert (status["exitCode"], status["failures"]) == wanted, (name, status)
    assert kubelets.deleted
    states = Counter(status["state"] for status in statuses.values())
    tries = sum(status["tries"] for status in statuses.values())
    print(
        f"{TASKS} tasks, {KILLS} deaths (seed {SEED}) in {seconds:.0f} s: {states['Succeeded']} succeeded,"
        f" {states['Failed']} failed, each ended once; {tries} tries, {kubelets.deleted} pods deleted by hand, 0 left"
    )


def test_a_checkpoint_that_is_too_old_is_listed_over(world: World, plane: Any, start: Start, tmp_path: Path) -> None:
    """etcd forgets the versions between; what went and what ended meanwhile is found all the same."""
    world.node()
    flags = ("--store", str(tmp_path / "tasks.db"))
    daemon = start(*flags)
    for name in ("ends", "goes", "stays"):
        world.submit(name)
    pods = {name: world.running(name) for name in ("ends", "goes", "stays")}
    daemon.stop()
    world.end(pods["ends"])
    world.api.delete(kinds.POD, pods["goes"]["metadata"]["name"], world.name)
    last = world.submit("after")["metadata"]["resourceVersion"]
    world.api.delete(kinds.TASK, "after", world.name)
    forget_history(plane, last)
    daemon = start(*flags)
    until(lambda: "listing again" in daemon.text(), daemon.text)
    world.ended("ends", "Succeeded")
    again = world.running("goes")
    assert again["metadata"]["uid"] != pods["goes"]["metadata"]["uid"]
    assert world.running("stays")["metadata"]["uid"] == pods["stays"]["metadata"]["uid"]
    for pod in (again, pods["stays"]):
        world.end(pod)
    for name in ("goes", "stays"):
        assert world.ended(name, "Succeeded")["tries"] == 1
        world.no_pods(name)


@pytest.mark.parametrize("damage", ["lost", "damaged", "newer"])
def test_a_store_that_is_lost_is_filled_again(damage: str, world: World, start: Start, tmp_path: Path) -> None:
    world.node()
    path = tmp_path / "tasks.db"
    daemon = start("--store", str(path))
    world.submit("job")
    pod = world.running("job")
    daemon.process.kill()
    daemon.process.wait()
    for extra in ("-wal", "-shm"):
        Path(f"{path}{extra}").unlink(missing_ok=True)
    if damage == "lost":
        path.unlink()
    elif damage == "damaged":
        path.write_bytes(b"no database at all" * 100)
    else:
        import sqlite3

        with contextlib.closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA user_version = 99")
        refused = start("--store", str(path), wait=False)
        assert refused.ended() == 2
        assert "has layout 99, of a newer release" in refused.text()
        path.unlink()
    start("--store", str(path))
    world.end(pod)
    assert world.ended("job", "Succeeded")["tries"] == 1
    world.no_pods("job")
