"""Copy the files that a commit of this tree would hold into an empty collections path.

    python3 tools/snapshot.py build/tree

makes build/tree/ansible_collections/berth/stateful. Tools that insist on that path, or walk over whatever lies around,
run there and never see environments, caches or results. Called by the Makefile; the source tree is never written to.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def tracked_and_new() -> list[str]:
    """Relative paths of tracked files and of new ones that are not ignored, without those deleted in the work tree."""
    command = ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode().split("\0")
    return sorted({name for name in names if name and os.path.lexists(os.path.join(ROOT, name))})


def copy(names: list[str], target: str) -> None:
    """Copy files with their modes and times; links stay links."""
    for name in names:
        destination = os.path.join(target, name)
        os.makedirs(os.path.dirname(destination), exist_ok=True)
        shutil.copy2(os.path.join(ROOT, name), destination, follow_symlinks=False)


def main() -> None:
    target = os.path.join(sys.argv[1], "ansible_collections", "berth", "stateful")
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    copy(tracked_and_new(), target)
    # ansible-test and ansible-lint ask the nearest git for the files; the tree's would say that the copy is ignored.
    subprocess.check_call(["git", "init", "--quiet", "--initial-branch", "main", target])
    print(target)


if __name__ == "__main__":
    main()
