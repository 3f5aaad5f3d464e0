"""The three applications that live through the faults: a database, a replicated log, a queue.

bank    PostgreSQL; its claim waits for its first consumer; a writer outside keeps a journal of acknowledged commits
log     three replicas that `stateful_app` has placed, one a node: each appends the next number to a file and flushes it
queue   two replicas of a plain StatefulSet with claims that are bound at once; they do the same
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.daemons.chaos.writer import command
from tests.daemons.controller.world import ROOT, World
from tests.dev.hosts_help import apply, eventually
from tests.support.playbook import run_playbook

#: Goes on where the file ends; ends where a write fails, and is started anew. Line n is the number n. As every log does
#: it drops lines that its last life has not seen written: of a file that grew, the size may be on the disk before the
#: bytes are (they are zeros then).
COUNTING = """
file=/data/numbers; n=0
if [ -e $file ]; then
    set -- $(awk -v whole=$(wc -l < $file) '
        NR > whole || $0 != NR {exit} {n = NR; size += length($0) + 1} END {print n + 0, size + 0}' $file)
    n=$1; dd if=/dev/null of=$file bs=1 seek=$2 2>/dev/null
fi
while true; do
    n=$((n+1))
    echo $n | dd of=$file oflag=append conv=notrunc,fsync 2>/dev/null
    sleep 0.3
done
"""
#: Lines that are not the number that belongs there, and the last number.
CHECKING = "awk '$1 != NR {bad++} END {print bad+0, NR}' "
#: The last numbers may have been read before they were flushed.
UNFLUSHED = 2


def shell(script: str, **more: Any) -> dict[str, Any]:
    """A container that runs the script until a line of it fails; ``more``: what it has of volumes."""
    image = {"image": "berth.local/busybox:1", "imagePullPolicy": "Never"}
    return {"name": "main", **image, "command": ["sh", "-ec", script], **more}


def counting_pod(app: str) -> dict[str, Any]:
    container = shell(COUNTING, volumeMounts=[{"name": "data", "mountPath": "/data"}])
    return {
        "metadata": {"labels": {"app": app}},
        # not 0: that deletes a pod before its container has ended, and the next would count beside it
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
    }


def stateful_set(world: World, name: str, replicas: int, template: dict[str, Any], size: str) -> dict[str, Any]:
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "storageClassName": f"{world.name}-{name}",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": world.name},
        "spec": {
            "serviceName": name,
            "replicas": replicas,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": name}},
            "template": template,
            "volumeClaimTemplates": [claim],
        },
    }


class Bank:
    """PostgreSQL, and the writer that knows what was acknowledged."""

    def __init__(self, cluster: Any, world: World, host: str, folder: Path) -> None:
        self.cluster, self.world, self.host = cluster, world, host
        self.address = cluster.hosts.inventory()["berth_hosts"]["hosts"][host]["ansible_host"]
        self.journal = folder / "commits"
        self._writer: subprocess.Popen[bytes] | None = None

    def create(self) -> None:
        container = {
            "name": "main",
            "image": "berth.local/postgresql:15",
            "imagePullPolicy": "Never",
            "args": ["-c", "hba_file=/config/pg_hba.conf", "-c", "shared_buffers=16MB", "-c", "max_wal_size=64MB"],
            # At the volume's root, which PostgreSQL asks to be its own and nobody else's: after each power cut, too.
            "env": [{"name": "PGDATA", "value": "/data"}],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "config", "mountPath": "/config"}],
        }
        owned = {
            "name": "owner",
            "image": "berth.local/postgresql:15",
            "imagePullPolicy": "Never",
            "securityContext": {"runAsUser": 0},
            # once: whoever came back would hide that the volume's root has changed
            "command": ["sh", "-c", "[ -s /data/PG_VERSION ] || { chown postgres /data && chmod 0700 /data; }"],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        }
        spec = {
            # the host's own address stays the same, whatever becomes of the pod
            "hostNetwork": True,
            "terminationGracePeriodSeconds": 5,
            "initContainers": [owned],
            "containers": [container],
            "volumes": [{"name": "config", "configMap": {"name": "bank"}}],
        }
        # only this machine comes in from there, at the bridge of the hosts
        rules = f"local all all trust\nhost all all {self.cluster.hosts.gateway}/32 trust\n"
        meta = {"name": "bank", "namespace": self.world.name}
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"pg_hba.conf": rules}}
        template = {"metadata": {"labels": {"app": "bank"}}, "spec": spec}
        apply(self.cluster, config, stateful_set(self.world, "bank", 1, template, "300Mi"))

    def start_writer(self) -> None:
        argv = [sys.executable, "-m", "tests.daemons.chaos.writer", str(self.journal), self.address]
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
        rows = eventually(self.rows, 90, "the rows of the bank")
        return sorted(promised - rows)


class Counters:
    """The replicas that count, as their disks show it. ``seen``: the highest number of each so far."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.seen: dict[str, int] = {}

    def create_queue(self, cluster: Any) -> None:
        apply(cluster, stateful_set(self.world, "queue", 2, counting_pod("queue"), "32Mi"))

    def scale_log(self, cluster: Any, folder: Path, replicas: int = 3) -> None:
        """By the module, as a user does it."""
        spread = {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"berth.dev/app": "log"}},
        }
        app = {
            "name": "log",
            "namespace": self.world.name,
            "replicas": replicas,
            "template": counting_pod("log"),
            "disks": [{"name": "data", "size": "32Mi", "storage_class": f"{self.world.name}-log"}],
            "topology_spread_constraints": [spread],
            "wait": False,
        }
        run_playbook(
            [{"berth.stateful.stateful_app": app}],
            folder / f"log-{replicas}",
            env={"K8S_AUTH_KUBECONFIG": str(cluster.kubeconfig)},
        ).ok()
