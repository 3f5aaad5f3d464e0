"""`ansible-test integration` with the targets of tests/integration/targets, on the real control plane."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
TARGETS = sorted(path.name for path in (ROOT / "tests" / "integration" / "targets").iterdir())
SOME_NODE = "ansible-test-node"


@pytest.mark.usefixtures("crds")
def test_targets(control_plane: Any, tmp_path: Path, api: Any, request: pytest.FixtureRequest) -> None:
    """In a tree of the commit's files, with a configuration as somebody with a cluster of their own writes it."""
    from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import NODE

    subprocess.run([sys.executable, ROOT / "tools" / "snapshot.py", tmp_path / "tree"], check=True, capture_output=True)
    collection = tmp_path / "tree" / "ansible_collections" / "berth" / "stateful"
    api.create(NODE, {"metadata": {"name": SOME_NODE}})  # whatever others have left: the inventory has a host
    request.addfinalizer(lambda: api.delete(NODE, SOME_NODE, None))
    nodes = [node["metadata"]["name"] for node in api.list(NODE)]
    config = {"berth_kubeconfig": str(control_plane.kubeconfig), "berth_nodes": nodes}
    (collection / "tests" / "integration" / "integration_config.yml").write_text(yaml.safe_dump(config))
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    command = ["ansible-test", "integration", "--color", "no", "--python", python, *TARGETS]
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "K8S_AUTH_", "KUBE"))}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        command,
        cwd=collection,
        env={**kept, "PATH": path},
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=540,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]
    for target in TARGETS:
        assert f"Running {target} integration test role" in done.stdout
