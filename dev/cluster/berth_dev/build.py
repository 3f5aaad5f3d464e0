# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs of the cluster, built from their Go modules into a cache of the user. `cluster` and `cli` call this.

Nothing here touches a cluster's folder. A result is complete or absent: it is built in a folder beside its place, which
takes its name by one rename, under a lock.

    $XDG_CACHE_HOME (or ~/.cache)/berth-dev/v1.36.4-<hash of what goes in>/bin/
        berth-kube, and as links to it etcd, kube-apiserver, …, kubectl, kwok
        containerd, containerd-shim-runc-v2, ctr, pause
        cni/{bridge,host-local,loopback,portmap}
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from . import gomod, toolchain
from .errors import BuildError

DEFAULT_VERSION = "v1.36.4"
CONTAINERD_VERSION = "v2.3.4"
CNI_VERSION = "v1.9.1"
SOURCES = Path(__file__).resolve().parents[1] / "go"
PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
)
KWOK_PROGRAMS = ("kwok", "kwok-stages")
BERTH_KUBE = "berth-kube"
# What a failed or running build says of itself at least this often.
PROGRESS_SECONDS = 8.0

Progress = Callable[[str], None]


def quiet(line: str) -> None:
    """Progress that nobody wants to hear."""


@dataclass(frozen=True)
class Step:
    """One run of `go build`: what a person calls it, the module's folder, the packages, where the result goes."""

    title: str
    module: str
    packages: tuple[str, ...]
    output: str
    ldflags: str = ""
    tags: str = ""


def steps(version: str) -> tuple[Step, ...]:
    """Everything that is built for a version of Kubernetes."""
    major, minor = version.removeprefix("v").split(".")[:2]
    stamp = "k8s.io/component-base/version.git"
    alone = Step(f"kwok {gomod.KWOK}", "kube", ("./cmd/kwok",), "kwok")
    containerd, cni = "github.com/containerd/containerd/v2", "github.com/containernetworking/plugins"
    return (
        Step(
            f"Kubernetes {version} (etcd, kube-*, kubelet, kubectl)",
            "kube",
            (".",),
            BERTH_KUBE,
            f"-X {stamp}Version={version} -X {stamp}Major={major} -X {stamp}Minor={minor}",
        ),
        Step(
            f"containerd {CONTAINERD_VERSION}",
            "containerd",
            tuple(f"{containerd}/cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")),
            "",
            f"-X {containerd}/version.Version={CONTAINERD_VERSION}",
            # Their C libraries or kernel modules are not asked of a development machine.
            "no_aufs,no_zfs,no_btrfs,no_devmapper",
        ),
        Step(
            f"CNI plugins {CNI_VERSION}",
            "containerd",
            tuple(
                f"{cni}/plugins/{name}" for name in ("main/bridge", "main/loopback", "ipam/host-local", "meta/portmap")
            ),
            "cni/",
            f"-X {cni}/pkg/utils/buildversion.BuildVersion={CNI_VERSION}",
        ),
        Step("pause", "pause", (".",), "pause"),
        *([] if kwok_fits(version) else [alone]),
    )


def kwok_fits(version: str) -> bool:
    """True when kwok is linked into berth-kube: its release compiles with one minor version of Kubernetes."""
    return version.rpartition(".")[0] == DEFAULT_VERSION.rpartition(".")[0]


