"""Which parts are plugged into the frame. `agent` calls me; each line is one part."""

from __future__ import annotations

from dataclasses import dataclass

from .metrics import AgentMetrics
from .report import Report
from .seams import DiskWork, Part, Tools


@dataclass(frozen=True)
class Ground:
    """What parts are made of."""

    tools: Tools
    report: Report
    metrics: AgentMetrics

    def disk_work(self) -> DiskWork | None:
        """The life of a disk on its node."""
        from .disks import make as disks

        return disks(self.tools)

    def others(self) -> list[Part]:
        """Everything else that runs beside the frame."""
        from .devices import make as devices

        return [devices(self.tools, self.report)]
