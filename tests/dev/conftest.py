"""The order of the files: those that take longest first, so that several workers end together.

With --dist=loadfile and --no-loadscope-reorder pytest-xdist hands out files in the order of the tests.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.longest_first import begin_with

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
    begin_with(items, LONGEST_FIRST, Path(__file__).parent)
