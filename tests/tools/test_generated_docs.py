"""docs/architecture.md shows the tables of the code as they are."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from berth_core.app import states

ROOT = Path(__file__).resolve().parents[2]


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "tools" / "generated_docs.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_architecture_is_current() -> None:
    answer = run(ROOT, "--check")
    assert answer.returncode == 0, answer.stderr


def test_a_stale_page_is_seen_and_mended(tmp_path: Path) -> None:
    for name in ("docs/architecture.md", "tools/generated_docs.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, tmp_path / name)
    page = tmp_path / "docs" / "architecture.md"
    current = page.read_text()
    page.write_text(current.replace(f"--> {states.BOUND}", "--> Elsewhere", 1))

    assert run(tmp_path, "--check").returncode == 1
    assert run(tmp_path).returncode == 0
    assert page.read_text() == current
