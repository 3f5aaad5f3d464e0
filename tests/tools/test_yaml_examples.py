"""Every playbook in the documentation is one that Ansible takes: its syntax, its modules and its roles."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("roles/*/README.md")])
_BLOCK = re.compile(r"^```ya?ml\n(.*?)^```", re.MULTILINE | re.DOTALL)


def examples(page: Path) -> list[Any]:
    """All YAML blocks of a page, read; what is no YAML fails here."""
    return [list(yaml.safe_load_all(text)) for text in _BLOCK.findall(page.read_text())]


def plays(page: Path) -> list[list[dict[str, Any]]]:
    """Those that are playbooks."""
    found = [documents[0] for documents in examples(page) if len(documents) == 1]
    return [
        each
        for each in found
        if isinstance(each, list) and all(isinstance(play, dict) and "hosts" in play for play in each)
    ]


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_the_examples_of_a_page_are_yaml(page: Path) -> None:
    examples(page)


def test_playbooks_in_the_documentation_are_taken_by_ansible(tmp_path: Path) -> None:
    files = []
    for page in PAGES:
        for number, play in enumerate(plays(page)):
            file = tmp_path / f"{page.parent.name}-{page.stem}-{number}.yml"
            file.write_text(yaml.safe_dump(play, sort_keys=False))
            files.append(str(file))
    assert len(files) > 5, "there are examples"
    files += [str(path) for path in sorted(ROOT.glob("playbooks/*.yml"))]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "tests/support/ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    environment.setdefault("ANSIBLE_COLLECTIONS_PATH", str(Path(sys.prefix) / "collections"))
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "--syntax-check", "-i", "localhost,", *files]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
