# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Process 1 of a host: network, disks, /etc/fstab, services. rootfs.sh becomes this.

Order is that of a real machine: the cable, the disks, what /etc/fstab mounts, sshd, containerd, images, kubelet,
kube-proxy. Afterwards this collects dead processes and starts a service again when it dies, one second later, unless
the file /run/berth/stopped/<service> exists. It never stops by itself: a host ends by being killed (a power cut) or by
TERM. A host that was asked to have systemd gets it in place of this once its disks and its network are there
(systemd.py). Standard library only: the machine's own Python runs this.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from . import blockdev, systemd

SETTINGS = Path("/opt/berth/host.json")
STOPPED = Path("/run/berth/stopped")
ENVIRONMENT = {
    # /opt/k first: containerd looks for its shim here, and that of a Docker on the machine is of another version.
    "PATH": "/opt/k:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    # As for the control plane (components.py): garbage is collected less often than by default.
    "GOGC": "400",
}


def say(message: str) -> None:
    """A line for the host's console log."""
    sys.stdout.write(f"[{time.monotonic():.3f}] {message}\n")
    sys.stdout.flush()


def run(*argv: str) -> bool:
    """Run to the end; False, and a line on the console, when it fails: a start goes on, as a real one does."""
    done = subprocess.run(argv, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    if done.returncode != 0:
        say(f"{' '.join(argv)}: exit {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.returncode == 0


def wait_until(what: str, test: Any, seconds: float = 30.0) -> None:
    """Until `test()` is true. Ends the host otherwise: without it nothing that follows can work."""
    until = time.monotonic() + seconds
    while not test():
        if time.monotonic() > until:
            say(f"no {what} within {seconds:.0f} s; the host stops")
            sys.exit(1)
        time.sleep(0.01)


def network(settings: dict[str, Any]) -> None:
    """Addresses and routes once the machine has plugged the cable in."""
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    wait_until("cable (eth0)", Path("/sys/class/net/eth0").exists)
    lines = ["link set lo up", f"address add {settings['address']}/24 dev eth0", "link set eth0 up"]
    lines.append(f"route add default via {settings['gateway']}")
    lines += [f"route add {subnet} via {address}" for subnet, address in settings["routes"].items()]
    subprocess.run(["ip", "-batch", "-"], input="\n".join(lines), text=True, check=True)


def disks(settings: dict[str, Any]) -> None:
    """Own disks only, then what /etc/fstab asks for (mount knows nofail; a missing folder: x-mount.mkdir)."""
    blockdev.hide_all()
    blockdev.add(settings["disks"])
    run("mount", "-a")


def start(service: dict[str, Any]) -> int:
    """Start a service in a session of its own, output to its log. Returns the pid."""
    log = os.open(service["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open("/dev/null", os.O_RDONLY)
    files = [(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, log, 1), (os.POSIX_SPAWN_DUP2, log, 2)]
    try:
        argv = service["argv"]
        return os.posix_spawn(argv[0], argv, ENVIRONMENT, file_actions=files, setsigmask=[], setsid=True)
    finally:
        os.close(log)
        os.close(null)


def answers(path: str) -> bool:
    """True when something accepts connections on a unix socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        return connection.connect_ex(path) == 0


def import_images(folder: Path = Path("/opt/images"), notes: Path = Path("/var/lib/containerd/berth-imported")) -> None:
    """Load the images that this system disk does not have yet (noted by the name of the file, which has its hash)."""
    notes.mkdir(parents=True, exist_ok=True)
    for tar in sorted(folder.glob("*.tar")):
        note = notes / tar.name
        if not note.exists() and run("/opt/k/ctr", "-n", "k8s.io", "images", "import", "--local", str(tar)):
            note.touch()


def before_kubelet() -> None:
    """It asks containerd for pods at once, and their images are to be there."""
    wait_until("containerd", lambda: answers("/run/containerd/containerd.sock"))
    import_images()


def supervise(services: dict[str, dict[str, Any]], running: dict[int, str]) -> None:
    """For ever: collect the dead, start again what died."""
    due: dict[str, float] = {}
    while True:
        got = signal.sigtimedwait({signal.SIGCHLD, signal.SIGTERM}, 0.5)
        if got is not None and got.si_signo == signal.SIGTERM:
            say("TERM: the host stops")
            return
        try:
            while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                name = running.pop(pid, None)
                if name is not None:
                    say(f"service {name} (pid {pid}) ended")
                    due[name] = time.monotonic() + 1.0
        except ChildProcessError:
            pass
        for name in [n for n, when in due.items() if when <= time.monotonic() and not (STOPPED / n).exists()]:
            del due[name]
            running[start(services[name])] = name


def main() -> None:
    """The whole life of a host."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGTERM})
    os.chdir("/")
    os.environ.update(ENVIRONMENT)
    settings = json.loads(SETTINGS.read_text())
    services = {service["name"]: service for service in settings["services"]}
    running: dict[int, str] = {}
    STOPPED.mkdir(parents=True, exist_ok=True)
    disks(settings)
    network(settings)
    if settings["systemd"]:
        say("systemd takes over")
        systemd.become(settings["services"], ENVIRONMENT)
    for name, service in services.items():
        say(f"starting {name}")
        if name == "kubelet":
            before_kubelet()
        running[start(service)] = name
    supervise(services, running)


if __name__ == "__main__":
    before_kubelet() if sys.argv[1:] == ["images"] else main()
