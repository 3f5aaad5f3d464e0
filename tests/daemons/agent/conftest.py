"""Ground of the agent's tests on real hosts: agents that leave nothing behind, and their nodes' LocalDisks removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture
def agent_on(dev_cluster: Any) -> Iterator[Callable[..., Any]]:
    """``agent_on("h1", disks=[...])``: installed on that host and not started. All are stopped and cleaned up."""
    from tests.support.agent import AgentOnHost, install_rights

    install_rights(dev_cluster)
    made: list[AgentOnHost] = []

    def make(host: str, name: str = "agent", **values: Any) -> AgentOnHost:
        agent = AgentOnHost(dev_cluster, host, name)
        made.append(agent)
        return agent.install(**values)

    yield make
    for agent in made:
        agent.stop()
    for agent in made:
        agent.forget()
        agent.clean()
