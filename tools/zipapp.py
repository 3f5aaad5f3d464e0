"""Build the node agent as one file that any Python 3.9 or newer runs: build/berth-agent.pyz.

    .venv/bin/python tools/zipapp.py [TARGET [CACHE]]

In it are our packages and the pure-Python files of the wheels in requirements-agent.txt, whose hashes pip checks. The
same sources give the same bytes. The Makefile, the role node_agent (from an installed collection too), the image of the
DaemonSet and the tests call me. Exit status 1, with what to do, where there is no pip or it fetches nothing.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "build" / "berth-agent.pyz"
REQUIREMENTS = ROOT / "requirements-agent.txt"
PACKAGES = ("plugins/module_utils/berth_core", "plugins/module_utils/berth_host", "src/berth_kube", "src/berth_agent")
#: The oldest Python that is supported decides which wheels are taken.
PLATFORM = ("--python-version", "3.9", "--implementation", "cp", "--abi", "cp39", "--abi", "none")
PLATFORMS = ("--platform", "manylinux2014_x86_64", "--platform", "any")
_EPOCH = (1980, 1, 1, 0, 0, 0)
_HELP = (
    "or build the agent elsewhere (`python3 tools/zipapp.py` of the collection) and name the file: node_agent_zipapp"
)
_SHEBANG = b"#!/usr/bin/env python3\n"
#: The first file that Python runs; kept apart so that it can be read and checked as code.
MAIN = ROOT / "src" / "zipapp_main.py"


def wheels(cache: Path) -> list[Path]:
    """The wheels, from a folder in the cache that is named after what is asked for; fetched when it is not there."""
    digest = hashlib.sha256(REQUIREMENTS.read_bytes() + " ".join(PLATFORM + PLATFORMS).encode()).hexdigest()[:12]
    folder = cache / f"agent-wheels-{digest}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            fetched = Path(scratch, "wheels")
            fetch(fetched)
            try:
                fetched.rename(folder)
            except OSError:  # another build was faster, and made the same
                if not folder.exists():
                    raise
    return sorted(folder.glob("*.whl"))


def fetch(folder: Path) -> None:
    """The wheels, by pip. SystemExit that says what to do when it cannot."""
    asked = ["--no-deps", "--only-binary=:all:", "--require-hashes", *PLATFORM, *PLATFORMS]
    command = [*pip(), "download", "--quiet", "--disable-pip-version-check", *asked]
    done = subprocess.run([*command, "--dest", str(folder), "-r", str(REQUIREMENTS)], check=False)
    if done.returncode != 0:
        sys.exit(f"the agent is not built: pip could not fetch what {REQUIREMENTS} names; mend that, {_HELP}")


def pip() -> list[str]:
    """The command line of a pip: of this Python, or of the system's (Ansible's own Python may be without).

    Which Python it belongs to does not matter: the wheels are asked for by the agent's oldest.
    """
    for command in ([sys.executable, "-m", "pip"], ["python3", "-m", "pip"], ["pip3"]):
        if not shutil.which(command[0]):
            continue
        if subprocess.run([*command, "--version"], capture_output=True, check=False).returncode == 0:
            return command
    sys.exit(
        f"the agent is not built: neither {sys.executable} nor the system has pip, which fetches its packages; install "
        f"one (python3-pip of the distribution, or `{sys.executable} -m ensurepip`), {_HELP}"
    )


def ours() -> Iterator[tuple[str, bytes]]:
    """Our own packages: name in the archive, content."""
    for package in PACKAGES:
        root = ROOT / package
        for path in root.rglob("*.py"):
            yield str(path.relative_to(root.parent)), path.read_bytes()
    yield "__main__.py", MAIN.read_bytes()
    yield "LICENSE", (ROOT / "LICENSE").read_bytes()


def theirs(wheel: Path) -> Iterator[tuple[str, bytes]]:
    """A wheel's Python files, and its licence and metadata."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            is_metadata = ".dist-info/" in name and ("licen" in name.lower() or name.endswith("/METADATA"))
            if name.endswith(".py") or is_metadata:
                yield name, archive.read(name)


def build(target: Path = TARGET, cache: Path = TARGET.parent) -> Path:
    """Write the zipapp; wheels are kept in ``cache``."""
    entries = dict(ours())
    for wheel in wheels(cache):
        entries.update(theirs(wheel))
    write(target, entries)
    return target


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


if __name__ == "__main__":
    print(build(*(Path(argument).resolve() for argument in sys.argv[1:])))
