"""What every bench stands on: one temporary cluster with fake nodes and disks, berth's ansible-playbook and the peer's.

Started when the first bench asks for it, removed at the end. The peer is kubernetes.core as the PyPI package ansible
brings it, in an environment of its own (.venv-bench).
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources
from berth_dev.cluster import Cluster
from berth_dev.kwok import Shape
from tests.support.kube import client_for, install_crds
from tests.support.playbook import Run, run_playbook

ROOT = Path(__file__).resolve().parents[2]
OURS, PEER = Path(sys.executable), ROOT / ".venv-bench" / "bin" / "python"
CLASS = "bench"
GI = 1 << 30


def say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


def peer_name(module: str) -> str:
    """``kubernetes.core.k8s 6.2.0``."""
    manifest = next(
        PEER.parents[1].glob("lib/python3*/site-packages/ansible_collections/kubernetes/core/MANIFEST.json")
    )
    return f"kubernetes.core.{module} {json.loads(manifest.read_text())['collection_info']['version']}"


class Ground:
    """Use as a context manager; ``nodes`` fake nodes with ``disks_per_node`` free disks each."""

    def __init__(self, nodes: int = 5, disks_per_node: int = 4, shape: Shape | None = None) -> None:
        self.nodes, self.disks_per_node, self.shape = nodes, disks_per_node, shape or Shape(prefix="bench-")

    @cached_property
    def folder(self) -> Path:
        """Made when it is asked for: a ground that nobody enters leaves nothing."""
        return Path(tempfile.mkdtemp(prefix="berth-bench-"))

    def __enter__(self) -> Ground:
        return self

    def __exit__(self, *_exc: object) -> None:
        if "cluster" in self.__dict__:
            self.cluster.down()
        if "folder" in self.__dict__:
            shutil.rmtree(self.folder)

    @cached_property
    def cluster(self) -> Cluster:
        say(f"a cluster with {self.nodes} fake nodes and {self.disks_per_node} disks each")
        cluster = Cluster(self.folder / f"b{self.folder.name.rsplit('-', 1)[1]}")
        self.__dict__["cluster"] = cluster  # also a cluster that fails half-way is taken down
        cluster.up(hosts=0, node_grace=3600)  # thousands of fake nodes renew their Leases late on a busy machine
        cluster.add_nodes(self.nodes, self.shape)
        install_crds(cluster.kubeconfig)
        api = client_for(cluster.kubeconfig)
        api.create(
            resources.STORAGE_CLASS,
            {
                "metadata": {"name": CLASS},
                "provisioner": "kubernetes.io/no-provisioner",
                "volumeBindingMode": "WaitForFirstConsumer",
            },
        )
        self._add_disks(cluster)
        return cluster

    def _add_disks(self, cluster: Cluster) -> None:
        names = [(node, index) for node in cluster.fake_nodes() for index in range(self.disks_per_node)]
        shares = [names[start::4] for start in range(4)]
        clients = [client_for(cluster.kubeconfig) for _share in shares]  # a client belongs to one thread
        with ThreadPoolExecutor(len(clients)) as pool:
            list(pool.map(_create_disks, clients, shares))

    @property
    def api(self) -> ApiClient:
        return client_for(self.cluster.kubeconfig)

    def play(
        self, python: Path, tasks: list[dict[str, Any]], kubeconfig: Path | None = None, hosts: int = 1, **more: Any
    ) -> tuple[float, Run]:
        """Seconds that ansible-playbook took, and what it did; a play that fails stops the bench."""
        if not python.exists():
            raise SystemExit(f"{python} is missing: run `make venv-bench`")
        env = {
            "K8S_AUTH_KUBECONFIG": str(kubeconfig or self.cluster.kubeconfig),
            "TMPDIR": str(self._folder(python)),
        }
        names = ["localhost"] if hosts == 1 else [f"host{index:02}" for index in range(hosts)]
        lines = [f"{name} ansible_connection=local ansible_python_interpreter={python}\n" for name in names]
        started = time.perf_counter()
        run = run_playbook(
            tasks, self._folder(python) / "play", env=env, python=str(python), inventory="".join(lines), **more
        )
        return time.perf_counter() - started, run.ok()

    def _folder(self, python: Path) -> Path:
        folder = self.folder / ("peer" if python == PEER else "ours")
        folder.mkdir(exist_ok=True)
        return folder


def _create_disks(api: ApiClient, names: Sequence[tuple[str, int]]) -> None:
    for node, index in names:
        name = f"{node}-d{index}"
        spec = {
            "nodeName": node,
            "identity": {"serial": name, "size": (index + 1) * GI},
            "storageClassName": CLASS,
            "fsType": "ext4",
        }
        api.create(resources.LOCAL_DISK, {"metadata": {"name": name}, "spec": spec, **TYPE})
        status = {"phase": "Available", "observed": {"devicePath": "/dev/sdx", "health": "Healthy"}}
        api.patch(resources.LOCAL_DISK, name, None, {"status": status}, subresource="status")


TYPE = {"apiVersion": resources.LOCAL_DISK.api_version, "kind": resources.LOCAL_DISK.kind}


def stateful_app(name: str, replicas: int, **more: Any) -> dict[str, Any]:
    """The task that the benches run: one disk a replica, no waiting for pods."""
    container = {
        "name": "main",
        "image": "berth.local/busybox:1",
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    options = {
        "name": name,
        "replicas": replicas,
        "wait": False,
        "pod_management_policy": "Parallel",
        "disks": [{"name": "data", "size": "500Mi", "storage_class": CLASS}],
        "template": {"spec": {"containers": [container]}},
        **more,
    }
    return {"berth.stateful.stateful_app": options}
