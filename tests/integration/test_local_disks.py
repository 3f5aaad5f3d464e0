"""The role local_disks on real hosts: from the inventory to mounted filesystems, over ssh; disks are pulled and broken.

Every test plugs disks of its own into one host and works under a node name of its own, so that it meets nobody else's.
Which disk is adopted, kept or refused is decided by pure functions, and their tests hold the matrix (tests/core/app:
test_disk_plan, test_identity, test_fs_plan, test_drift, test_disk_status). Here is what real disks can do to them. What
can lie side by side on several disks of a host does: a play costs more than the disks.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.app.fsid import filesystem_uuid, namespace_link
from tests.core.app.disk_samples import held, kept
from tests.dev.hosts_help import eventually, out, ssh
from tests.support import berths
from tests.support.hosts import run_plays
from tests.support.kube import client_for, disks_of, forget_disks, install_crds, patch_disk
from tests.support.playbook import Run, Task

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.timeout(900)]
HOST = "h2"
Step = tuple[str, dict[str, Any]]  # a part of the role (tasks_from), variables


class Ground:
    """One host with blank disks, a node name, and how to run the role."""

    def __init__(self, cluster: Any, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.mark = uuid4().hex[:5]
        self.node = f"node-{self.mark}"
        self.disks: dict[str, dict[str, Any]] = {}
        self.berths: list[str] = []
        self.api = client_for(cluster.kubeconfig)

    def plug(self, letters: str, size: str = "320Mi") -> None:
        for letter in letters:
            self.cluster.hosts.disk_add(HOST, f"{letter}{self.mark}", size)
        found = {each["name"]: each for each in self.cluster.hosts.disks(HOST)}
        self.disks.update({letter: found[f"{letter}{self.mark}"] for letter in letters})

    def serial(self, letter: str) -> str:
        return str(self.disks[letter]["serial"])

    def devices(self, letters: str) -> list[str]:
        return [str(self.disks[letter]["device"]) for letter in letters]

    def here(self, command: str) -> str:
        return out(self.cluster, HOST, command)

    def checksums(self, letters: str) -> list[str]:
        return self.here(f"sha256sum {' '.join(self.devices(letters))}").splitlines()

    def signatures(self, letters: str) -> list[str]:
        """What each disk carries by its first bytes; empty: nothing."""
        probed = (f"echo $(blkid -p -o value -s TYPE {device})" for device in self.devices(letters))
        return ssh(self.cluster, HOST, "; ".join(probed)).stdout.splitlines()

    # -- the role --------------------------------------------------------------------------------------------------

    def play(self, tasks_from: str = "main", *args: str, **values: Any) -> Run:
        return self.steps((tasks_from, values), args=args)[0]

    def steps(self, *steps: Step, args: tuple[str, ...] = (), environment: dict[str, str] | None = None) -> list[Run]:
        """One run of Ansible in which the role is called several times; a Run for each, all with the whole output."""
        whole = {"local_disks_kubeconfig": str(self.cluster.kubeconfig), "local_disks_node_name": self.node}
        tasks: list[dict[str, Any]] = []
        for tasks_from, values in steps:
            role = {"name": "berth.stateful.local_disks", "tasks_from": tasks_from}
            tasks.append({"name": "a step begins", "ansible.builtin.debug": {"msg": tasks_from}})
            tasks.append({"name": "role", "ansible.builtin.include_role": role, "vars": values})
        play = {"hosts": HOST, "gather_facts": False, "environment": environment or {}, "vars": whole, "tasks": tasks}
        run = run_plays(self.cluster, [play], self.folder, *args)
        parts: list[list[Task]] = []
        for task in run.tasks:
            if task.name == "a step begins":
                parts.append([])
            parts[-1].append(task)
        assert parts, run.output
        return [Run(run.rc, run.output, part) for part in parts]

    def adopt(self, letters: str, **values: Any) -> dict[str, str]:
        """Declare these disks; the names of their LocalDisks."""
        self.play(berth_disks=[{"serial": self.serial(letter), **values.get(letter, {})} for letter in letters]).ok()
        return self.names(letters)

    # -- what the API server has -----------------------------------------------------------------------------------

    def objects(self) -> dict[str, dict[str, Any]]:
        """The LocalDisks of the node by serial number."""
        return {disk["spec"]["identity"]["serial"]: disk for disk in disks_of(self.api, self.node)}

    def names(self, letters: str) -> dict[str, str]:
        found = self.objects()
        return {letter: found[self.serial(letter)]["metadata"]["name"] for letter in letters}

    def phases(self) -> dict[str, str]:
        return {serial.rsplit("-", 1)[-1]: each["status"]["phase"] for serial, each in self.objects().items()}

    def patch(self, name: str, **spec: Any) -> None:
        patch_disk(self.api, name, **spec)

    def lock(self, name: str, data_uid: str = "") -> dict[str, Any]:
        """The disk is held by a new Berth, which may have come for data that is there."""
        lock = berths.lock_of_new(self.api, self.node, name, data_uid=data_uid)
        self.berths.append(lock["name"])
        self.patch(name, claimRef=None)
        self.patch(name, claimRef=lock)
        return lock

    # -- the end ---------------------------------------------------------------------------------------------------

    def clean(self) -> None:
        names = [each["metadata"]["name"] for each in self.objects().values()]
        for name in names:
            undo = f"umount /var/lib/berth/disks/{name}; sed -i '/{name}/d' /etc/fstab"
            ssh(self.cluster, HOST, undo, check=False)
        forget_disks(self.api, *names)
        if self.berths:
            self.cluster.kubectl("delete", "berths.berth.dev", *self.berths)
        mine = {f"{letter}{self.mark}" for letter in self.disks}
        for disk in self.cluster.hosts.disks(HOST):
            if disk["name"] in mine:
                if disk["broken"]:
                    self.cluster.hosts.disk_heal(HOST, disk["name"])
                if disk["plugged"]:
                    self.cluster.hosts.disk_remove(HOST, disk["name"])


@pytest.fixture
def ground(dev_cluster: Any, tmp_path: Path) -> Iterator[Ground]:
    install_crds(dev_cluster.kubeconfig)
    it = Ground(dev_cluster, tmp_path)
    try:
        yield it
    finally:
        it.clean()


def changes(run: Run) -> bool:
    return any(task.result.get("changed") for task in run.tasks)


def done(run: Run, name: str) -> list[Task]:
    """The tasks of that name that were not skipped."""
    return [task for task in run.tasks if task.name.endswith(name) and task.kind != "skipped"]


def test_from_the_inventory_to_localdisks_and_back(ground: Ground) -> None:
    ground.plug("ab", "96Mi")
    inventory = {
        "berth_disks": [
            {"serial": ground.serial("a"), "size": "96Mi", "storage_class": "one", "labels": {"rack": "r1"}}
        ],
        "berth_disk_selectors": [
            {
                "query": f"[?serial == '{ground.serial('b')}' || is_system]",
                "storage_class": "two",
                "volume_mode": "Block",
            }
        ],
    }
    planned = ground.play("main", "--check", "--diff", **inventory).ok()
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
    version = found[ground.serial("a")]["metadata"]["resourceVersion"]

    raw = ground.names("b")["b"]
    ground.lock(raw)
    _prepared, again = ground.steps(("prepare", {}), ("main", inventory))
    assert not changes(again.ok())
    assert ground.objects()[ground.serial("a")]["metadata"]["resourceVersion"] == version, "nor is anything written"
    assert ground.objects()[ground.serial("b")]["status"]["phase"] == "Locked"
    assert ground.signatures("b") == [""]  # a raw disk stays raw
    ground.patch(raw, claimRef=None)

    lock = ground.lock(found[ground.serial("a")]["metadata"]["name"])
    prune = {"berth_disks": [], "local_disks_prune": True}
    kept_all, pruned = ground.steps(("main", {"berth_disks": []}), ("main", prune))
    assert "in no inventory entry" in kept_all.ok().output
    assert not done(kept_all, "Delete what is declared no more")
    assert f"held by default/{lock['name']}" in pruned.output
    (deleted,) = done(pruned, "Delete what is declared no more")
    assert deleted.result["changed"]
    assert set(ground.objects()) == {ground.serial("a")}


@pytest.mark.promise
def test_held_disks_become_filesystems_that_outlive_power_cuts(ground: Ground) -> None:
    ground.plug("ab")
    types = {"a": "ext4", "b": "xfs"}
    inventory = {
        "berth_disks": [
            {"serial": ground.serial(letter), "fs_type": fs_type, "mount_options": ["noatime"]}
            for letter, fs_type in types.items()
        ]
    }
    _adopted, unheld = ground.steps(("main", inventory), ("prepare", {}))
    assert not changes(unheld.ok())  # nobody holds them: nothing is made
    names = ground.names("ab")
    points = {letter: f"/var/lib/berth/disks/{name}" for letter, name in names.items()}
    links = [namespace_link(name, held()["namespace"]) for name in names.values()]

    locks = {letter: ground.lock(name) for letter, name in names.items()}
    assert changes(ground.play("prepare", "--check", "--diff").ok())
    assert ground.signatures("ab") == ["", ""]
    made, *again = ground.steps(("prepare", {}), ("prepare", {}), ("main", inventory))
    assert [changes(run.ok()) for run in (made, *again)] == [True, False, False]
    for letter, fs_type in types.items():
        device, point = ground.disks[letter]["device"], points[letter]
        assert ground.here(f"blkid -p -o value -s UUID {device}") == filesystem_uuid(
            locks[letter]["uid"], names[letter]
        )
        assert ground.here(f"findmnt -no FSTYPE,SOURCE {point}").split() == [fs_type, device]
        assert "noatime" in ground.here(f"findmnt -no OPTIONS {point}")
        assert ground.here(f"stat -c %a {point}/data /var/lib/berth/disks").split() == ["777", "700"]
        # as a PostgreSQL does that has its data at the volume's root, and refuses to start when that has changed
        ground.here(f"echo precious > {point}/data/file; chown 26:26 {point}/data; chmod 0700 {point}/data; sync")
    assert set(ground.phases().values()) == {"InUse"}

    ground.cluster.hosts.power_off(HOST)
    ground.cluster.hosts.power_on(HOST)
    for point in [*(f"{point}/data" for point in points.values()), *links]:
        eventually(lambda at=point: ground.here(f"cat {at}/file") == "precious", 60, "the mount after the power cut")
    assert not any(changes(run.ok()) for run in ground.steps(("prepare", {})))

    for letter, name in names.items():
        ground.patch(name, claimRef=None, retainedFor=kept(locks[letter]["uid"]))
    unmounted = ground.steps(("unmount", {}), ("unmount", {}))
    assert [changes(run.ok()) for run in unmounted] == [True, False]
    assert "x-berth" not in ground.here("cat /etc/fstab")
    assert ground.here(f"ls -d {' '.join(links)} 2>/dev/null || true") == ""
    assert set(ground.phases().values()) == {"Released"}
    for letter, name in names.items():  # the replica returns: another berth, the same data
        ground.patch(name, retainedFor=None)
        ground.lock(name, locks[letter]["uid"])
    assert changes(ground.play("prepare").ok())
    for point in points.values():
        assert ground.here(f"cat {point}/data/file") == "precious"
        assert ground.here(f"stat -c %a:%u {point}/data") == "700:26"


def failures(run: Run, names: dict[str, str]) -> dict[str, str]:
    """letter -> the message of the disk that failed, of the task that goes through all disks."""
    items = {each["local_disks_one"]["metadata"]["name"]: each for each in run.failed()["results"]}
    told = {letter: str(items[name]["msg"]) for letter, name in names.items() if items[name].get("failed")}
    assert not [text for text in told.values() if "\n" in text], told
    return told


def put_partition_table(ground: Ground, device: str) -> None:
    """A table of the old kind with one partition, as an installer leaves it."""
    table = "bytes(450) + b'\\x83' + bytes(3) + (2048).to_bytes(4, 'little') * 2 + bytes(48) + b'\\x55\\xaa'"
    ground.here(f"python3 -c \"open('{device}', 'r+b').write({table})\"")


def hold_open(device: str) -> str:
    """A shell command that leaves a process with the device open for itself; its pid is in /tmp/holder."""
    said = "/tmp/holder"
    code = (
        f"import os, time; os.open('{device}', os.O_RDWR | os.O_EXCL); print(os.getpid(), flush=True); time.sleep(600)"
    )
    started = f'rm -f {said}; nohup python3 -c "{code}" >{said} 2>&1 & '
    return f"{started} for i in $(seq 100); do [ -s {said} ] && exit 0; sleep .1; done; exit 1"


#: Why a disk is refused, each a disk of its own; g is in order.
REFUSED = {
    "a": "should carry the data of default/db-0",
    "b": "carries ext4",
    "c": "is mounted at /mnt/elsewhere",
    "d": "carries a partition table (dos)",
    "e": "is used by somebody else",
    "f": "faulted",
    "h": "no disk of this host is wwn",
    "i": "there is no such berth",
}


@pytest.mark.promise
def test_nothing_is_ever_formatted_by_mistake(ground: Ground) -> None:
    """Every disk of the host but one is refused, for a reason of its own; the one beside them is made ready."""
    ground.plug("abcdefghi", "96Mi")
    names = ground.adopt("abcdefghi")
    given = {letter: name for letter, name in names.items() if letter != "i"}
    locks = {letter: ground.lock(name, "u1" if letter == "a" else "") for letter, name in given.items()}
    locks["i"] = held()
    ground.patch(names["i"], claimRef=locks["i"])
    path = {letter: str(disk["device"]) for letter, disk in ground.disks.items()}
    ground.here(f"mkfs.ext4 -q {path['b']}; mkfs.ext4 -q {path['c']}")
    ground.here(f"mkdir -p /mnt/elsewhere; mount -o ro,noload {path['c']} /mnt/elsewhere")
    put_partition_table(ground, path["d"])
    ground.here(hold_open(path["e"]))
    before, pulled = ground.checksums("abcdefi"), ground.checksums("h")
    ground.cluster.hosts.disk_break(HOST, ground.disks["f"]["name"])
    ground.cluster.hosts.disk_remove(HOST, ground.disks["h"]["name"])
    try:
        told = failures(ground.play("prepare"), names)
        again = failures(ground.play("prepare"), names)  # a second run is no braver
    finally:
        ground.here("umount /mnt/elsewhere; kill $(cat /tmp/holder)")
    for found in (told, again):
        assert found.keys() == REFUSED.keys()
        assert not {letter: text for letter, text in found.items() if REFUSED[letter] not in text}, found
        assert "Input/output error" in found["f"]
        assert f"'name={names['i']} state=released'" in found["i"]
        assert f"wwn {ground.disks['h']['wwn']}, serial {ground.serial('h')}" in found["h"]
        assert ground.serial("a") in found["h"], "which disks there are"
    made = f"findmnt -no FSTYPE,UUID,SOURCE /var/lib/berth/disks/{names['g']}"
    assert ground.here(made).split() == ["ext4", filesystem_uuid(locks["g"]["uid"], names["g"]), path["g"]]
    assert ground.here("cat /proc/mounts").count("/var/lib/berth/disks/node-") == 1

    ground.cluster.hosts.disk_heal(HOST, ground.disks["f"]["name"])
    ground.cluster.hosts.disk_add(HOST, ground.disks["h"]["name"])
    ground.disks["h"] = next(each for each in ground.cluster.hosts.disks(HOST) if each["serial"] == ground.serial("h"))
    assert ground.checksums("abcdefi") == before
    assert [each.split()[0] for each in ground.checksums("h")] == [each.split()[0] for each in pulled]
    assert {serial: each["spec"]["claimRef"] for serial, each in ground.objects().items()} == {
        ground.serial(letter): lock for letter, lock in locks.items()
    }

    for letter in "ai":
        ground.lock(names[letter])
    ground.here(f"for disk in {path['b']} {path['c']} {path['d']}; do blkdiscard -fz $disk; done; udevadm settle")
    assert changes(ground.play("prepare").ok())
    assert ground.here("cat /proc/mounts").count("/var/lib/berth/disks/node-") == len(names)


def test_disks_are_told_apart_or_refused(ground: Ground) -> None:
    """As bad firmware does it, two disks report the same serial number and WWN; and the system's own disk."""
    ground.plug("ab", "96Mi")
    devices = json.loads(ground.here("lsblk --json -o NAME,SERIAL,MOUNTPOINTS"))["blockdevices"]
    system = next(each["serial"] for each in devices if "/" in each["mountpoints"])
    records = [f"/run/udev/data/b7:{path.removeprefix('/dev/loop')}" for path in ground.devices("ab")]
    ground.here(f"cp {records[1]} /tmp/udev.true; cp {records[0]} {records[1]}")
    try:
        entries = [
            {"serial": ground.serial("a"), "storage_class": "one"},
            {"model": "BERTH_DEV_DISK", "size": "96Mi"},
            {"serial": system},
        ]
        twins, weak, reserved = ground.play(berth_disks=entries).failed()["refusals"]
        for told in (twins, weak):
            assert all(path in told for path in ground.devices("ab")), told
        assert "it carries the running system" in reserved
        assert ground.objects() == {}
        query = f"[?serial == '{ground.serial('a')}']"
        selected, recorded = ground.steps(
            ("main", {"berth_disk_selectors": [{"query": query}]}),
            ("main", {"berth_disks": [{"serial": system, "reserved": True}], "berth_disk_selectors": []}),
        )
    finally:
        ground.here(f"cp /tmp/udev.true {records[1]}")
    assert "2 disks carry it" in json.dumps([task.result for task in selected.tasks])
    assert not changes(selected)
    assert changes(recorded.ok())
    (serial,) = ground.objects()
    assert serial == system
    of_the_system = ground.objects()[system]
    assert (of_the_system["spec"]["reserved"], of_the_system["status"]["phase"]) == (True, "Pending")


