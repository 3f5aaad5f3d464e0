"""The collection as Galaxy would deliver it: built from the files of a commit, installed into an empty path.

For the tests that prove what a user has who never sees the source tree.

`python -m tests.support.tarball FOLDER` installs it and prints the collections path: for playbooks. With the NAME of an
older release, as below, it installs that one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
#: Commits that stand for the tarballs of older releases.
OLDER = {
    # Its LocalDisk has no wipe and no health, its StatefulSet app is what it is today.
    "FIRST": "53dd990",
    # The first one whose roles install agents and a scheduler.
    "WITH_DAEMONS": "f24b037",
    # Role berth installs all parts of it, the task backend among them, and the image that is made of it has them all.
    "WITH_TASKS": "19586751",
}


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
    return _install(folder, tree / "ansible_collections" / "berth" / "stateful")


def install_commit(folder: Path, commit: str) -> Path:
    """The same with the collection of an earlier commit; where a shallow clone has not got it, it is fetched.

    AssertionError with what to do where it cannot be: what was released before is never left out silently.
    """
    return _install(folder, checkout(folder / "tree", commit))


def checkout(tree: Path, commit: str) -> Path:
    """The files of an earlier commit in a new folder ``tree``, as `git archive` has them."""
    tree.mkdir(parents=True)
    if not _git("cat-file", "-e", f"{commit}^{{commit}}") and not _git(
        "fetch", "--quiet", "--depth=1", "origin", commit
    ):
        raise AssertionError(f"this clone has no commit {commit}: it is shallow; run git fetch --unshallow")
    archive = tree.with_suffix(".tar")
    assert _git("archive", "--output", str(archive), commit)
    # Not shutil.unpack_archive: without a filter it warns on newer Pythons, and 3.11.2 (Debian 12) knows none.
    subprocess.run(["tar", "--extract", "--file", archive, "--directory", tree], check=True)
    archive.unlink()
    return tree


def _git(*arguments: str) -> bool:
    """Whether it succeeds in this clone."""
    return subprocess.run(["git", "-C", str(ROOT), *arguments], stderr=subprocess.DEVNULL, check=False).returncode == 0


def _install(folder: Path, source: Path) -> Path:
    command(folder, BIN / "ansible-galaxy", "collection", "build", source, "--output-path", folder)
    (tarball,) = folder.glob("berth-stateful-*.tar.gz")
    target = folder / "collections"
    command(folder, BIN / "ansible-galaxy", "collection", "install", tarball, "-p", target, "--offline")
    return target


if __name__ == "__main__":
    where, *older = sys.argv[1:]
    print(install_commit(Path(where), OLDER[older[0]]) if older else install(Path(where)))
