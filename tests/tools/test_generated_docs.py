"""The pages show the tables of the code, and the fields of the custom resources, as they are."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from berth_core.lifecycle import states

ROOT = Path(__file__).resolve().parents[2]


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "tools" / "generated_docs.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_pages_are_current() -> None:
    answer = run(ROOT, "--check")
    assert answer.returncode == 0, answer.stderr


@pytest.mark.parametrize(
    ("name", "now"),
    [
        ("architecture.md", f"--> {states.BOUND}"),
        ("guides/api.md", "`spec.nodeName`*"),
        ("guides/developing.md", "| `chaos` | wait"),
    ],
)
def test_a_stale_page_is_seen_and_mended(tmp_path: Path, name: str, now: str) -> None:
    for part in ("docs", "tools", "deploy/crds"):
        shutil.copytree(ROOT / part, tmp_path / part)
    page = tmp_path / "docs" / name
    current = page.read_text()
    page.write_text(current.replace(now, "elsewhere", 1))

    assert page.read_text() != current
    assert run(tmp_path, "--check").returncode == 1
    assert run(tmp_path).returncode == 0
    assert page.read_text() == current
