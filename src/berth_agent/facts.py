"""Is the node's allocatable what its capacity and the kubelet's reservations make it? A condition of the agent's Lease.

A Part. The rules are berth_core.app.node_facts. An event on the Node tells people of a mismatch.
"""

from __future__ import annotations

import asyncio
import logging

from berth_core.app.node_facts import condition, node_facts
from berth_core.errors import BerthError
from berth_core.model.resources import NODE

from .figures import Figures
from .kubelet import KubeletClient
from .report import ALLOCATABLE, Report
from .seams import Tools
from .waiting import wait_for

LOG = logging.getLogger("berth_agent.facts")


class NodeFacts:
    """Compares capacity, reservations and allocatable every so often."""

    def __init__(self, tools: Tools, report: Report, kubelet: KubeletClient, registry: Figures) -> None:
        self.tools, self.report, self.kubelet = tools, report, kubelet
        self._gauge = registry.gauge(
            "berth_agent_node_resource",
            "Resources of the node: capacity, kube_reserved, system_reserved, eviction, allocatable, expected.",
            ["resource", "fact"],
        )
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Compare soon."""
        self._woken.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._compare()
            try:
                await wait_for(self._woken.wait(), self.tools.settings().intervals.facts)
            except asyncio.TimeoutError:
                continue
            # whatever woke the loop comes in bursts
            await asyncio.sleep(self.tools.settings().intervals.poll)
            self._woken.clear()

    async def _compare(self) -> None:
        try:
            node = await self.tools.client.get(NODE, self.tools.node)
            facts = node_facts(node, await self.kubelet.configuration(node))
        except BerthError as exc:
            if self.report.set(ALLOCATABLE, "Unknown", "NotAnswered", exc.message):
                LOG.warning("the kubelet's reservations are not known: %s", exc.message)
            return
        for fact in facts:
            shown = {**fact._asdict(), "expected": fact.expected}
            for name in ("capacity", "kube_reserved", "system_reserved", "eviction", "allocatable", "expected"):
                self._gauge.set(float(shown[name]), fact.resource, name)
        status, reason, message = condition(facts)
        if self.report.set(ALLOCATABLE, status, reason, message) and status == "False":
            LOG.warning("node %s: %s", self.tools.node, message)
            self.tools.recorder.event(node, "Warning", "AllocatableMismatch", message, action="Compare")
