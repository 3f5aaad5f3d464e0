"""The ground of the other tests of disks, with the virtual machine as its host: NVMe and SCSI disks and a real udev.

The machine is a Node without a kubelet: pods on it are objects, and what the agent tells them can be read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_core.app.manifests import volume_name
from berth_dev.qemu import Vm
from tests.daemons.agent.disk_ground import NAMESPACE, ROOT, Ground
from tests.daemons.vm.service import SECONDS, VmAgent
from tests.dev.hosts_help import eventually
from tests.support.kube import forget_disks, install_crds

CONDITION = "berth.dev/DiskHealthy"
#: the disk of the replica that lives through all tests
HELD = "n1"
FILESYSTEMS = {"n0": "xfs", "n1": "ext4", "s0": "ext4", "s1": "xfs"}


class Replica(NamedTuple):
    """``lock``: the claimRef of its disk; ``pod``: its pod's name."""

    lock: dict[str, Any]
    pod: str


class Kept(NamedTuple):
    """A replica whose data must stay as it is."""

    ground: VmGround
    name: str
    lock: dict[str, Any]
    pod: str
    checksum: str

    def check(self) -> None:
        """It is InUse on its own disk, and its bytes are the same."""
        self.ground.wait_mounted(self.name, self.lock)
        assert self.ground.read(self.name) == self.checksum


