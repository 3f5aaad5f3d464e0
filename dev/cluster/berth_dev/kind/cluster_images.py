# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The images inside a kind node: what kubeadm starts, under the names that it asks for. `image` calls this.

kubernetes   one layer with berth-kube under all its names and what kube-proxy runs; six names of one image
coredns      the program alone
pause        the program alone
"""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..build import BERTH_KUBE
from ..errors import BuildError
from ..images import archive
from . import programs

REGISTRY = "registry.k8s.io"
PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "etcd")
#: kube-proxy's; with them goes what they link.
TOOLS = ("usr/sbin/nft", "usr/sbin/conntrack")
#: What kind's own containerd configuration names.
PAUSE = f"{REGISTRY}/pause:3.10"
PATH = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Names:
    """The images that this kubeadm asks for, by program."""

    kubernetes: tuple[str, ...]
    coredns: str
    pause: tuple[str, ...]


def names(bin_dir: Path) -> Names:
    """Asked of kubeadm itself."""
    argv = [str(bin_dir / "kubeadm"), "config", "images", "list"]
    argv += ["--kubernetes-version", programs.KUBERNETES_VERSION]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    listed = done.stdout.split()
    by_program = {image.rpartition(":")[0].rpartition("/")[2]: image for image in listed}
    lacking = {*PROGRAMS, "coredns", "pause"} - set(by_program)
    if done.returncode != 0 or lacking:
        raise BuildError(f"kubeadm names no image for {', '.join(sorted(lacking))}: {done.stderr.strip()[-300:]}")
    kubernetes = tuple(by_program[program] for program in PROGRAMS)
    return Names(kubernetes, by_program["coredns"], (by_program["pause"], PAUSE))


def make(kube_bin: Path, kind_bin: Path, system: Path, scratch: Path) -> list[Path]:
    """Archives of all images. `kube_bin`: the development cluster's programs; `system`: the node's root, for tools."""
    wanted, path = names(kind_bin), {"PATH": PATH}
    proxy = scratch / "kubernetes.layer"
    with tarfile.open(proxy, "w", format=tarfile.GNU_FORMAT) as layer:
        for folder in ("etc", "proc", "sys", "dev", "run", "var", "usr", "usr/local", "usr/local/bin"):
            archive.add_folder(layer, folder)
        archive.add_folder(layer, "tmp", 0o1777)
        for name in ("bin", "sbin", "lib", "lib64"):
            archive.add_link(layer, name, f"usr/{name}")
        archive.add_file(layer, f"usr/local/bin/{BERTH_KUBE}", (kube_bin / BERTH_KUBE).read_bytes(), 0o755)
        for program in PROGRAMS:
            archive.add_link(layer, f"usr/local/bin/{program}", BERTH_KUBE)
        for file in linked(system, TOOLS):
            archive.add_file(layer, file, (system / file).read_bytes(), 0o755)
    first, *others = wanted.kubernetes
    made = [_write(archive.Image(first, also=others, environment=path), proxy, scratch)]
    for image, program, binary in (
        (archive.Image(wanted.coredns, entrypoint=("/coredns",)), "coredns", kind_bin / "coredns"),
        (archive.Image(PAUSE, also=wanted.pause[:1], entrypoint=("/pause",)), "pause", kube_bin / "pause"),
    ):
        single = scratch / f"{program}.layer"
        with tarfile.open(single, "w", format=tarfile.GNU_FORMAT) as layer:
            archive.add_file(layer, program, binary.read_bytes(), 0o755)
        made.append(_write(image, single, scratch))
    return made


def _write(image: archive.Image, layer: Path, scratch: Path) -> Path:
    target = scratch / f"{layer.stem}.tar"
    archive.write(image, layer, target)
    layer.unlink()
    return target


def linked(system: Path, tools: Iterable[str]) -> list[str]:
    """The tools and every library that they load, as paths below the root `system`, as its own loader finds them."""
    chroot = shutil.which("chroot", path="/usr/sbin:/usr/bin") or "chroot"
    found: dict[str, None] = {}
    for tool in tools:
        done = subprocess.run([chroot, system, "/usr/bin/ldd", f"/{tool}"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BuildError(f"{tool} of the node's system: its libraries cannot be found: {done.stderr.strip()}")
        paths = [word for line in done.stdout.splitlines() for word in line.split() if word.startswith("/")]
        for path in (tool, *paths):
            inside = (system / path.lstrip("/")).parent.resolve().relative_to(system.resolve())
            found[str(inside / Path(path).name)] = None
    return list(found)
