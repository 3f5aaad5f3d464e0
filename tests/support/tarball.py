"""The collection as Galaxy would deliver it: built from the files of a commit, installed into an empty path.

For the tests that prove what a user has who never sees the source tree.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Of a user who has that collection alone, and no settings."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("K8S_AUTH_", "KUBE", "ANSIBLE_"))}
    config = folder / "ansible.cfg"
    config.touch()
    alone = {"ANSIBLE_COLLECTIONS_PATH": str(folder / "collections"), "ANSIBLE_CONFIG": str(config)}
    return {**kept, **alone, "ANSIBLE_NOCOLOR": "1", **more}


def command(folder: Path, *argv: Any, **environ: str) -> str:
    """What a program prints that such a user runs in ``folder``. AssertionError with it when it fails."""
    done = subprocess.run(
        [str(part) for part in argv],
        cwd=folder,
        env=environment(folder, **environ),
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def install(folder: Path) -> Path:
    """The collections path below ``folder``, where nothing but this collection is."""
    tree = folder / "tree"
    command(folder, sys.executable, ROOT / "tools" / "snapshot.py", tree)
    source = tree / "ansible_collections" / "berth" / "stateful"
    command(folder, BIN / "ansible-galaxy", "collection", "build", source, "--output-path", folder)
    (tarball,) = folder.glob("berth-stateful-*.tar.gz")
    target = folder / "collections"
    command(folder, BIN / "ansible-galaxy", "collection", "install", tarball, "-p", target, "--offline")
    return target
