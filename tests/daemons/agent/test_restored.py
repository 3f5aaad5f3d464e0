"""The cluster's etcd is restored from a backup in which wipes are still asked for; the disks have other data by then.

The agent runs on this machine, in a mount namespace of its own in which two loop devices have serial numbers.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from berth_dev.pytest_plugin import temporary_cluster
from tests.dev.hosts_help import eventually
from tests.support.agent import conditions_of, install_rights, kubeconfig, token, zipapp

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="loop devices need root"),
    pytest.mark.slow,
    pytest.mark.promise,
]
NODE, SIZE = "restored", 48 << 20
POLICIES = {"devices": False}
INTERVALS = {"poll": 0.3, "debounce": 0.1, "scan": 30, "lease": 12}


class Machine:
    """A cluster of its own, this machine as a node, and its disks ``a`` and ``b``."""

    def __init__(self, cluster: Any, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.process: subprocess.Popen[bytes] | None = None
        self.devices = {name: self._loop(name) for name in ("a", "b")}
        install_rights(cluster)
        self._apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        (folder / "agent.pyz").write_bytes(zipapp())
        settings = {"node": NODE, "disks": [{"serial": f"S-{name}"} for name in self.devices], "metrics": {"port": 0}}
        settings |= {"usage": {"store": "none"}, "policies": POLICIES, "intervals": INTERVALS}
        (folder / "agent.yaml").write_text(yaml.safe_dump({**settings, "mount_root": str(folder / "disks")}))

    def _loop(self, name: str) -> str:
        file = self.folder / f"disk-{name}"
        file.touch()
        os.truncate(file, SIZE)
        return run("losetup", "--find", "--show", str(file))

    def _apply(self, body: dict[str, Any]) -> dict[str, Any]:
        return dict(json.loads(self.cluster.kubectl("apply", "-f", "-", "-o", "json", stdin=json.dumps(body))))

    # -- the agent -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        (self.folder / "token").write_text(token(self.cluster, NODE))
        identity = kubeconfig(self.cluster, self.cluster.api_url, str(self.folder / "token"))
        (self.folder / "kubeconfig").write_text(identity)
        known = [f"echo E:ID_SERIAL_SHORT=S-{name} > {self._record(name)}" for name in self.devices]
        argv = [sys.executable, "-I", str(self.folder / "agent.pyz"), "run"]
        for option, name in (("config", "agent.yaml"), ("kubeconfig", "kubeconfig"), ("state-directory", "state")):
            argv += [f"--{option}", str(self.folder / name)]
        inside = ["mount -t tmpfs none /run", "mkdir -p /run/udev/data", *known, f"exec {' '.join(argv)}"]
        with open(self.folder / "log", "ab") as log:
            command = ["unshare", "--mount", "sh", "-ec", "; ".join(inside)]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")

    def _record(self, name: str) -> str:
        status = os.stat(self.devices[name])
        return f"/run/udev/data/b{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(30)
        self.process = None

    # -- etcd ------------------------------------------------------------------------------------------------------

    def back_up(self) -> Path:
        """What etcd has on its disk."""
        kept = self.folder / "backup"
        self._stopped(lambda data: shutil.copytree(data, kept))
        return kept

    def restore(self, kept: Path) -> None:
        self._stopped(lambda data: (shutil.rmtree(data), shutil.copytree(kept, data)))

    def _stopped(self, work: Any) -> None:
        (data,) = Path(self.cluster.folder.path).glob("**/etcd/member")
        for name in ("kube-apiserver", "etcd"):
            self.cluster.stop_component(name)
        work(data.parent)
        for name in ("etcd", "kube-apiserver"):
            self.cluster.start_component(name)
        eventually(lambda: self.cluster.kubectl("get", "--raw", "/readyz") == "ok", 60, "the API server is back")

    # -- disks -----------------------------------------------------------------------------------------------------

    def disk(self, name: str) -> dict[str, Any]:
        found = json.loads(self.cluster.kubectl("get", "ld", "-o", "json"))["items"]
        return next((each for each in found if each["spec"]["identity"]["serial"] == f"S-{name}"), {})

    def wait(self, name: str, what: str, test: Any) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            disk = self.disk(name)
            return disk if disk.get("status") and test(disk) else None

        try:
            return dict(eventually(look, 60, what))
        except AssertionError as exc:
            log = (self.folder / "log").read_text()[-4000:]
            raise AssertionError(f"{exc}\n{json.dumps(self.disk(name), indent=1)}\n{log}") from None

    def wait_condition(self, name: str, kind: str, reason: str) -> str:
        disk = self.wait(name, reason, lambda disk: (conditions_of(disk).get(kind) or ("", ""))[1] == reason)
        return next(str(each.get("message")) for each in disk["status"]["conditions"] if each["type"] == kind)

    def patch(self, name: str, **spec: Any) -> None:
        disk = self.disk(name)["metadata"]["name"]
        self.cluster.kubectl("patch", "ld", disk, "--type=merge", "-p", json.dumps({"spec": spec}))

    def live_and_let_go(self, name: str) -> None:
        """A replica has the disk, writes a file, and goes."""
        disk = self.disk(name)["metadata"]["name"]
        place = {"app": "db", "ordinal": 0, "nodeName": NODE, "disks": [{"claim": "data", "name": disk, "size": 1}]}
        meta = {"name": f"b-{name}", "namespace": "default"}
        berth = self._apply({"apiVersion": "berth.dev/v1alpha1", "kind": "Berth", "metadata": meta, "spec": place})
        phase = json.dumps({"status": {"phase": "Reserved"}})
        patch = ("--subresource=status", "--type=merge", "-p", phase)
        self.cluster.kubectl("patch", "berths.berth.dev", meta["name"], *patch)
        uid = berth["metadata"]["uid"]
        kept = {"namespace": "default", "app": "db", "ordinal": 0, "claim": "data", "dataUID": uid}
        self.patch(name, claimRef={**kept, "name": meta["name"], "uid": uid})
        self.wait(name, "mounted", lambda found: found["status"].get("phase") == "InUse")
        assert self.process is not None
        point = f"/proc/{self.process.pid}/root{self.folder}/disks/{disk}/data"
        Path(point, "file").write_text("precious")
        self.patch(name, claimRef=None, retainedFor=kept)
        self.wait(name, "unmounted", lambda found: found["status"]["journal"]["step"] == "Unmounted")

    def checksums(self) -> list[str]:
        run("sync")
        return [hashlib.sha256((self.folder / f"disk-{name}").read_bytes()).hexdigest() for name in self.devices]


def run(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with temporary_cluster(hosts=0) as cluster:
        made = Machine(cluster, tmp_path)
        try:
            yield made
        finally:
            made.stop()
            for device in made.devices.values():
                subprocess.run(["losetup", "--detach", device], check=True)


def test_wipes_that_a_restored_etcd_still_asks_for_destroy_nothing(machine: Machine) -> None:
    """One was taken back and one was carried out after the backup; a replica's data came to each disk since."""
    machine.start()
    for name in machine.devices:
        machine.wait(name, "Available", lambda disk: disk["status"].get("phase") == "Available")
    held = {name: os.open(device, os.O_RDONLY | os.O_EXCL) for name, device in machine.devices.items()}
    for name in machine.devices:
        identity = machine.disk(name)["spec"]["identity"]
        machine.patch(
            name, wipe={"requestID": "r1", "identity": identity, "requestedBy": "ann", "method": "signatures"}
        )
    for name in machine.devices:
        assert "is used by somebody else" in machine.wait_condition(name, "Wiped", "Refused")
    backup = machine.back_up()

    machine.patch("a", wipe=None)
    os.close(held["b"])
    machine.wait("b", "wiped", lambda disk: "wipe" not in disk["spec"])
    os.close(held["a"])  # now: a wiper that was on its way when the request was taken back has met it
    for name in machine.devices:
        machine.live_and_let_go(name)
    machine.stop()
    before = machine.checksums()

    machine.restore(backup)
    assert {machine.disk(name)["spec"]["wipe"]["requestID"] for name in machine.devices} == {"r1"}
    machine.start()
    expected = {
        "a": "was asked for when the disk carried ends blank, and it carries ext4",
        "b": "was carried out on this",
    }
    for name, words in expected.items():
        machine.wait(name, "refused", lambda disk, words=words: words in str(disk["status"]["conditions"]))
    machine.stop()
    assert machine.checksums() == before
