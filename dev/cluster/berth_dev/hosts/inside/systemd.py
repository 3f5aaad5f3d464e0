# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host whose process 1 is systemd: init.py hands over once disks and network are there, and its services are units.

The units, and the masks of what the machine's packages bring along, are in /run: they are of this life of the host.
What somebody puts into /etc/systemd/system is on the host's disk, as anywhere else.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from .blockdev import mount

PROGRAM = "/usr/lib/systemd/systemd"
VENDOR, RUNTIME = Path("/usr/lib/systemd/system"), Path("/run/systemd/system")
TARGET = "multi-user.target"
#: What systemd starts at every boot, and a host keeps. Everything else is for a kernel, a udev or users of its own.
KEPT = {"systemd-journald.service", "systemd-journald.socket", "systemd-journald-dev-log.socket"}
#: systemd raises them for itself, and they are the machine's.
SHARED = ("/proc/sys/fs/nr_open", "/proc/sys/fs/file-max")


def unit(service: Mapping[str, Any], before: Sequence[str], environment: Mapping[str, str]) -> str:
    """The unit of one of init.py's services; ``before``: names of those that are started before it. Pure."""
    after = " ".join(f"{name}.service" for name in before)
    lines = [f'Environment="{key}={value}"' for key, value in environment.items()]
    if service["name"] == "kubelet":
        lines += ["WorkingDirectory=/opt/berth", "ExecStartPre=/usr/bin/python3 -Es -m inside.init images"]
    return "\n".join(
        [
            "[Unit]",
            f"Description={service['name']} of a development host",
            *([f"After={after}"] if after else []),
            "[Service]",
            *lines,
            f"ExecStart={' '.join(service['argv'])}",
            *(f"Standard{stream}=append:{service['log']}" for stream in ("Output", "Error")),
            "Restart=always",
            "RestartSec=1",
            # Containers outlive containerd and kubelet, sessions their sshd.
            "KillMode=process",
            "Delegate=yes",
            "",
        ]
    )


def unwanted(vendor: Path) -> list[str]:
    """What the machine's packages start at a boot, and a host does not: names of units, sorted."""
    listed = {entry.name for folder in vendor.glob("*.target.wants") for entry in folder.iterdir()}
    return sorted({"console-getty.service", *listed} - KEPT)


def become(services: Sequence[Mapping[str, Any]], environment: Mapping[str, str]) -> NoReturn:
    """This process is systemd from now on, and starts the services."""
    for path in SHARED:
        mount("--bind", path, path)
        mount("-o", "remount,bind,ro", path)
    wants = RUNTIME / f"{TARGET}.wants"
    wants.mkdir(parents=True)
    for name in unwanted(VENDOR):
        (RUNTIME / name).symlink_to("/dev/null")
    names = [str(service["name"]) for service in services]
    for number, service in enumerate(services):
        (RUNTIME / f"{names[number]}.service").write_text(unit(service, names[:number], environment))
        (wants / f"{names[number]}.service").symlink_to(RUNTIME / f"{names[number]}.service")
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    argv = [PROGRAM, f"--unit={TARGET}", "--log-target=journal", "--show-status=no"]
    # S606: arguments are a list; by the name of the container systemd leaves alone what is the machine's kernel's.
    os.execve(PROGRAM, argv, {**environment, "container": "berth"})  # noqa: S606
