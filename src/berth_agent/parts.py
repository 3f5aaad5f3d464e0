"""Which parts are plugged into the frame. Called by `agent`; each line is one part."""

from __future__ import annotations

from dataclasses import dataclass

from .kubelet import KubeletClient
from .metrics import AgentMetrics
from .report import Report
from .seams import DiskWork, Part, Tools


@dataclass(frozen=True)
class Ground:
    """What parts are made of."""

    tools: Tools
    report: Report
    metrics: AgentMetrics
    kubelet: KubeletClient

    def disk_work(self) -> DiskWork | None:
        """The life of a disk on its node."""
        from .disks import make as disks

        return disks(self.tools)

    def others(self) -> list[Part]:
        """Everything else that runs beside the frame."""
        from .devices import make as devices
        from .facts import NodeFacts
        from .usage import make as usage

        registry = self.metrics.registry
        return [
            devices(self.tools, self.report),
            NodeFacts(self.tools, self.report, self.kubelet, registry),
            usage(self.tools, self.kubelet, registry),
        ]
