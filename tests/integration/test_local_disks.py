"""The role local_disks on real hosts: from the inventory to mounted filesystems, over ssh; disks are pulled and broken.

Every test plugs disks of its own into one host and works under a node name of its own, so that it meets nobody else's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.fsid import filesystem_uuid
from tests.core.app.disk_samples import held, kept
from tests.dev.hosts_help import eventually, out, ssh
from tests.support.hosts import run_plays
from tests.support.kube import install_crds
from tests.support.playbook import Run

pytestmark = [pytest.mark.hosts, pytest.mark.slow]
HOST = "h2"


class Ground(NamedTuple):
    """One host with two blank disks, a node name, and how to run the role."""

    cluster: Any
    node: str
    disks: dict[str, dict[str, Any]]
    play: Callable[..., Run]

    def serial(self, name: str) -> str:
        return str(self.disks[name]["serial"])

    def here(self, command: str) -> str:
        return out(self.cluster, HOST, command)

    def objects(self) -> dict[str, dict[str, Any]]:
        """The LocalDisks of the node by serial number."""
        listed = self.cluster.kubectl("get", "ld", "-o", "json", "--field-selector", f"spec.nodeName={self.node}")
        return {each["spec"]["identity"]["serial"]: each for each in json.loads(listed)["items"]}

    def patch(self, name: str, **spec: Any) -> None:
        self.cluster.kubectl("patch", "ld", name, "--type", "merge", "-p", json.dumps({"spec": spec}))

    def adopt(self, *names: str) -> list[str]:
        """Declare these disks; the names of their LocalDisks."""
        self.play(berth_disks=[{"serial": self.serial(name)} for name in names]).ok()
        found = self.objects()
        return [found[self.serial(name)]["metadata"]["name"] for name in names]

    def phases(self) -> dict[str, str]:
        return {serial.rsplit("-", 1)[-1]: each["status"]["phase"] for serial, each in self.objects().items()}


@pytest.fixture
def ground(dev_cluster: Any, tmp_path: Path) -> Iterator[Ground]:
    install_crds(dev_cluster.kubeconfig)
    mark = uuid4().hex[:5]
    node, names = f"node-{mark}", [f"{letter}{mark}" for letter in "ab"]
    for name in names:
        dev_cluster.hosts.disk_add(HOST, name, "320Mi")
    disks = {disk["name"][0]: disk for disk in dev_cluster.hosts.disks(HOST) if disk["name"] in names}

    def play(*args: str, tasks_from: str = "main", environment: dict[str, str] | None = None, **values: Any) -> Run:
        whole = {"local_disks_kubeconfig": str(dev_cluster.kubeconfig), "local_disks_node_name": node, **values}
        role = {"name": "berth.stateful.local_disks", "tasks_from": tasks_from}
        tasks = [{"name": "role", "ansible.builtin.include_role": role}]
        plays = [
            {"hosts": HOST, "gather_facts": False, "environment": environment or {}, "vars": whole, "tasks": tasks}
        ]
        return run_plays(dev_cluster, plays, tmp_path, *args)

    yield Ground(dev_cluster, node, disks, play)
    listed = json.loads(dev_cluster.kubectl("get", "ld", "-o", "json", "--field-selector", f"spec.nodeName={node}"))
    for each in listed["items"]:
        point = f"/var/lib/berth/disks/{each['metadata']['name']}"
        ssh(dev_cluster, HOST, f"umount {point}; sed -i '/{each['metadata']['name']}/d' /etc/fstab", check=False)
        dev_cluster.kubectl("delete", "ld", each["metadata"]["name"])
    for disk in dev_cluster.hosts.disks(HOST):
        if disk["name"] in names:
            if disk["broken"]:
                dev_cluster.hosts.disk_heal(HOST, disk["name"])
            if disk["plugged"]:
                dev_cluster.hosts.disk_remove(HOST, disk["name"])


def changes(run: Run) -> bool:
    return any(task.result.get("changed") for task in run.tasks)


def test_from_the_inventory_to_localdisks_and_back(ground: Ground) -> None:
    inventory = {
        "berth_disks": [
            {"serial": ground.serial("a"), "size": "320Mi", "storage_class": "one", "labels": {"rack": "r1"}}
        ],
        "berth_disk_selectors": [
            {
                "query": f"[?serial == '{ground.serial('b')}' || is_system]",
                "storage_class": "two",
                "volume_mode": "Block",
            }
        ],
    }
    planned = ground.play("--check", "--diff", **inventory).ok()
    assert changes(planned)
    assert ground.objects() == {}
    assert "it carries the running system" in planned.output

    assert changes(ground.play(**inventory).ok())
    found = ground.objects()
    assert {serial: each["spec"]["storageClassName"] for serial, each in found.items()} == {
        ground.serial("a"): "one",
        ground.serial("b"): "two",
    }
    assert found[ground.serial("a")]["metadata"]["labels"] == {"rack": "r1"}
    assert set(ground.phases().values()) == {"Available"}
    versions = {serial: each["metadata"]["resourceVersion"] for serial, each in found.items()}

    again = ground.play(**inventory).ok()
    assert not changes(again)
    assert {serial: each["metadata"]["resourceVersion"] for serial, each in ground.objects().items()} == versions

    raw = found[ground.serial("b")]["metadata"]["name"]
    ground.patch(raw, claimRef=held())
    ground.play(tasks_from="prepare").ok()
    assert ground.objects()[ground.serial("b")]["status"]["phase"] == "Locked"
    device = ground.disks["b"]["device"]
    assert ssh(ground.cluster, HOST, f"blkid -p {device}", check=False).returncode == 2  # a raw disk stays raw
    ground.patch(raw, claimRef=None)

    ground.patch(found[ground.serial("a")]["metadata"]["name"], claimRef=held())
    kept_all = ground.play(berth_disks=[]).ok()
    assert "in no inventory entry" in kept_all.output
    assert set(ground.objects()) == set(found)
    pruned = ground.play(berth_disks=[], local_disks_prune=True).ok()
    assert "held by default/db-0" in pruned.output
    assert set(ground.objects()) == {ground.serial("a")}


def test_held_disks_become_filesystems_that_outlive_power_cuts(ground: Ground) -> None:
    types = {"a": "ext4", "b": "xfs"}
    inventory = {
        "berth_disks": [
            {"serial": ground.serial(letter), "fs_type": fs_type, "mount_options": ["noatime"]}
            for letter, fs_type in types.items()
        ]
    }
    ground.play(**inventory).ok()
    found = ground.objects()
    names = {letter: found[ground.serial(letter)]["metadata"]["name"] for letter in types}
    points = {letter: f"/var/lib/berth/disks/{name}" for letter, name in names.items()}
    assert not changes(ground.play(tasks_from="prepare").ok())  # nobody holds them: nothing is made

    for name in names.values():
        ground.patch(name, claimRef=held("u1", "u1"))
    assert changes(ground.play("--check", "--diff", tasks_from="prepare").ok())
    for disk in ground.disks.values():
        assert ssh(ground.cluster, HOST, f"blkid -p {disk['device']}", check=False).returncode == 2
    assert changes(ground.play(tasks_from="prepare").ok())
    for letter, fs_type in types.items():
        device, point = ground.disks[letter]["device"], points[letter]
        assert ground.here(f"blkid -p -o value -s UUID {device}") == filesystem_uuid("u1", names[letter])
        assert ground.here(f"findmnt -no FSTYPE,SOURCE {point}").split() == [fs_type, device]
        assert "noatime" in ground.here(f"findmnt -no OPTIONS {point}")
        assert ground.here(f"stat -c %a {point}/data /var/lib/berth/disks").split() == ["777", "700"]
        ground.here(f"echo precious > {point}/data/file; sync")
    assert set(ground.phases().values()) == {"InUse"}
    assert not changes(ground.play(tasks_from="prepare").ok())
    assert not changes(ground.play(**inventory).ok())

    ground.cluster.hosts.power_off(HOST)
    ground.cluster.hosts.power_on(HOST)
    for point in points.values():
        eventually(
            lambda at=point: ground.here(f"cat {at}/data/file") == "precious", 60, "the mount after the power cut"
        )

    for name in names.values():
        ground.patch(name, claimRef=None, retainedFor=kept("u1"))
    assert changes(ground.play(tasks_from="unmount").ok())
    assert not changes(ground.play(tasks_from="unmount").ok())
    assert "x-berth" not in ground.here("cat /etc/fstab")
    assert set(ground.phases().values()) == {"Released"}
    for name in names.values():  # the replica returns: another berth, the same data
        ground.patch(name, retainedFor=None, claimRef=held("u2", "u1"))
    assert changes(ground.play(tasks_from="prepare").ok())
    for point in points.values():
        assert ground.here(f"cat {point}/data/file") == "precious"


def failed_item(run: Run) -> str:
    """The message of the disk that failed, of the task that goes through all disks."""
    (item,) = [each for each in run.failed()["results"] if each.get("failed")]
    return str(item["msg"])


def refused(ground: Ground, words: str) -> None:
    """prepare fails with these words, in one line, and nothing was written to any disk."""
    devices = [disk["device"] for disk in ground.disks.values()]
    before = [ground.here(f"sha256sum < {device}") for device in devices]
    message = failed_item(ground.play(tasks_from="prepare"))
    assert words in message, message
    assert "\n" not in message
    assert [ground.here(f"sha256sum < {device}") for device in devices] == before


def put_partition_table(ground: Ground, device: str) -> None:
    """A table of the old kind with one partition, as an installer leaves it."""
    table = "bytes(450) + b'\\x83' + bytes(3) + (2048).to_bytes(4, 'little') * 2 + bytes(48) + b'\\x55\\xaa'"
    ground.here(f"python3 -c \"open('{device}', 'r+b').write({table})\"")


def test_nothing_is_ever_formatted_by_mistake(ground: Ground) -> None:
    (name,) = ground.adopt("a")
    device = ground.disks["a"]["device"]
    ground.patch(name, claimRef=held("u2", "u1"))
    refused(ground, "should carry the data of default/db-0")

    ground.patch(name, claimRef=None)
    ground.patch(name, claimRef=held("u1", "u1"))
    ground.here(f"mkfs.ext4 -q {device}")
    refused(ground, "carries ext4")
    assert ground.objects()[ground.serial("a")]["spec"]["claimRef"] == held("u1", "u1")

    point = "/mnt/elsewhere"
    ground.here(f"mkdir -p {point}; mount -o ro,noload {device} {point}")
    refused(ground, "is mounted at /mnt/elsewhere")
    ground.here(f"umount {point}; wipefs -qa {device}")
    put_partition_table(ground, device)
    refused(ground, "carries a partition table (dos)")

    ground.here(f"wipefs -qa {device}")
    hold = f"python3 -c \"import os,time; os.open('{device}', os.O_RDWR | os.O_EXCL); time.sleep(60)\""
    ground.here(f"nohup {hold} >/dev/null 2>&1 & echo $! > /tmp/holder; sleep 1")
    refused(ground, "is used by somebody else")
    ground.here("kill $(cat /tmp/holder)")
    eventually(lambda: not changes(ground.play(tasks_from="prepare").ok()), 30, "prepare, when all is in order")


def test_a_disk_that_breaks_under_its_lock_is_refused(ground: Ground) -> None:
    (name,) = ground.adopt("a")
    ground.patch(name, claimRef=held())
    ground.cluster.hosts.disk_break(HOST, ground.disks["a"]["name"])
    message = failed_item(ground.play(tasks_from="prepare"))
    assert "faulted" in message
    assert "Input/output error" in message
    ground.cluster.hosts.disk_heal(HOST, ground.disks["a"]["name"])
    ground.play(tasks_from="prepare").ok()


def test_a_disk_that_was_swapped_under_its_lock_is_refused(ground: Ground) -> None:
    (name,) = ground.adopt("a")
    ground.patch(name, claimRef=held())
    ground.cluster.hosts.disk_remove(HOST, ground.disks["a"]["name"])
    message = failed_item(ground.play(tasks_from="prepare"))
    assert f"no disk of this host is wwn {ground.disks['a']['wwn']}, serial {ground.serial('a')}" in message
    assert ground.serial("b") in message
    ground.cluster.hosts.disk_add(HOST, ground.disks["a"]["name"])


def test_pulled_and_broken_disks_are_seen_and_come_back(ground: Ground) -> None:
    inventory = {"berth_disks": [{"serial": ground.serial(letter)} for letter in "ab"]}
    ground.play(**inventory).ok()
    one, two = (ground.disks[letter]["name"] for letter in "ab")
    ground.play(tasks_from="drift", **inventory).ok()

    ground.cluster.hosts.disk_remove(HOST, one)
    ground.cluster.hosts.disk_break(HOST, two)
    drift = ground.play(tasks_from="drift", **inventory).failed()
    assert "missing: LocalDisk" in drift["msg"]
    assert "is not in the node" in drift["msg"]
    assert "it is faulted" in drift["msg"]
    assert ground.phases() == {one: "Available", two: "Available"}  # looking at drift changes nothing
    ground.play(**inventory).ok()
    assert ground.phases() == {one: "Missing", two: "Faulted"}
    assert not changes(ground.play(**inventory).ok())

    ground.cluster.hosts.disk_add(HOST, one)
    ground.cluster.hosts.disk_heal(HOST, two)
    assert changes(ground.play(tasks_from="observe").ok())
    assert ground.phases() == {one: "Available", two: "Available"}


def test_two_disks_with_one_serial_number_are_refused_with_the_list(ground: Ground) -> None:
    """As bad firmware does it: both disks report the same serial number and WWN."""
    numbers = [disk["device"].removeprefix("/dev/loop") for disk in ground.disks.values()]
    records = [f"/run/udev/data/b7:{number}" for number in numbers]
    ground.here(f"cp {records[1]} /tmp/udev.true; cp {records[0]} {records[1]}")
    for inventory in (
        {"berth_disks": [{"serial": ground.serial("a"), "storage_class": "one"}]},
        {"berth_disks": [{"model": "BERTH_DEV_DISK", "size": "320Mi"}]},
    ):
        failed = ground.play(**inventory).failed()
        assert all(disk["device"] in failed["msg"] for disk in ground.disks.values()), failed["msg"]
    selected = ground.play(berth_disk_selectors=[{"query": f"[?serial == '{ground.serial('a')}']"}]).ok()
    assert "2 disks carry it" in selected.output
    assert ground.objects() == {}
    ground.here(f"cp /tmp/udev.true {records[1]}")


def test_the_systems_disk_is_refused_even_by_name_and_may_be_recorded_as_reserved(ground: Ground) -> None:
    devices = json.loads(ground.here("lsblk --json -o NAME,SERIAL,MOUNTPOINTS"))["blockdevices"]
    serial = next(each["serial"] for each in devices if "/" in each["mountpoints"])
    failed = ground.play(berth_disks=[{"serial": serial}]).failed()
    assert "it carries the running system" in failed["msg"]
    assert ground.objects() == {}
    ground.play(berth_disks=[{"serial": serial, "reserved": True}]).ok()
    system = ground.objects()[serial]
    assert (system["spec"]["reserved"], system["status"]["phase"]) == (True, "Pending")


def kill_mkfs_at(ground: Ground, fs_type: str, write: int) -> str:
    """A folder for PATH in which mkfs is the real one, killed at its n-th write."""
    folder = f"/root/killed-{fs_type}-{write}"
    real = ground.here(f"command -v mkfs.{fs_type}")
    inject = f"strace -f -o /dev/null -e trace=pwrite64 -e inject=pwrite64:signal=KILL:when={write} {real}"
    ground.here(
        f"mkdir -p {folder}; printf '#!/bin/sh\\nexec {inject} \"$@\"\\n' > {folder}/mkfs.{fs_type}; "
        f"chmod 755 {folder}/mkfs.{fs_type}"
    )
    return f"{folder}:/usr/sbin:/usr/bin:/sbin:/bin"


@pytest.mark.parametrize(("fs_type", "write", "signature"), [("xfs", 30, "xfs"), ("xfs", 1, ""), ("ext4", 100, "")])
def test_a_mkfs_that_was_killed_half_way_is_done_once_more(
    ground: Ground, fs_type: str, write: int, signature: str
) -> None:
    ground.play(berth_disks=[{"serial": ground.serial("a"), "fs_type": fs_type}]).ok()
    name = ground.objects()[ground.serial("a")]["metadata"]["name"]
    device = ground.disks["a"]["device"]
    ground.patch(name, claimRef=held("u1", "u1"))
    path = kill_mkfs_at(ground, fs_type, write)
    failed = ground.play(tasks_from="prepare", environment={"PATH": path})
    assert "filesystem could be made" in failed_item(failed)
    assert ssh(ground.cluster, HOST, f"blkid -p -o value -s TYPE {device}", check=False).stdout.strip() == signature
    ground.play(tasks_from="prepare").ok()
    assert ground.here(f"findmnt -no FSTYPE,UUID /var/lib/berth/disks/{name}").split() == [
        fs_type,
        filesystem_uuid("u1", name),
    ]
    assert not changes(ground.play(tasks_from="prepare").ok())


def play_drift(ground: Ground, folder: Path, declared: list[dict[str, Any]]) -> Run:
    """The playbook that is shipped, as a user calls it."""
    values = {
        "berth_target": HOST,
        "local_disks_kubeconfig": str(ground.cluster.kubeconfig),
        "local_disks_node_name": ground.node,
        "berth_disks": declared,
    }
    play = {"ansible.builtin.import_playbook": "berth.stateful.drift"}
    (folder / "values.json").write_text(json.dumps(values))
    return run_plays(ground.cluster, [play], folder, "-e", f"@{folder / 'values.json'}")


def test_the_drift_playbook_tells_every_difference_and_ends_with_it(ground: Ground, tmp_path: Path) -> None:
    declared = [{"serial": ground.serial(letter), "storage_class": "fast"} for letter in "ab"]
    ground.play(berth_disks=declared).ok()
    name, pulled = (ground.objects()[ground.serial(letter)]["metadata"]["name"] for letter in "ab")
    clean = play_drift(ground, tmp_path, declared).ok()
    assert "as declared" in clean.output
    assert not changes(clean)

    path = ground.disks["a"]["device"]
    ground.here(f"mkfs.ext4 -q -F {path} && mkdir -p /run/elsewhere && mount {path} /run/elsewhere")
    ground.cluster.hosts.disk_remove(HOST, ground.disks["b"]["name"])
    spec = {"nodeName": ground.node, "identity": {"serial": f"X-{ground.node}", "size": 4096}}
    extra = {"apiVersion": "berth.dev/v1alpha1", "kind": "LocalDisk", "metadata": {"name": f"{ground.node}-x"}}
    ground.cluster.kubectl("apply", "-f", "-", stdin=json.dumps({**extra, "spec": spec}))
    before = ground.objects()
    try:
        run = play_drift(ground, tmp_path, [{**declared[0], "storage_class": "slow"}, declared[1]])
        told = run.failed()["msg"]
    finally:
        ground.here("umount /run/elsewhere")
    assert run.rc != 0
    for words in (
        f"missing: LocalDisk {pulled}",
        f"extra: LocalDisk {ground.node}-x",
        f"changed: LocalDisk {name}",
        f"unexpected_filesystem: LocalDisk {name}",
        f"held_elsewhere: LocalDisk {name}",
        "storage_class is fast, declared slow",
        "/run/elsewhere",
    ):
        assert words in told, told
    for line in ("--- declared", "+++ observed", "-  storage_class: slow", "+  storage_class: fast"):
        assert line in run.output, run.output
    assert ground.objects() == before  # looking changes nothing
