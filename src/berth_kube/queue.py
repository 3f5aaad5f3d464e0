"""Keys that want work, and the loop that works on them. The controllers of the daemons are made of it.

A key that is added while it waits is there once; one that is added while it is worked on comes again afterwards. So no
key is ever worked on twice at one moment, and nothing that happened is forgotten. Not for threads.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Hashable
from typing import Callable, Generic, TypeVar

from berth_core.errors import BerthError, ConflictError

_log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

BASE_SECONDS = 0.005
CAP_SECONDS = 60.0
#: Keys that failed come back at this rate over all, after a burst: a thousand that fail together do not storm.
RATE = 10.0
BURST = 100
#: Up to so many failures of a key in a row are told as they come; later ones every so often.
TELL = 3


class Bucket:
    """A token bucket that lends: each taker learns how long it has to wait."""

    def __init__(self, rate: float, burst: int, now: float) -> None:
        self._rate, self._burst = rate, burst
        self._tokens, self._at = float(burst), now

    def take(self, now: float) -> float:
        """Seconds until this taker may go on; 0 while there are tokens."""
        self._tokens = min(float(self._burst), self._tokens + (now - self._at) * self._rate) - 1.0
        self._at = now
        return max(0.0, -self._tokens / self._rate)


class WorkQueue(Generic[K]):
    """Keys in the order of adding. Made inside a running loop."""

    def __init__(
        self, base: float = BASE_SECONDS, cap: float = CAP_SECONDS, rate: float = RATE, burst: int = BURST
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._base, self._cap = base, cap
        self._bucket = Bucket(rate, burst, self._loop.time())
        self._ready: deque[K] = deque()
        self._wanted: set[K] = set()
        self._working: set[K] = set()
        self._later: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def __len__(self) -> int:
        return len(self._ready)

    def add(self, key: K) -> None:
        """Work on the key as soon as possible."""
        if self._closed or key in self._wanted:
            return
        self._wanted.add(key)
        if key not in self._working:
            self._ready.append(key)
            self._wake()

    def add_after(self, key: K, seconds: float) -> None:
        """Add the key later; of two such wishes the earlier counts."""
        if self._closed:
            return
        if seconds <= 0.0:
            self.add(key)
            return
        due, waiting = self._loop.time() + seconds, self._later.get(key)
        if waiting is not None:
            if waiting.when() <= due:
                return
            waiting.cancel()
        self._later[key] = self._loop.call_at(due, self._due, key)

    def add_limited(self, key: K) -> None:
        """Add a key that failed: after a pause that doubles with each failure, and not faster than the whole may."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        own = min(self._cap, self._base * float(2 ** min(failures, 40)))
        self.add_after(key, max(own, self._bucket.take(self._loop.time())))

    def failures(self, key: K) -> int:
        """How often the key failed since it was last forgotten."""
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        """The key has succeeded: its next failure is its first."""
        self._failures.pop(key, None)

    async def get(self) -> K | None:
        """The next key, to be given back with `done`; None once the queue is closed and empty."""
        while not self._ready:
            if self._closed:
                return None
            getter: asyncio.Future[None] = self._loop.create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter.done() and not getter.cancelled():
                    self._wake()  # the key was meant for this worker: another one takes it
                raise
        key = self._ready.popleft()
        self._wanted.discard(key)
        if not self._wanted:
            self._wanted = set()  # one that was large stays so
        self._working.add(key)
        return key

    def done(self, key: K) -> None:
        """The key is not worked on any more. If it was added meanwhile, it is next in line."""
        self._working.discard(key)
        if key in self._wanted:
            self._ready.append(key)
            self._wake()

    def close(self) -> None:
        """Take no more keys, drop those that were to come later; what is in line is still given out."""
        self._closed = True
        for handle in self._later.values():
            handle.cancel()
        self._later.clear()
        while self._getters:
            self._wake()

    def _due(self, key: K) -> None:
        self._later.pop(key, None)
        self.add(key)

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return


class Reconciler(Generic[K]):
    """Workers that bring one key after the other to where it should be.

    ``reconcile(key)`` may return seconds after which it wants the key again. When it raises, the key comes back by
    itself, later each time; the error is told. ``observe(result, seconds)``: result is ok, conflict, error or fault.
    """

    def __init__(
        self,
        name: str,
        reconcile: Callable[[K], Awaitable[float | None]],
        workers: int = 2,
        queue: WorkQueue[K] | None = None,
        observe: Callable[[str, float], None] | None = None,
    ) -> None:
        self.name, self._reconcile, self._workers = name, reconcile, workers
        self.queue: WorkQueue[K] = queue if queue is not None else WorkQueue()
        self._observe = observe or (lambda _result, _seconds: None)
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """Until `stop`, and then until what was in line is done. Cancelling ends at once."""
        tasks = [self._loop.create_task(self._work()) for _worker in range(self._workers)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def stop(self) -> None:
        """Finish what is in line, then end."""
        self.queue.close()

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            if key is None:
                return
            began, result = self._loop.time(), "fault"
            try:
                result = await self._once(key)
            finally:
                self.queue.done(key)
                self._observe(result, self._loop.time() - began)

    async def _once(self, key: K) -> str:
        try:
            again = await self._reconcile(key)
        except ConflictError as exc:  # somebody was faster: look again, soon
            _log.debug("%s %s: %s", self.name, key, exc.message)
            result = "conflict"
        except BerthError as exc:
            if self._worth_telling(key):
                _log.warning("%s %s: %s", self.name, key, exc.message)
            result = "error"
        except Exception:  # noqa: BLE001 - a fault with one key must not end the work on all others
            if self._worth_telling(key):
                _log.exception("%s %s: internal error", self.name, key)
            result = "fault"
        else:
            self.queue.forget(key)
            if again is not None:
                self.queue.add_after(key, again)
            return "ok"
        self.queue.add_limited(key)
        return result

    def _worth_telling(self, key: K) -> bool:
        failures = self.queue.failures(key)
        return failures < TELL or failures % 10 == 0
