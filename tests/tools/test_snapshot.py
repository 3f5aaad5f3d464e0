"""A snapshot holds what a commit would hold: tracked and new files, none that are ignored or deleted."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_snapshot_holds_what_a_commit_would_hold(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "tools").mkdir(parents=True)
    shutil.copy(ROOT / "tools" / "snapshot.py", source / "tools")
    for name in ("tracked", "deleted", "new", "ignored"):
        (source / name).write_text(name)
    (source / ".gitignore").write_text("ignored\n")
    (source / "tracked").chmod(0o755)
    for command in (["init", "--quiet"], ["add", "tracked", "deleted"]):
        subprocess.run(["git", "-C", str(source), *command], check=True)
    (source / "deleted").unlink()
    target = tmp_path / "tree"
    (target / "leftover").mkdir(parents=True)

    subprocess.run(
        [sys.executable, str(source / "tools" / "snapshot.py"), str(target)], check=True, capture_output=True
    )

    copy = target / "ansible_collections" / "berth" / "stateful"
    files = {str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file() and ".git/" not in str(path)}
    assert files == {".gitignore", "new", "tools/snapshot.py", "tracked"}
    assert (copy / "tracked").stat().st_mode & 0o111
    assert not (target / "leftover").exists()
