"""A real node agent on this machine: a Node that no kubelet runs, and loop devices with serial numbers of its own.

For tests that need an agent and its disks, and no host around them. The node is a mount namespace that outlives its
agents, as a host does. Needs root.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from tests.dev.hosts_help import eventually
from tests.support.agent import ACCOUNT, NAMESPACE, ROOT, compiled, kubeconfig, zipapp
from tests.support.kube import client_for, forget

#: Of the agent: no devices, no figures, no port; short intervals.
SETTINGS = {
    "metrics": {"port": 0},
    "usage": {"store": "none"},
    "policies": {"devices": False},
    "intervals": {"poll": 0.3, "debounce": 0.1, "scan": 30, "lease": 12},
}
#: For a Berth that a test makes by hand.
BERTH = {"apiVersion": kinds.BERTH.api_version, "kind": kinds.BERTH.kind}
CAPACITY = {"cpu": "4", "memory": "8Gi", "pods": "110"}


class LocalNode:
    """``disks``: short name -> settings of the disk, of ``size`` bytes each. Use as a context manager.

    What is on the API server stays there: `forget`.
    """

    def __init__(
        self, cluster: Any, folder: Path, node: str, disks: Mapping[str, Mapping[str, Any]], size: int
    ) -> None:
        self.cluster, self.folder, self.node = cluster, folder, node
        self.api: ApiClient = client_for(cluster.kubeconfig, warn=lambda _text: None)
        self.log = folder / "log"
        self.serials = {name: f"S-{node}-{name}" for name in disks}
        self.devices: dict[str, str] = {}
        self.process: subprocess.Popen[bytes] | None = None
        self._pods: list[subprocess.Popen[bytes]] = []
        self._size, self._settings = size, disks

    def __enter__(self) -> LocalNode:
        self.folder.mkdir(exist_ok=True)
        for name in self.serials:
            file = self.file(name)
            file.touch()
            os.truncate(file, self._size)
            self.devices[name] = run("losetup", "--find", "--show", str(file))
        meta = {"name": self.node, "labels": {"kubernetes.io/hostname": self.node}}
        self.api.create(kinds.NODE, {"metadata": meta, "status": {"capacity": CAPACITY, "allocatable": CAPACITY}})
        (self.folder / "agent.pyz").write_bytes(zipapp())
        self.configure()
        # without the disks of other tests: each look of an agent asks for all that it sees
        shown = [self._show(name) for name in self.devices]
        known = [f"echo E:ID_SERIAL_SHORT={self.serials[name]} > {self._record(name)}" for name in self.serials]
        inside = [
            "mount -t tmpfs none /run",
            "mkdir -p /run/udev/data",
            *known,
            "mount -t tmpfs none /sys/block",
            *shown,
            "touch /run/made",
            "exec sleep infinity",
        ]
        self.host = subprocess.Popen(["unshare", "--mount", "sh", "-ec", "; ".join(inside)], stdin=subprocess.DEVNULL)
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()
        for process in (*self._pods, self.host):
            process.kill()
            process.wait()
        for device in self.devices.values():
            subprocess.run(["losetup", "--detach", device], check=True)

    def forget(self) -> None:
        """Delete the node, its LocalDisks and its LocalDevices."""
        for disk in self.objects().values():
            forget(self.api, kinds.LOCAL_DISK, disk["metadata"]["name"])
        for device in self.local_devices():
            forget(self.api, kinds.LOCAL_DEVICE, device["metadata"]["name"])
        self.api.delete(kinds.NODE, self.node)

    def configure(self, **values: Any) -> None:
        disks = [{"serial": serial, **self._settings[name]} for name, serial in self.serials.items()]
        settings = {**SETTINGS, "node": self.node, "disks": disks, "mount_root": str(self.folder / "disks"), **values}
        (self.folder / "agent.yaml").write_text(yaml.safe_dump(settings))

    # -- the agent -----------------------------------------------------------------------------------------------------

    def start(self, module: str = "", environment: Mapping[str, str] | None = None) -> LocalNode:
        """The agent as it ships, or a module of the test's in its place."""
        eventually(lambda: Path(f"/proc/{self.host.pid}/root/run/made").exists(), 30, "the mount namespace")
        if not (self.folder / "token").exists():
            (self.folder / "token").write_text(self._token())
            identity = kubeconfig(self.cluster, self.cluster.api_url, str(self.folder / "token"))
            (self.folder / "kubeconfig").write_text(identity)
        argv = [sys.executable, *(["-m", module] if module else ["-I", str(self.folder / "agent.pyz")]), "run"]
        for option, name in (("config", "agent.yaml"), ("kubeconfig", "kubeconfig"), ("state-directory", "state")):
            argv += [f"--{option}", str(self.folder / name)]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self._inside(*argv),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env={**os.environ, "PYTHONPATH": str(ROOT), "CACHE_DIRECTORY": str(compiled()), **(environment or {})},
            )
        return self

    def _token(self) -> str:
        """Of the agents' account, bound to the Node."""
        bound = {"apiVersion": "v1", "kind": "Node", "name": self.node}
        meta = {"name": ACCOUNT, "namespace": NAMESPACE}
        body = {"metadata": meta, "spec": {"expirationSeconds": 86400, "boundObjectRef": bound}}
        return str(self.api.create(kinds.SERVICE_ACCOUNT, body, subresource="token")["status"]["token"])

    def dead(self) -> bool:
        """Whether the agent has ended by a SIGKILL."""
        return self.process is not None and self.process.poll() == -signal.SIGKILL

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)
                said = self.log.read_text()[-4000:]
                raise AssertionError(f"the agent works on 60 s after SIGTERM:\n{said}") from None
        self.process = None

    # -- the disks -----------------------------------------------------------------------------------------------------

    def file(self, name: str) -> Path:
        """What is behind the disk."""
        return self.folder / f"disk-{name}"

    def point(self, disk: str, pid: int = 0) -> Path:
        """Where the LocalDisk of that name is mounted, as the test sees it; ``pid``: for a process of `pod`."""
        return Path(f"/proc/{pid or self.host.pid}/root{self.folder}/disks/{disk}")

    def pod(self) -> int:
        """A process that keeps what is mounted now, whatever becomes of the node's mount points; its pid."""
        made = self.folder / f"pod-{len(self._pods)}"
        command = ["unshare", "--mount", "sh", "-ec", f"touch {made}; exec sleep infinity"]
        self._pods.append(subprocess.Popen(self._inside(*command), stdin=subprocess.DEVNULL))
        eventually(made.exists, 30, "the pod's mounts")
        return self._pods[-1].pid

    def objects(self) -> dict[str, dict[str, Any]]:
        """The node's LocalDisks by the disks' short names."""
        names = {serial: name for name, serial in self.serials.items()}
        found = [(each["spec"]["identity"].get("serial"), each) for each in self.api.list(kinds.LOCAL_DISK)]
        return {names[serial]: each for serial, each in found if serial in names}

    def local_devices(self) -> list[dict[str, Any]]:
        """The node's LocalDevices."""
        return self.api.list(kinds.LOCAL_DEVICE, fields=f"spec.nodeName={self.node}")

    def pull(self, name: str) -> None:
        """The kernel has it no more; what is open or mounted of it stays."""
        self.here("rm", f"/sys/block/{Path(self.devices[name]).name}")

    def put_back(self, name: str) -> None:
        self.here("sh", "-c", self._show(name))

    def _show(self, name: str) -> str:
        return f"ln -s ../devices/virtual/block/{Path(self.devices[name]).name} /sys/block/"

    def here(self, *argv: str) -> str:
        """What a command on that node prints."""
        return run(*self._inside(*argv))

    def _inside(self, *argv: str) -> list[str]:
        return ["nsenter", "--mount", "--target", str(self.host.pid), *argv]

    def _record(self, name: str) -> str:
        status = os.stat(self.devices[name])
        return f"/run/udev/data/b{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"


def run(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()
