"""Leader election by a Lease, as client-go does it: of all who want to lead, one does, and knows when it no longer may.

    election = LeaderElection(client, "berth-system", "berth-controller", identity)
    writer.guard_writes(election.check)     # another client: the election's own writes are not guarded
    await election.run(work)                # leads, then runs work(); raises StateError when the lease is lost

Others' clocks are never compared with this one: a lease is over when it has not changed for its duration since it was
seen change. A leader counts from before it asked, on a clock that goes on while the process or the machine sleeps; who
was paused for too long learns it from `check`, before it writes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Mapping
from typing import Any, Callable, NamedTuple

from berth_core.errors import BerthError, ConflictError, NotFoundError, StateError
from berth_core.model.resources import LEASE

from .client import KubeClient
from .clocks import boot_clock, utc_now
from .lease_record import Claim, Observed, claimed, holder_of, released, taken
from .reading import Obj

_log = logging.getLogger(__name__)


class Periods(NamedTuple):
    """Seconds, with client-go's defaults; ``jitter`` lengthens the pauses of those who wait, by up to its share."""

    lease: float = 15.0
    renew: float = 10.0
    retry: float = 2.0
    jitter: float = 1.2


class LeaderElection:
    """One candidate. ``identity`` is its own name, never that of two at one time (host name and a random part).

    Who follows a process that has ended under the same name (a container of the same pod) goes on with its lease at
    once: no time is waited out, and no transition counted. Writes of that process that are still on their way are then
    not kept out by time, so they have to be harmless by their own preconditions.

    ``annotations()`` are written with each renewal, beside those of others. ``on_lost(reason)`` is called once, before
    the work is cancelled. Made inside a running loop.
    """

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        name: str,
        identity: str,
        *,
        periods: Periods = Periods(),  # noqa: B008 - frozen
        annotations: Callable[[], Mapping[str, str]] | None = None,
        on_lost: Callable[[str], None] | None = None,
        clock: Callable[[], float] = boot_clock,
        chance: Callable[[], float] = random.random,
    ) -> None:
        if not periods.lease > periods.renew > periods.retry * periods.jitter > 0:
            raise ValueError(f"a lease's periods must be lease > renew > retry * jitter > 0, not {periods}")
        self._client, self._namespace, self._name, self.identity = client, namespace, name, identity
        self._periods, self._clock, self._chance = periods, clock, chance
        self._annotations: Callable[[], Mapping[str, str]] = annotations or dict
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._touched = asyncio.Event()
        self._seen = Observed(None, 0.0)
        self._held_since_asking: float | None = None
        self._told = ""
        self._renewing = False

    # -- for the work ----------------------------------------------------------------------------------------------

    @property
    def leading(self) -> bool:
        """True while this process holds the lease, as far as can be known without asking."""
        return self._left() > 0.0

    @property
    def holder(self) -> str:
        """Who held the lease when it was last seen; empty: nobody."""
        return holder_of(self._seen.lease)

    def check(self) -> None:
        """To be called right before each write. Raises StateError when the lease may be lost."""
        if not self.leading:
            raise StateError(
                f"{self._who}: this process ({self.identity}) does not hold it (any more): nothing is written"
            )

    def touch(self) -> None:
        """Write the annotations now instead of with the next renewal."""
        self._touched.set()

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, then run ``work()``, renewing; give it back when that ends or is cancelled.

        Raises StateError when the lease is lost; the work was cancelled then, and has ended.
        """
        try:
            await self._acquire()
            await self._lead(work)
        finally:
            await self._release()

    # -- taking and keeping ----------------------------------------------------------------------------------------

    @property
    def _who(self) -> str:
        return f"Lease {self._namespace}/{self._name}"

    async def _acquire(self) -> None:
        self._renewing = False
        while not await self._try():
            await asyncio.sleep(self._periods.retry * (1.0 + self._chance() * self._periods.jitter))
        self._renewing = True
        _log.info("%s: %s leads", self._who, self.identity)

    async def _lead(self, work: Callable[[], Awaitable[None]]) -> None:
        working = asyncio.ensure_future(work())
        renewing = asyncio.ensure_future(self._renew())
        try:
            await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
            lost = renewing.result() if renewing.done() else ""
            if lost and not working.done():
                raise StateError(f"{self._who} is lost: {lost}")
            await working
        finally:
            for task in (working, renewing):
                task.cancel()
            await asyncio.gather(working, renewing, return_exceptions=True)

    async def _renew(self) -> str:
        """Renew until that fails for too long, or somebody else holds the lease; returns why."""
        while self.leading:
            await self._pause(min(self._periods.retry, self._left()))
            await self._try()
        ours = self.holder == self.identity
        why = "it could not be renewed in time" if ours else f"{self.holder or 'nobody'} holds it"
        self._held_since_asking = None
        _log.error("%s: lost by %s: %s", self._who, self.identity, why)
        if self._on_lost is not None:
            self._on_lost(why)
        return why

    def _left(self) -> float:
        """Seconds for which this process may still lead without another renewal."""
        since = self._held_since_asking
        return 0.0 if since is None else max(0.0, since + self._periods.renew - self._clock())

    async def _pause(self, seconds: float) -> None:
        """Wait so long, or until `touch`."""
        timer = self._loop.call_later(seconds, self._touched.set)
        try:
            await self._touched.wait()
        finally:
            timer.cancel()
            self._touched.clear()

    async def _try(self) -> bool:
        """Take or renew the lease, once. False when that did not work, for whatever reason; it is told once."""
        asked = self._clock()
        try:
            held = await self._take_or_renew()
        except BerthError as exc:
            self._tell(exc.message)
            return False
        if held:
            self._held_since_asking = asked
            self._told = ""
        elif self._seen.lease is not None:
            self._held_since_asking = None
            self._tell(f"{self._who}: {self.holder} leads, {self.identity} waits")
        return held

    async def _take_or_renew(self) -> bool:
        timeout = max(self._periods.retry, self._periods.renew / 2)
        if self.leading:
            timeout = min(timeout, self._left())
        if self.leading and self._seen.lease is not None:  # as this process last wrote it: saves the reading
            with contextlib.suppress(ConflictError, NotFoundError):
                return await self._write(self._seen.lease, timeout)
        lease = await self._client.find(LEASE, self._name, self._namespace, timeout=timeout)
        self._seen = self._seen.look(lease, self._clock())
        if lease is not None and not self._seen.free_for(self.identity, self._clock()):
            return False
        if lease is not None and self._renewing and self.holder != self.identity:
            return False  # somebody led meanwhile, and has gone again: what this process knows may be old
        try:
            return await self._write(lease, timeout)
        except ConflictError:  # somebody was faster: look at it the next time
            return False

    async def _write(self, lease: Obj | None, timeout: float) -> bool:
        claim = Claim(self.identity, self._periods.lease, utc_now())
        wanted = claimed(taken(lease, self._namespace, self._name), claim, self._annotations())
        if lease is None:
            answer = await self._client.create(LEASE, wanted, timeout=timeout)
        else:
            answer = await self._client.replace(LEASE, wanted, timeout=timeout)
        self._seen = Observed(answer, self._clock())
        return True

    async def _release(self) -> None:
        """Let the next one lead at once. Only what is still held is given back."""
        lease, held = self._seen.lease, self.leading
        self._held_since_asking = None
        if not held or lease is None:
            return
        try:
            await self._client.replace(LEASE, released(lease, utc_now()), timeout=self._periods.retry)
        except BerthError as exc:
            _log.info("%s: not given back: %s", self._who, exc.message)

    def _tell(self, text: str) -> None:
        if text != self._told:
            _log.info("%s", text)
            self._told = text


def identity(prefix: str, entropy: Any = None) -> str:
    """A candidate's own name: ``prefix`` (the host's or the pod's name) and a random part."""
    generator = entropy or random.SystemRandom()
    return f"{prefix}_{generator.getrandbits(64):016x}"
