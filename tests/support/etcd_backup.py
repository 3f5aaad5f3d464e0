"""A backup of the development cluster's etcd, taken and restored as etcd's manual says, by its own tools.

etcdctl and etcdutl are built once from their Go modules, into the cache of the development cluster: by
`python -m tests.support.etcd_backup`, before the tests that use them.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from berth_dev import build, toolchain
from berth_dev.pytest_plugin import say
from tests.dev.hosts_help import eventually

SOURCE = Path(__file__).parent / "etcd_tools"
TOOLS = ("etcdctl", "etcdutl")
#: More revisions than any cluster makes between a backup and its restore: all that clients have seen are behind it.
BUMP = 1_000_000_000
_SECONDS = 120.0


def tools() -> Path:
    """The folder with both programs, built now if it is not in the cache."""
    packages = tuple(f"go.etcd.io/etcd/{name}/v3" for name in TOOLS)
    step = build.Step("etcd's tools", "etcd_tools", packages, "")
    digest = build.digest_of((step,), SOURCE, sorted(SOURCE.iterdir()))

    def make(work: Path, lock: int) -> None:
        (work / "bin").mkdir()
        build.compile_step(toolchain.find_go(build.cache_folder(), (1, 26), say), step, SOURCE, work, lock, say)
        for name in TOOLS:  # `go build` names a program by the last part of its path, which may be its version
            assert (work / "bin" / name).exists(), f"{step.title}: no {name}"

    return build.complete(f"etcd-tools-{digest}", make, say) / "bin"


class Backup:
    """One snapshot of a cluster's etcd."""

    def __init__(self, cluster: Any, folder: Path) -> None:
        self.cluster, self.file = cluster, folder / "snapshot.db"
        self._plane, self._folder = cluster._control_plane(), folder
        self._data = Path(cluster.folder.path) / "data" / "etcd"

    def save(self) -> Backup:
        """From the etcd that runs."""
        pki, port = self.cluster._pki, self._plane.settings.ports["etcd"]
        pair = pki.client("kube-apiserver", authority="etcd-ca")
        ways = [f"--endpoints=https://127.0.0.1:{port}", f"--cacert={pki.authority('etcd-ca').cert}"]
        self._run("etcdctl", *ways, f"--cert={pair.cert}", f"--key={pair.key}", "snapshot", "save", str(self.file))
        return self

    def restore(self, *, bump: bool = True) -> None:
        """The API server stops first and comes back last. ``bump``: as the manual says for Kubernetes."""
        for name in ("kube-apiserver", "etcd"):
            self.cluster.stop_component(name)
        fresh, peer = self._folder / "restored", f"https://127.0.0.1:{self._plane.settings.ports['etcd-peer']}"
        what = [f"--data-dir={fresh}", "--name=default", f"--initial-cluster=default={peer}"]
        raised = [f"--bump-revision={BUMP}", "--mark-compacted"] if bump else []
        self._run(
            "etcdutl", "snapshot", "restore", str(self.file), *what, f"--initial-advertise-peer-urls={peer}", *raised
        )
        shutil.rmtree(self._data)
        shutil.move(fresh, self._data)
        for name in ("etcd", "kube-apiserver"):
            self.cluster.start_component(name)
        eventually(self._answers, _SECONDS, "the API server is back")

    def _answers(self) -> bool:
        return bool(self.cluster.kubectl("get", "--raw", "/readyz") == "ok")

    def _run(self, name: str, *args: str) -> None:
        done = subprocess.run([tools() / name, *args], capture_output=True, text=True, timeout=_SECONDS, check=False)
        assert done.returncode == 0, f"{name} {' '.join(args)}: {done.stderr[-2000:]}"


if __name__ == "__main__":
    print(tools())
