"""An agent dies right after each of its writes, and the next one goes on: a disk's life, a pod on it, and its devices.

Two nodes (tests/support/local_node.py) live their lives at once, each with a disk, devices and a kubelet's word, and
their agents die after each write that no agent of either has died after. So each write is somebody's last, whichever
way an agent came to it, and the one life goes on where the other is cut.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_core.app.device_claim import DRIVER, slice_device_name
from berth_core.app.fsid import filesystem_uuid
from berth_core.app.manifests import volume_of_lock
from tests.support.agent import NAMESPACE, conditions_of, install_rights
from tests.support.kube import patch_disk
from tests.support.kubelet import register
from tests.support.local_node import BERTH, SETTINGS, LocalNode
from tests.support.wire import dying_after_each

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="loop devices need root"),
    pytest.mark.slow,
    pytest.mark.promise,
]
#: Lives at once; the later ones where a write has been nobody's last in the earlier ones.
LIVES = (("1", "2"), ("3", "4"), ("5", "6"))
DEVICES = ("acc-0", "acc-1")
WRITES = r"\w+ (LocalDisk|LocalDevice|ResourceSlice|Pod|Event|Lease)(/\w+)? .*"
#: What is written in a life that nobody cuts: steps of the journal and of the wipe, what is seen, what was asked; what
#: a pod and its claim are told of their disk; the device, as it is and as it is given out.
EACH = (
    *(f'"step": "{step}"' for step in ("Formatting", "Formatted", "Mounting", "Mounted", "Unmounting", "Unmounted")),
    *(f'"step": "{step}"' for step in ("Signatures", "Overwriting", "Verifying")),
    *(f'"phase": "{phase}"' for phase in ("Available", "Locked", "InUse", "Released", "Missing", "Faulted")),
    *('"result": "Succeeded"', "create LocalDisk ", '"path": "/spec/wipe"'),
    *("patch Pod/status ", "create Event ", *(f'"reason": "Disk{reason}"' for reason in ("Missing", "Healthy"))),
    *("create LocalDevice ", "apply LocalDevice/status ", "create ResourceSlice ", "replace ResourceSlice "),
    *("delete ResourceSlice ", "create Lease ", "replace Lease "),
)
SIZE = 24 << 20
#: How long a life may stand still.
SECONDS = 60.0
Obj = dict[str, Any]


class Life:
    """Lock, filesystem, mount, loss and return, release, wipe of one disk, and the pod on it; devices that are found,
    break and are well again. ``last``: what an agent has died after, of either life; ``kubelet``: a folder."""

    def __init__(self, node: LocalNode, last: Path, kubelet: Path) -> None:
        self.node, self.last, self.kubelet, self.deaths = node, last, kubelet, -1
        self.descriptions = node.folder / "devices"
        self.descriptions.mkdir()
        self._describe()
        node.configure(
            policies={"devices": True},
            device_descriptions=str(self.descriptions),
            cdi_root=str(node.folder / "cdi"),
            kubelet={"root": str(kubelet)},
            intervals={**SETTINGS["intervals"], "health": 1, "devices": 1},
        )
        self._next_agent()
        #: what is waited for, and what is done then. The disk waits for the devices: an agent that dies of one of their
        #: writes while a mkfs runs lets the next one find it done, and not a word of that is written
        self.left: list[tuple[Callable[[Obj], bool], Callable[[Obj], None]]] = [
            (lambda disk: status(disk).get("phase") == "Available" and not self.devices_left, self._lock),
            (lambda disk: journal(disk) == "Mounted" and status(disk)["phase"] == "InUse", self._pull),
            (lambda disk: status(disk)["phase"] == "Missing" and self._told() == "Missing", self._put_back),
            (lambda disk: status(disk)["phase"] == "InUse" and self._told() == "Healthy", self._use),
            (lambda disk: journal(disk) == "Unmounted" and status(disk)["phase"] == "Released", self._ask_wipe),
            (lambda disk: "wipe" not in disk["spec"] and status(disk)["phase"] == "Available", self._wiped),
        ]
        self.devices_left: list[tuple[Callable[[], bool], Callable[[], None]]] = [
            (self._published, lambda: self._describe("acc-0")),
            (lambda: self._published("acc-0"), lambda: self._describe(*DEVICES)),
            (lambda: self._published(*DEVICES), self._describe),
            (self._published, lambda: None),
        ]

    @property
    def over(self) -> bool:
        return not self.left and not self.devices_left

    def look(self, disks: dict[str, Obj]) -> None:
        """``disks``: all LocalDisks by serial number."""
        if self.node.dead():
            self._next_agent()
        self.registered = self.registered or register(self.kubelet)
        disk = disks.get(self.node.serials["a"])
        if self.left and disk is not None and self.left[0][0](disk):
            self.left.pop(0)[1](disk)
            self.moved = time.monotonic()
        if self.devices_left and self.devices_left[0][0]():
            self.devices_left.pop(0)[1]()
            self.moved = time.monotonic()
        text = f"{self.node.node} stands still"
        assert time.monotonic() < self.moved + SECONDS, f"{text}: {disk}\n{self.node.log.read_text()[-4000:]}"

    def _next_agent(self) -> None:
        self.deaths, self.moved, self.registered = self.deaths + 1, time.monotonic(), False
        self.node.start(**dying_after_each("berth_agent", self.last, WRITES))

    # -- the device ----------------------------------------------------------------------------------------------------

    def _describe(self, *broken: str) -> None:
        known: list[Obj] = [{"class": "accelerator", "uuid": uuid, "nodes": ["/dev/null"]} for uuid in DEVICES]
        found = [{**each, "problem": "it smokes"} if each["uuid"] in broken else each for each in known]
        part = self.descriptions / "part"
        part.write_text(yaml.safe_dump({"devices": found}))
        part.rename(self.descriptions / "all.yaml")

    def _published(self, *broken: str) -> bool:
        """Whether the LocalDevices are so, and those that are well, and no others, are in a slice."""
        found = {one["spec"]["uuid"]: one for one in self.node.local_devices()}
        if {uuid: status(one).get("phase") for uuid, one in found.items()} != {
            uuid: "Faulted" if uuid in broken else "Available" for uuid in DEVICES
        }:
            return False
        slices = self.node.api.list(kinds.RESOURCE_SLICE, fields=f"spec.nodeName={self.node.node},spec.driver={DRIVER}")
        given_out = [each["name"] for one in slices for each in one["spec"].get("devices") or ()]
        well = [one for uuid, one in found.items() if uuid not in broken]
        told = [uuid for uuid, one in found.items() if conditions_of(one).get("Published", ("", ""))[0] == "True"]
        names = sorted(slice_device_name(one["spec"]) for one in well)
        return sorted(given_out) == names and len(told) == len(well)

    # -- the disk ------------------------------------------------------------------------------------------------------

    def _patch(self, disk: Obj, **spec: Any) -> None:
        patch_disk(self.node.api, disk["metadata"]["name"], **spec)

    def _lock(self, disk: Obj) -> None:
        meta = {"name": f"b-{uuid4().hex[:6]}", "namespace": "default"}
        entry = {"claim": "data", "name": disk["metadata"]["name"], "size": 1}
        spec = {"app": "db", "ordinal": 0, "nodeName": self.node.node, "disks": [entry]}
        self.berth = self.node.api.create(kinds.BERTH, {**BERTH, "metadata": meta, "spec": spec})["metadata"]
        self.node.api.patch(kinds.BERTH, meta["name"], "default", {"status": {"phase": "Reserved"}}, "status")
        self.kept = {"namespace": "default", "app": "db", "ordinal": 0, "claim": "data", "dataUID": self.berth["uid"]}
        self._patch(disk, claimRef={**self.kept, "name": meta["name"], "uid": self.berth["uid"]})

    def _pull(self, disk: Obj) -> None:
        """The disk goes while a pod is on it. Nobody runs that pod: the agent asks the API server alone for it."""
        api, claim = self.node.api, f"data-{self.node.node}"
        of = {"namespace": "default", "name": claim, "uid": str(uuid4())}
        volume = {
            "capacity": {"storage": "1Mi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": of,
            "csi": {"driver": "test.berth.dev", "volumeHandle": claim},
        }
        self.volume = volume_of_lock(disk)
        api.create(kinds.PV, {"metadata": {"name": self.volume}, "spec": volume})
        pod = {
            "nodeName": self.node.node,
            "containers": [{"name": "main", "image": "none"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
        }
        api.create(kinds.POD, {"metadata": {"name": self.node.node, "namespace": "default"}, "spec": pod})
        self.node.pull("a")

    def _put_back(self, _disk: Obj) -> None:
        self.node.put_back("a")

    def _told(self) -> str:
        """What the pod is told of its disk: the reason."""
        pod = self.node.api.get(kinds.POD, self.node.node, "default")
        return conditions_of(pod).get("berth.dev/DiskHealthy", ("", ""))[1]

    def forget(self) -> None:
        """What is on the API server of this life, but for the node."""
        self.node.api.delete(kinds.POD, self.node.node, "default", grace=0)
        self.node.api.delete(kinds.PV, self.volume)
        self.node.api.delete(kinds.LEASE, f"berth-agent-{self.node.node}", NAMESPACE)

    def _use(self, disk: Obj) -> None:
        name = disk["metadata"]["name"]
        assert status(disk)["journal"]["lockUID"] == self.berth["uid"]
        uuid = self.node.here("blkid", "-p", "-o", "value", "-s", "UUID", self.node.devices["a"])
        assert uuid == filesystem_uuid(self.berth["uid"], name), "made once, for that lock"
        (self.node.point(name) / "data" / "file").write_text("precious")
        self._patch(disk, claimRef=None, retainedFor=self.kept)

    def _ask_wipe(self, disk: Obj) -> None:
        assert self.node.here("findmnt", "-rno", "SOURCE").split().count(self.node.devices["a"]) == 0
        assert b"precious" in self.node.file("a").read_bytes()
        wipe = {"requestID": "r1", "identity": disk["spec"]["identity"], "requestedBy": "ann", "method": "zero"}
        self._patch(disk, wipe=wipe)

    def _wiped(self, disk: Obj) -> None:
        last = status(disk)["lastWipe"]
        assert (last["requestID"], last["result"], last["bytes"]) == ("r1", "Succeeded", SIZE)
        assert {"claimRef", "retainedFor"}.isdisjoint(disk["spec"])
        assert not self.node.file("a").read_bytes().strip(b"\0")


def status(disk: Obj) -> Obj:
    return dict(disk.get("status") or {})


def journal(disk: Obj) -> str:
    return str((status(disk).get("journal") or {}).get("step") or "")


def lived(plane: Any, names: tuple[str, ...], folder: Path, last: Path) -> list[Life]:
    """Lives of that many nodes at once, to their end."""
    with ExitStack() as stack:
        nodes = [LocalNode(plane, folder / name, f"dies-{name}", {"a": {}}, SIZE) for name in names]
        for node in nodes:
            stack.callback(node.forget)
            stack.enter_context(node)
        # short paths: sockets bear no long ones
        kubelets = [Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="berth-"))) for _node in nodes]
        lives = [Life(node, last, kubelet) for node, kubelet in zip(nodes, kubelets, strict=True)]
        for life in lives:
            stack.callback(life.forget)
        while not all(life.over for life in lives):
            disks = {one["spec"]["identity"].get("serial", ""): one for one in nodes[0].api.list(kinds.LOCAL_DISK)}
            for life in lives:
                if not life.over:
                    life.look(disks)
            time.sleep(0.1)
        return lives


def test_an_agent_that_dies_after_any_write_is_continued(control_plane: Any, tmp_path: Path) -> None:
    """An agent writes several things at once. Where it dies of one of them, another may be done already, which is then
    nobody's last in this life; so there are more lives, until each write has been somebody's."""
    install_rights(control_plane)
    last, lives, missing = tmp_path / "last", [], list(EACH)
    for names in LIVES:
        lives += lived(control_plane, names, tmp_path, last)
        written = last.read_text()
        missing = [each for each in EACH if each not in written]
        if not missing:
            break
    print(written)
    assert missing == []
    # Events go out several at once, and nobody looks at an agent after a life's last write
    alone = {line for line in written.splitlines() if not line.startswith("create Event")}
    assert sum(life.deaths for life in lives) >= len(alone) - len(lives)
