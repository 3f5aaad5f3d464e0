"""After `down` the machine is as it was: also after SIGKILL of anything, half-way, twice, and with two clusters.

Every cluster of this file is its own; others on the machine are not looked at, only what belongs to it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from berth_dev import processes
from berth_dev.cluster import Cluster
from berth_dev.errors import HostError
from berth_dev.hosts import slots
from berth_dev.hosts.model import LOOPS_PER_HOST, Slot
from berth_dev.pytest_plugin import temporary_cluster

from .hosts_help import node_ready, out


def belongings(cluster: Cluster, tag: str, slot: Slot | None) -> dict[str, Any]:
    """Everything on the machine that is the cluster's. All empty: nothing is left."""
    where, token = str(cluster.folder.path), tag.partition("=")[2][:8]
    links = os.listdir("/sys/class/net")
    return {
        "processes": [who.pid for who in processes.tagged(tag)],
        "cgroups": [str(path) for path in Path("/sys/fs/cgroup").rglob(f"berth-{token}-*")],
        "mounts": [line for line in Path("/proc/mounts").read_text().splitlines() if where in line],
        "loops": [n for n in slots.loops_in_use() if slot and n in slot.loops],
        "files behind loops": [line for line in _run("losetup", "-a").splitlines() if where in line],
        "links": [name for name in links if slot and (name == slot.bridge or name.startswith(f"{slot.bridge}h"))],
        "routes": [line for line in _run("ip", "route").splitlines() if slot and f"10.{slot.octet}." in line],
        "slot": [slot] if slots.held(cluster.folder.path) else [],
        "folder": [where] if cluster.folder.path.exists() else [],
    }


