"""The app's tests share one control plane with a few fake nodes; each makes its own disks and removes them."""

from __future__ import annotations

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources
from tests.apiserver.app.world import STORAGE_CLASS, World
from tests.support.kube import client_for, install_crds

NODES = 4


@pytest.fixture(scope="session")
def kubeconfig(control_plane):
    install_crds(control_plane.kubeconfig)
    client_for(control_plane.kubeconfig).apply(resources.STORAGE_CLASS, STORAGE_CLASS)
    missing = NODES - len(control_plane.fake_nodes())
    if missing > 0:
        control_plane.add_nodes(NODES)
    return control_plane.kubeconfig


@pytest.fixture
def app_world(kubeconfig):
    world = World(client_for(kubeconfig, warn=lambda text: None), resources)
    world.clear()
    return world
