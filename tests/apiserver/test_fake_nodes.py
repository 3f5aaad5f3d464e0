"""kwok, which plays the kubelets of fake nodes: that it does not act is noticed at once, and what it missed is made up.

On the session's control plane: nodes of a name of their own, and kwok as it was afterwards.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import LEASE, NODE, POD
from berth_dev.errors import ComponentError
from berth_dev.kwok import Shape

SECONDS = 20  # a lease that is left behind lasts 40


@pytest.fixture
def plane(control_plane: Any, name: str) -> Iterator[Any]:
    """The cluster with two fake nodes NAME-0 and NAME-1."""
    if not hasattr(control_plane, "add_nodes"):
        pytest.skip("BERTH_KUBECONFIG names an existing cluster, whose kwok the test may not end")
    control_plane.add_nodes(2, Shape(prefix=f"{name}-"))
    yield control_plane
    control_plane.remove_nodes(f"{name}-")
    control_plane.add_nodes(0)


def end_kwok(plane: Any) -> None:
    os.kill(plane.folder.pid("kwok"), signal.SIGKILL)
    while plane.folder.alive("kwok"):
        time.sleep(0.01)


def put_pod(api: Any, namespace: str, name: str, node: str) -> None:
    container = {"name": "c", "image": "none"}
    spec = {"nodeName": node, "automountServiceAccountToken": False, "containers": [container]}
    api.create(POD, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})


def phases(api: Any, namespace: str) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in api.list(POD, namespace)}


def become(api: Any, namespace: str, wanted: dict[str, str]) -> None:
    until = time.monotonic() + SECONDS
    while phases(api, namespace) != wanted:
        assert time.monotonic() < until, phases(api, namespace)
        time.sleep(0.05)


def test_kwok_listens_nowhere(plane: Any) -> None:
    """It starts long after the cluster's ports were chosen, and ends when somebody has taken its own meanwhile."""
    pid = plane.folder.pid("kwok")
    links = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink()]
    sockets = {found[1] for found in map(re.compile(r"socket:\[(\d+)\]").fullmatch, links) if found}
    tables = [Path(f"/proc/{pid}/net/{kind}").read_text().splitlines()[1:] for kind in ("tcp", "tcp6")]
    states = {row.split()[9]: row.split()[3] for table in tables for row in table}
    assert sockets & set(states), "its connection to the API server"
    assert not {socket for socket in sockets if states.get(socket) == "0A"}, "it listens"


def test_nodes_whose_kwok_ended_are_not_called_ready(plane: Any) -> None:
    end_kwok(plane)
    config = plane.folder.path / "data" / "kwok.yaml"
    good = config.read_text()
    config.write_text("kind: [")
    try:
        with pytest.raises(ComponentError, match=r"(?s)kwok: ended; it keeps the fake nodes Ready.*kwok\.log"):
            plane.add_nodes(0)
    finally:
        config.write_text(good)


def test_kwok_started_again_acts_for_what_came_meanwhile(plane: Any, api: Any, namespace: str, name: str) -> None:
    put_pod(api, namespace, "to-go", f"{name}-0")
    become(api, namespace, {"to-go": "Running"})
    end_kwok(plane)
    put_pod(api, namespace, "to-come", f"{name}-1")
    api.delete(POD, "to-go", namespace)  # its grace is 30 s: only kwok ends it
    assert set(phases(api, namespace)) == {"to-go", "to-come"}
    began = time.monotonic()
    plane.add_nodes(0)
    become(api, namespace, {"to-come": "Running"})
    assert time.monotonic() - began < SECONDS


def test_nodes_made_again_under_their_names_run_pods(plane: Any, api: Any, namespace: str, name: str) -> None:
    for turn in range(3):
        plane.remove_nodes(f"{name}-")
        plane.add_nodes(2, Shape(prefix=f"{name}-"))
        for node in (f"{name}-0", f"{name}-1"):
            owners = api.get(LEASE, node, "kube-node-lease")["metadata"]["ownerReferences"]
            assert [owner["uid"] for owner in owners] == [api.get(NODE, node)["metadata"]["uid"]]
            put_pod(api, namespace, f"p{turn}-{node[-1]}", node)
        become(api, namespace, {f"p{turn}-0": "Running", f"p{turn}-1": "Running"})
        for index in (0, 1):
            api.delete(POD, f"p{turn}-{index}", namespace)
        become(api, namespace, {})


def test_a_pod_made_anew_under_its_name_stays(plane: Any, api: Any, namespace: str, name: str) -> None:
    """kwok hears of a pod that is going more than once, and must not end the next one of that name."""
    for _turn in range(15):
        put_pod(api, namespace, "again", f"{name}-0")
        made = api.get(POD, "again", namespace)["metadata"]["uid"]
        become(api, namespace, {"again": "Running"})
        assert api.get(POD, "again", namespace)["metadata"]["uid"] == made
        api.delete(POD, "again", namespace)
        become(api, namespace, {})
