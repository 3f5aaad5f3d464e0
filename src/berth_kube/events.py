"""Tells people what happened to an object: events.k8s.io/v1, never in the way of the work.

    recorder = Recorder(client, "berth-agent", "node-1")
    task = asyncio.create_task(recorder.run())
    recorder.event(disk, "Warning", "WipeRefused", "…")

`event` only notes it down; several writes may be under way at once. The same fact again becomes a series of one Event.
What cannot be written is told once in the log and dropped: an event is news, the conditions of objects are the record.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import random
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from berth_core.errors import BerthError, ConflictError, NotFoundError
from berth_core.model.resources import EVENT

from .client import KubeClient
from .clocks import utc_now
from .event_record import Fact, event_of, fact, series
from .queue import Bucket

_log = logging.getLogger(__name__)

NORMAL, WARNING = "Normal", "Warning"
#: A fact that was not told again for so long starts a new Event, as in client-go.
SERIES_SECONDS = 360.0
#: A series is written at most so often: each repetition is counted, not each is sent.
REFRESH_SECONDS = 10.0
RATE, BURST = 5.0, 25
_NOTE = Fact._fields.index("note")
#: While the component is busy a writer rests so long between two writes, and looks so often whether it still is.
REST_SECONDS, REST_LOOK = 2.0, 0.1
#: Facts that are remembered, and of these those that wait to be written: more than that is a flood.
REMEMBERED = 4096
WAITING = 1024


class Told:
    """What became of a fact: its Event, how often it was told and how often that was written. Very many wait."""

    __slots__ = ("count", "last", "name", "namespace", "waiting", "writing", "written", "written_at")

    def __init__(self, last: float) -> None:
        self.last, self.count = last, 1
        self.written, self.written_at = 0, 0.0
        self.name = self.namespace = ""
        self.waiting = self.writing = False


class Recorder:
    """Events of one component (``berth-agent``) on one instance (the node's or pod's name). Made inside a loop.

    ``writers``: connections that write at once; ``waiting``: facts that may wait for one, beyond that they are dropped.
    ``gather``: seconds that a writer lets pass, for more to come that it then sends in one piece, up to ``together``.
    ``by_note`` False: a fact with another note is the same fact and is counted under the first one's, as client-go's
    recorder has it; what is said of a pod changes with every node that fills up. ``busy``: whether the component is at
    work for which the API server is to have its time; then Events come after what they tell of, unless half of
    ``waiting`` wait.
    """

    def __init__(
        self,
        client: KubeClient,
        component: str,
        instance: str,
        *,
        rate: float = RATE,
        burst: int = BURST,
        refresh: float = REFRESH_SECONDS,
        writers: int = 1,
        waiting: int = WAITING,
        together: int = 1,
        gather: float = 0.0,
        by_note: bool = True,
        busy: Callable[[], bool] = lambda: False,
        now: Callable[[], dt.datetime] = utc_now,
        nonce: Callable[[], int] = lambda: random.getrandbits(64),
    ) -> None:
        self._client, self._component, self._instance = client, component, instance
        self._refresh, self._now, self._nonce = refresh, now, nonce
        self._loop = asyncio.get_running_loop()
        self._bucket = Bucket(rate, burst, self._loop.time())
        self._told: OrderedDict[tuple[object, ...], Told] = OrderedDict()
        self._writers, self._most, self._by_note, self._busy = writers, waiting, by_note, busy
        self._together, self._gather, self._gathering = together, gather, asyncio.Lock()
        # Those that wait are here, whether or not they are still remembered.
        self._queue: asyncio.Queue[tuple[Fact, Told]] = asyncio.Queue(waiting)
        self._failing = False
        #: facts that nobody will read, because too many came at once
        self.dropped = 0

    def event(
        self,
        item: Mapping[str, Any],
        type: str,  # noqa: A002 - the field's name
        reason: str,
        note: str,
        *,
        action: str = "",
        related: Mapping[str, Any] | None = None,
    ) -> None:
        """Tell it about the object (whole, or a reference with kind, apiVersion, name, ...). Never waits."""
        told = fact(item, type, reason, note, action, related)
        key = self._key(told)
        now, known = self._loop.time(), self._told.get(key)
        if known is not None and now - known.last < SERIES_SECONDS:
            known.count, known.last = known.count + 1, now
        else:
            self._told.pop(key, None)
            known = self._told[key] = Told(now)
            self._forget_old(now)
        self._told.move_to_end(key)
        if not known.waiting and not known.writing:
            self._wait(told, known, now)

    @property
    def backlog(self) -> int:
        """How many facts wait to be written now; a series whose next writing is due later is none of them."""
        return self._queue.qsize()

    def _key(self, told: Fact) -> tuple[object, ...]:
        return told if self._by_note else (*told[:_NOTE], *told[_NOTE + 1 :])

    async def run(self) -> None:
        """Write what was noted down, until cancelled."""
        writers = [asyncio.ensure_future(self._run_one()) for _number in range(self._writers)]
        try:
            await asyncio.gather(*writers)
        finally:
            for one in writers:
                one.cancel()
            await asyncio.gather(*writers, return_exceptions=True)

    async def _run_one(self) -> None:
        while True:
            some: list[tuple[Fact, Told]] = []
            try:
                await self._next(some)
                pause = max([self._bucket.take(self._loop.time()) for _one in some])
                if pause:
                    await asyncio.sleep(pause)
                await self._stand_back()
                await self._written(some)
            except asyncio.CancelledError:  # what was carried out is there already when it is written again
                for told, known in some:
                    known.waiting = True
                    self._line_up(told, known)
                raise

    async def _stand_back(self) -> None:
        until = self._loop.time() + REST_SECONDS
        while self._busy() and self._queue.qsize() < self._most // 2 and self._loop.time() < until:
            await asyncio.sleep(REST_LOOK)

    async def _next(self, some: list[tuple[Fact, Told]]) -> None:
        """What is written next, by one writer at a time: two that wait would send half as much in one piece."""
        async with self._gathering:
            some.append(await self._queue.get())
            if self._gather and self._queue.qsize() + 1 < self._together:
                await asyncio.sleep(self._gather)
            some += self._at_once(self._together - 1)

    def _at_once(self, most: int) -> list[tuple[Fact, Told]]:
        return [self._queue.get_nowait() for _number in range(min(most, self._queue.qsize()))]

    async def _written(self, some: Sequence[tuple[Fact, Told]]) -> None:
        """Write what has waited. What is told of it meanwhile is written after it, not beside it."""
        counts = [known.count for _told, known in some]
        for _told, known in some:
            known.waiting, known.writing = False, True
        try:
            await self._write(some, self._gather)
        finally:
            for _told, known in some:
                known.writing = False
        for (told, known), count in zip(some, counts):
            if known.count != count:
                self._wait(told, known, self._loop.time())

    async def flush(self, seconds: float = 2.0) -> None:
        """Before the end: write what waits, for so long at most. `run` must have been cancelled."""
        until = self._loop.time() + seconds
        while not self._queue.empty() and self._loop.time() < until:
            some = self._at_once(self._together)
            for _told, known in some:
                known.waiting = False
            await self._write(some, 0.0)

    def _wait(self, told: Fact, known: Told, now: float) -> None:
        """In line at once for what is new; a series is written again when its time comes."""
        known.waiting = True
        delay = known.written_at + self._refresh - now if known.written else 0.0
        if delay > 0:
            self._loop.call_later(delay, self._line_up, told, known)
        else:
            self._line_up(told, known)

    def _line_up(self, told: Fact, known: Told) -> None:
        try:
            self._queue.put_nowait((told, known))
        except asyncio.QueueFull:
            known.waiting = False
            self._told.pop(self._key(told), None)
            self.dropped += 1
            if self.dropped == 1:
                _log.warning("events: more than %d wait to be written; some are dropped", self._most)

    def _forget_old(self, now: float) -> None:
        while self._told:
            oldest = next(iter(self._told.values()))
            if len(self._told) <= REMEMBERED and now - oldest.last < SERIES_SECONDS:
                return
            self._told.popitem(last=False)

    async def _write(self, some: Sequence[tuple[Fact, Told]], look_after: float) -> None:
        """New ones in one piece, then those that are counted on."""
        new = [one for one in some if not one[1].written]
        again = [one for one in some if one[1].written not in (0, one[1].count)]
        if new:
            await self._create(new, look_after)
        for told, known in again:
            await self._repeat(told, known)

    async def _repeat(self, told: Fact, known: Told) -> None:
        """Count on in the Event that is there, or a new one: the API server keeps them an hour."""
        count = known.count
        try:
            patch = series(count, self._now())
            await self._client.patch(EVENT, known.name, known.namespace, patch, kind="merge")
        except NotFoundError:
            known.name = ""
            await self._create([(told, known)], 0.0)
        except BerthError as exc:
            self._not_written(told, exc)
        else:
            self._is_written(known, count)

    async def _create(self, new: Sequence[tuple[Fact, Told]], look_after: float) -> None:
        """Make their Events. One whose fate is not known keeps its name: there are never two of it."""
        counts = [known.count for _told, known in new]
        try:
            events = [self._event(*one) for one in new]
            refused: Sequence[BerthError | None] = await self._client.create_all(EVENT, events, look_after=look_after)
        except BerthError as exc:  # none was sent: the Lease is lost
            refused = [exc] * len(new)
        for (told, known), count, error in zip(new, counts, refused):
            if error is None:
                self._is_written(known, count)
            elif isinstance(error, ConflictError) and error.reason == "AlreadyExists":  # an answer was lost
                self._is_written(known, count)
                if count > 1:
                    await self._repeat(told, known)
            else:
                self._not_written(told, error)

    def _event(self, told: Fact, known: Told) -> dict[str, Any]:
        event = event_of(told, self._component, self._instance, self._now(), self._nonce())
        meta = event["metadata"]
        meta["name"] = known.name = known.name or meta["name"]
        known.namespace = meta["namespace"]
        if known.count > 1:
            event.update(series(known.count, self._now()))
        return event

    def _is_written(self, known: Told, count: int) -> None:
        known.written, known.written_at, self._failing = count, self._loop.time(), False

    def _not_written(self, told: Fact, exc: BerthError) -> None:
        if not self._failing:
            _log.warning("events cannot be written, the log has them: %s", exc.message)
        self._failing = True
        _log.info("event %s %s/%s: %s: %s", told.type, told.kind, told.name, told.reason, told.note)
