"""TaskOffers: room on a node that a program holds for a bounded time, before it knows which task is to have it.

Each is an object of the API, which berth-tasks gives in its turn and takes back when its time is over. So a program
that dies holds nothing for longer than that, and no two programs hold the same.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from berth_core.errors import InputError, StateError
from berth_core.model.resources import TASK_OFFER
from berth_core.tasks.held import HELD, TaskOffer, on_node, read_offer
from berth_core.tasks.task import GROUP, requests_of
from berth_kube.client import KubeClient
from berth_kube.informer import Informer

from .submitted import Row, Tasks

Obj = dict[str, Any]
#: Whose offers they are: the label that a program watches.
LABEL = f"{GROUP}/offers-of"
#: As many are asked for at one time.
MOST = 100


class HeldOffer(NamedTuple):
    """Room on ``node``. Accept it, decline it, or do nothing: it goes back at ``until``."""

    offers: TaskOffers
    offer: TaskOffer

    @property
    def name(self) -> str:
        return self.offer.name

    @property
    def node(self) -> str:
        return self.offer.node

    @property
    def until(self) -> str:
        """When it goes back, as the backend's clock says it."""
        return self.offer.until

    @property
    def held(self) -> bool:
        """Whether it is still there, as far as the watch has told."""
        return self.offers.holds(self.offer)

    async def accept(self, tasks: Tasks, name: str, template: Mapping[str, Any], **options: Any) -> Row:
        """Submit a Task that takes its place, on just this node.

        Raises InputError where the template asks for more than is held, and StateError where it has gone back. Where it
        goes back in between, the Task waits in its queue as others do.
        """
        requests = requests_of(template, f"Task {name}")
        if not self.offer.room_for(requests):
            has = dict(self.offer.requests)
            what = next(what for what, value in requests if value > has.get(what, 0))
            raise InputError(
                f"Task {name} asks for {what} {dict(requests)[what]}, and TaskOffer {self.name} holds"
                f" {has.get(what, 0)}: ask for an offer of that size"
            )
        if not self.held:
            raise StateError(
                f"TaskOffer {self.name} has gone back: its time was over, its node takes no pods, or TaskQueue "
                f"{self.offer.queue} gave back what it had borrowed; ask anew (revive_offers)"
            )
        there = on_node(template, self.node)
        return await tasks.submit(name, there, **{**options, "offer": self.name, "queue": self.offer.queue})

    async def decline(self) -> None:
        """Give it back now."""
        await self.offers.client.delete(TASK_OFFER, self.name, self.offer.namespace, uid=self.offer.uid)


class TaskOffers:
    """The offers of one program in one namespace. ``async with`` declines what is still held at its end."""

    def __init__(self, client: KubeClient, namespace: str | None = None) -> None:
        self.client, self.namespace = client, namespace or client.namespace
        self._mine = secrets.token_hex(8)
        self._informer = Informer(client, TASK_OFFER, self.namespace, labels=f"{LABEL}={self._mine}")
        self._changed = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.client.page(TASK_OFFER, self.namespace, limit=1)
        self._informer.on(*3 * [lambda *_versions: self._changed.set()])
        self._running = asyncio.create_task(self._informer.run())
        await self._informer.wait_synced()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        left = [HeldOffer(self, read_offer(obj)) for obj in self._informer.all()]
        await asyncio.gather(*(one.decline() for one in left), return_exceptions=True)  # they go back anyway
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    def holds(self, offer: TaskOffer) -> bool:
        """Whether the offer is there and held."""
        live = self._informer.get(offer.name, self.namespace)
        return live is not None and live["metadata"]["uid"] == offer.uid and read_offer(live).state == HELD

    async def revive_offers(
        self,
        requests: Mapping[str, Any],
        *,
        most: int = 1,
        seconds: int = 60,
        wait: float = 5.0,
        queue: str | None = None,
        priority: int | None = None,
    ) -> list[HeldOffer]:
        """Ask for room for ``most`` pods of that size, and hold what is given within ``wait`` seconds for ``seconds``.

        What is not given by then is asked for no more. It counts against the queue's share and ceiling, as tasks do.
        """
        if not 1 <= most <= MOST:
            raise InputError(f"most is {most}: expected 1 to {MOST} offers at one time")
        spec = {"requests": dict(requests), "seconds": seconds, "queue": queue, "priority": priority}
        spec = {key: value for key, value in spec.items() if value is not None}
        bodies = [self._body(spec) for _number in range(most)]
        read_offer(bodies[0])  # refused before the API server is asked
        made = [
            read_offer(obj) for obj in await asyncio.gather(*(self.client.create(TASK_OFFER, one) for one in bodies))
        ]
        try:
            async with asyncio.timeout(wait):
                while not all(self.holds(offer) for offer in made):
                    await self._changed.wait()
                    self._changed.clear()
        except TimeoutError:
            late = [HeldOffer(self, offer) for offer in made if not self.holds(offer)]
            await asyncio.gather(*(one.decline() for one in late))
        found = [self._informer.get(offer.name, self.namespace) for offer in made]
        held = [HeldOffer(self, read_offer(live)) for live in found if live is not None]
        return [one for one in held if one.offer.state == HELD]

    def _body(self, spec: Obj) -> Obj:
        meta = {"name": f"offer-{secrets.token_hex(8)}", "namespace": self.namespace, "labels": {LABEL: self._mine}}
        return {"apiVersion": TASK_OFFER.api_version, "kind": TASK_OFFER.kind, "metadata": meta, "spec": spec}
