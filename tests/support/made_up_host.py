"""An agent whose host is the recorded tree of a machine: for tests in which no disk is touched."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.support.agent import NAMESPACE, compiled, install_rights, kubeconfig, token, zipapp
from tests.support.kube import client_for, disks_of, forget, patch_disk
from tests.unit.host import trees

SELECTOR = [{"query": "[?model == 'made-up']", "storage_class": "made-up"}]


class MadeUp:
    """One node of the real API server, and what an agent of it needs in a folder."""

    def __init__(self, control_plane: Any, folder: Path) -> None:
        self.cluster, self.folder, self.node = control_plane, folder, f"made-up-{uuid4().hex[:6]}"
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.node}}
        self.api = client_for(control_plane.kubeconfig)
        self.api.create(kinds.NODE, node)
        (folder / "agent.pyz").write_bytes(zipapp())
        (folder / "token").write_text(token(control_plane, self.node))
        identity = kubeconfig(control_plane, control_plane.api_url, str(folder / "token"))
        (folder / "kubeconfig").write_text(identity)
        for at in range(2):
            udev = f"E:ID_SERIAL_SHORT={self.node}-{at}\nE:ID_MODEL=made-up\nS:disk/by-id/{self.node}-{at}"
            trees.disk(folder / "tree", f"sd{at}", f"8:{at * 16}", 1 << 21, udev, device__state="running")
        trees.mounts(folder / "tree", "0:25 / / - tmpfs none rw")

    def configure(self, **values: Any) -> None:
        settings = {"node": self.node, "disk_selectors": SELECTOR, "metrics": {"port": 0}}
        settings |= {"usage": {"store": "none"}, "policies": {"devices": False}}
        (self.folder / "agent.yaml").write_text(yaml.safe_dump({**settings, **values}))

    def start(self, command: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-I", str(self.folder / "agent.pyz"), command, "--tree", str(self.folder / "tree")]
        for option, name in (("config", "agent.yaml"), ("kubeconfig", "kubeconfig"), ("state-directory", "state")):
            argv += [f"--{option}", str(self.folder / name)]
        env = {**os.environ, "CACHE_DIRECTORY": str(compiled())}
        pipe = subprocess.PIPE
        return subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=pipe, stderr=subprocess.STDOUT, text=True, env=env
        )

    def disks(self) -> list[dict[str, Any]]:
        """Its LocalDisks, by name."""
        return disks_of(self.api, self.node)

    def patch(self, disk: dict[str, Any], **spec: Any) -> None:
        patch_disk(self.api, disk["metadata"]["name"], **spec)


@contextmanager
def made_up(control_plane: Any) -> Iterator[MadeUp]:
    """One, and at the end nothing of it is left."""
    install_rights(control_plane)
    with tempfile.TemporaryDirectory(prefix="berth-") as folder:  # a short path: sockets bear no long one
        made = MadeUp(control_plane, Path(folder))
        try:
            yield made
        finally:
            for disk in made.disks():
                forget(made.api, kinds.LOCAL_DISK, disk["metadata"]["name"])
            made.api.delete(kinds.LEASE, f"berth-agent-{made.node}", NAMESPACE)
            made.api.delete(kinds.NODE, made.node)


def said(process: subprocess.Popen[str], words: str) -> str:
    """What the process has logged up to these words; all of it where it ends without them."""
    assert process.stdout is not None
    lines = ""
    for line in process.stdout:
        lines += line
        if words in line:
            return lines
    raise AssertionError(f"never said {words!r}:\n{lines}")
