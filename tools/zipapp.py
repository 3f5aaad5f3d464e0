"""Build a daemon that runs on hosts as one file: build/berth-agent.pyz, for any Python 3.9 or newer; the scheduler.

    .venv/bin/python tools/zipapp.py [TARGET [CACHE]]
    .venv/bin/python tools/zipapp.py --scheduler 3.11,x86_64 [TARGET [CACHE]]

In it are berth's packages and what of their wheels runs; pip checks the hashes. The agent takes the pure-Python files
alone and is the same for every Python and processor; the scheduler needs numpy, and is made for one of each. The same
sources give the same bytes; where those lie already, nothing is packed. The Makefile, the roles node_agent and
scheduler (from an installed collection too), the image of the DaemonSet and the tests use it. Exit status 1, with what
to do, where there is no pip or it fetches nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "build" / "berth-agent.pyz"
_SHARED = ("plugins/module_utils/berth_core", "src/berth_kube")
_EPOCH = (1980, 1, 1, 0, 0, 0)
_SHEBANG = b"#!/usr/bin/env python3\n"
#: The first file that Python runs; kept apart so that it can be read and checked as code.
MAIN = ROOT / "src" / "zipapp_main.py"


class Daemon(NamedTuple):
    """What is built. ``python``: for which, as 3.9; ``machine``: as uname -m; ``compiled``: its wheels are."""

    name: str
    packages: tuple[str, ...]
    python: str
    machine: str = "x86_64"
    compiled: bool = False

    @property
    def requirements(self) -> Path:
        """What pip fetches, with hashes."""
        return ROOT / f"requirements-{self.name}.txt"

    def platform(self) -> list[str]:
        """Options of pip that say which wheels are taken."""
        abi = f"cp{self.python.replace('.', '')}"
        taken = ["--python-version", self.python, "--implementation", "cp", "--abi", abi, "--abi", "none"]
        glibc = ("manylinux2014", "manylinux_2_28") if self.compiled else ("manylinux2014",)
        for platform in (*(f"{each}_{self.machine}" for each in glibc), "any"):
            taken += ["--platform", platform]
        return taken


#: The oldest Python that is supported decides which wheels the agent takes.
AGENT = Daemon("agent", (*_SHARED, "plugins/module_utils/berth_host", "src/berth_agent"), "3.9")


def scheduler(python: str, machine: str) -> Daemon:
    """The scheduler for a Python (3.11) on a processor (x86_64)."""
    return Daemon("scheduler", (*_SHARED, "src/berth_scheduler"), python, machine, compiled=True)


def wheels(daemon: Daemon, cache: Path) -> list[Path]:
    """The wheels, from a folder in the cache that is named after what is asked for; fetched when it is not there."""
    asked = daemon.requirements.read_bytes() + " ".join(daemon.platform()).encode()
    folder = cache / f"{daemon.name}-wheels-{hashlib.sha256(asked).hexdigest()[:12]}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            fetched = Path(scratch, "wheels")
            fetch(daemon, fetched)
            try:
                fetched.rename(folder)
            except OSError:  # another build was faster, and made the same
                if not folder.exists():
                    raise
    return sorted(folder.glob("*.whl"))


def fetch(daemon: Daemon, folder: Path) -> None:
    """The wheels, by pip. SystemExit that says what to do when it cannot."""
    asked = ["--no-deps", "--only-binary=:all:", "--require-hashes", *daemon.platform()]
    command = [*pip(daemon), "download", "--quiet", "--disable-pip-version-check", *asked]
    done = subprocess.run([*command, "--dest", str(folder), "-r", str(daemon.requirements)], check=False)
    if done.returncode != 0:
        sys.exit(
            f"the {daemon.name} is not built: pip could not fetch what {daemon.requirements} names for Python "
            f"{daemon.python} on {daemon.machine}; mend that, {_elsewhere(daemon)}"
        )


def _elsewhere(daemon: Daemon) -> str:
    options = f" --scheduler {daemon.python},{daemon.machine}" if daemon.compiled else ""
    option = "scheduler_zipapp" if daemon.compiled else "node_agent_zipapp"
    return (
        f"or build the {daemon.name} elsewhere (`python3 tools/zipapp.py{options}` of the collection) and name the "
        f"file: {option}"
    )


def pip(daemon: Daemon) -> list[str]:
    """The command line of a pip: of this Python, or of the system's (Ansible's own Python may be without).

    Which Python it belongs to does not matter: the wheels are asked for by the daemon's.
    """
    for command in ([sys.executable, "-m", "pip"], ["python3", "-m", "pip"], ["pip3"]):
        if not shutil.which(command[0]):
            continue
        if subprocess.run([*command, "--version"], capture_output=True, check=False).returncode == 0:
            return command
    sys.exit(
        f"the {daemon.name} is not built: neither {sys.executable} nor the system has pip, which fetches its packages; "
        f"install one (python3-pip of the distribution, or `{sys.executable} -m ensurepip`), {_elsewhere(daemon)}"
    )


def ours(daemon: Daemon) -> Iterator[tuple[str, bytes]]:
    """The packages of berth itself: name in the archive, content."""
    for package in daemon.packages:
        root = ROOT / package
        for path in root.rglob("*.py"):
            yield str(path.relative_to(root.parent)), path.read_bytes()
    yield "__main__.py", MAIN.read_bytes()
    yield "LICENSE", (ROOT / "LICENSE").read_bytes()
    if daemon.compiled:
        yield "MADE_FOR", f"Python {daemon.python} on {daemon.machine}".encode()


def theirs(daemon: Daemon, wheel: Path) -> Iterator[tuple[str, bytes]]:
    """A wheel's Python files, what is compiled where that is taken, and its licence and metadata."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            compiled = daemon.compiled and (name.endswith(".so") or ".so." in name)
            is_metadata = ".dist-info/" in name and ("licen" in name.lower() or name.endswith("/METADATA"))
            if (name.endswith(".py") and not (daemon.compiled and "/tests/" in name)) or compiled or is_metadata:
                yield name, archive.read(name)


