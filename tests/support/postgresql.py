"""A PostgreSQL in a pod of a real host, and what a writer outside was told of its commits.

The image is made by berth-dev (`hosts.load_image("postgresql", ...)`).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.dev.hosts_help import eventually
from tests.support.commits import command

ROOT = Path(__file__).resolve().parents[2]
IMAGE = "berth.local/postgresql:15"


def pod_spec(config: str) -> dict[str, Any]:
    """Of a pod whose disk is mounted at /data. ``config``: the name of its :func:`config_map`."""
    mount = {"name": "data", "mountPath": "/data"}
    image = {"image": IMAGE, "imagePullPolicy": "Never"}
    container = {
        "name": "main",
        **image,
        "args": ["-c", "hba_file=/config/pg_hba.conf", "-c", "shared_buffers=16MB", "-c", "max_wal_size=64MB"],
        # At the volume's root, which PostgreSQL asks to be its own and nobody else's: after each power cut, too.
        "env": [{"name": "PGDATA", "value": "/data"}],
        "volumeMounts": [mount, {"name": "config", "mountPath": "/config"}],
    }
    owned = {
        "name": "owner",
        **image,
        "securityContext": {"runAsUser": 0},
        # once: whoever came back would hide that the volume's root has changed
        "command": ["sh", "-c", "[ -s /data/PG_VERSION ] || { chown postgres /data && chmod 0700 /data; }"],
        "volumeMounts": [mount],
    }
    return {
        # the host's own address stays the same, whatever becomes of the pod
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 5,
        "initContainers": [owned],
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": config}}],
    }


def config_map(cluster: Any, name: str, namespace: str = "default") -> dict[str, Any]:
    """Who may connect: only this machine comes in from outside, at the bridge of the hosts."""
    rules = f"local all all trust\nhost all all {cluster.hosts.gateway}/32 trust\n"
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"pg_hba.conf": rules}}


class Commits:
    """The writer of tests.support.commits, and its journal. ``host``: whose address the database has."""

    def __init__(self, cluster: Any, host: str, folder: Path) -> None:
        self.address = cluster.hosts.inventory()["berth_hosts"]["hosts"][host]["ansible_host"]
        self.journal = folder / "commits"
        self._writer: subprocess.Popen[bytes] | None = None

    def start_writer(self) -> None:
        argv = [sys.executable, "-m", "tests.support.commits", str(self.journal), self.address]
        self._writer = subprocess.Popen(argv, cwd=ROOT)

    def stop_writer(self) -> None:
        if self._writer is not None:
            self._writer.kill()
            self._writer.wait()

    def acknowledged(self) -> set[int]:
        return {int(line) for line in self._lines() if line.isdigit()}

    def connections(self) -> int:
        """How many times the writer has had to connect."""
        return sum(line == "connected" for line in self._lines())

    def _lines(self) -> list[str]:
        """Whole lines: the last may be just being written."""
        return self.journal.read_text().split("\n")[:-1] if self.journal.exists() else []

    def rows(self) -> set[int]:
        """What is in the table. Raises CalledProcessError where the server does not answer."""
        argv = [*command(self.address), "-c", "select number from commits"]
        done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=30)
        return set(map(int, done.stdout.split()))

    def missing(self) -> list[int]:
        """Acknowledged commits that the database does not have."""
        promised = self.acknowledged()
        rows = eventually(self.rows, 90, "the rows of the database")
        return sorted(promised - rows)
