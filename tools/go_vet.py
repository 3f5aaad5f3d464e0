"""Run `go vet` over every Go module of the tree. `make lint` calls me, in the project's environment.

The Go that builds the development cluster checks it too, so that none need be installed by hand.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from berth_dev import build, toolchain

ROOT = Path(__file__).resolve().parent.parent


def modules() -> list[Path]:
    """Folders with a go.mod among the files of a commit; one that only names what is built has no program of ours."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "*go.mod"]
    folders = [ROOT / Path(name).parent for name in subprocess.check_output(command, text=True).split()]
    return sorted({folder for folder in folders if any(folder.rglob("*.go"))})


def needed(folders: list[Path]) -> tuple[int, ...]:
    """The highest version that a go.mod asks for."""
    texts = [(folder / "go.mod").read_text(encoding="utf-8") for folder in folders]
    versions = [match[1] for text in texts if (match := re.search(r"^go (\d+(?:\.\d+)+)", text, re.MULTILINE))]
    return max(tuple(int(part) for part in version.split(".")) for version in versions)


def main() -> int:
    folders = modules()
    cache = build.cache_folder()
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    go = toolchain.find_go(cache, needed(folders), lambda line: print(line, flush=True))
    environment = toolchain.environment()
    # As the build does it: vet finds every compiled package in Go's cache, and need not compile all of Kubernetes.
    environment["GOFLAGS"] += " -trimpath"
    failed = 0
    for folder in folders:
        print(f"go vet {folder.relative_to(ROOT)}", flush=True)
        failed += subprocess.call([str(go), "vet", "./..."], cwd=folder, env=environment) != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