#: letter -> filesystem, the write at which its mkfs is killed, and what a look at the disk finds then.
KILLED = {"a": ("xfs", 30, "xfs"), "b": ("xfs", 1, ""), "c": ("ext4", 100, "")}


def killed_mkfs(ground: Ground) -> str:
    """PATH with a folder in which mkfs is the real one, killed at the n-th write that it makes to that disk."""
    folder = f"/root/killed-{ground.mark}"
    for fs_type in ("xfs", "ext4"):
        real = ground.here(f"command -v mkfs.{fs_type}")
        cases = [
            f"*{ground.disks[letter]['device']}) at={write} ;;"
            for letter, (which, write, _left) in KILLED.items()
            if which == fs_type
        ]
        inject = f"strace -f -o /dev/null -e trace=pwrite64 -e inject=pwrite64:signal=KILL:when=$at {real}"
        script = f'#!/bin/sh\ncase "$*" in {" ".join(cases)} *) exit 9 ;; esac\nexec {inject} "$@"\n'
        program = f"{folder}/mkfs.{fs_type}"
        ground.here(f"mkdir -p {folder}; printf %s {shlex.quote(script)} > {program}; chmod 755 {program}")
    return f"{folder}:/usr/sbin:/usr/bin:/sbin:/bin"


@pytest.mark.promise
def test_a_mkfs_that_was_killed_half_way_is_done_once_more(ground: Ground) -> None:
    ground.plug("".join(KILLED))
    names = ground.adopt("".join(KILLED), **{letter: {"fs_type": each[0]} for letter, each in KILLED.items()})
    locks = {letter: ground.lock(name) for letter, name in names.items()}
    (failed,) = ground.steps(("prepare", {}), environment={"PATH": killed_mkfs(ground)})
    told = failures(failed, names)
    assert told.keys() == KILLED.keys()
    assert all("filesystem could be made" in text for text in told.values()), told
    assert ground.signatures("".join(KILLED)) == [left for _type, _write, left in KILLED.values()]
    made, again = ground.steps(("prepare", {}), ("prepare", {}))
    assert changes(made.ok())
    assert not changes(again)
    for letter, name in names.items():
        assert ground.here(f"findmnt -no FSTYPE,UUID /var/lib/berth/disks/{name}").split() == [
            KILLED[letter][0],
            filesystem_uuid(locks[letter]["uid"], name),
        ]


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


