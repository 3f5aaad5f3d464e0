"""What fails in a real machine room fails here too: disks pulled, broken and healed, power cut."""

from __future__ import annotations

import json
import time

import pytest

from berth_dev.cluster import Cluster
from berth_dev.errors import HostError

from .hosts_help import apply, eventually, node_ready, out, pod, running, ssh


def names(cluster: Cluster, host: str) -> set[str]:
    """Serial numbers that the host itself sees."""
    listed = json.loads(out(cluster, host, "lsblk --json -O"))["blockdevices"]
    return {entry["serial"] for entry in listed}


def test_a_disk_is_plugged_in_pulled_out_and_comes_back_with_its_data(dev_cluster: Cluster) -> None:
    disk = dev_cluster.hosts.disk_add("h1", "hot", "64Mi")
    link = f"/dev/disk/by-id/{disk.serial}"
    assert disk.serial in names(dev_cluster, "h1")
    assert disk.serial not in names(dev_cluster, "h2")
    ssh(dev_cluster, "h1", f"mkfs.ext4 -q {link} && mount {link} /mnt && echo kept > /mnt/note && umount /mnt")
    with pytest.raises(HostError, match=r"h1: disk hot is plugged in already \(BERTH-"):
        dev_cluster.hosts.disk_add("h1", "hot")
    dev_cluster.hosts.disk_remove("h1", "hot")
    assert disk.serial not in names(dev_cluster, "h1")
    traces = f"ls {link} /dev/loop{disk.loop} /sys/block/loop{disk.loop}"
    assert ssh(dev_cluster, "h1", traces, check=False).stdout == ""
    other = dev_cluster.hosts.disk_add("h1", "other", "32Mi")
    again = dev_cluster.hosts.disk_add("h1", "hot")
    assert (again.serial, again.wwn, again.size) == (disk.serial, disk.wwn, disk.size)
    assert again.loop != disk.loop, "another disk is in its place: it comes back under another name, as real ones do"
    assert out(dev_cluster, "h1", f"mount {link} /mnt && cat /mnt/note && umount /mnt") == "kept"
    assert other.serial in names(dev_cluster, "h1")
    for name in ("hot", "other"):
        dev_cluster.hosts.disk_remove("h1", name)


def test_bad_disk_commands_say_what_is_wrong_and_change_nothing(dev_cluster: Cluster) -> None:
    hosts, before = dev_cluster.hosts, dev_cluster.hosts.disks("h2")
    refusals = {
        "host h9: expected one of h1, h2, h3": lambda: hosts.disk_add("h9", "x", "64Mi"),
        "disk size '64 MB': expected a whole number": lambda: hosts.disk_add("h2", "x", "64 MB"),
        "disk size '1Ki': expected 1Mi to 1024Gi": lambda: hosts.disk_add("h2", "x", "1Ki"),
        "disk name '../x': expected lower-case": lambda: hosts.disk_add("h2", "../x", "64Mi"),
        "disk x is new; give its size": lambda: hosts.disk_add("h2", "x"),
        "host h2: has no disk 'x'; it has d0, d1, d2": lambda: hosts.disk_remove("h2", "x"),
        "disk d0 is not broken": lambda: hosts.disk_heal("h2", "d0"),
    }
    for message, command in refusals.items():
        with pytest.raises(HostError, match=message.replace("(", r"\(").replace("..", r"\.\.")):
            command()
    assert hosts.disks("h2") == before


def test_a_broken_disk_gives_io_errors_and_a_healed_one_its_data(dev_cluster: Cluster) -> None:
    disk = dev_cluster.hosts.disk_add("h3", "weak", "64Mi")
    link, read = f"/dev/disk/by-id/{disk.serial}", "dd bs=4096 count=1 iflag=direct of=/dev/null status=none"
    ssh(
        dev_cluster,
        "h3",
        f"mkfs.ext4 -q {link} && mount {link} /mnt && echo precious > /mnt/note && sync && umount /mnt",
    )
    before = out(dev_cluster, "h3", f"sha256sum < {link}")
    dev_cluster.hosts.disk_break("h3", "weak")
    broken = ssh(dev_cluster, "h3", f"{read} if={link} skip=64", check=False)
    assert "Input/output error" in broken.stderr
    write = f"dd if=/dev/zero of={link} bs=4096 count=1 oflag=direct status=none"
    assert "Input/output error" in ssh(dev_cluster, "h3", write, check=False).stderr
    assert ssh(dev_cluster, "h3", f"mount {link} /mnt", check=False).returncode != 0
    other = dev_cluster.hosts.disks("h3")[0]["device"]
    assert ssh(dev_cluster, "h3", f"{read} if={other}").returncode == 0, "only this disk is broken"
    dev_cluster.hosts.disk_heal("h3", "weak")
    assert out(dev_cluster, "h3", f"sha256sum < {link}") == before
    assert out(dev_cluster, "h3", f"mount {link} /mnt && cat /mnt/note && umount /mnt") == "precious"
    dev_cluster.hosts.disk_remove("h3", "weak")


