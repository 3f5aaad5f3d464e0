"""Which files a stage depends on, and one hash over them and over the programs that they run with."""

from __future__ import annotations

import hashlib
import os
import pathlib
import platform
import shutil
import subprocess
from collections.abc import Iterable, Sequence

#: What `make deps` installs.
PACKAGES = "tools/debian-packages.txt"
#: Programs whose version is part of every proof, where the machine has them.
VERSIONS = ((".venv/bin/python", "-VV"), ("go", "env", "GOVERSION"))


def files_of_the_tree() -> list[str]:
    """Relative paths of the files that a commit of the work tree would hold, sorted; empty outside of git."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    names = done.stdout.decode(errors="surrogateescape").split("\0") if done.returncode == 0 else []
    return sorted({name for name in names if name and os.path.lexists(name)})


def matches(pattern: str, path: str) -> bool:
    """``*``: every file; ``folder/``: every file below it; else the one file of that path."""
    return pattern == "*" or path == pattern or (pattern.endswith("/") and path.startswith(pattern))


def select(patterns: Sequence[str], paths: Iterable[str]) -> list[str]:
    """The paths that the patterns name. ``!pattern`` takes out again; the last pattern that matches decides."""
    chosen = []
    for path in paths:
        inside = False
        for pattern in patterns:
            if matches(pattern.removeprefix("!"), path):
                inside = not pattern.startswith("!")
        if inside:
            chosen.append(path)
    return chosen


def digest(name: str, patterns: Sequence[str], paths: Iterable[str], programs: str) -> str:
    """SHA-256 over a stage's name, its inputs' paths, modes and contents, and the versions of the programs."""
    total = hashlib.sha256(f"{name}\0{programs}\0".encode())
    for path in select(patterns, paths):
        if os.path.islink(path):
            kind, content = "link", os.readlink(path).encode()
        else:
            kind, content = ("run" if os.access(path, os.X_OK) else "file"), pathlib.Path(path).read_bytes()
        total.update(f"{path}\0{kind}\0{hashlib.sha256(content).hexdigest()}\n".encode(errors="surrogateescape"))
    return total.hexdigest()


def programs(more: Sequence[str] = ()) -> str:
    """The versions of what a stage runs with: kernel, Python, Go, and the Debian packages that `make deps` installs.

    ``more``: further lists of packages, which an earlier stage installs for it.
    """
    lines = [f"{platform.system()} {platform.release()} {platform.machine()}"]
    lines += [_output(command) for command in VERSIONS if shutil.which(command[0])]
    lists = [path for path in map(pathlib.Path, (PACKAGES, *more)) if path.exists()]
    listed = sorted({name for path in lists for name in _names(path)})
    if listed and shutil.which("dpkg-query"):
        lines.append(_output(("dpkg-query", "--show", "--showformat", "${Package} ${Version}\n", *listed)))
    return "\n".join(lines)


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return done.stdout.decode(errors="replace").strip()


def _names(path: pathlib.Path) -> list[str]:
    lines = [line.split("#", 1)[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line]