def test_every_difference_is_told_and_what_was_pulled_or_broken_comes_back(ground: Ground, tmp_path: Path) -> None:
    ground.plug("abc", "96Mi")
    declared = [{"serial": ground.serial(letter), "storage_class": "fast"} for letter in "abc"]
    ground.play(berth_disks=declared).ok()
    names = ground.names("abc")
    pulled, broken = (ground.disks[letter]["name"] for letter in "bc")
    clean = play_drift(ground, tmp_path, declared).ok()
    assert "as declared" in clean.output
    assert not changes(clean)

    path = ground.disks["a"]["device"]
    ground.here(f"mkfs.ext4 -q -F {path} && mkdir -p /run/elsewhere && mount {path} /run/elsewhere")
    ground.cluster.hosts.disk_remove(HOST, pulled)
    ground.cluster.hosts.disk_break(HOST, broken)
    spec = {"nodeName": ground.node, "identity": {"serial": f"X-{ground.node}", "size": 4096}}
    extra = {"apiVersion": "berth.dev/v1alpha1", "kind": "LocalDisk", "metadata": {"name": f"{ground.node}-x"}}
    ground.cluster.kubectl("apply", "-f", "-", stdin=json.dumps({**extra, "spec": spec}))
    before = ground.objects()
    try:
        run = play_drift(ground, tmp_path, [{**declared[0], "storage_class": "slow"}, *declared[1:]])
        told = run.failed()["msg"]
    finally:
        ground.here(f"umount /run/elsewhere; wipefs -qa {path}; blkdiscard -fz {path}")
    assert run.rc != 0
    for words in (
        f"missing: LocalDisk {names['b']}",
        "is not in the node",
        f"changed: LocalDisk {names['c']}",
        "it is faulted",
        f"extra: LocalDisk {ground.node}-x",
        f"changed: LocalDisk {names['a']}",
        f"unexpected_filesystem: LocalDisk {names['a']}",
        f"held_elsewhere: LocalDisk {names['a']}",
        "storage_class is fast, declared slow",
        "/run/elsewhere",
    ):
        assert words in told, told
    for line in ("--- declared", "+++ observed", "-  storage_class: slow", "+  storage_class: fast"):
        assert line in run.output, run.output
    assert ground.objects() == before  # looking changes nothing
    ground.cluster.kubectl("delete", "ld", f"{ground.node}-x")

    one, again = ground.steps(("main", {"berth_disks": declared}), ("main", {"berth_disks": declared}))
    assert changes(one.ok())
    assert not changes(again)
    assert ground.phases() == {ground.disks["a"]["name"]: "Available", pulled: "Missing", broken: "Faulted"}

    ground.cluster.hosts.disk_add(HOST, pulled)
    ground.cluster.hosts.disk_heal(HOST, broken)
    assert changes(ground.play("observe").ok())
    assert set(ground.phases().values()) == {"Available"}


