"""The order of the files: those that take longest first, so that several workers end together.

With --dist=loadfile and --no-loadscope-reorder pytest-xdist hands out files in the order of the tests.
"""

from __future__ import annotations

from pathlib import Path

import pytest

LONGEST_FIRST = (
    "test_hosts_leftovers.py",
    "test_control_plane.py",
    "test_control_plane_role.py",
    "test_hosts_faults.py",
    "test_hosts_isolation.py",
    "test_images.py",
    "test_hosts_pods.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Only what lies here, and only among itself."""
    places = [place for place, item in enumerate(items) if item.path.parent == Path(__file__).parent]
    mine = sorted((items[place] for place in places), key=_rank)
    for place, item in zip(places, mine, strict=True):
        items[place] = item


def _rank(item: pytest.Item) -> int:
    name = item.path.name
    return LONGEST_FIRST.index(name) if name in LONGEST_FIRST else len(LONGEST_FIRST)
