"""Read the documentation of every plugin of the installed tarball. Called by `make collection` with its path.

A plugin that cannot be described from the artifact fails here, and so does a file that build_ignore wrongly took away.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

# What `make demo` and the role dev_cluster run from the installed collection, beside what Ansible itself looks for.
NEEDED = ("dev/cluster", "deploy/crds", "playbooks", "roles", "src", "tools/zipapp.py", "requirements.txt", "LICENSE")
# Nothing of these may be shipped.
UNWANTED = (".venv", ".venv-lint", ".git", "build", "tools/venv.py", ".mypy_cache", ".ruff_cache", "tests/output")
KINDS = {"module": "modules", "filter": "filter", "lookup": "lookup", "inventory": "inventory"}


def documented(collections: Path, kind: str) -> set[str]:
    """Names of the plugins of one kind that ansible-doc can describe."""
    command = [str(Path(sys.executable).parent / "ansible-doc"), "--json", "--type", kind, "--list", "berth.stateful"]
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(collections)}
    answer = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return {name.rsplit(".", 1)[1] for name in json.loads(answer.stdout or "{}")}


def shipped(root: Path, folder: str) -> set[str]:
    """Names of the plugin files in one folder."""
    return {path.stem for path in (root / "plugins" / folder).glob("*.py") if path.stem != "__init__"}


def main() -> int:
    collections = Path(sys.argv[1]).resolve()
    root = collections / "ansible_collections" / "berth" / "stateful"
    problems = [f"{name} is not in the tarball" for name in NEEDED if not (root / name).exists()]
    problems += [f"{name} must not be in the tarball" for name in UNWANTED if (root / name).exists()]
    for kind, folder in KINDS.items():
        undocumented = shipped(root, folder) - documented(collections, kind)
        problems += [f"ansible-doc cannot read {kind} {name}" for name in sorted(undocumented)]
    print("\n".join(problems) or "every plugin is documented, every needed file is there")
    return len(problems)


if __name__ == "__main__":
    sys.exit(main())
