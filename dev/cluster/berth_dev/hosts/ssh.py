# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys with which Ansible reaches the hosts. `hostset` calls this. It opens no connection.

One key pair for the cluster's user, one for each host; both sides know each other before the first connection, so host
keys are verified always and no question is asked.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from ..errors import HostError
from ..state import write_atomically
from .commands import run
from .model import Host, Slot


@dataclass(frozen=True)
class Keys:
    """The folder of the cluster's keys."""

    folder: Path

    @property
    def user_key(self) -> Path:
        """The private key that opens every host of the cluster."""
        return self.folder / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        """The host keys by address and by name."""
        return self.folder / "known_hosts"

    def prepare(self, hosts: Iterable[Host]) -> None:
        """Make what is missing and write known_hosts."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        ensure_pair(self.user_key)
        lines = []
        for host in hosts:
            ensure_pair(self.host_key(host))
            lines.append(f"{host.address} {public(self.host_key(host))}\n")
        write_atomically(self.known_hosts, "".join(lines))

    @staticmethod
    def control_folder(slot: Slot) -> Path:
        """Where the sockets of kept connections (ControlPersist) are. Short: such a path may have 108 bytes."""
        return Path(f"/run/berth-dev.ssh/{slot.octet}")

    def host_key(self, host: Host) -> Path:
        """The host's own private key."""
        return self.folder / f"host_{host.name}"


def public(key: Path) -> str:
    """The public half of a key, as authorized_keys and known_hosts have it."""
    return key.with_name(f"{key.name}.pub").read_text().strip()


def ensure_pair(path: Path) -> None:
    """Make the pair; the private half last, so that its presence says that all is there."""
    if path.exists():
        return
    key = Ed25519PrivateKey.generate()
    line = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    write_atomically(path.with_name(f"{path.name}.pub"), f"{line}\n", 0o644)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    write_atomically(path, private.decode())


def close_connections(folder: Path) -> None:
    """End the ssh processes that Ansible has left behind for later use, and remove their folder."""
    for socket in folder.glob("*") if folder.exists() else ():
        with contextlib.suppress(HostError):  # it has ended already
            run("ssh", "-F", "none", "-o", f"ControlPath={socket}", "-O", "exit", "berth")
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.parent.rmdir()


def sshd_config(address: str) -> str:
    """Configuration of a host's sshd: its own address only, root by key only.

    Of the key exchanges sntrup761 is left out, an OpenSSH 9 client's first choice, which takes it 70 ms of a processor
    for each session; tests have hundreds.
    """
    return f"""\
ListenAddress {address}
Port 22
HostKey /etc/ssh/berth_host_key
AuthorizedKeysFile /etc/ssh/berth_authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
KexAlgorithms -sntrup761x25519-sha512*
UsePAM no
UseDNS no
PidFile none
MaxStartups 100
MaxSessions 100
Subsystem sftp internal-sftp
"""
