# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs of a kind cluster that the development cluster does not have. `image` and `cluster` call this.

<cache>/kind-<kind's version>-<hash of what goes in>/bin/{kind,kubeadm,coredns,berth-runc}
                                                     /base/   the files of kind's own base image, from its module
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from .. import build, toolchain
from ..build import Progress, Step, quiet
from ..errors import BuildError

KIND_VERSION = "v0.33.0"
COREDNS_VERSION = "v1.14.2"
#: The one version for which `go/kubeadm` has its go.mod (berth_dev/gomod.py makes it).
KUBERNETES_VERSION = build.DEFAULT_VERSION
SOURCES = Path(__file__).resolve().parents[3] / "kind-node-image" / "go"
BASE = "sigs.k8s.io/kind"


def steps() -> tuple[Step, ...]:
    """Everything that is built."""
    major, minor = KUBERNETES_VERSION.removeprefix("v").split(".")[:2]
    stamp = "k8s.io/component-base/version.git"
    kubeadm = f"-X {stamp}Version={KUBERNETES_VERSION} -X {stamp}Major={major} -X {stamp}Minor={minor}"
    return (
        Step(f"kind {KIND_VERSION}", "kind", (BASE,), "kind"),
        Step(f"kubeadm {KUBERNETES_VERSION}", "kubeadm", ("k8s.io/kubernetes/cmd/kubeadm",), "kubeadm", kubeadm),
        Step(f"CoreDNS {COREDNS_VERSION}", "coredns", (".",), "coredns"),
        Step("berth-runc", "runtime", (".",), "berth-runc"),
    )


def ensure(progress: Progress = quiet) -> Path:
    """The folder with `bin` and `base`, made now if it is not in the cache. BuildError with the compiler's words."""
    return build.complete(key(), lambda work, lock: _make(work, lock, progress), progress)


def cached() -> bool:
    """True when nothing need be built."""
    return (build.cache_folder() / key() / "bin").is_dir()


def key() -> str:
    """`kind-<version>-<sha256>`: of the Go sources, their go.mod and go.sum, and of what `steps` says."""
    files = sorted(path for path in SOURCES.rglob("*") if path.suffix in (".go", ".mod", ".sum"))
    if not files:
        raise BuildError(f"{SOURCES}: no Go sources there; run from a checkout or an installed collection of berth")
    return f"kind-{KIND_VERSION}-{build.digest_of(steps(), SOURCES, files)}"


def _make(work: Path, lock: int, progress: Progress) -> None:
    go = toolchain.find_go(build.cache_folder(), build.needed_go(SOURCES), progress)
    (work / "bin").mkdir()
    for step in steps():
        build.compile_step(go, step, SOURCES / step.module, work, lock, progress)
    argv = [str(go), "list", "-m", "-json", BASE]
    listed = subprocess.run(argv, cwd=SOURCES / "kind", env=toolchain.environment(), capture_output=True, check=True)
    shutil.copytree(Path(json.loads(listed.stdout)["Dir"]) / "images/base/files", work / "base")
    for path in (work / "base").rglob("*"):  # Go's module cache is read-only
        path.chmod(0o755)
