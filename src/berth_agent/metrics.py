"""The figures of the agent's frame; `serving` shows them. `agent` sets them; parts add their own to `registry`.

Every name begins with berth_agent_.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from berth_core.app.phase import PENDING, PHASES
from berth_core.lifecycle.locks import disk_holder
from berth_kube.client import KubeClient

from .figures import Asked, Figures
from .seams import Look, Object


class AgentMetrics:
    """The figures of the frame."""

    def __init__(self, version: str, client: KubeClient, lease_client: KubeClient) -> None:
        self.registry = Figures()
        self._requests("berth_agent_api_requests_total", "Requests to the API server, without the Lease's.", client)
        self._requests("berth_agent_lease_requests_total", "Requests for the agent's Lease.", lease_client)
        self.registry.gauge("berth_agent_info", "The node agent.", ["version"]).set(1, version)
        self._disks = self.registry.gauge("berth_agent_disks", "LocalDisks of this node.", ["phase"])
        self._phases = self.registry.gauge(
            "berth_agent_disk_phase", "Each LocalDisk of this node: 1 in its phase.", ["disk", "phase", "holder"]
        )
        self._devices = self.registry.gauge("berth_agent_block_devices", "Whole block devices.")
        self._surveys = self.registry.counter("berth_agent_surveys_total", "Full surveys of the host's disks.")
        self._look = self.registry.gauge("berth_agent_look", "Number of the last look.")
        self._published = self.registry.gauge("berth_agent_published_look", "The last look that is published.")

    def _requests(self, name: str, text: str, client: KubeClient) -> None:
        self.registry.keep(Asked("counter", name, text, "verb", lambda: client.requests))

    def looked(self, look: Look, surveys: int) -> None:
        """A new Look."""
        self._devices.set(len(look.whole))
        self._look.set(look.number)
        self._surveys.set(surveys)

    def published(self, disks: Iterable[Object], number: int) -> None:
        """Everything of that Look is at the API server."""
        each = [(disk["metadata"]["name"], _phase(disk), disk_holder(disk) or "") for disk in disks]
        counts = Counter(phase for _name, phase, _holder in each)
        for phase in PHASES:
            self._disks.set(counts[phase], phase)
        self._phases.replace(each)
        self._published.set(number)


def _phase(disk: Object) -> str:
    return str((disk.get("status") or {}).get("phase") or PENDING)
