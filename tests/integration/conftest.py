"""The order of the files: the longest of those with one story first, so that several workers end together.

With --dist=loadfile pytest-xdist hands out files by the number of their tests, and of one number in this order.
"""

from __future__ import annotations

from pathlib import Path

import pytest

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
    places = [place for place, item in enumerate(items) if item.path.is_relative_to(Path(__file__).parent)]
    mine = sorted((items[place] for place in places), key=_rank)
    for place, item in zip(places, mine, strict=True):
        items[place] = item


def _rank(item: pytest.Item) -> int:
    name = item.path.name
    return LONGEST_FIRST.index(name) if name in LONGEST_FIRST else len(LONGEST_FIRST)
