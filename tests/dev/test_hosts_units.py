"""The rules behind real hosts: names, numbers, choices and texts, without touching the machine."""

from __future__ import annotations

import ipaddress
import os
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth_dev.errors import HostError
from berth_dev.hosts import cgroups, commands, disks, model, power, ready, services, slots, ssh
from berth_dev.hosts.inside import blockdev, systemd
from berth_dev.hosts.model import Host, Slot
from berth_dev.images import archive

SLOT = Slot(octet=77, first_loop=64, hosts=3)
HOST = Host("h2", 2, SLOT)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=9), st.sets(st.integers(0, 400), max_size=20))
def test_slots_never_overlap(counts: list[int], used: set[int]) -> None:
    taken: list[Slot] = []
    for count in counts:
        taken.append(slots.choose(count, taken, [], used))
    loops = [n for slot in taken for n in slot.loops]
    assert len(loops) == len(set(loops)) == 32 * sum(counts)
    assert not used & set(loops)
    assert len({slot.octet for slot in taken}) == len(taken)
    assert len({slot.bridge for slot in taken}) == len(taken)


def test_a_network_in_use_is_left_alone() -> None:
    networks = [ipaddress.IPv4Network(text) for text in ("0.0.0.0/0", "10.77.3.0/24", "10.78.0.1/32")]
    assert slots.choose(1, [], networks, []).octet == 79
    with pytest.raises(HostError, match=r"no free network 10\.77\.0\.0/16"):
        slots.choose(1, [], [ipaddress.IPv4Network("10.0.0.0/8")], [])
    with pytest.raises(HostError, match=r"no 96 free loop devices in a row up to loop2047"):
        slots.choose(3, [], [], range(0, 2048, 64))


def test_the_register_is_kept_per_cluster_and_removed_with_the_last(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(slots, "SHARED_SYSCTLS", {})
    register = tmp_path / "register"
    first = slots.reserve(tmp_path / "a", 2, register)
    second = slots.reserve(tmp_path / "b", 2, register)
    assert slots.reserve(tmp_path / "a", 2, register) == first == slots.held(tmp_path / "a", register)
    assert not set(first.loops) & set(second.loops)
    with pytest.raises(HostError, match="was made for 2 hosts, not 3"):
        slots.reserve(tmp_path / "a", 3, register)
    assert slots.is_taken(Slot(1, first.first_loop + 32, 1), register)
    assert not slots.is_taken(Slot(1, 1984, 1), register)
    slots.release(tmp_path / "a", register)
    assert slots.held(tmp_path / "a", register) is None
    slots.release(tmp_path / "b", register)
    slots.release(tmp_path / "b", register)
    assert not register.exists()


def test_a_cluster_that_goes_while_another_looks(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(slots, "SHARED_SYSCTLS", {})
    register = tmp_path / "register"
    mine = slots.reserve(tmp_path / "mine", 2, register)
    (register / "1.json").symlink_to(register / "gone")  # listed, and no file any more when it is read
    assert slots.held(tmp_path / "mine", register) == mine


def test_names_and_addresses_of_a_host() -> None:
    assert (HOST.address, HOST.pod_subnet, HOST.veth) == ("10.77.0.12", "10.77.130.0/24", "berth77h2")
    assert HOST.loops == range(96, 128)
    assert list(HOST.spare_loops) == list(range(120, 128))
    longest = Host("h20", 20, Slot(249, 64, 20))
    assert len(longest.veth) <= 15
    assert ipaddress.ip_network(longest.pod_subnet).subnet_of(ipaddress.ip_network(longest.slot.pod_network))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "size"),
    [("1Mi", 1 << 20), ("512Mi", 512 << 20), ("2Gi", 2 << 30), (1048576, 1 << 20), ("2048Ki", 2 << 20)],
)
def test_sizes(text: str | int, size: int) -> None:
    assert model.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "-1Mi", "1.5Gi", "1G", "1 Mi", "0", "1023Ki", "1025Gi", "1Mi\n"])
def test_bad_sizes(text: str) -> None:
    with pytest.raises(HostError, match="expected"):
        model.parse_size(text)


@given(st.text(max_size=40))
def test_no_disk_name_leaves_its_folder(name: str) -> None:
    try:
        checked = model.checked_disk_name(name)
    except HostError:
        return
    assert "/" not in checked
    assert not checked.startswith((".", "-"))
    assert "\n" not in checked


def test_default_disks_differ_in_a_host_and_between_hosts() -> None:
    sizes = [size for index in range(1, 5) for size in model.default_disks(index).values()]
    assert len(set(sizes)) == len(sizes)


def test_a_disk_keeps_its_identity_wherever_it_is_plugged_in() -> None:
    one = model.new_disk("c", "token", HOST, "d0", 1, 97)
    two = model.new_disk("c", "token", HOST, "d0", 1, 98)
    assert (one.serial, one.wwn) == (two.serial, two.wwn) == ("BERTH-c-h2-d0", one.wwn)
    assert len(one.wwn) == 18
    assert one.wwn.startswith("0x5")
    assert one.identity()["links"][:2] == ["disk/by-id/BERTH-c-h2-d0", f"disk/by-id/wwn-{one.wwn}"]


