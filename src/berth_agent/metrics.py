"""The agent's figures for Prometheus; `serving` shows them. `agent` and the parts set them.

Every part makes its own metrics in `registry`, with names that begin with berth_agent_.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Gauge, Info
from prometheus_client.core import CounterMetricFamily, Metric

from berth_core.app.phase import PHASES
from berth_kube.client import KubeClient

from .seams import Look, Object

if TYPE_CHECKING:
    from collections.abc import Mapping


class _Requests:
    """The API client counts by itself; read when somebody asks."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily("berth_agent_api_requests", "Requests to the API server.", labels=["verb"])
        for verb, count in sorted(self._counts.items()):
            family.add_metric([verb], count)
        yield family


class AgentMetrics:
    """The figures of the frame."""

    def __init__(self, version: str, client: KubeClient) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_Requests(client.requests))
        Info("berth_agent", "The node agent.", registry=self.registry).info({"version": version})
        self._disks = Gauge("berth_agent_disks", "LocalDisks of this node.", ["phase"], registry=self.registry)
        self._devices = Gauge("berth_agent_block_devices", "Whole block devices.", registry=self.registry)
        self._surveys = Gauge("berth_agent_surveys", "Full surveys of the host's disks.", registry=self.registry)
        self._look = Gauge("berth_agent_look", "Number of the last look.", registry=self.registry)
        self._published = Gauge(
            "berth_agent_published_look", "The last look that is published.", registry=self.registry
        )

    def looked(self, look: Look, surveys: int) -> None:
        """A new Look."""
        self._devices.set(len(look.whole))
        self._look.set(look.number)
        self._surveys.set(surveys)

    def published(self, disks: Iterable[Object], number: int) -> None:
        """Everything of that Look is at the API server."""
        counts: Counter[Any] = Counter((disk.get("status") or {}).get("phase") for disk in disks)
        for phase in PHASES:
            self._disks.labels(phase).set(counts[phase])
        self._published.set(number)
