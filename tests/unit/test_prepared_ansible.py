"""A playbook in a prepared process: what ansible-playbook says and does, with an environment of its own."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import prepared_ansible
from tests.support.playbook import LOCALHOST, ansible_playbook, environment

ECHO = """
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.debug: {msg: "{{ lookup('ansible.builtin.env', 'BERTH_TOLD') }}"}
    - berth.stateful.stateful_app_info: {name: db, namespace: n, kubeconfig: /nowhere}
"""
SLEEP = """
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.command: sleep 100
"""


@pytest.fixture
def play(tmp_path: Path) -> Any:
    """``play(text, more={...})``: the exit status and the output."""
    (tmp_path / "hosts.ini").write_text(LOCALHOST.format(python="/usr/bin/python3"))

    def run(text: str, *arguments: str, timeout: float = 120, **more: str) -> tuple[int, str]:
        (tmp_path / "play.yml").write_text(text)
        given = ["-i", str(tmp_path / "hosts.ini"), str(tmp_path / "play.yml"), *arguments]
        return ansible_playbook(given, environment(tmp_path / "record.jsonl", more), tmp_path, timeout)

    return run


@pytest.fixture
def prepared(play: Any) -> Any:
    """The same once the process for this environment is there: from the second request on."""
    while prepared_ansible.server(environment(Path("record"))) is None:
        pass
    return play


def test_it_says_what_the_program_says(prepared: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = prepared(ECHO, "-v", BERTH_TOLD="one")
    with monkeypatch.context() as patched:
        patched.setattr(prepared_ansible, "server", lambda _environment: None)
        theirs = prepared(ECHO, "-v", BERTH_TOLD="one")
    assert ours == theirs
    assert ours[0] == 2
    assert '"msg": "one"' in ours[1]
    assert "/nowhere does not exist" in ours[1]
    assert prepared("no playbook")[0] == 4


def test_a_run_leaves_nothing_to_the_next_one(prepared: Any) -> None:
    before = set(left_behind())
    assert '"msg": "two"' in prepared(ECHO, BERTH_TOLD="two")[1]
    assert '"msg": ""' in prepared(ECHO)[1]
    assert set(left_behind()) <= before


def left_behind() -> Iterator[Path]:
    """Folders of runs that have ended: others run beside this test, and theirs are there until they end."""
    for path in Path("/tmp").glob("ansible-local-*"):
        process = path.name.removeprefix("ansible-local-")[:-8]  # before the eight characters of mkdtemp
        if not Path("/proc", process).exists():
            yield path


def test_another_setting_of_ansible_is_another_process(prepared: Any) -> None:
    standard = prepared_ansible.server(environment(Path("record")))
    other = environment(Path("record"), {"ANSIBLE_FORKS": "1"})
    assert prepared_ansible.server(other) is None, "the first time it is not worth a process"
    assert prepared_ansible.server(other) not in (None, standard)


def test_a_run_that_takes_too_long_is_ended(prepared: Any) -> None:
    for seconds in (2, 10, 60):  # a busy machine takes more than the first to begin
        began = time.monotonic()
        with pytest.raises(subprocess.TimeoutExpired) as ended:
            prepared(SLEEP, timeout=seconds)
        assert time.monotonic() - began < seconds + 55
        if ended.value.output:
            break
    assert "PLAY [localhost]" in ended.value.output