@pytest.mark.promise
def test_nothing_is_made_for_a_lock_that_has_changed_or_beside_an_agent(ground: Ground) -> None:
    """What a play has read is asked again right before the disk is touched; of an agent's process the host knows."""
    ground.plug("a", "96Mi")
    (name,) = ground.adopt("a").values()
    ground.lock(name)
    seen = json.loads(ground.cluster.kubectl("get", "ld", name, "-o", "json"))
    ground.lock(name)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": f"berth-agent-{ground.node}", "namespace": "berth-system"},
        "spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 3600, "renewTime": now},
    }
    task = {"berth.stateful.disk_filesystem": {"disk": seen, "kubeconfig": str(ground.cluster.kubeconfig)}}
    plays = [{"hosts": HOST, "gather_facts": False, "tasks": [{"name": "with what was read before", **task}]}]
    stale = run_plays(ground.cluster, plays, ground.folder).failed()
    assert "its lock has changed since the play read it" in stale["msg"]

    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "berth-system"}}
    for each in (namespace, lease):
        ground.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(each))
    try:
        led = failures(ground.play("prepare"), {"a": name})
    finally:
        ground.cluster.kubectl("delete", "lease", "-n", "berth-system", lease["metadata"]["name"])
    assert f"the agent somebody leads on node {ground.node}" in led["a"]
    file = "/var/lib/berth/agent/agent.lock"
    holder = f"(flock 9; exec sleep 600) 9<>{file} >/dev/null 2>&1 </dev/null & echo $! > /tmp/agent"
    ground.here(f"mkdir -p $(dirname {file}); echo 77 > {file}; {holder}")
    try:
        beside = failures(ground.play("prepare"), {"a": name})
    finally:
        ground.here(f"kill $(cat /tmp/agent); rm {file} /tmp/agent")
    assert "an agent (pid 77) works on this host" in beside["a"]
    assert ground.signatures("a") == [""]
    ground.play("prepare").ok()
    assert ground.signatures("a") == ["ext4"]


