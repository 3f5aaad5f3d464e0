"""Run `go vet` over every Go module of the tree. `make lint` calls me, in the project's environment.

The Go that builds the development cluster checks it too: none other need be installed.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def modules() -> list[Path]:
    """Folders with a go.mod among the files of a commit."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "*go.mod"]
    return [ROOT / Path(name).parent for name in sorted(set(subprocess.check_output(command, text=True).split()))]


def main() -> int:
    failed = []
    for module in modules():
        print(f"go vet {module.relative_to(ROOT)}", flush=True)
        if subprocess.call(["go", "vet", "./..."], cwd=module) != 0:
            failed.append(str(module.relative_to(ROOT)))
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
