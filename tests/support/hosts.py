"""Runs whole plays against the hosts of the development cluster, over ssh, as a user does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.support.playbook import Run, _Dumper, _read, environment


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
    record, playbook, hosts = folder / "record.jsonl", folder / "plays.yml", folder / "hosts.yml"
    record.unlink(missing_ok=True)
    playbook.write_text(yaml.dump(plays, Dumper=_Dumper, sort_keys=False))
    hosts.write_text(yaml.dump(inventory))
    done = subprocess.run(
        [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(hosts), str(playbook), *args],
        env=environment(record, env),
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        timeout=timeout,
        check=False,
    )
    return Run(done.returncode, done.stdout, _read(record))