def test_from_the_host_to_its_host_vars_and_to_localdisks(ground: Ground, tmp_path: Path) -> None:
    """The playbook that is shipped writes beside the inventory what the role then takes, and spoils nothing there."""
    ground.plug("ab", "96Mi")
    ground.here(f"mkfs.ext4 -q -F {ground.devices('b')[0]}")
    file = tmp_path / "host_vars" / HOST / "berth_disks.yml"
    play = {"ansible.builtin.import_playbook": "berth.stateful.discover"}

    def discover(*args: str, **values: Any) -> Run:
        given = {"berth_target": HOST, "berth_discover_become": False, "berth_discover_storage_class": "fast", **values}
        return run_plays(ground.cluster, [play], tmp_path, "--diff", "-e", json.dumps(given), *args)

    def entries() -> dict[str, dict[str, Any]]:
        return {one["serial"]: one for one in yaml.safe_load(file.read_text())["berth_disks"]}

    single = file.parent.with_suffix(".yml")
    single.parent.mkdir()
    single.write_text("mine: 1\n")
    assert f"{single} is there" in discover().failed()["msg"]
    single.unlink()
    elsewhere = discover(berth_disks=[{"serial": "of-another-file"}]).failed()["msg"]
    assert "is set elsewhere in the inventory" in elsewhere
    assert ground.serial("a") in elsewhere

    planned = discover("--check").ok()
    assert f'+    serial: "{ground.serial("a")}"' in planned.output, planned.output
    assert not file.parent.exists(), "check mode writes nothing"
    assert changes(discover().ok())
    assert entries()[ground.serial("a")]["storage_class"] == "fast"
    assert ground.serial("b") not in entries()
    assert f'  #   serial: "{ground.serial("b")}"' in file.read_text()
    assert not changes(discover().ok())

    edited = file.read_text().replace('storage_class: "fast"', "storage_class: slow  # mine")
    file.write_text(edited)
    ground.plug("c", "96Mi")
    assert changes(discover().ok())
    assert file.read_text().startswith(edited), "what stood there stands there"
    assert entries()[ground.serial("c")]["storage_class"] == "fast"

    ground.play().ok()
    found = ground.objects()
    assert {found[ground.serial(letter)]["spec"]["storageClassName"] for letter in "ac"} == {"slow", "fast"}
    assert ground.serial("b") not in found
    file.write_text("berth_disks: []\n")
    assert "Add them by hand" in str(discover().failed())
    assert file.read_text() == "berth_disks: []\n"
