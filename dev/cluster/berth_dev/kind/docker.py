# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Docker: the machine's when it answers, else the cluster's own, for as long as it lives. `cluster` calls this.

The latter listens on a socket of its own, keeps its files in the cluster's folder and changes nothing of the machine's
network but what it is asked for: no bridge of its own, no iptables, no forwarding. What `start` makes is in the
cluster's journal before; its processes carry the cluster's tag.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ..errors import HostError, KindError
from ..hosts import cgroups
from ..hosts.commands import SYSTEM_PATH, run
from ..state import ClusterDir, mounts_under, remove_tree

RUN = Path("/run/berth-dev.docker")
PROCESS = "dockerd"
CAP_SYS_RESOURCE = 24
#: Seconds that the daemon may take to create a node's container (it copies the image's /var).
CREATING = 10.0
LABEL = "io.x-k8s.kind.cluster"


@dataclass(frozen=True)
class Docker:
    """A Docker that answers at `host` (as in DOCKER_HOST; '': wherever the client looks)."""

    host: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """For docker and kind."""
        return {**os.environ, "LC_ALL": "C.UTF-8", **({"DOCKER_HOST": self.host} if self.host else {})}

    def __call__(self, *arguments: str, stdin: IO[bytes] | None = None, text: str | None = None) -> str:
        """Run a docker command; what it prints. KindError with its own words."""
        done = subprocess.run(
            ["docker", *arguments],
            stdin=stdin,
            input=None if text is None else text.encode(),
            capture_output=True,
            env=self.environment,
            check=False,
        )
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip()[-800:]
            raise KindError(f"docker {' '.join(arguments[:3])}: exit {done.returncode}: {said}")
        return done.stdout.decode()

    def has_image(self, name: str) -> bool:
        """True when it need not be loaded or pulled."""
        return bool(self("image", "ls", "--quiet", name).strip())

    def nodes(self, cluster: str) -> dict[str, str]:
        """State of every container of a kind cluster by name: running, exited, ..."""
        rows = self("ps", "--all", "--filter", f"label={LABEL}={cluster}", "--format", "{{.Names}} {{.State}}")
        return dict(row.split(" ", 1) for row in rows.splitlines())

    def remove_nodes(self, cluster: str) -> None:
        """Remove every container of a kind cluster.

        The daemon ends what it has begun to create also when its client was killed, and then brings back what was
        removed meanwhile: where one was never started, they are removed until they stay away.
        """
        until = 0.0
        while (found := self.nodes(cluster)) or time.monotonic() < until:
            if "created" in found.values():
                until = time.monotonic() + CREATING
            if found:
                self("rm", "--force", "--volumes", *found)
            if until:
                time.sleep(0.5)

    def kill_nodes(self, cluster: str) -> None:
        """End every container of a kind cluster at once, and let it lie there."""
        running = [name for name, state in self.nodes(cluster).items() if state == "running"]
        if running:
            with contextlib.suppress(KindError):  # one has ended by itself meanwhile
                self("kill", *running)

    def inspect(self, name: str, template: str) -> str:
        """A fact of a container."""
        return self("inspect", "--format", template, name).strip()


def problem(docker: Docker) -> str:
    """Why that Docker cannot be used; '' when it answers."""
    if shutil.which("docker") is None:
        return "program docker is not installed"
    argv = ["docker", "version", "--format", "{{.Server.Version}}"]
    done = subprocess.run(argv, capture_output=True, text=True, env=docker.environment, check=False)
    return "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def machines() -> Docker | None:
    """The machine's own Docker, if it answers. KindError when it is there and may not be used."""
    docker = Docker()
    why = problem(docker)
    if "permission denied" in why.lower():
        raise KindError(f"Docker: {why}; run as root, or as a member of the group docker")
    if why:
        return None
    options = json.loads(docker("info", "--format", "{{json .SecurityOptions}}")) or []
    if any("rootless" in option for option in options):
        raise KindError("Docker: runs without root (rootless), so that nodes get no disks; use one that root runs")
    if any("name=userns" in option for option in options):
        raise KindError(
            "Docker: gives containers other users (userns-remap), so that no node may be privileged; end that"
        )
    return docker


