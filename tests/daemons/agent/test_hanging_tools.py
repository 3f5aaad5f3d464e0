"""A disk that never answers smartctl, on a real host: the agent goes on with the rest, and ends when it is told to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from tests.dev.hosts_help import eventually
from tests.support.agent import AgentOnHost, conditions_of

pytestmark = pytest.mark.hosts
HOST = "h3"
ALL = [{"query": "[?model == 'BERTH_DEV_DISK']", "storage_class": "fast"}]
#: Stands for smartctl on hardware that hangs, which loop devices do not: it notes its pid and says nothing for an hour.
SHIM = "#!/bin/sh\necho $$ >> {folder}/asked\nexec sleep 3600\n"


def test_smartctl_that_never_returns(agent_on: Callable[..., AgentOnHost], dev_cluster: Any) -> None:
    agent = agent_on(HOST, disk_selectors=ALL, intervals={"poll": 0.5, "debounce": 0.1, "health": 5, "smart": 10})
    shim = agent.put("smartctl", SHIM.format(folder=agent.folder))
    agent.here(f"chmod 0700 {shim}")
    name = f"s{uuid4().hex[:5]}"
    try:
        agent.start(environment=f"PATH={agent.folder}:$PATH")
        agent.wait_ready(120)
        eventually(lambda: agent.here(f"cat {agent.folder}/asked", check=False), 60, "smartctl is asked")
        dev_cluster.hosts.disk_add(HOST, name, "320Mi")
        serial = next(disk["serial"] for disk in dev_cluster.hosts.disks(HOST) if disk["name"] == name)

        def judged() -> bool:
            disk = agent.disks().get(serial)
            healthy = disk is not None and conditions_of(disk).get("Healthy", ("", ""))[0] == "True"
            return healthy and agent.phases()[serial] == "Available"

        eventually(judged, 120, "a new disk is published, judged by its probe alone, and free")
        asked = agent.here(f"cat {agent.folder}/asked").split()
        hanging = [pid for pid in asked if agent.here(f"kill -0 {pid} 2>/dev/null && echo yes", check=False)]
        assert len(hanging) <= len(agent.disks()), "a disk that does not answer is not asked again meanwhile"
        agent.signal("TERM")
        eventually(lambda: not agent.alive(), 60, "the agent ends")
    finally:
        agent.stop()
        agent.here(f"kill $(cat {agent.folder}/asked) 2>/dev/null", check=False)
        if name in {disk["name"] for disk in dev_cluster.hosts.disks(HOST)}:
            dev_cluster.hosts.disk_remove(HOST, name)
