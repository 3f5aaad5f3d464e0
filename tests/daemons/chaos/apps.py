"""The three applications that live through the faults: a database, a replicated log, a queue.

bank    PostgreSQL; its claim waits for its first consumer; a writer outside keeps a journal of acknowledged commits
log     three replicas that `stateful_app` has placed, one a node: each appends the next number to a file and flushes it
queue   two replicas of a plain StatefulSet with claims that are bound at once; they do the same
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.daemons.controller.world import World
from tests.dev.hosts_help import apply
from tests.support import postgresql
from tests.support.playbook import run_playbook
from tests.support.postgresql import Commits

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
    sleep 0.5
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


class Bank(Commits):
    """PostgreSQL, and the writer that knows what was acknowledged."""

    def __init__(self, cluster: Any, world: World, host: str, folder: Path) -> None:
        super().__init__(cluster, host, folder)
        self.cluster, self.world = cluster, world

    def create(self) -> None:
        template = {"metadata": {"labels": {"app": "bank"}}, "spec": postgresql.pod_spec("bank")}
        config = postgresql.config_map(self.cluster, "bank", self.world.name)
        apply(self.cluster, config, stateful_set(self.world, "bank", 1, template, "300Mi"))


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
