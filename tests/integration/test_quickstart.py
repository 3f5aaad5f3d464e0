"""What a new user does: install the tarball into an empty path, run the quickstart from it, twice, and remove it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.hosts, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


def command(folder, *argv, **environ):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("K8S_AUTH_", "KUBE", "ANSIBLE_"))}
    config = folder / "ansible.cfg"
    config.touch()
    env = {
        **kept,
        "ANSIBLE_COLLECTIONS_PATH": str(folder / "collections"),
        "ANSIBLE_CONFIG": str(config),
        "ANSIBLE_NOCOLOR": "1",
        "XDG_STATE_HOME": str(folder / "state"),
        **environ,
    }
    done = subprocess.run(
        [str(part) for part in argv],
        cwd=folder,
        env=env,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture
def installed(tmp_path):
    """The collection as Galaxy would deliver it, alone in an empty path."""
    tree = tmp_path / "tree"
    command(tmp_path, sys.executable, ROOT / "tools" / "snapshot.py", tree)
    source = tree / "ansible_collections" / "berth" / "stateful"
    command(tmp_path, BIN / "ansible-galaxy", "collection", "build", source, "--output-path", tmp_path)
    (tarball,) = tmp_path.glob("berth-stateful-*.tar.gz")
    target = tmp_path / "collections"
    command(tmp_path, BIN / "ansible-galaxy", "collection", "install", tarball, "-p", target, "--offline")
    yield tmp_path
    command(tmp_path, BIN / "ansible-playbook", "berth.stateful.quickstart_down")


def test_the_quickstart_from_the_tarball(installed):
    first = command(installed, BIN / "ansible-playbook", "berth.stateful.quickstart")
    for ordinal in range(3):
        assert re.search(rf"{ordinal} +journal-{ordinal} +h\d +h\d-\w+ +\d+Mi +Running", first), first
    again = command(installed, BIN / "ansible-playbook", "berth.stateful.quickstart")
    assert re.findall(r"changed=(\d+)", again) == ["0"] * 4, again
