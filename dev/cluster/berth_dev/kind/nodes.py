# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Making a host of a kind node: its disks, its pods' network, Ansible's way in. `cluster` calls this.

What is written into a node stays with its container, and systemd does it again when the container is started; only the
device cgroup is new then (`guard`).
"""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..hosts import cgroups, power, services, ssh
from ..hosts.disks import Drawer
from ..images import archive
from .docker import Docker
from .model import Node

BEFORE_CONTAINERD = "berth-disks.service"
UNITS = {
    BEFORE_CONTAINERD: """\
[Unit]
Description=Only this node's own disks are to be seen
Before=containerd.service kubelet.service

[Service]
Type=oneshot
RemainAfterExit=yes
WorkingDirectory=/opt/berth
ExecStart=/usr/bin/python3 -Es -m inside.kind_node disks
ExecStart=/bin/mount -a

[Install]
WantedBy=multi-user.target
""",
    "berth-udev.service": """\
[Unit]
Description=udev's records of this node's disks
After=berth-disks.service
Requires=berth-disks.service

[Service]
ExecStart=/usr/bin/python3 -I /opt/berth/inside/blockdev.py watch
Restart=always

[Install]
WantedBy=multi-user.target
""",
    "berth-routes.service": """\
[Unit]
Description=Routes to the other nodes' pods

[Service]
Type=oneshot
RemainAfterExit=yes
WorkingDirectory=/opt/berth
ExecStart=/usr/bin/python3 -Es -m inside.kind_node routes
Restart=on-failure
RestartSec=1

[Install]
WantedBy=multi-user.target
""",
    "berth-ssh.service": """\
[Unit]
Description=ssh for Ansible

[Service]
RuntimeDirectory=sshd
ExecStart=/usr/sbin/sshd -D -e -f /etc/ssh/berth_sshd_config
Restart=always

[Install]
WantedBy=multi-user.target
""",
}


def files(node: Node, nodes: Sequence[Node], drawer: Drawer | None, keys: ssh.Keys) -> dict[str, tuple[str, int]]:
    """Text and mode of every file of berth-dev in the node, by path."""
    identities = [disk.identity() for disk in drawer.plugged()] if drawer else []
    spares = [{"loop": number, "properties": {}, "links": []} for number in node.spare_loops]
    settings = {
        "disks": [*identities, *(spares if drawer else [])],
        "routes": {other.name: other.pod_subnet for other in nodes if other.index != node.index},
    }
    texts = {
        "opt/berth/host.json": json.dumps(settings, indent=1),
        "opt/berth/inside/__init__.py": "",
        "opt/berth/inside/kind_node.py": (power.INSIDE / "kind_node.py").read_text(),
        "opt/berth/inside/blockdev.py": (power.INSIDE / "blockdev.py").read_text(),
        "etc/cni/net.d/10-berth.conflist": services.cni_config(node),
        "etc/ssh/berth_sshd_config": ssh.sshd_config("0.0.0.0"),  # noqa: S104 - Docker chooses the address
        "etc/ssh/berth_host_key": keys.host_key(node).read_text(),
        "etc/ssh/berth_authorized_keys": f"{ssh.public(keys.user_key)}\n",
    }
    programs = {"losetup": services.losetup_wrapper(node), "udevadm": services.UDEVADM}
    return {
        **{path: (text, 0o600) for path, text in texts.items()},
        **{f"etc/systemd/system/{name}": (text, 0o644) for name, text in UNITS.items()},
        **{
            f"usr/local/sbin/{name}": (text, 0o755)
            for name, text in {**programs, "berth-udev-refresh": services.REFRESH}.items()
        },
    }


def settle(docker: Docker, node: Node, contents: Mapping[str, tuple[str, int]], own_image: bool) -> None:
    """Write the files and start the units. `own_image`: a node of kind's own images has pods' network, and no sshd."""
    foreign = () if own_image else ("cni", "ssh", "routes")
    wanted = {path: c for path, c in contents.items() if not any(part in path for part in foreign)}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path, (text, mode) in wanted.items():
            archive.add_file(tar, path, text.encode(), mode)
    with tempfile.TemporaryFile() as stream:
        stream.write(packed.getvalue())
        stream.seek(0)
        docker("exec", "-i", node.name, "tar", "-x", "-C", "/", stdin=stream)
    units = [unit for unit in UNITS if f"etc/systemd/system/{unit}" in wanted]
    docker("exec", node.name, "systemctl", "daemon-reload")
    docker("exec", node.name, "systemctl", "enable", "--now", *units)


def guard(docker: Docker, node: Node) -> None:
    """Let the kernel refuse the node every disk but its own (cgroup v1; see `cgroups.enforces_devices`)."""
    pid = docker.inspect(node.name, "{{.State.Pid}}")
    groups = []
    for tree in cgroups.hierarchies():
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        for _number, names, path in (line.split(":", 2) for line in lines):
            # systemd in the node has a group of its own below the container's.
            if names == tree.options and "devices" in names.split(","):
                groups.append(cgroups.mount_of(tree) / path.lstrip("/").partition("/init.scope")[0])
    cgroups.deny_devices(groups, node.loops)
