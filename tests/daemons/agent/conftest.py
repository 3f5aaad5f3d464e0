"""Ground of the agent's tests on real hosts: agents that leave nothing behind, and their nodes' LocalDisks removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def rights(dev_cluster: Any) -> None:
    """The custom resources and what agents may: once for each file, because none of its tests takes them away."""
    from tests.support.agent import install_rights

    install_rights(dev_cluster)


@pytest.fixture
def agent_on(dev_cluster: Any, rights: None) -> Iterator[Callable[..., Any]]:
    """``agent_on("h1", disks=[...])``: installed on that host and not started. All are stopped and cleaned up."""
    from tests.support.agent import AgentOnHost

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