MOUNTINFO = """\
25 20 0:22 / /sys/fs/cgroup ro shared:9 - tmpfs tmpfs ro,mode=755
26 25 0:23 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:10 - cgroup cgroup rw,cpu,cpuacct
27 25 0:24 / /sys/fs/cgroup/systemd rw shared:11 - cgroup cgroup rw,xattr,name=systemd
28 25 0:25 /docker/abc /sys/fs/cgroup/devices rw shared:12 - cgroup cgroup rw,devices
29 25 0:26 / /sys/fs/cgroup/unified rw shared:13 - cgroup2 cgroup2 rw,nsdelegate
"""
OWN = "5:cpu,cpuacct:/user/x\n4:name=systemd:/user.slice\n3:devices:/docker/abc/inner\n0::/user.slice\n"


def test_groups_are_made_below_our_own_in_every_v1_tree() -> None:
    trees = cgroups.parse_hierarchies(MOUNTINFO, OWN)
    assert [(t.name, t.mount_options, str(t.folder)) for t in trees] == [
        ("cpu,cpuacct", "cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct/user/x"),
        ("systemd", "none,name=systemd", "/sys/fs/cgroup/systemd/user.slice"),
        ("devices", "devices", "/sys/fs/cgroup/devices/inner"),
    ]
    assert cgroups.enforces_devices(trees)


def test_a_machine_with_v2_alone_is_said_not_to_enforce_devices() -> None:
    line = "29 25 0:26 / /sys/fs/cgroup rw shared:13 - cgroup2 cgroup2 rw,nsdelegate"
    trees = cgroups.parse_hierarchies(line, "0::/user.slice/session")
    assert [tree.version for tree in trees] == [2]
    assert not cgroups.enforces_devices(trees)


def test_every_block_device_but_the_own_loops_is_denied() -> None:
    majors = cgroups.block_majors("Character devices:\n  1 mem\n\nBlock devices:\n  7 loop\n253 zram\n254 virtblk\n")
    lines = cgroups.denials(HOST.loops, majors)
    assert {"b 253:* rw", "b 254:* rw", "b 7:0 rw", "b 7:95 rw", "b 7:128 rw", "b 7:2047 rw"} <= set(lines)
    assert not {f"b 7:{n} rw" for n in HOST.loops} & set(lines)
    assert not any("m" in line.split()[2] for line in lines), "runc needs mknod"


def test_groups_that_are_not_ours_are_never_killed(tmp_path: Path) -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        (tmp_path / "system.slice").mkdir()
        (tmp_path / "system.slice/cgroup.procs").write_text(f"{child.pid}\n")
        with pytest.raises(HostError, match="is not berth-dev's; left alone"):
            cgroups.kill_members([tmp_path / "system.slice"])
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()


def test_missing_programs_are_named_with_the_line_that_brings_them(monkeypatch: Any) -> None:
    monkeypatch.setattr(commands, "PACKAGES", {**commands.PACKAGES, "no-such-program": "some-package"})
    monkeypatch.setattr(commands.os, "geteuid", lambda: 0)
    missing = commands.missing_packages(["ip", "no-such-program"])
    assert missing == ["some-package"]
    monkeypatch.setattr(commands, "missing_packages", lambda: missing)
    with pytest.raises(HostError, match="apt-get install -y some-package"):
        commands.check_machine()


def test_without_root_hosts_are_refused(monkeypatch: Any) -> None:
    monkeypatch.setattr(commands.os, "geteuid", lambda: 1000)
    with pytest.raises(HostError, match="need root"):
        commands.check_machine()


def test_a_program_that_fails_is_quoted() -> None:
    with pytest.raises(HostError, match=r"ip link show dev nowhere0: exit 1: .*nowhere0.*does not exist"):
        commands.run("ip", "link", "show", "dev", "nowhere0")
    with pytest.raises(HostError, match="program losetup-x is missing"):
        commands.run("losetup-x")


def test_udev_records_have_the_form_that_libudev_reads() -> None:
    found = {"ID_FS_TYPE": "ext4", "ID_FS_UUID_ENC": "12-34", "ID_FS_LABEL_ENC": "a/b"}
    links = ["disk/by-id/x", *blockdev.content_links(found)]
    assert links == ["disk/by-id/x", "disk/by-uuid/12-34"], "a label with a slash makes no link"
    text = blockdev.record_text({"ID_SERIAL": "x"}, found, links, 7)
    assert text.splitlines()[:4] == ["S:disk/by-id/x", "S:disk/by-uuid/12-34", "I:7", "E:ID_SERIAL=x"]
    assert text.endswith("V:1\n")


