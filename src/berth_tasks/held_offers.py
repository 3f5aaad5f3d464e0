"""HeldOffers: room that programs hold by TaskOffers. It goes back when their time is over, whoever has died meanwhile.

An offer waits in its queue as a task does. What it is given is charged at once and told in its status; a Task that
names it takes its place. Declined, taken or over, the TaskOffer is deleted. Who leads next holds what is Held.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from berth_core.errors import BerthError, ConflictError, InputError, NotFoundError
from berth_core.model.resources import TASK_OFFER
from berth_core.tasks.held import HELD, TaskOffer, read_offer
from berth_kube.client import KubeClient
from berth_kube.clocks import utc_now
from berth_kube.informer import Informer, pause

from .offer_reservations import OfferEvents, OfferReservations

_log = logging.getLogger(__name__)

Obj = dict[str, Any]
_TIME = "%Y-%m-%dT%H:%M:%SZ"


class HeldOffers:
    """Made inside a running loop. ``room``: is called when something has come back, or is asked for."""

    def __init__(self, client: KubeClient, reservations: OfferReservations, room: Callable[[], None]) -> None:
        self._client, self._reservations, self._room = client, reservations, room
        self._offers = Informer(client, TASK_OFFER, optional=True)
        self._loop = asyncio.get_running_loop()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        #: What is to be written next of an offer, by its uid: its status; None: it is deleted.
        self._due: dict[str, tuple[TaskOffer, Obj | None]] = {}
        self._reasons: dict[str, str] = {}
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled."""
        await asyncio.gather(self._offers.run(), self._write())

    async def wait_synced(self) -> None:
        """Until they were listed."""
        await self._offers.wait_synced()

    def begin(self) -> None:
        """Hold what is held already, and follow changes. Before the first round."""
        self._reservations.events = OfferEvents(self._given, self._waits, self._ended)
        self._offers.on(self._came, None, self._went)

    # -- what the API server tells -----------------------------------------------------------------------------------

    def _came(self, obj: Obj) -> None:
        try:
            offer = read_offer(obj)
        except InputError as exc:  # it breaks the schema: nobody waits for it
            _log.info("%s; it is left alone", exc.message)
            return
        if offer.state == HELD and offer.node:
            left = _left(offer)
            self._reservations.hold(offer, offer.node)
        else:
            left = float(offer.seconds)
            self._reservations.ask(offer)
        self._expire_after(offer, left)
        self._room()

    def _went(self, obj: Obj) -> None:
        uid = str(obj["metadata"]["uid"])
        timer = self._timers.pop(uid, None)
        if timer is not None:
            timer.cancel()
        self._due.pop(uid, None)
        self._reasons.pop(uid, None)
        try:
            self._reservations.drop(read_offer(obj))
        except InputError:
            return
        self._room()

    # -- what the backend tells --------------------------------------------------------------------------------------

    def _given(self, offer: TaskOffer, node: str) -> None:
        self._expire_after(offer, offer.seconds)
        until = (utc_now() + timedelta(seconds=offer.seconds)).strftime(_TIME)
        self._put(offer, {"state": HELD, "node": node, "until": until, "reason": None, "message": None})

    def _waits(self, offer: TaskOffer, reason: str, message: str) -> None:
        if self._reasons.get(offer.uid) != reason:
            self._reasons[offer.uid] = reason
            self._put(offer, {"reason": reason, "message": message[:1024]})

    def _ended(self, offer: TaskOffer) -> None:
        self._put(offer, None)

    def _expire_after(self, offer: TaskOffer, seconds: float) -> None:
        old = self._timers.pop(offer.uid, None)
        if old is not None:
            old.cancel()
        self._timers[offer.uid] = self._loop.call_later(seconds, self._expired, offer)

    def _expired(self, offer: TaskOffer) -> None:
        self._timers.pop(offer.uid, None)
        self._reservations.drop(offer)
        self._put(offer, None)
        self._room()

    # -- writes ------------------------------------------------------------------------------------------------------

    def _put(self, offer: TaskOffer, status: Obj | None) -> None:
        self._due[offer.uid] = (offer, status)
        self._wake.set()

    async def _write(self) -> None:
        failures = 0
        while True:
            await self._wake.wait()
            self._wake.clear()
            due, self._due = self._due, {}
            written = await asyncio.gather(*(self._written(*what) for what in due.values()))
            left = {uid: what for (uid, what), done in zip(due.items(), written, strict=True) if not done}
            failures = failures + 1 if left else 0
            if left:
                self._due = {**left, **self._due}
                self._wake.set()
                await asyncio.sleep(pause(failures, random.random()))  # noqa: S311 - not all at one moment

    async def _written(self, offer: TaskOffer, status: Obj | None) -> bool:
        name, namespace = offer.name, offer.namespace
        try:
            if status is None:
                await self._client.delete(TASK_OFFER, name, namespace, uid=offer.uid)
            else:
                body = {"metadata": {"uid": offer.uid}, "status": status}
                await self._client.patch(TASK_OFFER, name, namespace, body, subresource="status")
        except (ConflictError, NotFoundError):
            _log.debug("TaskOffer %s/%s is gone, or another one by now", namespace, name)
        except BerthError as exc:
            _log.warning("%s; trying again until it works", exc.message)
            return False
        return True


def _left(offer: TaskOffer) -> float:
    """Seconds until it is over; never more than it asked for, whatever the clock of its giver said."""
    try:
        until = datetime.strptime(offer.until, _TIME).replace(tzinfo=utc_now().tzinfo)
    except ValueError:
        return 0.0
    return min(max((until - utc_now()).total_seconds(), 0.0), float(offer.seconds))
