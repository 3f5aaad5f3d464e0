"""What the rooms of the scheduler share: who waits, who is on the way, who counts on a node already, and the wake-up.

scheduler.py makes one; news.py and failures.py work on it, too. Decides nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from berth_core.app.claims import Asked
from berth_core.framework.nominated import Nominations
from berth_core.framework.queue import SchedulingQueue

from .binding import Flight, WaitingRoom
from .cluster import Cluster
from .groups import HeldBack
from .metrics import Metrics
from .profiles import Running
from .reports import Reports
from .volumes import forget


class Assumed:
    """The pods that count on a node without the watch having told it, by uid."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._flights: dict[str, Flight] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._flights

    def __len__(self) -> int:
        return len(self._flights)

    def get(self, uid: str) -> Flight | None:
        """The pod's way to its node."""
        return self._flights.get(uid)

    def begin(self, flight: Flight, running: Running, claims: Mapping[str, Asked]) -> None:
        """Count the pod, its volumes and its disks from now on."""
        binding = flight.binding
        self._cluster.snapshot.assume(binding.request, binding.placement)
        running.volumes.assume(binding)
        running.disks.begin(binding, claims)
        self._flights[flight.queued.pod.uid] = flight

    def end(self, flight: Flight) -> None:
        """It was confirmed, or taken back."""
        if self._flights.pop(flight.queued.pod.uid, None) is not None:
            self._cluster.snapshot.forget(flight.binding.request)
            forget(self._cluster, flight.binding)


@dataclass
class Desk:
    """``profiles`` by the names of schedulers that this one is; another configuration brings others."""

    cluster: Cluster
    reports: Reports
    metrics: Metrics
    profiles: Mapping[str, Running]
    queue: SchedulingQueue
    room: WaitingRoom = field(default_factory=WaitingRoom)
    nominations: Nominations = field(default_factory=Nominations)
    held_back: HeldBack = field(default_factory=HeldBack)
    #: set where there may be a pod to decide about
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    assumed: Assumed = field(init=False)

    def __post_init__(self) -> None:
        self.assumed = Assumed(self.cluster)

    def try_again(self, uid: str) -> None:
        """Decide about a waiting pod at once."""
        self.queue.activate([uid])
        self.wake.set()
