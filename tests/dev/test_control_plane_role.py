"""The role dev_cluster: check mode, first run, rerun, bad input, away. Without hosts: they have tests of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.playbook import _read, ansible_playbook, environment

PLAYBOOK = """
- hosts: all
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: berth.stateful.dev_cluster}
    - ansible.builtin.debug: {msg: "kubeconfig={{ dev_cluster_kubeconfig | default('') }}"}
"""


class Played(NamedTuple):
    status: int
    said: str
    #: host -> what it failed with
    failed: dict[str, str]


@pytest.fixture
def play(tmp_path: Path):
    """Runs the role with these variables, or on several hosts, each with its own; clusters end in this test."""
    playbook, inventory, record = tmp_path / "play.yml", tmp_path / "hosts.json", tmp_path / "record.jsonl"
    playbook.write_text(PLAYBOOK)
    defaults = {"dev_cluster_name": "role", "dev_cluster_hosts": 0}
    home = {"XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))}
    home["XDG_STATE_HOME"] = str(tmp_path / "state")

    def run(*flags: str, hosts: dict[str, dict[str, Any]] | None = None, **variables: Any) -> Played:
        given = {"ansible_python_interpreter": sys.executable, **defaults}
        rows = {host: {**given, **own} for host, own in (hosts or {"localhost": variables}).items()}
        inventory.write_text(json.dumps({"all": {"hosts": rows}}))
        record.unlink(missing_ok=True)
        argv = ["-i", str(inventory), str(playbook), *flags]
        status, said = ansible_playbook(argv, environment(record, home), tmp_path, 180)
        failed = {task.host: str(task.result["msg"]) for task in _read(record) if task.kind == "failed"}
        return Played(status, said, failed)

    yield run
    down = [sys.executable, "-m", "berth_dev", "--name", "role", "down"]
    subprocess.run(down, env={**os.environ, **home}, capture_output=True, check=True)


def test_present_twice_and_absent_twice(play, tmp_path: Path) -> None:
    folder = tmp_path / "state" / "berth-dev" / "role"

    status, said, _failed = play("--check")
    assert (status, "changed=1 " in said) == (0, True), said
    assert "the cluster" in said
    assert not folder.exists()

    status, said, _failed = play()
    assert (status, "changed=1 " in said) == (0, True), said
    assert f"kubeconfig={folder}/kubeconfig" in said

    status, said, _failed = play()
    assert (status, "changed=0 " in said) == (0, True), said

    status, said, _failed = play(dev_cluster_version="v1.30.0")
    assert status == 2
    assert "runs v1.36.4, not v1.30.0; take it down" in said

    status, said, _failed = play("--check", dev_cluster_state="absent")
    assert (status, "changed=1 " in said) == (0, True), said
    assert folder.exists()

    assert play(dev_cluster_state="absent").status == 0
    assert not folder.exists()
    status, said, _failed = play(dev_cluster_state="absent")
    assert (status, "changed=0 " in said) == (0, True), said


BAD = (
    ({"dev_cluster_hosts": 77}, "number of hosts 77: expected 0 to 20"),
    ({"dev_cluster_fake_nodes": -1}, "number of fake nodes -1: expected 0 or more"),
    ({"dev_cluster_state": "gone"}, "must be one of: present, absent"),
    ({"dev_cluster_name": "a/b"}, "name 'a/b': expected letters"),
    ({"dev_cluster_existing_kubeconfig": "/no/such"}, "dev_cluster_existing_kubeconfig /no/such: no such file"),
)


def test_bad_input_is_refused_and_nothing_is_made(play, tmp_path: Path) -> None:
    """Each by a host of its own, in one run."""
    status, said, failed = play(hosts={f"row{number}": variables for number, (variables, _words) in enumerate(BAD)})
    assert status == 2
    assert sorted(failed) == [f"row{number}" for number in range(len(BAD))], said
    for number, (_variables, words) in enumerate(BAD):
        assert words in failed[f"row{number}"], said
    assert "Traceback" not in said
    assert not (tmp_path / "state").exists()


def test_an_existing_cluster_is_named_and_left_alone(play, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("{}")
    status, said, _failed = play(dev_cluster_existing_kubeconfig=str(kubeconfig))
    assert (status, "changed=0 " in said) == (0, True), said
    assert f"kubeconfig={kubeconfig}" in said
    assert not (tmp_path / "state").exists()
