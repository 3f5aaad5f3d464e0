"""Who ends the pods that run, and deletes some by hand, while a test has the backend and its cluster suffer."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import NotFoundError
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.daemons.tasks.world import World


class Kubelets(threading.Thread):
    """Ends pods that run, one of ten with exit code 1, and deletes one of twenty by hand."""

    def __init__(self, world: World, seed: int) -> None:
        super().__init__(daemon=True)
        self._world, self._chance, self._stop_it = world, random.Random(seed), threading.Event()
        self.deleted = 0

    def run(self) -> None:
        while not self._stop_it.wait(0.05):
            for pod in self._world.api.list(kinds.POD, self._world.name):
                if (pod.get("status") or {}).get("phase") == "Running":
                    self._end(pod)

    def _end(self, pod: dict[str, Any]) -> None:
        if self._chance.random() < 0.05:
            with contextlib.suppress(NotFoundError):
                self._world.api.delete(kinds.POD, pod["metadata"]["name"], self._world.name)
            self.deleted += 1
            return
        self._world.end(pod, 1 if self._chance.random() < 0.1 else 0)

    def stop(self) -> None:
        self._stop_it.set()
        self.join(60)


@contextmanager
def ending(world: World, name: str, code: Callable[[int], int] = lambda _index: 0) -> Iterator[set[int]]:
    """Ends the pods of a batch meanwhile, each with the exit code of its element. Gives the elements that ran."""
    over, ran = threading.Event(), set()

    def end() -> None:
        while not over.wait(0.05):
            for index, pod in world.elements(name, "Running").items():
                ran.add(index)
                world.end(pod, code(index))

    thread = threading.Thread(target=end)
    thread.start()
    try:
        yield ran
    finally:
        over.set()
        thread.join(60)