def check_own() -> None:
    """KindError when no Docker of the cluster's own could be started either."""
    if shutil.which("dockerd", path=SYSTEM_PATH) is None or shutil.which("docker") is None:
        raise KindError("no Docker: none answers, and there is no program dockerd: apt-get install -y docker.io")
    if os.geteuid() != 0:
        raise KindError("no Docker: none answers, and to start one needs root")


def own(folder: ClusterDir, octet: int) -> Docker | None:
    """The cluster's own Docker, when it runs."""
    return Docker(f"unix://{RUN}/{octet}/docker.sock") if folder.alive(PROCESS) else None


def start(folder: ClusterDir, octet: int, runtime: Path, seconds: float = 60.0, wrapper: Sequence[str] = ()) -> Docker:
    """Start the cluster's own Docker and wait until it answers.

    `runtime`: berth-runc, for a machine that needs it. `wrapper`: a command that becomes the one in its arguments.
    """
    place, docker = RUN / str(octet), Docker(f"unix://{RUN}/{octet}/docker.sock")
    folder.record("docker", str(octet))
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    argv = ["dockerd", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--bridge=none"]
    argv += ["--data-root", str(folder.path / "data/docker"), "--exec-root", f"{place}/exec"]
    argv += ["--pidfile", f"{place}/pid", "--host", docker.host, "--cgroup-parent", f"/{cgroups.PREFIX}docker-{octet}"]
    if not may_raise_limits():
        argv += ["--add-runtime", f"berth={runtime}", "--default-runtime", "berth"]
    folder.spawn(PROCESS, [*wrapper, *argv], env={**os.environ, "PATH": SYSTEM_PATH})
    until = time.monotonic() + seconds
    while why := problem(docker):
        if not folder.alive(PROCESS) or time.monotonic() > until:
            raise KindError(f"the cluster's own Docker did not start ({why}):\n{folder.log_tail(PROCESS)}")
        time.sleep(0.1)
    return docker


def stop(folder: ClusterDir) -> None:
    """End the cluster's own Docker with all that it has; nothing of it is left. Twice is fine."""
    folder.stop(PROCESS, timeout=30)
    for entry in folder.recorded("docker"):
        octet, data = entry["id"], folder.path / "data/docker"
        folder.end_strays()  # what a killed daemon has left: containerd, and the shims with their containers' fathers
        groups = cgroup_folders(f"{cgroups.PREFIX}docker-{octet}")
        cgroups.kill_members(groups)
        for mount in (*mounts_under(RUN / octet), *mounts_under(data)):
            run("umount", "--lazy", mount)
        cgroups.remove(groups)
        shutil.rmtree(RUN / octet, ignore_errors=True)
        with contextlib.suppress(OSError):
            remove_tree(data)
        with contextlib.suppress(OSError):
            RUN.rmdir()
        with contextlib.suppress(HostError):  # it went with its network
            run("ip", "link", "delete", bridge(int(octet)))
        folder.forget("docker", octet)


def cgroup_folders(name: str, root: Path = Path("/sys/fs/cgroup")) -> list[Path]:
    """Where Docker made the group of that name: at the root of every tree, whatever group its starter was in."""
    return sorted(path for pattern in (name, f"*/{name}") for path in root.glob(pattern))


def bridge(octet: int) -> str:
    """The interface of a cluster's network."""
    return f"berthk{octet}"


def may_raise_limits(status: str | None = None) -> bool:
    """True with CAP_SYS_RESOURCE; `status`: the text of /proc/self/status."""
    text = status if status is not None else Path("/proc/self/status").read_text()
    held = next(line.split()[1] for line in text.splitlines() if line.startswith("CapEff:"))
    return bool(int(held, 16) >> CAP_SYS_RESOURCE & 1)


def kind(program: Path, docker: Docker, network: str, arguments: Sequence[str]) -> None:
    """Run kind. KindError with the end of what it said."""
    environment = {**docker.environment, "KIND_EXPERIMENTAL_DOCKER_NETWORK": network}
    done = subprocess.run([program, *arguments], capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        raise KindError(f"kind {arguments[0]} {arguments[1]} failed: {done.stderr.strip()[-1500:]}")
