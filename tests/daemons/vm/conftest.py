"""One agent in the virtual machine, against a real control plane; every test leaves its disks as it found them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from berth_dev.pytest_plugin import EXISTING, EXISTING_VM
from tests.daemons.vm.ground import HELD, Kept, VmGround


@pytest.fixture(scope="session")
def ground(control_plane: Any, vm: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VmGround]:
    """The agent runs, and every disk is declared by its serial number."""
    made = VmGround(control_plane, vm, tmp_path_factory.mktemp("plays"))
    try:
        made.begin()
        yield made
    finally:
        # What was started for these tests alone is thrown away next, and is not cleaned first at the machine's pace.
        if EXISTING in os.environ or EXISTING_VM in os.environ:
            made.clean()


@pytest.fixture(scope="session")
def kept(ground: VmGround) -> Kept:
    """A replica that lives through everything, with a megabyte of data."""
    return ground.keep(HELD)
