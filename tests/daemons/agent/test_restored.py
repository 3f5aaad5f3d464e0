"""The cluster's etcd is restored from a backup under a living agent: wipes asked for again, a lock that is gone.

The agent runs on this machine (tests/support/local_node.py), which has four disks.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_dev.pytest_plugin import temporary_cluster
from tests.dev.hosts_help import eventually
from tests.support.agent import conditions_of, install_rights
from tests.support.etcd_backup import Backup
from tests.support.kube import patch_disk
from tests.support.local_node import BERTH, LocalNode

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="loop devices need root"),
    pytest.mark.slow,
    pytest.mark.promise,
]
SIZE, MIDDLE = 24 << 20, 12 << 20
#: Wipes of these are asked for before the backup, and refused while somebody has the disk open.
ASKED = ("a", "b", "c")


class Machine(LocalNode):
    """A cluster of its own, this machine as a node, and its disks."""

    def disk(self, name: str) -> dict[str, Any]:
        return self.objects().get(name, {})

    def wait(self, name: str, what: str, test: Any) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            disk = self.disk(name)
            return disk if disk.get("status") and test(disk) else None

        try:
            return dict(eventually(look, 60, what))
        except AssertionError as exc:
            said = f"{json.dumps(self.disk(name), indent=1)}\n{self.log.read_text()[-4000:]}"
            raise AssertionError(f"{exc}\n{said}") from None

    def wait_condition(self, name: str, kind: str, reason: str) -> str:
        disk = self.wait(name, reason, lambda disk: (conditions_of(disk).get(kind) or ("", ""))[1] == reason)
        return next(str(each.get("message")) for each in disk["status"]["conditions"] if each["type"] == kind)

    def patch(self, name: str, **spec: Any) -> None:
        patch_disk(self.api, self.disk(name)["metadata"]["name"], **spec)

    def lock(self, name: str) -> tuple[str, dict[str, Any]]:
        """A new replica has the disk; the LocalDisk's name, and how its data is kept."""
        disk = self.disk(name)["metadata"]["name"]
        entry = {"claim": "data", "name": disk, "size": 1}
        spec = {"app": "db", "ordinal": 0, "nodeName": self.node, "disks": [entry]}
        body = {**BERTH, "metadata": {"name": f"b-{uuid4().hex[:6]}", "namespace": "default"}, "spec": spec}
        made = self.api.create(kinds.BERTH, body)["metadata"]
        self.api.patch(kinds.BERTH, made["name"], "default", {"status": {"phase": "Reserved"}}, "status")
        kept = {"namespace": "default", "app": "db", "ordinal": 0, "claim": "data", "dataUID": made["uid"]}
        self.patch(name, claimRef={**kept, "name": made["name"], "uid": made["uid"]})
        return disk, kept

    def live(self, name: str) -> tuple[str, dict[str, Any]]:
        """The same, and it writes a file."""
        disk, kept = self.lock(name)
        self.wait(name, "mounted", lambda found: found["status"].get("phase") == "InUse")
        (self.point(disk) / "data" / "file").write_text("precious")
        return disk, kept

    def live_and_let_go(self, name: str) -> None:
        """The same, and it goes."""
        _disk, kept = self.live(name)
        self.let_go(name, kept)

    def let_go(self, name: str, kept: dict[str, Any]) -> None:
        self.patch(name, claimRef=None, retainedFor=kept)
        self.wait(name, "unmounted", lambda found: found["status"]["journal"]["step"] == "Unmounted")

    def ask_wipe(self, name: str, request: str) -> None:
        identity = self.disk(name)["spec"]["identity"]
        self.patch(name, wipe={"requestID": request, "identity": identity, "requestedBy": "ann", "method": "zero"})

    def mounts(self, disk: str) -> str:
        """What is mounted at the LocalDisk's mount point on its node."""
        return self.here("sh", "-c", f"findmnt -no SOURCE {self.folder}/disks/{disk} || true")

    def checksums(self) -> list[str]:
        """Of the disks that are not mounted."""
        os.sync()
        return [hashlib.sha256(self.file(name).read_bytes()).hexdigest() for name in ASKED]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Their own, whose etcd is restored under it; a restored one is as good as new."""
    with temporary_cluster(hosts=0) as cluster:
        install_rights(cluster)
        yield cluster


@pytest.fixture
def machine(cluster: Any, tmp_path: Path) -> Iterator[Machine]:
    node = f"restored-{uuid4().hex[:5]}"
    with Machine(cluster, tmp_path, node, {name: {} for name in (*ASKED, "d", "e")}, SIZE) as made:
        yield made


@pytest.mark.parametrize("bump", [True, False], ids=["revision raised", "revision gone back"])
def test_a_restored_etcd_under_a_living_agent_destroys_nothing(machine: Machine, tmp_path: Path, bump: bool) -> None:
    """After the backup the wipe of ``a`` was taken back, those of ``b`` and ``c`` were carried out, a replica's data
    came to ``a`` and ``b``, a replica lives on ``d``, and another one than that of the backup on ``e``."""
    machine.start()
    for name in machine.devices:
        machine.wait(name, "Available", lambda disk: disk["status"].get("phase") == "Available")
    held = {name: os.open(machine.devices[name], os.O_RDONLY | os.O_EXCL) for name in ASKED}
    for name in ASKED:
        machine.ask_wipe(name, "r1")
    for name in ASKED:
        assert "is used by somebody else" in machine.wait_condition(name, "Wiped", "Refused")
    earlier, kept = machine.live("e")
    backup = Backup(machine.cluster, tmp_path).save()

    machine.patch("a", wipe=None)
    for name in ("b", "c"):
        os.close(held[name])
        machine.wait(name, "wiped", lambda disk: "wipe" not in disk["spec"])
    os.close(held["a"])  # now: a wiper that was on its way when the request was taken back has met it
    for name in ("a", "b"):
        machine.live_and_let_go(name)
    living, _kept = machine.live("d")
    machine.let_go("e", kept)
    machine.ask_wipe("e", "r2")
    machine.wait("e", "wiped", lambda disk: "wipe" not in disk["spec"])
    machine.live("e")
    pod = machine.pod()
    with open(
        machine.devices["c"], "r+b"
    ) as device:  # no look at the disk finds it, and a second wipe would destroy it
        device.seek(MIDDLE)
        device.write(b"since the wipe")
    before = machine.checksums()

    backup.restore(bump=bump)
    # that of ``c`` is carried out already, and may be taken off before anybody looks
    assert {machine.disk(name)["spec"]["wipe"]["requestID"] for name in ("a", "b")} == {"r1"}
    assert "claimRef" not in machine.disk("d")["spec"]
    expected = {
        "a": "was asked for when the disk carried ends blank, and it carries ext4",
        "b": "was carried out on this",
    }
    for name, words in expected.items():
        machine.wait(name, "refused", lambda disk, words=words: words in str(disk["status"]["conditions"]))
    machine.wait("c", "free", lambda disk: "wipe" not in disk["spec"] and disk["status"]["phase"] == "Available")
    machine.wait("d", "not given out", lambda disk: disk["status"]["phase"] not in ("Available", "InUse"))
    machine.lock("d")
    assert machine.wait_condition("d", "Prepared", "Refused")
    assert machine.disk("e")["spec"]["claimRef"]["dataUID"] == kept["dataUID"]
    assert "made for this very lock before the other came" in machine.wait_condition("e", "Prepared", "Refused")
    assert machine.mounts(earlier) == "", "the next pod of whom the backup names would find the data of another one"
    for disk in (living, earlier):
        assert (machine.point(disk, pod) / "data" / "file").read_text() == "precious"
    machine.stop()
    assert machine.checksums() == before
