"""Runs whole plays against the hosts of the development cluster, over ssh, as a user does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.support.playbook import Run, _Dumper, _read, ansible_playbook, environment

#: One ssh session for a module in place of five. The tests of the tarball, and molecule, run without, as Ansible comes.
PIPELINED = {"ANSIBLE_PIPELINING": "1"}


def run_plays(cluster: Any, plays: list[dict[str, Any]], folder: Path, *args: str, timeout: float = 300) -> Run:
    """Write the plays and the cluster's inventory to ``folder``, and run them."""
    return run_on(cluster.hosts.inventory(), plays, folder, *args, timeout=timeout)


def run_on(
    inventory: dict[str, Any],
    plays: list[dict[str, Any]],
    folder: Path,
    *args: str,
    timeout: float = 300,
    env: dict[str, str] | None = None,
) -> Run:
    """The same with an inventory, and with ``env`` added to the environment."""
    record = folder / "record.jsonl"
    arguments = _arguments(inventory, plays, folder, *args)
    pipelined = environment(record, {**PIPELINED, **(env or {})})
    status, output = ansible_playbook(arguments, pipelined, folder, timeout)
    return Run(status, output, _read(record))


def kill_plays(cluster: Any, plays: list[dict[str, Any]], folder: Path, ready: Callable[[], Any]) -> bool:
    """Start the plays; once ``ready`` returns, SIGKILL ansible with all its processes. False: it had ended before."""
    program = Path(sys.executable).parent / "ansible-playbook"
    command = [str(program), *_arguments(cluster.hosts.inventory(), plays, folder)]
    with (folder / "killed.log").open("ab") as log:
        running = subprocess.Popen(
            command,
            env=environment(folder / "record.jsonl", PIPELINED),
            cwd=folder,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        ready()
        return running.poll() is None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()


def _arguments(inventory: dict[str, Any], plays: list[dict[str, Any]], folder: Path, *args: str) -> list[str]:
    """The arguments of `ansible-playbook`, for files that are written now."""
    playbook, hosts = folder / "plays.yml", folder / "hosts.yml"
    (folder / "record.jsonl").unlink(missing_ok=True)
    playbook.write_text(yaml.dump(plays, Dumper=_Dumper, sort_keys=False))
    hosts.write_text(yaml.dump(inventory))
    return ["-i", str(hosts), str(playbook), *args]