class VmGround(Ground):
    """One node of the cluster: the virtual machine."""

    patience = SECONDS

    def __init__(self, cluster: Any, vm: Vm, folder: Path) -> None:
        super().__init__(cluster, vm.spec.name)
        self.vm, self.agent = vm, VmAgent(cluster, vm, folder)
        self.made: list[tuple[str, str]] = []

    def begin(self) -> None:
        """The Node, the custom resources, and the agent."""
        install_crds(self.cluster.kubeconfig)
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.host}}
        self.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(node))
        for disk in self.vm.spec.disks:
            self._know(disk.name)
        self.agent.install(
            berth_disks=[{"serial": self.plugged[name]["serial"], "fs_type": fs} for name, fs in FILESYSTEMS.items()],
            # Disks that tests plug in, and that nobody can tell from each other.
            berth_disk_selectors=[{"query": "[?model == 'VIRTUAL SSD' && size < `100000000`]"}],
            node_agent_intervals={"poll": 30, "debounce": 0.1, "health": 10, "smart": 15, "wipe_progress": 1},
            node_agent_policies={"devices": False},
            node_agent_metrics={"port": 0},
            node_agent_usage={"store": "none"},
        )
        self.agent.wait_ready(SECONDS)

    def run_agent(self) -> None:
        """Start it, and wait until all is published."""
        self.agent.start()
        self.agent.wait_ready(SECONDS)

    # -- disks -----------------------------------------------------------------------------------------------------

    def _know(self, name: str) -> None:
        disk = self.vm.disks.get(name)
        self.plugged[name] = {"name": name, "serial": disk.serial}

    def devices(self, column: str, value: str) -> list[str]:
        """The devices of which lsblk says so, by kernel name."""
        rows = (line.split() for line in self.agent.here(f"lsblk -bdpno NAME,{column}").splitlines())
        return sorted(row[0] for row in rows if row[1:] == [value])

    def device_of(self, serial: str) -> str:
        """The kernel name of a disk that may just have been plugged in."""
        return str(eventually(lambda: self.devices("SERIAL", serial), SECONDS, f"disk {serial}")[0])

    def device(self, name: str) -> str:
        return self.device_of(self.plugged[name]["serial"])

    def discard(self, *names: str) -> None:
        """Disks that a test has added go for good, however far it came."""
        for name in names:
            here = next((disk for disk in self.vm.spec.disks if disk.name == name), None)
            if here is not None and here.plugged:
                self.vm.disks.pull(name)
            if here is not None:
                self.vm.disks.discard(name)

    def plug_all(self) -> None:
        """Every disk of the machine is in it."""
        for disk in self.vm.spec.disks:
            if not disk.plugged:
                self.vm.disks.plug(disk.name)

    def heal(self) -> None:
        """Every disk is well and in the machine, whatever a test has done to it."""
        for disk in self.vm.spec.disks:
            self.vm.disks.errors(disk.name, "none")
            if disk.bus == "nvme":
                self.vm.disks.smart(disk.name, 0)
        self.plug_all()

    def refused(self, word: str) -> str:
        """What the agent says that it refuses of its configuration, if that word is in it."""
        found = self.agent.conditions().get("DisksDeclared") or {}
        words = str(found.get("message") or "") if found.get("status") == "False" else ""
        return words if word in words else ""

    def pull(self, name: str) -> None:
        self.vm.disks.pull(name)

    def put_back(self, name: str) -> None:
        self.vm.disks.plug(name)

    def wait_renewed(self, before: str) -> None:
        """Until the agent's Lease has been renewed again."""
        eventually(lambda: self.agent.lease()["spec"]["renewTime"] != before, SECONDS, "the Lease renewed")

    # -- replicas ----------------------------------------------------------------------------------------------------

    def replicas(self, names: Iterable[str]) -> dict[str, Replica]:
        """A berth on each disk, its volume, claim and pod; the disks are mounted."""
        made = {}
        for name in names:
            lock = self.lock(name)
            made[name] = Replica(lock, self._pod_on(self.object_name(name), lock))
        for name, replica in made.items():
            self.wait_mounted(name, replica.lock)
        return made

    def keep(self, name: str) -> Kept:
        """A replica with data, whose checksum can be asked for."""
        replica = self.replicas([name])[name]
        return Kept(self, name, replica.lock, replica.pod, self.write(name))

    def _pod_on(self, disk: str, lock: dict[str, Any]) -> str:
        pod, capacity, modes = f"p-{lock['name']}", {"storage": "1Mi"}, ["ReadWriteOnce"]
        term = {"key": "kubernetes.io/hostname", "operator": "In", "values": [self.host]}
        volume = {
            "capacity": capacity,
            "accessModes": modes,
            "local": {"path": f"{ROOT}/{disk}/data"},  # as releases before made them: such volumes go on for ever
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}},
            "claimRef": {"namespace": NAMESPACE, "name": pod},
        }
        claim = {"storageClassName": "", "accessModes": modes, "resources": {"requests": capacity}}
        spec = {
            "nodeName": self.host,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "image": "berth.local/pause:1"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": pod}}],
        }
        self._create("PersistentVolume", volume_name(disk, lock["uid"]), volume)
        self._create("PersistentVolumeClaim", pod, {**claim, "volumeName": volume_name(disk, lock["uid"])})
        self._create("Pod", pod, spec)
        return pod

    def _create(self, kind: str, name: str, spec: dict[str, Any]) -> None:
        meta = {"name": name, **({"namespace": NAMESPACE} if kind != "PersistentVolume" else {})}
        body = {"apiVersion": "v1", "kind": kind, "metadata": meta, "spec": spec}
        self.cluster.kubectl("create", "-f", "-", stdin=json.dumps(body))
        self.made.append((kind.lower(), name))

    def wait_told(self, pod: str, status: str, reason: str) -> None:
        """Until the pod's condition says so; an empty reason is any."""

        def told() -> bool:
            found = self.agent.api.get(kinds.POD, pod, NAMESPACE)
            given = {each["type"]: each for each in found["status"].get("conditions") or ()}.get(CONDITION, {})
            return given.get("status") == status and reason in ("", given.get("reason"))

        eventually(told, SECONDS, f"pod told {status} {reason}")

    def wait_event(self, pod: str, reason: str) -> None:
        """Until there is an Event of the pod with that reason."""

        def told() -> bool:
            events = self.agent.api.list(kinds.EVENT, NAMESPACE)
            return any((one["regarding"]["name"], one["reason"]) == (pod, reason) for one in events)

        eventually(told, SECONDS, f"Event {reason}")

    def write(self, name: str) -> str:
        """A megabyte on the mounted disk, safely there; its checksum."""
        file = f"{self.point(name)}/data/file"
        return self.agent.here(f"head -c 1M /dev/urandom > {file} && sync {file} && sha256sum < {file}")

    def read(self, name: str) -> str:
        """The checksum of what is there, read from the disk itself."""
        return self.agent.here(f"echo 3 > /proc/sys/vm/drop_caches; sha256sum < {self.point(name)}/data/file")

    def give_back(self, locks: dict[str, dict[str, Any]]) -> None:
        """The replicas go, and their disks are as before: asked for by name, wiped, Available, and read as blank."""
        for name, lock in locks.items():
            self._delete_made(lock["name"])
            self.release(name, lock)
        for name in locks:
            self.wait(name, "unmounted", lambda disk: disk["status"]["journal"]["step"] == "Unmounted")
            assert not self.agent.here(f"findmnt -no TARGET {self.device(name)}", check=False)
        asked = {name: self.ask_wipe(name, "signatures") for name in locks}
        for name, request in asked.items():
            done = self.wait_phase(name, "Available")["status"]["lastWipe"]
            assert (done["requestID"], done["result"], done["requestedBy"]) == (request, "Succeeded", "ann")
            assert not self.agent.here(f"wipefs --noheadings {self.device(name)}")

    def _delete_made(self, berth: str = "") -> None:
        """What was made for a berth, or everything."""
        quickly = ("--ignore-not-found", "--wait=false", "--grace-period=0", "--force")
        for kind, name in reversed([each for each in self.made if each[1].endswith(berth) or not berth]):
            self.cluster.kubectl("delete", kind, name, *quickly)
            self.made.remove((kind, name))

    # -- the end ---------------------------------------------------------------------------------------------------

    def clean(self) -> None:
        """The machine as it was, whatever happened."""
        self.vm.power_on()
        self._delete_made()
        self.agent.stop()
        for each in self.agent.disks().values():
            name = each["metadata"]["name"]
            self.agent.here(f"umount -l {ROOT}/{name} 2>/dev/null; rmdir {ROOT}/{name} 2>/dev/null", check=False)
            forget_disks(self.agent.api, name)
        for which in self.berths:
            self.cluster.kubectl("delete", "berths.berth.dev", which, "--ignore-not-found")
        self._mend_disks()
        self.cluster.kubectl("delete", "node", self.host, "--ignore-not-found")
        self.agent.clean()

    def _mend_disks(self) -> None:
        """All of them are well, in their own bays, and blank."""
        disks = self.vm.disks
        for one, other in (("n0", "n1"), ("s0", "s1")):
            if disks.get(one).bay > disks.get(other).bay:
                for name in (one, other):
                    if disks.get(name).plugged:
                        disks.pull(name)
                disks.swap(one, other)
        self.heal()
        self.agent.here(
            "udevadm settle; for disk in /dev/sd? /dev/nvme?n?; do wipefs -aq $disk; blkdiscard -fz $disk; done",
            check=False,
        )
