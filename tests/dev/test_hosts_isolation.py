"""A host sees its own disks, names and processes, and nothing of another host or of the machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from berth_dev.cluster import Cluster

from .hosts_help import eventually, out, ssh

HOSTS = ("h1", "h2", "h3")


def plugged(cluster: Cluster, host: str) -> list[dict[str, Any]]:
    """The disks that are in the host now; those that other tests have pulled out lie beside it."""
    return [disk for disk in cluster.hosts.disks(host) if disk["plugged"]]


def own_loops(cluster: Cluster, host: str) -> set[str]:
    return {os.path.basename(disk["device"]) for disk in plugged(cluster, host)}


@pytest.mark.parametrize("host", HOSTS)
def test_every_listing_shows_only_its_own_disks(dev_cluster: Cluster, host: str) -> None:
    listed = json.loads(out(dev_cluster, host, "lsblk --json -b -O"))["blockdevices"]
    by_name = {entry["name"]: entry for entry in listed}
    system = next(entry for entry in listed if "/" in entry["mountpoints"])
    assert set(by_name) == own_loops(dev_cluster, host) | {system["name"]}
    for disk in plugged(dev_cluster, host):
        entry = by_name[os.path.basename(disk["device"])]
        assert (entry["serial"], entry["wwn"], entry["size"]) == (disk["serial"], disk["wwn"], disk["size"])
        assert entry["model"] == "BERTH_DEV_DISK"
        link = f"/dev/disk/by-id/{disk['serial']}"
        assert out(dev_cluster, host, f"readlink -f {link}") == disk["device"]
    everything = set(out(dev_cluster, host, "ls /sys/block").split())
    assert everything == set(out(dev_cluster, host, "cd /dev; ls -d loop*").split())
    assert everything == set(out(dev_cluster, host, "ls /sys/class/block /sys/devices/virtual/block").split()) - {
        "/sys/class/block:",
        "/sys/devices/virtual/block:",
    }
    real = {entry.name for entry in Path("/sys/block").iterdir()} - everything
    assert real, "the machine has no disk of its own?"
    listing = out(dev_cluster, host, "find /sys/devices -path '*/block/*' -maxdepth 8 -name '[a-z]*' -type d")
    assert not {os.path.basename(line) for line in listing.splitlines()} & real


def test_no_two_disks_of_the_cluster_share_identity_or_size(dev_cluster: Cluster) -> None:
    disks = [disk for host in HOSTS for disk in plugged(dev_cluster, host)]
    for key in ("serial", "wwn", "size", "device"):
        assert len({disk[key] for disk in disks}) == len(disks) == 9


def test_a_foreign_disk_cannot_be_opened_even_by_number(dev_cluster: Cluster) -> None:
    foreign = dev_cluster.hosts.disks("h2")[0]["device"].removeprefix("/dev/loop")
    own = dev_cluster.hosts.disks("h1")[0]["device"].removeprefix("/dev/loop")
    root = os.stat("/").st_dev
    numbers = {f"7 {foreign}": False, f"{os.major(root)} {os.minor(root)}": False, f"7 {own}": True}
    for number, allowed in numbers.items():
        script = f"rm -f /tmp/n; mknod /tmp/n b {number} && dd if=/tmp/n of=/dev/null bs=512 count=1 status=none"
        done = ssh(dev_cluster, "h1", script, check=False)
        assert (done.returncode == 0) is allowed, f"{number}: {done.stderr}"
        if not allowed:
            assert "Operation not permitted" in done.stderr


def test_hosts_are_machines_of_their_own(dev_cluster: Cluster) -> None:
    for command in ("cat /etc/machine-id", "cat /proc/sys/kernel/random/boot_id", "hostname", "hostname -I"):
        answers = {out(dev_cluster, host, command) for host in HOSTS}
        assert len(answers) == 3, f"{command}: {answers}"
        ours = subprocess.run(command.split(), capture_output=True, text=True, check=True).stdout.strip()
        assert ours not in answers
    for host in HOSTS:
        assert out(dev_cluster, host, "hostname") == host
        processes = out(dev_cluster, host, "ps -eo args")
        assert "inside.init" in processes.splitlines()[1]
        assert "kube-apiserver" not in processes
    assert str(dev_cluster.folder.path) not in out(dev_cluster, "h1", "cat /proc/mounts")
    assert ssh(dev_cluster, "h1", f"ls {dev_cluster.folder.path}", check=False).returncode != 0


def test_ansible_reaches_all_hosts_and_its_facts_show_only_their_disks(dev_cluster: Cluster, tmp_path: Path) -> None:
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(yaml.safe_dump(dev_cluster.hosts.inventory()))
    play = tmp_path / "play.yml"
    copy = {"content": "{{ ansible_facts.devices | to_json }}", "dest": f"{tmp_path}/{{{{ inventory_hostname }}}}.json"}
    tasks = [{"ansible.builtin.ping": None}, {"ansible.builtin.copy": copy, "delegate_to": "localhost"}]
    play.write_text(yaml.safe_dump([{"hosts": "berth_hosts", "gather_facts": True, "tasks": tasks}]))
    program = Path(sys.executable).parent / "ansible-playbook"  # the environment need not be on PATH
    done = subprocess.run([program, "-i", inventory, play], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for host in HOSTS:
        devices = json.loads((tmp_path / f"{host}.json").read_text())
        seen = {name for name, facts in devices.items() if facts["size"] != "0.00 Bytes"}
        assert len(seen) == 4
        assert own_loops(dev_cluster, host) < seen


def test_an_unknown_host_key_is_refused(dev_cluster: Cluster, tmp_path: Path) -> None:
    variables = dev_cluster.hosts.inventory()["berth_hosts"]["vars"]
    wrong = tmp_path / "known_hosts"
    wrong.write_text("")
    argv = ["ssh", "-F", "none", "-o", f"UserKnownHostsFile={wrong}", "-o", "StrictHostKeyChecking=yes", "-i"]
    address = dev_cluster.hosts.inventory()["berth_hosts"]["hosts"]["h1"]["ansible_host"]
    argv += [variables["ansible_ssh_private_key_file"], f"root@{address}", "true"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 255
    assert "Host key verification failed" in done.stderr


def test_udev_follows_what_is_written(dev_cluster: Cluster) -> None:
    disk = dev_cluster.hosts.disks("h3")[2]

    def shown() -> tuple[str, str]:
        entry = json.loads(out(dev_cluster, "h3", f"lsblk --json -O {disk['device']}"))["blockdevices"][0]
        return entry["fstype"], entry["uuid"]

    assert shown() == (None, None)
    uuid = "0b5c0d1e-7c43-4f0c-9a55-1f6a4f1f5c01"
    ssh(dev_cluster, "h3", f"mkfs.xfs -q -m uuid={uuid} {disk['device']}")
    eventually(lambda: shown() == ("xfs", uuid), 5, "lsblk shows the new filesystem")
    assert out(dev_cluster, "h3", f"readlink -f /dev/disk/by-uuid/{uuid}") == disk["device"]
    record = out(dev_cluster, "h3", f"cat /run/udev/data/b7:{disk['loop']}")
    assert "E:ID_FS_TYPE=xfs" in record.splitlines()
    assert f"E:ID_SERIAL_SHORT={disk['serial']}" in record.splitlines()
    ssh(dev_cluster, "h3", f"wipefs -qa {disk['device']} && udevadm settle")
    assert shown() == (None, None)
    assert ssh(dev_cluster, "h3", f"test -e /dev/disk/by-uuid/{uuid}", check=False).returncode != 0


def test_the_machine_keeps_its_kernel_settings(dev_cluster: Cluster) -> None:
    # kubelet wants these; on the machine itself they would outlive it.
    for key, wanted in {"vm/overcommit_memory": "1", "kernel/panic": "10", "kernel/panic_on_oops": "1"}.items():
        assert out(dev_cluster, "h1", f"cat /proc/sys/{key}") == wanted
    of_the_machine = Path("/proc/sys/kernel/panic")
    before = of_the_machine.read_text()
    other = "7" if before.strip() != "7" else "8"
    try:
        assert out(dev_cluster, "h1", f"echo {other} >/proc/sys/kernel/panic; cat /proc/sys/kernel/panic") == other
        assert of_the_machine.read_text() == before
    finally:
        out(dev_cluster, "h1", "echo 10 >/proc/sys/kernel/panic")
        of_the_machine.write_text(before)
