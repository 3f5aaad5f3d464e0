"""A disk on a real host: made ready under a living lock alone, released, wiped; the agent is killed anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import BerthError
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import PV
from tests.daemons.agent.disk_ground import NAMESPACE, ROOT, Ground
from tests.dev.hosts_help import eventually
from tests.support.agent import conditions_of
from tests.support.kube import client_for

pytestmark = [pytest.mark.hosts, pytest.mark.slow, pytest.mark.promise]
HOST = "h3"
INSIDE = "strace -f -o /dev/null -e trace=pwrite64 -e inject=pwrite64:signal=KILL:when={write} $REAL"


@pytest.fixture
def ground(dev_cluster: Any, rights: None) -> Iterator[Ground]:
    made = Ground(dev_cluster, HOST)
    yield made
    made.clean()


def test_from_the_lock_to_the_wipe(ground: Ground) -> None:
    mine, other = ground.plug(), ground.plug()
    ground.agent.here(f"head -c 1M /dev/urandom > {ground.device(other)}; sync")
    before = ground.checksum(other)
    ground.declare()
    ground.agent.start()
    ground.wait_phase(mine, "Available")

    lock = ground.lock(mine, phase="Selected")
    assert "is Selected" in ground.wait_condition(mine, "Prepared", "False", "Waiting")
    assert ground.agent.here(f"blkid -p {ground.device(mine)} || echo blank") == "blank"
    ground.record(lock["name"], "Reserved")
    ground.wait_mounted(mine, lock)
    ground.agent.here(f"echo precious > {ground.point(mine)}/data/file")

    ground.release(mine, lock)
    ground.wait(mine, "unmounted", lambda disk: disk["status"]["journal"]["step"] == "Unmounted")
    ground.wait_phase(mine, "Released")
    again = {**ground.berth(mine), "dataUID": lock["dataUID"]}
    ground.patch(mine, retainedFor=None, claimRef=again)
    ground.wait_mounted(mine, again)
    a_path_for_its_namespace_alone(ground, mine)

    ground.release(mine, again)
    ground.wait(mine, "unmounted", lambda disk: disk["status"]["journal"]["step"] == "Unmounted")
    ground.wait(mine, "seen to be unmounted", lambda disk: not disk["status"]["observed"].get("mounts"))
    assert ground.linked(mine) == {}
    # Asked for as a user does, by the module: with another disk's identity it is refused, and nothing is asked for.
    keys = dict.fromkeys(("wwn", "serial", "model", "size", "by_path"))
    disk = ground.object(mine)
    wanted = {"method": "zero", "request_id": None, "requested_by": "ann"}
    refused = ask(ground, mine, {**wanted, "identity": {**keys, "serial": ground.plugged[other]["serial"]}})
    assert "is not that of the disk" in refused["msg"], refused
    assert "wipe" not in ground.object(mine)["spec"]
    done = ask(ground, mine, {**wanted, "identity": {**keys, "serial": ground.plugged[mine]["serial"]}})
    assert done["changed"], done
    disk = ground.object(mine)
    assert {"wipe", "retainedFor"}.isdisjoint(disk["spec"])
    last = disk["status"]["lastWipe"]
    assert done["wipe"]["requestID"] == last["requestID"]
    assert (last["result"], last["method"], last["requestedBy"]) == ("Succeeded", "zero", "ann")
    assert last["bytes"] == disk["spec"]["identity"]["size"]
    ground.wait_phase(mine, "Available")
    assert ground.agent.here(f"tr -d '\\0' < {ground.device(mine)} | wc -c") == "0"
    assert ground.checksum(other) == before


def test_a_filesystem_of_before_is_left_to_its_host_and_never_made(ground: Ground) -> None:
    """As stateful_app_adoption puts it on record; then given up, and taken again over a volume of berth's own."""
    mine = ground.plug()
    device, place = ground.device(mine), f"/mnt/{mine}"
    ground.agent.here(f"mkfs.ext4 -q {device} && mkdir -p {place} && mount {device} {place} && echo old > {place}/file")
    uuid = ground.agent.here(f"blkid -p -o value -s UUID {device}")
    ground.declare(**{mine: {"reserved": True}})
    ground.agent.start()
    ground.wait_phase(mine, "Pending")
    seen = ground.wait(
        mine, "seen where it is mounted", lambda disk: disk["status"]["observed"].get("mounts") == [place]
    )
    assert seen["status"]["observed"]["filesystem"]["uuid"] == uuid

    lock = {**ground.berth(mine), "dataUID": "of-the-volume", "filesystemUUID": uuid}
    lock.update(volume="pv-of-before", mountPoint=place)
    ground.patch(mine, reserved=False, retainedFor={key: lock[key] for key in lock if key not in ("name", "uid")})
    ground.patch(mine, retainedFor=None, claimRef=lock)
    words = ground.wait_condition(mine, "Prepared", "True", "MountedByHost")
    assert f"the host itself mounts it at {place} for PersistentVolume pv-of-before" in words
    ground.wait_phase(mine, "InUse")
    assert ground.linked(mine) == {}
    assert ground.agent.here(f"ls -A {place}").split() == ["file", "lost+found"], "nothing is written there"
    ground.agent.here(f"umount {place}")
    ground.wait_condition(mine, "Prepared", "False", "NotMountedByHost")
    assert ground.agent.here(f"findmnt -n {device}", check=False) == ""

    ground.release(mine, lock, filesystemUUID=uuid)
    again = {**ground.berth(mine), "dataUID": "of-the-volume", "filesystemUUID": uuid}
    ground.patch(mine, retainedFor=None, claimRef=again)
    point, path = ground.point(mine), ground.link(mine)
    assert f"{point}/.berth-data" in ground.wait_condition(mine, "Prepared", "False", "Failed")
    assert ground.agent.here(f"ls {path}/ 2>&1 || echo absent", check=False).endswith("absent"), (
        "no pod gets an empty one"
    )
    ground.agent.here(f"cd {point} && mkdir .berth-data && mv file .berth-data")
    ground.wait_condition(mine, "Prepared", "True", "Mounted")
    assert ground.agent.here(f"cat {path}/file") == "old"


