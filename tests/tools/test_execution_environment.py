"""An execution environment takes from the installed collection what it needs, and its context is made."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support import pages
from tests.support.tarball import install

ROOT = pages.ROOT
BUILDER = ROOT / ".venv-lint" / "bin" / "ansible-builder"


def builder(*arguments: str | Path) -> str:
    done = subprocess.run([BUILDER, *arguments], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_installed_collection_says_what_it_needs(tmp_path: Path) -> None:
    found = yaml.safe_load(builder("introspect", "--sanitize", install(tmp_path)))
    asked = {line.split("#")[0].strip() for line in found["python"]}
    required = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    brought = {"PyYAML>=6.0"}  # by Ansible: ansible-builder leaves it out
    assert asked == {line for line in required if line and not line.startswith("#")} - brought
    system = " ".join(found["system"])
    assert "openssh-clients [platform:rpm]" in system
    assert "openssh-client [platform:dpkg]" in system


@pytest.mark.parametrize("example", pages.of_kind("execution_environment"), ids=lambda example: example.id)
def test_the_context_of_the_documented_one(example: pages.Example, tmp_path: Path) -> None:
    (tmp_path / "execution-environment.yml").write_text(example.text)
    builder(
        "create",
        "-f",
        tmp_path / "execution-environment.yml",
        "-c",
        tmp_path / "context",
    )
    (file,) = (tmp_path / "context").glob("*file")  # Containerfile or Dockerfile, by what the machine has
    assert re.search(r"^FROM ", file.read_text(), re.MULTILINE)
    galaxy = yaml.safe_load((tmp_path / "context" / "_build" / "requirements.yml").read_text())
    assert galaxy["collections"] == ["berth.stateful"]