def cache_folder() -> Path:
    """Where results are kept: $XDG_CACHE_HOME (or ~/.cache)/berth-dev."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "berth-dev"


def cache_key(version: str, sources: Path = SOURCES) -> str:
    """`<version>-<sha256>`: of the Go sources, their go.mod and go.sum, and of what `steps` says.

    The Go toolchain is not in it: with a warm cache none is needed.
    """
    gomod.staging_version(version)
    files = sorted(p for p in sources.rglob("*") if p.suffix in (".go", ".mod", ".sum"))
    if not files:
        raise BuildError(f"{sources}: no Go sources there; run from a checkout or an installed collection of berth")
    return f"{version}-{digest_of(steps(version), sources, files)}"


def digest_of(steps: tuple[Step, ...], sources: Path, files: list[Path]) -> str:
    """Of what the steps say and of the contents of `files`, which are named from `sources`."""
    digest = hashlib.sha256(repr(steps).encode())
    for file in files:
        digest.update(f"\0{file.relative_to(sources)}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def ensure_binaries(version: str = DEFAULT_VERSION, progress: Progress = quiet) -> Path:
    """The `bin` folder with every program, built now if it is not there. Safe to call from many processes.

    `progress` gets a line for each step and at least every ten seconds. Raises BuildError with the compiler's words.
    """
    key = cache_key(version)
    return complete(key, lambda work, lock: _build_all(version, work, lock, progress), progress) / "bin"


def complete(key: str, make: Callable[[Path, int], None], progress: Progress = quiet) -> Path:
    """The folder `key` of the cache, its `bin` made now by `make(folder, lock)` if it is not there.

    `lock` is an open descriptor, for children of `make` to hold.
    """
    cache = cache_folder()
    target = cache / key
    if (target / "bin").is_dir():
        return target
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(cache / f".{key}.lock", progress) as lock:
        if not (target / "bin").is_dir():
            for left in cache.glob(f".{key}.tmp-*"):  # of builds that were killed: the lock says that none runs
                shutil.rmtree(left)
            work = Path(tempfile.mkdtemp(prefix=f".{key}.tmp-", dir=cache))
            try:
                make(work, lock)
                os.rename(work, target)
            finally:
                shutil.rmtree(work, ignore_errors=True)
    return target


@contextlib.contextmanager
def _locked(path: Path, progress: Progress) -> Iterator[int]:
    """Hold the flock of a file; says every few seconds that it waits."""
    fd, began, said = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), time.monotonic(), 0.0
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waited = time.monotonic() - began
                if waited >= said:
                    progress(f"another berth-dev builds the same programs: waiting for it, {waited:.0f} s")
                    said = waited + PROGRESS_SECONDS
                time.sleep(0.2)
        yield fd
    finally:
        os.close(fd)


def _build_all(version: str, work: Path, lock: int, progress: Progress) -> None:
    """Build every step into work/bin, and link the names of berth-kube's programs to it."""
    go = toolchain.find_go(cache_folder(), needed_go(), progress)
    out, began = work / "bin", time.monotonic()
    (out / "cni").mkdir(parents=True)
    for step in steps(version):
        module = SOURCES / step.module
        if step.output == BERTH_KUBE and version != DEFAULT_VERSION:
            module = _module_for(version, go, work / "src", lock, progress)
        compile_step(go, step, module, work, lock, progress)
    for name in PROGRAMS:
        (out / name).symlink_to(BERTH_KUBE)
    for name in KWOK_PROGRAMS:
        if not (out / name).exists():
            (out / name).symlink_to(BERTH_KUBE if kwok_fits(version) else "kwok")
    shutil.rmtree(work / "src", ignore_errors=True)
    progress(f"all programs built in {time.monotonic() - began:.0f} s")


def compile_step(go: Path, step: Step, module: Path, work: Path, lock: int, progress: Progress) -> None:
    """Build one step of the module in that folder into work/bin; minds other work on the machine."""
    flags = ["-trimpath", "-v", "-ldflags", f"-s -w {step.ldflags}".strip()]
    flags += ["-tags", step.tags] if step.tags else []
    argv = ["nice", "-n", "10", str(go), "build", *flags, "-o", f"{work}/bin/{step.output}", *step.packages]
    _run(step.title, argv, module, work / "log", lock, progress)


def needed_go(sources: Path = SOURCES) -> tuple[int, ...]:
    """The newest `go` line among the modules, e.g. (1, 26, 3)."""
    lines = [line for file in sources.glob("*/go.mod") for line in file.read_text(encoding="utf-8").splitlines()]
    return max(tuple(int(n) for n in line.split()[1].split(".")) for line in lines if line.startswith("go "))


def _module_for(version: str, go: Path, folder: Path, lock: int, progress: Progress) -> Path:
    """A copy of the kube module, its go.mod made for another version of Kubernetes (the checksum database vouches)."""
    left_out = ["go.mod", "go.sum", "cmd", *([] if kwok_fits(version) else ["kwok", "linked.go"])]
    shutil.copytree(SOURCES / "kube", folder, ignore=shutil.ignore_patterns(*left_out))
    (folder / "go.mod").write_text("module scratch\n", encoding="utf-8")
    log = folder / "log"
    asked = f"k8s.io/kubernetes@{version}"
    _run(f"go.mod of Kubernetes {version}", [str(go), "mod", "download", "-json", asked], folder, log, lock, progress)
    upstream = Path(json.loads(log.read_text(encoding="utf-8"))["GoMod"])
    text = gomod.go_mod(version, upstream.read_text(encoding="utf-8"), kwok=kwok_fits(version))
    (folder / "go.mod").write_text(text, encoding="utf-8")
    _run(f"modules of Kubernetes {version}", [str(go), "mod", "tidy"], folder, log, lock, progress)
    return folder


def _run(title: str, argv: list[str], cwd: Path, log: Path, lock: int, progress: Progress) -> None:
    """Run one go command; its words go to `log`. The lock is handed down, so that an orphan still holds it."""
    progress(f"building {title}")
    began = said = time.monotonic()
    with open(log, "wb") as stream:
        child = subprocess.Popen(
            argv, cwd=cwd, env=toolchain.environment(), stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
            pass_fds=(lock,),
        )  # fmt: skip
        try:
            while child.poll() is None:
                if time.monotonic() - said >= PROGRESS_SECONDS:
                    said = time.monotonic()
                    progress(f"building {title}: {said - began:.0f} s, {_count_lines(log)} packages")
                time.sleep(0.1)
        finally:
            if child.poll() is None:
                child.terminate()
                child.wait()
    if child.returncode != 0:
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:])
        raise BuildError(f"building {title}: go ended with status {child.returncode}:\n{tail}")
    progress(f"built {title} in {time.monotonic() - began:.0f} s")


def _count_lines(path: Path) -> int:
    """How many packages `go build -v` has named so far."""
    return path.read_bytes().count(b"\n")