def a_path_for_its_namespace_alone(ground: Ground, name: str) -> None:
    """Also where an agent of a release before, which makes no such path, has mounted it, and one of another is left."""
    path, data = ground.link(name), f"../../{ground.object_name(name)}/data"
    folder = path.rpartition("/")[0]
    assert ground.linked(name) == {NAMESPACE: data}
    assert ground.agent.here(f"stat -c %a {ROOT}/.namespaces {folder}").split() == ["700", "700"]
    ground.agent.stop()
    ground.agent.here(f"rm {path}; ln -s {data} {folder}/another")
    ground.agent.start(log="second")
    eventually(lambda: ground.linked(name) == {NAMESPACE: data}, 60, "the path to a disk that was mounted before")
    assert ground.agent.here(f"cat {ground.point(name)}/data/file {path}/file").split() == ["precious"] * 2


def test_a_disk_whose_volume_is_still_used_stays_mounted(ground: Ground) -> None:
    """Its app was released from berth: until the volume goes the filesystem stays where the volume's path leads."""
    disk = ground.plug()
    ground.declare()
    ground.agent.start()
    ground.wait_phase(disk, "Available")
    lock = ground.lock(disk)
    ground.wait_mounted(disk, lock)
    linked, volume = ground.linked(disk), f"{ground.object_name(disk)}-left"
    assert linked
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [HOST]}]}
    spec = {
        "capacity": {"storage": "64Mi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "local": {"path": ground.link(disk)},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    client = client_for(ground.cluster.kubeconfig)
    client.create(PV, {"metadata": {"name": volume}, "spec": spec})
    try:
        ground.release(disk, lock, volume=volume)
        assert volume in ground.wait_condition(disk, "Prepared", "True", "LeftToVolume")
        live = ground.wait_phase(disk, "Released")
        assert (live["status"]["journal"]["step"], ground.linked(disk)) == ("Mounted", linked)
        ground.agent.here(f"test -d {ground.link(disk)} && mountpoint -q {ground.point(disk)}")
    finally:
        client.delete(PV, volume)
    ground.patch(disk, unschedulable=True)  # it looks again
    ground.wait(disk, "unmounted", lambda live: live["status"]["journal"]["step"] == "Unmounted")
    assert ground.linked(disk) == {}


def ask(ground: Ground, name: str, wipe: dict[str, Any]) -> dict[str, Any]:
    """The module local_disk asks for the wipe and waits for the agent."""
    from ansible_collections.berth.stateful.plugins.module_utils._glue import local_disk
    from tests.apiserver.test_local_disk import runner

    disk = runner(local_disk.OPERATION, ground.agent.cluster.kubeconfig)
    return disk(name=ground.object_name(name), force_retained=True, wait_timeout=300, wipe=wipe)


def test_a_lock_whose_berth_is_another_one_is_nobody_s(ground: Ground) -> None:
    mine = ground.plug()
    ground.declare()
    ground.agent.start()
    ground.wait_phase(mine, "Available")
    before = ground.checksum(mine)
    ground.patch(mine, claimRef={**ground.berth(mine), "uid": "u-old", "dataUID": "u-old"})
    assert "there is no such berth" in ground.wait_condition(mine, "Prepared", "False", "Waiting")
    assert ground.checksum(mine) == before


BEFORE, AFTER, COUNTED = "kill -9 $PPID", '$REAL "$@"; kill -9 $PPID', 'exec $REAL "$@"'


def inside(write: int) -> str:
    """The program is killed at that write of its, and the agent then."""
    return INSIDE.format(write=write) + ' "$@"; kill -9 $PPID'


def dies(ground: Ground, disk: str, step: str) -> None:
    """The agent that was started last, while the journal of the disk is at this step."""
    eventually(lambda: not ground.agent.alive(), 60, "the death of the agent")
    assert ground.object(disk)["status"]["journal"]["step"] == step


@pytest.mark.timeout(600)
def test_killed_around_each_program_on_the_way_to_a_mounted_disk_and_back(ground: Ground) -> None:
    """One life of two disks: each agent goes on where the one before it died, and dies at the next place.

    What the journal, the disk and the mounts are at a death does not depend on how the agent came there.
    """
    xfs, mine = ground.plug("320Mi"), ground.plug("64Mi")
    ground.declare(**{xfs: {"fs_type": "xfs"}})
    ground.agent.start(environment=ground.wrappers({"mkfs.xfs": inside(30)}))
    for disk in (xfs, mine):
        ground.wait_phase(disk, "Available")
    other = ground.lock(xfs)
    dies(ground, xfs, "Formatting")
    ground.agent.start(environment=ground.wrappers({"mkfs.xfs": COUNTED, "mkfs.ext4": BEFORE}))
    ground.wait_mounted(xfs, other)
    assert ground.calls("mkfs.xfs") == 1
    assert ground.agent.here(f"findmnt -no FSTYPE {ground.point(xfs)}") == "xfs"

    lock = ground.lock(mine)
    dies(ground, mine, "Formatting")
    assert ground.agent.here(f"blkid -p {ground.device(mine)} || echo blank") == "blank"
    for script in (inside(40), AFTER):  # each time it is made anew: nobody knows how far the one before has come
        ground.agent.start(environment=ground.wrappers({"mkfs.ext4": script, "mkfs.xfs": COUNTED}))
        dies(ground, mine, "Formatting")
        assert ground.calls("mkfs.ext4") == 1
    for script in (BEFORE, AFTER):  # it is whole, and never made again
        ground.agent.start(environment=ground.wrappers({"mkfs.ext4": COUNTED, "mount": script}))
        dies(ground, mine, "Mounting")
        assert (ground.calls("mkfs.ext4"), ground.calls("mount")) == (0, 1)

    ground.agent.start(environment=ground.wrappers({"mkfs.ext4": COUNTED, "umount": BEFORE}))
    ground.wait_mounted(mine, lock)
    assert ground.calls("mkfs.ext4") == 0
    assert ground.agent.here(f"findmnt -no FSTYPE {ground.point(mine)}") == "ext4"
    ground.agent.here(f"echo precious > {ground.point(mine)}/data/file; sync")
    ground.release(mine, lock)
    dies(ground, mine, "Unmounting")
    ground.agent.start(environment=ground.wrappers({"umount": AFTER}))
    dies(ground, mine, "Unmounting")
    ground.agent.start()
    ground.wait(mine, "unmounted", lambda disk: disk["status"]["journal"]["step"] == "Unmounted")
    ground.wait_phase(mine, "Released")
    ground.agent.here(f"mount -o ro {ground.device(mine)} /mnt")
    assert ground.agent.here("cat /mnt/data/file; umount /mnt") == "precious"
    ground.wait_mounted(xfs, other)


def test_killed_in_the_middle_of_a_wipe(ground: Ground) -> None:
    mine = ground.plug("128Mi")
    ground.declare()
    ground.agent.here(f"head -c 8M /dev/urandom | dd of={ground.device(mine)} bs=1M seek=100 status=none; sync")
    ground.agent.start()
    ground.wait_phase(mine, "Available")
    with ground.halted_wipers():
        request = ground.ask_wipe(mine, "random")
        ground.wait(mine, "some progress", lambda disk: disk["status"].get("wipe", {}).get("offset", 0) > 0)
        ground.agent.signal("KILL")
    journal = ground.object(mine)["status"]["wipe"]
    assert (journal["requestID"], journal["step"], journal["method"]) == (request, "Overwriting", "random")
    assert journal["offset"] < journal["size"]
    assert conditions_of(ground.object(mine))["Wiped"] == ("False", "Wiping")
    ground.agent.start(log="second")
    disk = ground.wait(mine, "cleared", lambda disk: "wipe" not in disk["spec"])
    assert (disk["status"]["lastWipe"]["result"], disk["status"]["lastWipe"]["bytes"]) == ("Succeeded", 128 << 20)
    assert disk["status"]["lastWipe"]["startTime"] == journal["startTime"]
    started = next(line for line in ground.agent.log("second").splitlines() if "wiping /dev" in line)
    assert int(started.rsplit("byte ", 1)[1].strip('"')) >= journal["offset"]
    ground.wait_phase(mine, "Available")


def test_two_wipes_at_a_time_and_one_whose_process_is_killed(ground: Ground) -> None:
    """The agent's memory limit holds two of them; the kernel's answer to too many would be this very signal."""
    disks = [ground.plug("128Mi") for _each in range(3)]
    ground.declare()
    ground.agent.start()
    for name in disks:
        ground.wait_phase(name, "Available")
    agent = ground.agent.pids[-1]

    def waiting() -> list[str]:
        return [name for name in disks if conditions_of(ground.object(name)).get("Wiped") == ("False", "Waiting")]

    with ground.halted_wipers():
        for name in disks:
            ground.ask_wipe(name, "random")
        (last,) = eventually(waiting, 60, "one that waits")
        assert "wipe" not in ground.object(last)["status"]
        for name in disks:
            if name != last:
                ground.wait(name, "some progress", lambda disk: disk["status"].get("wipe", {}).get("offset", 0) > 0)
        assert ground.agent.here(f"pgrep --count --parent {agent} --full berth_host.wiper") == "2"
        ground.agent.here(f"pkill -KILL --parent {agent} --full berth_host.wiper")
    first = next(name for name in disks if name != last)
    for name in disks:
        disk = ground.wait(name, "cleared", lambda disk: "wipe" not in disk["spec"])
        assert (disk["status"]["lastWipe"]["result"], disk["status"]["lastWipe"]["bytes"]) == ("Succeeded", 128 << 20)
    assert ground.agent.log().count("was killed at byte") == 2

    # With other data on the disk, the request that was carried out destroys nothing, and is not taken for done.
    lock = ground.lock(first)
    ground.wait_mounted(first, lock)
    last = ground.object(first)["status"]["lastWipe"]
    assert last["lockUID"] == lock["uid"]
    ground.release(first, lock)
    with pytest.raises(BerthError, match="has been held since"):
        ground.ask_wipe(first, "zero", request=last["requestID"])

    # An etcd that is restored from a backup has forgotten that wipe; the host has not.
    blank = next(name for name in disks if name != first)
    for name in (first, blank):
        request = ground.object(name)["status"]["lastWipe"]["requestID"]
        forget = json.dumps({"status": {"lastWipe": None}})
        disk = ground.object_name(name)
        ground.cluster.kubectl("patch", "ld", disk, "--subresource=status", "--type=merge", "-p", forget)
        ground.ask_wipe(name, "random", request=request)
    assert "carried out on this host before" in ground.wait_condition(first, "Wiped", "False", "Refused")
    ground.wait(blank, "cleared again", lambda disk: "wipe" not in disk["spec"])
    assert ground.agent.here(f"blkid -p -o value -s UUID {ground.device(first)}") == ground.uuid(first, lock)


def test_a_wipe_that_is_taken_back_and_a_filesystem_that_is_gone(ground: Ground) -> None:
    mine = ground.plug("128Mi")
    ground.declare()
    ground.agent.start()
    ground.wait_phase(mine, "Available")
    with ground.halted_wipers():
        request = ground.ask_wipe(mine, "random")
        ground.wait(mine, "some progress", lambda disk: disk["status"].get("wipe", {}).get("offset", 0) > 0)
        ground.patch(mine, wipe=None)
        assert "was taken back" in ground.wait_condition(mine, "Wiped", "False", "Failed")
    status = ground.object(mine)["status"]
    assert (status["lastWipe"]["requestID"], status["lastWipe"]["result"]) == (request, "Failed")
    assert "wipe" not in status
    ground.wait_phase(mine, "Pending")  # what is left of it at the beginning is data of nobody knows whom
    ground.ask_wipe(mine, "signatures")
    ground.wait(mine, "free", lambda disk: disk["status"]["phase"] == "Available" and "wipe" not in disk["spec"])

    lock = ground.lock(mine)
    ground.wait_mounted(mine, lock)
    ground.agent.stop()
    ground.agent.here(f"umount {ground.point(mine)}; blkdiscard -fz {ground.device(mine)}")
    before = ground.checksum(mine)
    ground.agent.start(log="second")
    assert "for this very lock" in ground.wait_condition(mine, "Prepared", "False", "Refused")
    assert ground.checksum(mine) == before
