# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guest as ssh reaches it. `vm` calls this.

One connection is made and kept (under software emulation a new one takes a second); it ends with the machine. Both
sides know each other's keys before the first one.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

from ..components import LOOPBACK
from ..errors import HostError
from ..hosts.inventory import GROUP
from ..hosts.ssh import ensure_pair, public
from ..state import write_atomically

USER_KEY, HOST_KEY, KNOWN_HOSTS, CONTROL = "id_ed25519", "host_ed25519", "known_hosts", "ssh"


class Link:
    """`folder`: the machine's. `tag`: the environment line by which the cluster finds what it has started."""

    def __init__(self, folder: Path, port: int, tag: str) -> None:
        self._folder, self._port = folder, port
        key, _equals, value = tag.partition("=")
        self._environment = {**os.environ, key: value}

    def prepare(self) -> None:
        """Make the keys that are missing, and known_hosts."""
        ensure_pair(self._folder / USER_KEY)
        ensure_pair(self._folder / HOST_KEY)
        line = f"[{LOOPBACK}]:{self._port} {public(self._folder / HOST_KEY)}\n"
        write_atomically(self._folder / KNOWN_HOSTS, line)

    def command(self, line: str = "") -> list[str]:
        """The command line of ssh, to be run in the machine's folder. `line`: for the guest's shell; none: a shell."""
        options = {
            "ControlMaster": "auto",
            "ControlPath": CONTROL,
            "ControlPersist": "300",
            "UserKnownHostsFile": str(self._folder / KNOWN_HOSTS),
            "StrictHostKeyChecking": "yes",
            "IdentitiesOnly": "yes",
            "ConnectTimeout": "20",
            "ServerAliveInterval": "15",
            "LogLevel": "ERROR",
        }
        flags = [part for key, value in options.items() for part in ("-o", f"{key}={value}")]
        where = ["-i", str(self._folder / USER_KEY), "-p", str(self._port), f"root@{LOOPBACK}"]
        return ["ssh", "-F", "none", *flags, *where, *([line] if line else [])]

    def run(self, *argv: str, data: bytes | None = None, timeout: float = 300.0) -> subprocess.CompletedProcess[bytes]:
        """Run a program in the guest, whatever it answers. HostError when the guest does not answer."""
        command = self.command(shlex.join(argv))
        try:
            done = subprocess.run(
                command,
                input=data,
                stdin=subprocess.DEVNULL if data is None else None,
                capture_output=True,
                cwd=self._folder,
                env=self._environment,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise HostError(f"virtual machine: {shlex.join(argv)}: no end within {timeout:.0f} s") from None
        if done.returncode == 255:  # ssh's own
            raise HostError(f"virtual machine: ssh: {done.stderr.decode(errors='replace').strip()}")
        return done

    def close(self) -> None:
        """End the kept connection, if there is one."""
        argv = ["ssh", "-F", "none", "-o", f"ControlPath={CONTROL}", "-O", "exit", "berth"]
        subprocess.run(argv, capture_output=True, cwd=self._folder, check=False)
        (self._folder / CONTROL).unlink(missing_ok=True)

    def inventory(self, name: str) -> dict[str, Any]:
        """The machine as an Ansible inventory."""
        known = f"-o UserKnownHostsFile={shlex.quote(str(self._folder / KNOWN_HOSTS))}"
        host = {
            "ansible_connection": "ssh",
            "ansible_host": LOOPBACK,
            "ansible_port": self._port,
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(self._folder / USER_KEY),
            "ansible_ssh_common_args": f"{known} -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes -F none",
            "ansible_python_interpreter": "/usr/bin/python3",
            "berth_node_name": name,
        }
        return {GROUP: {"hosts": {name: host}}}
