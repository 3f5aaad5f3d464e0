# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hosts as an Ansible inventory. `hostset` calls this. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .model import Host
from .ssh import Keys

GROUP = "berth_hosts"


def build(hosts: Iterable[Host], keys: Keys, control_folder: Path) -> dict[str, Any]:
    """The structure of a YAML inventory. Host keys are verified; connections are kept in the cluster's own folder.

    A control path of the user's own would let a connection to an earlier cluster at the same address live on.
    """
    known = f"-o UserKnownHostsFile={shlex.quote(str(keys.known_hosts))}"
    variables = {
        "ansible_connection": "ssh",
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(keys.user_key),
        "ansible_ssh_common_args": f"{known} -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes -F none",
        "ansible_control_path_dir": str(control_folder),
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    entries = {host.name: {"ansible_host": host.address, "berth_node_name": host.name} for host in hosts}
    return {GROUP: {"hosts": entries, "vars": variables}}