def _run(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def assert_nothing_left(cluster: Cluster, tag: str, slot: Slot | None) -> None:
    left = belongings(cluster, tag, slot)
    assert not any(left.values()), {kind: things for kind, things in left.items() if things}
    with slots.locked() as register:  # no cluster at all on this machine, and none begins: its own settings are back
        if not any(register.iterdir()):
            assert int(Path("/proc/sys/fs/inotify/max_user_instances").read_text()) < 8192


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster that is not up."""
    made = Cluster(tmp_path / "c")
    yield made
    made.down()


@pytest.fixture(scope="module")
def own() -> Iterator[Cluster]:
    """A cluster with one host, for tests that leave it as it was."""
    with temporary_cluster(hosts=1) as made:
        yield made


def begin(cluster: Cluster, *command: str) -> subprocess.Popen[bytes]:
    """berth-dev in a process of its own that can be killed."""
    argv = [sys.executable, "-m", "berth_dev", "--dir", str(cluster.folder.path), *command]
    return subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_down_leaves_nothing_and_twice_is_fine(cluster: Cluster) -> None:
    cluster.up(hosts=2)
    tag, slot = cluster.folder.tag, slots.held(cluster.folder.path)
    assert slot is not None
    present = belongings(cluster, tag, slot)
    missing = {kind for kind, things in present.items() if not things}
    assert missing == {"mounts"}, "nothing of a cluster is ever in the machine's own mount table"
    # A control connection that Ansible would have kept.
    inventory = cluster.hosts.inventory()["berth_hosts"]
    folder = Path(inventory["vars"]["ansible_control_path_dir"])
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    known = inventory["vars"]["ansible_ssh_common_args"].split()
    options = ["-o", "ControlMaster=auto", "-o", "ControlPersist=60", "-o", f"ControlPath={folder}/x"]
    key = inventory["vars"]["ansible_ssh_private_key_file"]
    _run("ssh", *known, *options, "-i", key, f"root@{inventory['hosts']['h1']['ansible_host']}", "true")
    assert (folder / "x").exists()
    assert cluster.down() is True
    assert_nothing_left(cluster, tag, slot)
    assert not folder.exists()
    assert not _run("ps", "-eo", "args").count(f"{folder}/x")
    assert cluster.down() is False


def _loops(cluster: Cluster) -> bool:
    slot = slots.held(cluster.folder.path)
    return slot is not None and any(n in slot.loops for n in slots.loops_in_use())


def _cable(cluster: Cluster) -> bool:
    slot = slots.held(cluster.folder.path)
    return slot is not None and Path(f"/sys/class/net/{slot.bridge}h1").exists()


MOMENTS: dict[str, Callable[[Cluster], bool]] = {
    "the folder is there": lambda cluster: cluster.folder.exists(),
    "the slot is noted": lambda cluster: bool(cluster.folder.recorded("slot")),
    "the slot is held": lambda cluster: slots.held(cluster.folder.path) is not None,
    "the API server starts": lambda cluster: cluster.folder.alive("kube-apiserver"),
    "a host is noted": lambda cluster: bool(cluster.folder.recorded("host")),
    "loop devices are being made": _loops,
    "a host starts": lambda cluster: cluster.folder.alive("host-h1"),
    "the cable is in": _cable,
}
"""The steps of `up`, in order: each is seen from outside, and `up` is killed the moment that it is."""


def kill_up_when(cluster: Cluster, moment: str, hosts: int) -> None:
    """Start `up` and SIGKILL it at that moment."""
    started, until = begin(cluster, "up", "--hosts", str(hosts)), time.monotonic() + 60
    while not MOMENTS[moment](cluster):
        assert started.poll() is None, f"up ended before {moment}"
        assert time.monotonic() < until
        time.sleep(0.002)  # `up` needs the processor that looking would take
    started.kill()
    started.wait()


@pytest.mark.parametrize("moment", MOMENTS)
def test_down_after_up_was_killed_half_way(cluster: Cluster, moment: str) -> None:
    kill_up_when(cluster, moment, hosts=2)
    tag = cluster.folder.tag
    slot = slots.held(cluster.folder.path)
    cluster.down()
    assert_nothing_left(cluster, tag, slot)


@pytest.mark.parametrize("moment", ["the slot is noted", "loop devices are being made", "a host starts"])
def test_up_again_after_up_was_killed_half_way(cluster: Cluster, moment: str) -> None:
    kill_up_when(cluster, moment, hosts=1)
    cluster.up(hosts=1)
    assert node_ready(cluster, "h1") == "True"
    tag, slot = cluster.folder.tag, slots.held(cluster.folder.path)
    cluster.down()
    assert_nothing_left(cluster, tag, slot)


def test_down_after_everything_was_killed_and_down_killed_too(cluster: Cluster) -> None:
    cluster.up(hosts=2)
    tag, slot = cluster.folder.tag, slots.held(cluster.folder.path)
    cluster.hosts.disk_break("h1", "d0")  # its file is immutable now
    for who in list(processes.tagged(tag)):
        processes.end(who, 0)
    for delay in (0.3, 0.5):
        ending = begin(cluster, "down")
        time.sleep(delay)
        ending.kill()
        ending.wait()
    cluster.down()
    assert_nothing_left(cluster, tag, slot)


def test_a_host_whose_processes_were_all_killed_is_mended_by_up(own: Cluster) -> None:
    serial = own.hosts.disks("h1")[0]["serial"]
    pid = own.folder.pid("host-h1")
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    while own.folder.alive("host-h1"):
        time.sleep(0.05)
    own.up(hosts=1)
    assert serial in out(own, "h1", "lsblk -no SERIAL")
    slot = slots.held(own.folder.path)
    assert slot is not None
    _run("ip", "link", "delete", slot.bridge)
    own.up(hosts=1)
    assert serial in out(own, "h1", "lsblk -no SERIAL"), "the bridge is back and the cable is on it"


def test_two_clusters_side_by_side(own: Cluster, cluster: Cluster) -> None:
    cluster.up(hosts=1)
    ours, theirs = slots.held(own.folder.path), slots.held(cluster.folder.path)
    assert ours is not None
    assert theirs is not None
    assert ours.octet != theirs.octet
    assert not set(ours.loops) & set(theirs.loops)
    assert len(ours.loops) == LOOPS_PER_HOST
    foreign = cluster.hosts.disks("h1")[0]
    probe = f"mknod /tmp/n b 7 {foreign['loop']}; head -c1 /tmp/n 2>&1 || true; rm /tmp/n"
    assert "Operation not permitted" in out(own, "h1", probe)
    # What the machine has of it is cleared though somebody has emptied the machine's register.
    (slots.REGISTER / f"{theirs.octet}.json").unlink()
    tag = cluster.folder.tag
    cluster.down()
    assert_nothing_left(cluster, tag, theirs)
    assert node_ready(own, "h1") == "True"
    assert int(Path("/proc/sys/fs/inotify/max_user_instances").read_text()) >= 8192, "still needed"


def test_a_cluster_cannot_silently_grow_beyond_its_slot(own: Cluster) -> None:
    with pytest.raises(HostError, match=r"was made for 1 hosts, not 2; run down, then up again"):
        own.hosts.plan(2)
    assert len(own.hosts.status()) == 1


def test_the_last_cluster_to_go_gives_the_machine_its_settings_back(tmp_path: Path, monkeypatch: Any) -> None:
    """A setting that nothing here needs, raised by one: whether other clusters run on the machine does not matter."""
    key = "fs/inotify/max_queued_events"
    value = Path("/proc/sys", key)
    before = int(value.read_text())
    monkeypatch.setattr(slots, "SHARED_SYSCTLS", {key: before + 1})
    register = tmp_path / "register"
    try:
        for owner in ("a", "b"):
            slots.reserve(tmp_path / owner, 1, register)
            assert int(value.read_text()) == before + 1
        slots.release(tmp_path / "a", register)
        assert int(value.read_text()) == before + 1, "still needed"
        slots.release(tmp_path / "b", register)
        assert int(value.read_text()) == before
        assert not register.exists()
    finally:
        value.write_text(str(before))
