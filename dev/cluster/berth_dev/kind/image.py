# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node image of kind, made without a registry: a Debian system, kind's own files, and programs built from their
modules. `cluster` and `kind_cli` call this.

What kind's Dockerfile does to its base is done here to a debootstrapped tree; the images that kubeadm starts are put
into the tree's containerd by a containerd of berth-dev that runs on the tree for a moment. Docker is not needed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from .. import build
from ..errors import BuildError
from ..images import archive, catalog, debian
from . import cluster_images, programs

NAME = f"berth.local/kind-node:{programs.KUBERNETES_VERSION}"
#: bookworm: newer systemds refuse cgroup v1.
SUITE = "bookworm"
PACKAGES = (
    # as kind's Dockerfile has them, without network storage
    *("systemd", "conntrack", "iptables", "nftables", "iproute2", "ethtool", "util-linux", "mount", "kmod"),
    *("libseccomp2", "e2fsprogs", "bash", "ca-certificates", "jq", "procps", "runc"),
    # what makes a node a host of berth-dev: Ansible's way in, and what the agent and the roles call
    *("openssh-server", "python3", "xfsprogs", "smartmontools", "udev"),
)
#: Raised when this module does something else with the same inputs.
MANNER = "1"
UNITS = ("kubelet.service", "containerd.service", "undo-mount-hacks.service")
#: Units that Debian starts and a node in a container must not, as in kind's Dockerfile.
UNWANTED = (
    "lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service",
    "lib/systemd/system/multi-user.target.wants/*",
    "etc/systemd/system/*.wants/*",
    "lib/systemd/system/local-fs.target.wants/*",
    "lib/systemd/system/sockets.target.wants/*udev*",
    "lib/systemd/system/sockets.target.wants/*initctl*",
    "lib/systemd/system/basic.target.wants/*",
)


def ensure(progress: build.Progress = build.quiet) -> Path:
    """The image as a docker-archive, made now if it is not in the cache (minutes, as root)."""
    kube_bin, kind = build.ensure_binaries(programs.KUBERNETES_VERSION, progress), programs.ensure(progress)
    return catalog.ensure_recipe("kind-node", _recipe(kube_bin, kind), progress)


def cached() -> bool:
    """True when `ensure` has nothing to make."""
    kube = build.cache_folder() / build.cache_key(programs.KUBERNETES_VERSION) / "bin"
    kind = build.cache_folder() / programs.key()
    return kube.is_dir() and programs.cached() and catalog.archive_of("kind-node", _recipe(kube, kind)).exists()


def _recipe(kube_bin: Path, kind: Path) -> catalog.Recipe:
    image = archive.Image(
        NAME,
        entrypoint=("/usr/local/bin/entrypoint", "/sbin/init"),
        environment={"container": "docker", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
        # SIGTERM would have systemd start itself anew.
        stop_signal="SIGRTMIN+3",
    )
    inputs = "\0".join((MANNER, kube_bin.parent.name, kind.name, cluster_images.PAUSE)).encode()
    made = debian.DebianImage(
        image, SUITE, PACKAGES, lambda: inputs, lambda root, _inputs: _finish(root, kube_bin, kind)
    )
    return catalog.Recipe(image, made.key, made.fill)


def _finish(root: Path, kube_bin: Path, kind: Path) -> None:
    """Make a node of the Debian system in `root`."""
    for pattern in UNWANTED:
        for path in root.glob(pattern):
            path.unlink()
    shutil.copytree(kind / "base", root, dirs_exist_ok=True)
    (root / "sbin/init").unlink(missing_ok=True)
    (root / "sbin/init").symlink_to("/usr/lib/systemd/systemd")
    _configure(root)
    _install(root, kube_bin, kind / "bin")
    with tempfile.TemporaryDirectory(prefix=".images-", dir=root.parent) as scratch:
        archives = cluster_images.make(kube_bin, kind / "bin", root, Path(scratch))
        _import(root / "var/lib/containerd", kube_bin, archives, Path(scratch))


def _configure(root: Path) -> None:
    units = root / "etc/systemd/system"
    for unit in UNITS:
        _link(units / "multi-user.target.wants" / unit, f"/etc/systemd/system/{unit}")
    # It would register things with the kernel, which is the machine's.
    _link(units / "systemd-binfmt.service", "/dev/null")
    with open(root / "etc/systemd/journald.conf", "a", encoding="utf-8") as stream:
        stream.write("ReadKMsg=no\n")
    (root / "etc/kubernetes/manifests").mkdir(parents=True)
    (root / "kind/version").write_text(programs.KUBERNETES_VERSION)
    config = root / "etc/containerd/config.toml"
    text = config.read_text()
    # Without CAP_SYS_RESOURCE runc may not lower a process's score and would fail; with it nothing is lost.
    changed = text.replace("restrict_oom_score_adj = false", "restrict_oom_score_adj = true")
    if changed == text or cluster_images.PAUSE not in text:
        raise BuildError(f"kind {programs.KIND_VERSION}: its containerd configuration has not the form that is known")
    config.write_text(changed)


def _install(root: Path, kube_bin: Path, kind_bin: Path) -> None:
    """Programs where kind's units look for them."""
    shutil.copy2(kube_bin / build.BERTH_KUBE, root / "usr/bin")
    for program in ("kubelet", "kubectl"):
        (root / "usr/bin" / program).symlink_to(build.BERTH_KUBE)
    shutil.copy2(kind_bin / "kubeadm", root / "usr/bin")
    for program in ("containerd", "containerd-shim-runc-v2", "ctr"):
        shutil.copy2(kube_bin / program, root / "usr/local/bin")
    shutil.copytree(kube_bin / "cni", root / "opt/cni/bin")
    asked = subprocess.run([kube_bin / "ctr", "oci", "spec"], capture_output=True, text=True, check=True)
    spec = json.loads(asked.stdout)
    spec["process"].pop("rlimits", None)
    spec.setdefault("hooks", {})["createContainer"] = [{"path": "/kind/bin/mount-product-files.sh"}]
    (root / "etc/containerd/cri-base.json").write_text(json.dumps(spec))


def _import(store: Path, kube_bin: Path, archives: Sequence[Path], scratch: Path) -> None:
    """Put the images into a containerd's store, not unpacked: that is done where they are run."""
    address, log = scratch / "containerd.sock", scratch / "containerd.log"
    config = (
        f'version = 3\nroot = "{store}"\nstate = "{scratch}/state"\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n'
    )
    (scratch / "config.toml").write_text(f'{config}[grpc]\n  address = "{address}"\n')
    with open(log, "wb") as stream:
        daemon = subprocess.Popen(
            [kube_bin / "containerd", "--config", scratch / "config.toml"], stdout=stream, stderr=stream
        )
        try:
            _wait(address, daemon, log)
            ctr = [str(kube_bin / "ctr"), "--address", str(address), "--namespace", "k8s.io", "images", "import"]
            for path in archives:
                done = subprocess.run(
                    [*ctr, "--local", "--no-unpack", str(path)], capture_output=True, text=True, check=False
                )
                if done.returncode != 0:
                    raise BuildError(f"image {path.name} cannot be put into the node: {done.stderr.strip()[-500:]}")
        finally:
            daemon.terminate()
            daemon.wait()


def _wait(address: Path, daemon: subprocess.Popen[bytes], log: Path, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not address.exists():
        if daemon.poll() is not None or time.monotonic() > until:
            raise BuildError(f"containerd on the node's system did not start: {log.read_text()[-500:]}")
        time.sleep(0.05)


def _link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
