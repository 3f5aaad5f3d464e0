"""The role dev_cluster: check mode, first run, rerun, bad input, away. Without hosts: they have tests of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PLAYBOOK = """
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: berth.stateful.dev_cluster}
    - ansible.builtin.debug: {msg: "kubeconfig={{ dev_cluster_kubeconfig | default('') }}"}
"""


@pytest.fixture
def play(tmp_path: Path):
    """Runs the role with these variables; its clusters live and end in this test."""
    playbook = tmp_path / "play.yml"
    playbook.write_text(PLAYBOOK)
    defaults = {"dev_cluster_name": "role", "dev_cluster_hosts": 0}
    home = {"XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))}
    home["XDG_STATE_HOME"] = str(tmp_path / "state")

    def run(*flags: str, **variables: Any) -> tuple[int, str]:
        argv = [str(Path(sys.executable).parent / "ansible-playbook"), str(playbook), *flags]
        argv += ["-e", json.dumps({**defaults, **variables})]
        done = subprocess.run(
            argv, capture_output=True, text=True, env={**os.environ, **home}, timeout=180, check=False
        )
        return done.returncode, done.stdout + done.stderr

    yield run
    down = [sys.executable, "-m", "berth_dev", "--name", "role", "down"]
    subprocess.run(down, env={**os.environ, **home}, capture_output=True, check=True)


def test_present_twice_and_absent_twice(play, tmp_path: Path) -> None:
    folder = tmp_path / "state" / "berth-dev" / "role"

    status, said = play("--check")
    assert (status, "changed=1 " in said) == (0, True), said
    assert "the cluster" in said
    assert not folder.exists()

    status, said = play()
    assert (status, "changed=1 " in said) == (0, True), said
    assert f"kubeconfig={folder}/kubeconfig" in said

    status, said = play()
    assert (status, "changed=0 " in said) == (0, True), said

    status, said = play(dev_cluster_version="v1.30.0")
    assert status == 2
    assert "runs v1.36.4, not v1.30.0; take it down" in said

    status, said = play("--check", dev_cluster_state="absent")
    assert (status, "changed=1 " in said) == (0, True), said
    assert folder.exists()

    assert play(dev_cluster_state="absent")[0] == 0
    assert not folder.exists()
    status, said = play(dev_cluster_state="absent")
    assert (status, "changed=0 " in said) == (0, True), said


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"dev_cluster_hosts": 77}, "number of hosts 77: expected 0 to 20"),
        ({"dev_cluster_fake_nodes": -1}, "number of fake nodes -1: expected 0 or more"),
        ({"dev_cluster_state": "gone"}, "must be one of: present, absent"),
        ({"dev_cluster_name": "a/b"}, "name 'a/b': expected letters"),
        ({"dev_cluster_existing_kubeconfig": "/no/such"}, "dev_cluster_existing_kubeconfig /no/such: no such file"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_made(play, tmp_path: Path, variables, message: str) -> None:
    status, said = play(**variables)
    assert status == 2
    assert message in said
    assert "Traceback" not in said
    assert not (tmp_path / "state").exists()


def test_an_existing_cluster_is_named_and_left_alone(play, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("{}")
    status, said = play(dev_cluster_existing_kubeconfig=str(kubeconfig))
    assert (status, "changed=0 " in said) == (0, True), said
    assert f"kubeconfig={kubeconfig}" in said
    assert not (tmp_path / "state").exists()
