"""One agent in the virtual machine, against a real control plane; every test leaves its disks as it found them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.daemons.vm.ground import HELD, Kept, VmGround

BY_ROLE = bool(os.environ.get("BERTH_VM_ROLE"))
collect_ignore = [] if BY_ROLE else ["test_vm_role.py"]


@pytest.fixture(scope="session")
def ground(control_plane: Any, vm: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VmGround]:
    """The agent runs (with ROLE=1 the role has put it there), and every disk is declared by its serial number."""
    made = VmGround(control_plane, vm, tmp_path_factory.mktemp("plays"))
    try:
        made.begin(by_role=BY_ROLE)
        yield made
    finally:
        made.clean()


@pytest.fixture(scope="session")
def kept(ground: VmGround) -> Kept:
    """A replica that lives through everything, with a megabyte of data."""
    return ground.keep(HELD)
