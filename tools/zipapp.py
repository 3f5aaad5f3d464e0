"""Build the node agent as one file that any Python 3.9 or newer runs: build/berth-agent.pyz.

    .venv/bin/python tools/zipapp.py [TARGET [CACHE]]

In it are our packages and the pure-Python files of the wheels in requirements-agent.txt, whose hashes pip checks. The
same sources give the same bytes. The Makefile, the role node_agent (from an installed collection too), the image of the
DaemonSet and the tests call me.
"""

from __future__ import annotations

import hashlib
import os
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
            asked = ["--no-deps", "--only-binary=:all:", "--require-hashes", *PLATFORM, *PLATFORMS]
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", *asked]
            subprocess.run([*command, "--dest", str(fetched), "-r", str(REQUIREMENTS)], check=True)
            try:
                fetched.rename(folder)
            except OSError:  # another build was faster, and made the same
                if not folder.exists():
                    raise
    return sorted(folder.glob("*.whl"))


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