def build(target: Path = TARGET, cache: Path = TARGET.parent, daemon: Daemon = AGENT) -> Path:
    """Write the zipapp where it is not there already, made from the same; wheels are kept in ``cache``."""
    entries, fetched = dict(ours(daemon)), wheels(daemon, cache)
    sources = _sources(entries, fetched)
    record = target.with_name(f".{target.name}.made")
    if _recorded(record) != _made(sources, target):
        for wheel in fetched:
            entries.update(theirs(daemon, wheel))
        write(target, entries)
        _record(record, _made(sources, target))
    return target


def _sources(entries: Mapping[str, bytes], fetched: Iterable[Path]) -> str:
    """What it is made from: its sources, this file, the wheels; pip has checked these, so their folder says which."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for name, content in sorted(entries.items()):
        digest.update(f"{name} {len(content)}\n".encode() + content)
    for wheel in fetched:
        digest.update(f"{wheel.parent.name}/{wheel.name}\n".encode())
    return digest.hexdigest()


def _made(sources: str, target: Path) -> str:
    """The record of a target as it is now: one that was changed since, or is half there, has another."""
    content = target.read_bytes() if target.is_file() else b""
    return f"{sources} {hashlib.sha256(content).hexdigest()}\n"


def _recorded(record: Path) -> str:
    try:
        return record.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""


def _record(record: Path, text: str) -> None:
    """Whole or not at all. After the target: who dies between the two leaves a record that says less."""
    descriptor, scratch = tempfile.mkstemp(prefix=".zipapp-", dir=record.parent)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)
    os.replace(scratch, record)


def write(target: Path, entries: Mapping[str, bytes]) -> None:
    """One archive that Python runs, complete or not at all; the same entries give the same bytes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, scratch = tempfile.mkstemp(prefix=".zipapp-", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(_SHEBANG)
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                for name in sorted(entries):
                    entry = zipfile.ZipInfo(name, _EPOCH)
                    entry.external_attr, entry.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
                    archive.writestr(entry, entries[name])
        os.chmod(scratch, 0o755)  # noqa: S103 - a program
        os.replace(scratch, target)
    finally:
        Path(scratch).unlink(missing_ok=True)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--scheduler", metavar="PYTHON,MACHINE", help="the scheduler, as 3.11,x86_64 (default: the agent)"
    )
    parser.add_argument("target", nargs="?", type=Path)
    parser.add_argument("cache", nargs="?", type=Path, default=TARGET.parent)
    given = parser.parse_args()
    daemon = scheduler(*given.scheduler.split(",", 1)) if given.scheduler else AGENT
    target = given.target or TARGET.parent / f"berth-{daemon.name}.pyz"
    print(build(target.resolve(), given.cache.resolve(), daemon))


if __name__ == "__main__":
    main()
