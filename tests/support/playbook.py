"""Runs the real ansible-playbook and hands back what it printed and what each task returned.

Used by the tests that prove modules as users run them, and by the benches. Nothing looks into Ansible's own process.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.support import prepared_ansible

HERE = Path(__file__).parent
LOCALHOST = "localhost ansible_connection=local ansible_python_interpreter={python}\n"


class Task(NamedTuple):
    kind: str
    host: str
    name: str
    result: dict[str, Any]


class Run(NamedTuple):
    rc: int
    output: str  # standard output and error, as a person sees them
    tasks: list[Task]

    @property
    def last(self) -> dict[str, Any]:
        """The result of the last task that reported."""
        assert self.tasks, self.output
        return self.tasks[-1].result

    def ok(self) -> Run:
        assert self.rc == 0, self.output
        return self

    def failed(self) -> dict[str, Any]:
        """The result of the task that failed; no traceback may be in the output of any failure."""
        assert self.rc != 0, self.output
        assert "Traceback (most recent call last)" not in self.output, self.output
        return next(task.result for task in self.tasks if task.kind in ("failed", "unreachable"))


def changed(run: Run) -> list[str]:
    """The tasks that changed something, as "host: name"; of a task of a role, "host: role : name"."""
    return [f"{task.host}: {task.name}" for task in run.tasks if task.result.get("changed")]


def run_playbook(
    tasks: list[dict[str, Any]],
    folder: Path,
    *args: str,
    env: dict[str, str] | None = None,
    inventory: str | None = None,
    python: str = sys.executable,
    timeout: float = 300,
    **play: Any,
) -> Run:
    """Write a one-play playbook to ``folder`` and run it.

    ``env`` is added to an environment without any K8S_AUTH_*, KUBE* and ANSIBLE_* variable.
    """
    record = folder / "record.jsonl"
    arguments = _written(tasks, folder, args, LOCALHOST.format(python=python) if inventory is None else inventory, play)
    status, output = ansible_playbook(arguments, environment(record, env), folder, timeout, python)
    return Run(status, output, _read(record))


def kill_playbook(
    tasks: list[dict[str, Any]],
    folder: Path,
    when: Callable[[], bool],
    inventory: str,
    timeout: float = 120,
    **play: Any,
) -> None:
    """Run it as ``run_playbook`` does, and kill it with its workers (SIGKILL) as soon as ``when`` says so.

    AssertionError where it had ended before.
    """
    argv = [str(Path(sys.executable).parent / "ansible-playbook"), *_written(tasks, folder, (), inventory, play)]
    output, until = folder / "killed.log", time.monotonic() + timeout
    with output.open("w") as stream:
        running = subprocess.Popen(
            argv,
            env=environment(folder / "record.jsonl"),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    try:
        while running.poll() is None and time.monotonic() < until and not when():
            time.sleep(0.02)
        in_time = running.poll() is None and time.monotonic() < until
    finally:
        _kill_with_workers(running)
    assert in_time, output.read_text()


def _kill_with_workers(running: subprocess.Popen[bytes]) -> None:
    """Workers are in sessions of their own and would finish their tasks; stopped, it starts no more of them."""
    running.send_signal(signal.SIGSTOP)
    workers = _children(running.pid)
    running.kill()
    for pid in workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    running.wait()


def _children(pid: int) -> list[int]:
    """The processes that one has started, and theirs."""
    try:
        own = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:  # it has ended
        return []
    return [each for child in map(int, own) for each in (child, *_children(child))]


def _written(
    tasks: list[dict[str, Any]], folder: Path, args: Sequence[str], inventory: str, play: Mapping[str, Any]
) -> list[str]:
    """The playbook and its inventory, in ``folder``; the arguments of ansible-playbook."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "record.jsonl").unlink(missing_ok=True)
    playbook = folder / "play.yml"
    playbook.write_text(
        yaml.dump([{"hosts": "all", "gather_facts": False, **play, "tasks": tasks}], Dumper=_Dumper, sort_keys=False)
    )
    hosts = folder / "hosts.ini"
    hosts.write_text(inventory)
    return ["-i", str(hosts), str(playbook), *args]


def ansible_playbook(
    arguments: list[str], env: dict[str, str], folder: Path, timeout: float, python: str = sys.executable
) -> tuple[int, str]:
    """The exit status and the output; in a prepared process where that makes no difference (`prepared_ansible`)."""
    if python == sys.executable and env["ANSIBLE_COLLECTIONS_PATH"] == os.environ.get("ANSIBLE_COLLECTIONS_PATH"):
        prepared = prepared_ansible.server(env)
        if prepared is not None:
            return prepared.run(arguments, env, folder, timeout)
    done = subprocess.run(
        [str(Path(python).parent / "ansible-playbook"), *arguments],
        env=env,
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        timeout=timeout,
        check=False,
    )
    return done.returncode, done.stdout


def environment(record: Path, env: dict[str, str] | None = None) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("K8S_AUTH_", "KUBE", "ANSIBLE_"))}
    collections = os.environ.get("ANSIBLE_COLLECTIONS_PATH") or str(Path(sys.prefix) / "collections")
    return {
        **kept,
        "ANSIBLE_COLLECTIONS_PATH": collections,
        "ANSIBLE_CONFIG": str(HERE / "ansible.cfg"),  # the user's own must not change what is tested
        "ANSIBLE_CALLBACK_PLUGINS": str(HERE / "callbacks"),
        "ANSIBLE_CONNECTION_PLUGINS": str(HERE / "connection"),
        "ANSIBLE_CALLBACKS_ENABLED": "berth_record",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        "BERTH_RECORD": str(record),
        **(env or {}),
    }


class Vaulted(str):
    """A text that is written to the playbook with the tag !vault."""


class _Dumper(yaml.SafeDumper):
    pass


_Dumper.add_representer(Vaulted, lambda dumper, value: dumper.represent_scalar("!vault", str(value), style="|"))


def _read(record: Path) -> list[Task]:
    if not record.exists():
        return []
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    return [Task(line["kind"], line["host"], line["task"], line["result"]) for line in lines]
