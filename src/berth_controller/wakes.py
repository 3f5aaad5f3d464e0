"""Claims that wait for a disk, by class, and the rounds in which they are looked at again.

The binder puts a claim in when it found no disk; the controller says which classes a change concerns. A change that may
give somebody a disk begins a round at once; one that changes no more than the words that a claim was told begins it a
moment later. However many disks change, a class has few rounds: every claim has one visit in each of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

from berth_kube.queue import Reconciler


class ClaimKey(NamedTuple):
    """One claim, for ever: a claim that is made anew under its old name has another uid."""

    namespace: str
    uid: str


#: From one round of a class to its next, seconds; each claim of the round adds some: a visit among a thousand disks
#: takes 5 ms of computing, and claims that wait are not all that there is to do.
GAP, EACH = 0.2, 0.01
#: How long a change of words waits for more of its kind.
WORDS = 1.0


class Wakes:
    """``visit(key)`` has the claim looked at. Made inside a running loop."""

    def __init__(self, visit: Callable[[ClaimKey], None]) -> None:
        self._visit = visit
        self._loop = asyncio.get_running_loop()
        self._classes: dict[ClaimKey, str] = {}
        #: class -> when its next round may begin
        self._next: dict[str, float] = {}
        #: classes that want a round and have not had it
        self._wanted: set[str] = set()
        self._rounds: Reconciler[str] = Reconciler("wake", self._round, 1)

    def __len__(self) -> int:
        return len(self._classes)

    async def run(self) -> None:
        """Until cancelled."""
        await self._rounds.run()

    def put(self, key: ClaimKey, storage_class: str) -> None:
        """The claim waits for a disk of that class."""
        self._classes[key] = storage_class

    def drop(self, key: ClaimKey) -> None:
        """It waits no more."""
        self._classes.pop(key, None)

    def pending(self, key: ClaimKey) -> bool:
        """Whether the claim is going to be looked at, as its class wants a round."""
        return self._classes.get(key) in self._wanted

    def wake(self, classes: Iterable[str], soon: bool) -> None:
        """These classes want a round."""
        for storage_class in classes:
            self._wanted.add(storage_class)
            if soon:
                self._rounds.queue.add(storage_class)
            else:
                self._rounds.queue.add_after(storage_class, WORDS)

    def wake_all(self, soon: bool) -> None:
        """Every class that somebody waits for wants a round."""
        self.wake(set(self._classes.values()), soon)

    async def _round(self, storage_class: str) -> float | None:
        now = self._loop.time()
        early = self._next.get(storage_class, now) - now
        if early > 0:
            return early
        self._wanted.discard(storage_class)
        keys = [key for key, wanted in self._classes.items() if wanted == storage_class]
        for key in keys:
            self._visit(key)
        self._next[storage_class] = now + GAP + EACH * len(keys)
        return None
