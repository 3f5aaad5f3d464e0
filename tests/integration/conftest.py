"""The order of the files: the longest of those with one story first, so that several workers end together.

With --dist=loadfile pytest-xdist hands out files by the number of their tests, and of one number in this order.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.longest_first import begin_with

LONGEST_FIRST = (
    "test_scheduler_service.py",
    "test_extender.py",
    "test_node_agent_daemonset.py",
    "test_node_agent.py",
    "test_node_agent_systemd.py",
    "test_postgresql_guide.py",
    "test_scheduler.py",
    "test_local_disks.py",
    "test_page_commands.py",
    "test_stateful_app_update.py",
    "test_stateful_app_hosts.py",
    "test_host_maintenance.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Only what lies here and below, and only among itself."""
    begin_with(items, LONGEST_FIRST, Path(__file__).parent)