def test_a_disk_breaks_under_a_mounted_filesystem(dev_cluster: Cluster) -> None:
    disk = dev_cluster.hosts.disk_add("h3", "under", "64Mi")
    device = f"/dev/loop{disk.loop}"
    ssh(dev_cluster, "h3", f"mkfs.ext4 -q {device} && mount {device} /mnt && echo first > /mnt/note && sync")
    dev_cluster.hosts.disk_break("h3", "under")
    done = ssh(dev_cluster, "h3", "dd if=/dev/zero of=/mnt/new bs=4096 count=8 conv=fsync status=none", check=False)
    assert done.returncode != 0
    assert "error" in done.stderr.lower() or "Read-only" in done.stderr
    dev_cluster.hosts.disk_heal("h3", "under")
    ssh(dev_cluster, "h3", "umount /mnt")
    assert out(dev_cluster, "h3", f"fsck.ext4 -p {device} >/dev/null; mount {device} /mnt && cat /mnt/note") == "first"
    ssh(dev_cluster, "h3", "umount /mnt")
    dev_cluster.hosts.disk_remove("h3", "under")


def test_a_power_cut_and_the_return(dev_cluster: Cluster) -> None:
    hosts = dev_cluster.hosts
    disk = hosts.disk_add("h2", "steady", "64Mi")
    point, link = "/var/lib/berth/steady", f"/dev/disk/by-id/{disk.serial}"
    uuid = "7f1d2f2e-94a5-4f0a-8d0b-5c1de1a11a01"
    ssh(dev_cluster, "h2", f"mkfs.ext4 -q -U {uuid} {link} && mkdir -p {point} /var/lib/berth/gone")
    ssh(dev_cluster, "h2", f"echo 'UUID={uuid} {point} ext4 nofail 0 2' >> /etc/fstab")
    ssh(dev_cluster, "h2", f"echo '{link}-gone /var/lib/berth/gone ext4 nofail 0 2' >> /etc/fstab && mount -a")
    ssh(dev_cluster, "h2", f"echo survived > {point}/note && echo mine > /root/note && sync")
    apply(dev_cluster, pod("stays", "h2", "sleep 3600"))
    running(dev_cluster, "stays")
    machine, boot = "cat /etc/machine-id", "cat /proc/sys/kernel/random/boot_id"
    before = out(dev_cluster, "h2", machine), out(dev_cluster, "h2", boot)

    hosts.power_off("h2")
    assert [h["power"] for h in hosts.status()] == ["on", "off", "on"]
    assert ssh(dev_cluster, "h2", "true", check=False).returncode == 255
    eventually(lambda: node_ready(dev_cluster, "h2") == "Unknown", 60, "the node is seen to be gone")

    start = time.monotonic()
    hosts.power_on("h2")
    eventually(lambda: node_ready(dev_cluster, "h2") == "True", 30, "the node is Ready again")
    assert time.monotonic() - start < 15
    found = out(dev_cluster, "h2", f"cat {point}/note; cat /root/note; findmnt -no UUID {point}")
    assert found.splitlines() == ["survived", "mine", uuid]
    assert out(dev_cluster, "h2", machine) == before[0]
    assert out(dev_cluster, "h2", boot) != before[1]
    apply(dev_cluster, pod("anew", "h2", "sleep 3600"))
    running(dev_cluster, "anew")
    dev_cluster.kubectl("delete", "pod", "stays", "anew", "--force", "--grace-period=0")
    ssh(dev_cluster, "h2", f"umount {point}; sed -i '/{uuid}/d; /gone/d' /etc/fstab")
    hosts.disk_remove("h2", "steady")


def test_a_service_that_dies_is_started_again(dev_cluster: Cluster) -> None:
    pid = out(dev_cluster, "h1", "pgrep -f '^/opt/k/kubelet'")
    ssh(dev_cluster, "h1", f"kill -9 {pid}")

    def another() -> bool:
        return out(dev_cluster, "h1", "pgrep -f '^/opt/k/kubelet'") not in ("", pid)

    eventually(another, 10, "kubelet runs again")
    eventually(lambda: node_ready(dev_cluster, "h1") == "True", 20, "its node is Ready")