def test_the_losetup_wrapper_takes_a_spare_and_passes_the_rest_on(tmp_path: Path) -> None:
    real = tmp_path / "losetup"
    real.write_text('#!/bin/sh\necho "real $*"\n')
    real.chmod(0o755)
    script = services.losetup_wrapper(HOST).replace("/usr/sbin/losetup", str(real)).replace("/sys/block", str(tmp_path))
    (tmp_path / "loop120/loop").mkdir(parents=True)
    (tmp_path / "loop120/loop/backing_file").write_text("taken")

    def call(*argv: str) -> str:
        return subprocess.run(["sh", "-c", script, "losetup", *argv], capture_output=True, text=True, check=True).stdout

    assert call("-f", "/some file") == "real /dev/loop121 /some file\n"
    assert call("--find", "--show", "/x") == "real /dev/loop121 --show /x\n"
    assert call("-f") == "/dev/loop121\n"
    assert call("-d", "/dev/loop121") == "real -d /dev/loop121\n"


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (None, False),
        ({}, False),
        ({"status": {"conditions": [{"type": "Ready", "status": "True"}]}, "spec": {}}, True),
        ({"status": {"conditions": [{"type": "Ready", "status": "False"}]}, "spec": {}}, False),
        (
            {
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
                "spec": {"taints": [{"key": "node.kubernetes.io/not-ready"}]},
            },
            False,
        ),
    ],
)
def test_when_a_node_is_ready(node: Any, expected: bool) -> None:
    assert ready.node_is_ready(node) is expected


@pytest.mark.parametrize(("since", "expected"), [(0.0, True), (1769500800.9, True), (1769500801.0, False)])
def test_what_an_earlier_life_of_the_kubelet_said_does_not_count(since: float, expected: bool) -> None:
    told = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-27T08:00:00Z"}
    assert ready.node_is_ready({"status": {"conditions": [told]}, "spec": {}}, since) is expected


def test_keys_are_private_and_stay(tmp_path: Path) -> None:
    keys = ssh.Keys(tmp_path / "ssh")
    keys.prepare([HOST])
    before = keys.user_key.read_text(), keys.host_key(HOST).read_text()
    keys.prepare([HOST])
    assert before == (keys.user_key.read_text(), keys.host_key(HOST).read_text())
    assert oct(keys.user_key.stat().st_mode)[-3:] == oct(keys.host_key(HOST).stat().st_mode)[-3:] == "600"
    assert keys.known_hosts.read_text() == f"10.77.0.12 {ssh.public(keys.host_key(HOST))}\n"
    derived = subprocess.run(["ssh-keygen", "-y", "-f", keys.user_key], capture_output=True, text=True, check=True)
    assert derived.stdout.strip() == ssh.public(keys.user_key)


def test_an_archive_is_the_same_bytes_every_time(tmp_path: Path) -> None:
    made = []
    for k in (1, 2):
        layer, target = tmp_path / f"layer{k}", tmp_path / f"image{k}.tar"
        with tarfile.open(layer, "w", format=tarfile.GNU_FORMAT) as tar:
            archive.add_file(tar, "bin/x", b"x", 0o755)
            archive.add_link(tar, "bin/y", "x")
        archive.write(archive.Image("berth.local/x:1", entrypoint=("/bin/x",)), layer, target)
        made.append(target.read_bytes())
    assert made[0] == made[1]
    with tarfile.open(tmp_path / "image1.tar") as tar:
        assert tar.getnames()[0] == "manifest.json"


def test_data_is_copied_with_its_holes(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    with open(old, "wb") as stream:
        stream.truncate(64 << 20)
        stream.seek(8 << 20)
        stream.write(b"middle")
        stream.seek((64 << 20) - 4)
        stream.write(b"last")
    with open(new, "wb") as stream:
        stream.truncate(64 << 20)
    disks._copy_data(old, new)
    assert old.read_bytes() == new.read_bytes()
    assert os.stat(new).st_blocks * 512 < 1 << 20


def test_the_units_of_a_host_with_systemd_start_in_the_order_of_its_services() -> None:
    made = services.services(HOST)
    names = [service["name"] for service in made]
    kubelet = systemd.unit(made[names.index("kubelet")], names[: names.index("kubelet")], {"PATH": "/opt/k:/bin"})
    assert {"After=udev.service containerd.service sshd.service", 'Environment="PATH=/opt/k:/bin"'} <= {
        *kubelet.splitlines()
    }
    assert "ExecStart=/opt/k/kubelet --config=/etc/kubernetes/kubelet.yaml " in kubelet
    assert "After=" not in systemd.unit(made[0], [], {})


def test_a_host_with_systemd_starts_nothing_of_the_machines_packages_but_the_journal(tmp_path: Path) -> None:
    wanted = {"sysinit.target": ("systemd-journald.service", "systemd-sysctl.service"), "timers.target": ("x.timer",)}
    for target, names in wanted.items():
        (tmp_path / f"{target}.wants").mkdir()
        for name in names:
            (tmp_path / f"{target}.wants" / name).touch()
    assert systemd.unwanted(tmp_path) == ["console-getty.service", "systemd-sysctl.service", "x.timer"]


def test_the_scripts_that_run_inside_parse() -> None:
    for script in power.INSIDE.glob("*.sh"):
        subprocess.run(["sh", "-n", script], check=True)
