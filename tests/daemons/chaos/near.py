"""A host's agent without a connection and a kubectl for each look: a loaded machine has time for what is to be seen."""

from __future__ import annotations

from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_core.errors import BerthError
from berth_dev.errors import DevError
from tests.support.agent import NAMESPACE, AgentOnHost


class NearAgent(AgentOnHost):
    """The same agent; what is asked of its host is run inside the host by us, and objects are read by one client.

    What stays (nohup: the agent itself) is started over ssh, as everywhere: it lives in its host's control groups.
    """

    def __init__(self, cluster: Any, host: str, api: ApiClient, name: str) -> None:
        super().__init__(cluster, host, name)
        self.api = api

    def here(self, command: str, *, check: bool = True) -> str:
        if "nohup " in command:
            return super().here(command, check=check)
        try:
            said = self.cluster.hosts.enter(self.host, "bash", "-c", f'({command}\n); echo " $?"')
        except DevError as exc:  # the host is off, or is just starting
            raise AssertionError(f"{self.host}: {command}: {exc}") from None
        output, _space, status = said.rstrip().rpartition(" ")
        if check and status != "0":
            raise AssertionError(f"{self.host}: {command}: exit {status}: {output}")
        return str(output).strip()

    def disks(self) -> dict[str, dict[str, Any]]:
        own = [one for one in self.api.list(kinds.LOCAL_DISK) if one["spec"]["nodeName"] == self.node]
        return {one["spec"]["identity"].get("serial", ""): one for one in own}

    def lease(self) -> dict[str, Any]:
        try:
            return dict(self.api.get(kinds.LEASE, f"berth-agent-{self.node}", NAMESPACE))
        except BerthError as exc:
            raise AssertionError(f"the Lease of {self.node}: {exc}") from None
