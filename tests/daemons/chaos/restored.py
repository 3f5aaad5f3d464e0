"""etcd is restored from a backup under all that runs, told as a story as those of one_by_one. Called by test_chaos.

passed  a claim's at the time of the backup; since then wiped, and another claim's
raw     the same, without a filesystem
asked   to be wiped at that time; since then wiped, and a claim's
taken   free at that time, and a claim's since
grown   free at that time; since then one of an application that has grown
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Collection
from typing import Any

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_core.app.observed import ready
from berth_core.errors import BerthError
from berth_dev.errors import DevError
from tests.daemons.agent.disk_ground import Ground
from tests.daemons.chaos.ground import BY_SERVICE, CHURNING, HOSTS, ChaosGround
from tests.daemons.controller.world import until
from tests.support.agent import conditions_of
from tests.support.etcd_backup import Backup
from tests.support.kube import forget_disks

CLAIMED = ("passed", "raw", "asked", "taken")
#: What the backup says of their holders.
WORDS = {
    "passed": "made for this very lock before the other came",
    "raw": "destroyed on this host: what is on the disk came since",
}
#: The claim of the replica that the application has grown by.
GROWN = "data-queue-2"
#: Claims that come and go between backup and restore: more than there are disks for them.
TURNS = 8
#: Seconds between two wipe requests for one disk: until the agent answers, the status shows the previous refusal.
REQUEST_INTERVAL = 30.0


def etcd_is_restored(ground: ChaosGround, _chance: random.Random) -> None:
    """Nothing that came to a disk since the backup is wiped, formatted, given out or shown to whom the backup names;
    each such disk says so, and is free again when a person has given that up. The database notices nothing."""
    room, disks = ground.rooms[BY_SERVICE], _more_disks(ground)
    backup, homes = _backed_up(ground, disks), _homes(ground)
    _gone_on(ground, disks)
    data = {role: _data(room, role, name) for role, name in disks.items()}
    commits, connections = len(ground.bank.acknowledged()), ground.bank.connections()

    backup.restore()
    ground.witness_is_awake()
    _is_told(ground, disks)
    _churn_is_given_up(ground)
    until(lambda: _are_home(ground, homes), ground.story)
    assert len(ground.bank.acknowledged()) > commits
    assert ground.bank.connections() == connections, "the database's connection was lost"
    for role, name in disks.items():
        assert _data(room, role, name) == data[role], f"{role}: the data that came since the backup has changed"
    _are_given_up(room, disks.values(), ground.world.name)
    room.agent.configure(**ground.settings_of(BY_SERVICE))
    forget_disks(ground.api, *(room.object_name(name) for name in disks.values()))
    for role, name in disks.items():
        room.pull(name)
        if role in CLAIMED:
            ground.world.delete(kinds.STORAGE_CLASS, f"{ground.world.name}-{role}")


def _more_disks(ground: ChaosGround) -> dict[str, str]:
    """Each with a class of its own, so that it is known which claim gets it; their short names."""
    room, world = ground.rooms[BY_SERVICE], ground.world
    classes = {role: world.storage_class(policy="Delete", suffix=f"-{role}") for role in CLAIMED}
    classes["grown"] = f"{world.name}-queue"
    disks, entries = {role: room.plug() for role in classes}, []
    for role, name in disks.items():
        mode = {"volume_mode": "Block"} if role == "raw" else {}
        serial, given = room.plugged[name]["serial"], {"storage_class": classes[role], "reclaim_policy": "Delete"}
        entries.append({"serial": serial, **given, **mode})
    settings = ground.settings_of(BY_SERVICE)
    room.agent.configure(**{**settings, "disks": [*settings["disks"], *entries]})
    for name in disks.values():
        room.wait_phase(name, "Available")
    return disks


def _backed_up(ground: ChaosGround, disks: dict[str, str]) -> Backup:
    room = ground.rooms[BY_SERVICE]
    _live(ground, {role: f"first-{role}" for role in WORDS}, disks)
    holder = room.hold(disks["asked"])
    room.ask_wipe(disks["asked"], "signatures")
    room.wait_condition(disks["asked"], "Wiped", "False", "Refused")
    backup = Backup(ground.cluster, ground.folder).save()
    room.agent.here(f"kill -KILL {holder}")
    return backup


def _gone_on(ground: ChaosGround, disks: dict[str, str]) -> None:
    """All that the backup does not know."""
    room, world, served = ground.rooms[BY_SERVICE], ground.world, ground.churn.served
    for role in WORDS:
        world.delete(kinds.PVC, f"first-{role}")
    ground.cluster.kubectl("scale", "statefulset", "queue", "--replicas=3", "-n", world.name)
    ground.counters.scale_log(ground.cluster, ground.folder, 2)
    for role in CLAIMED:
        room.wait_phase(disks[role], "Available")
    _live(ground, {role: f"since-{role}" for role in CLAIMED}, disks)
    until(lambda: any(one["metadata"]["name"] == "queue-2" and ready(one) for one in ground.pods()), ground.story)
    until(lambda: "log-2" not in _homes(ground), ground.story)
    until(lambda: ground.churn.served > served + TURNS, ground.story)


def _live(ground: ChaosGround, claims: dict[str, str], disks: dict[str, str]) -> None:
    """role -> its claim: each gets the role's disk, and data of its own on it."""
    room, world = ground.rooms[BY_SERVICE], ground.world
    for role, claim in claims.items():
        mode = "Block" if role == "raw" else "Filesystem"
        world.claim(claim, "32Mi", f"{world.name}-{role}", volumeMode=mode)
    for role, claim in claims.items():
        name = disks[role]
        world.wait_bound(claim)
        if role == "raw":
            room.wait_condition(name, "Prepared", "True", "Raw")
            to = f"of={room.device(name)} bs=1M seek=8 conv=notrunc status=none"
            room.agent.here(f"head -c 4M /dev/urandom | dd {to}")
        else:
            room.wait_phase(name, "InUse")
            room.agent.here(f"head -c 4M /dev/urandom > {room.point(name)}/data/{claim}")


def _data(room: Ground, role: str, name: str) -> list[str]:
    """What is on the disk, whether it is mounted or not; of an application that goes on writing, whose it is."""
    if role == "raw":
        return room.checksum(name)
    if role == "grown":
        return [room.agent.here(f"blkid -p -o value -s UUID {room.device(name)}")]
    look, point = "sync -f . && sha256sum *", f"{room.point(name)}/data"
    aside = f"mount -o ro {room.device(name)} /mnt; (cd /mnt/data && {look}); umount /mnt"
    return room.agent.here(f"if [ -e {point} ]; then cd {point} && {look}; else {aside}; fi").splitlines()


def _homes(ground: ChaosGround) -> dict[str, str]:
    """pod -> its host."""
    return {one["metadata"]["name"]: one["spec"].get("nodeName", "") for one in ground.pods()}


def _are_home(ground: ChaosGround, homes: dict[str, str]) -> bool:
    ground.start_kube_scheduler()
    return _homes(ground) == homes


def _is_told(ground: ChaosGround, disks: dict[str, str]) -> None:
    """By each disk, with its name; and whom the backup names finds nothing at the path of its volume."""
    room = ground.rooms[BY_SERVICE]
    for role, words in WORDS.items():
        message = room.wait_condition(disks[role], "Prepared", "False", "Refused")
        assert words in message
        assert room.object_name(disks[role]) in message
        assert room.object(disks[role])["spec"]["claimRef"]["claim"] == f"first-{role}"
    words = "was carried out on this host before"
    room.wait(disks["asked"], words, lambda disk: words in str(disk["status"]["conditions"]))
    for role in ("taken", "grown"):
        disk = room.wait_phase(disks[role], "Pending")
        assert "claimRef" not in disk["spec"]
        assert conditions_of(disk)["Ready"] == ("False", "ForeignSignature")
    for role in set(disks) - {"raw"}:
        until(lambda role=role: room.agent.here(f"ls -A {room.point(disks[role])}") == "", ground.story)


def _churn_is_given_up(ground: ChaosGround) -> None:
    """Disks of claims that came and went: when these are gone, a person gives each disk up that says what is wrong,
    until all are free, and blank."""
    rooms = {(host, role): ground.rooms[host] for host in HOSTS for role in CHURNING}
    requested = dict.fromkeys(rooms, float("-inf"))

    def all_are_free() -> bool:
        disks = {key: disk for key, disk in ground.disks().items() if key in rooms}
        with contextlib.suppress(BerthError, DevError):  # its agent was faster
            for key, disk in disks.items():
                if _is_told_of(disk) and time.monotonic() - requested[key] >= REQUEST_INTERVAL:
                    _asked_anew(rooms[key], ground.names[key])
                    requested[key] = time.monotonic()
        return all(_is_free(disk) and _is_blank(ground, *key) for key, disk in disks.items())

    def story() -> str:
        disks = [disk for key, disk in ground.disks().items() if key in rooms and not _is_free(disk)]
        told = [f"{disk['metadata']['name']}: {disk['spec']} {conditions_of(disk)}" for disk in disks]
        return "\n".join([*told, ground.story()])

    with ground.churn.quiet():
        until(all_are_free, story, 300)


def _is_told_of(disk: dict[str, Any]) -> bool:
    """Free, or to be wiped, and it says that it carries what it should not."""
    said = conditions_of(disk)
    if disk["spec"].get("wipe"):
        return said.get("Wiped") in (("False", "Refused"), ("False", "Failed"))
    return not disk["spec"].get("claimRef") and said.get("Ready") == ("False", "ForeignSignature")


def _is_free(disk: dict[str, Any]) -> bool:
    return bool(disk["status"]["phase"] == "Available") and not disk["spec"].get("wipe")


def _is_blank(ground: ChaosGround, host: str, role: str) -> bool:
    """As its host has it: the status may be that of the backup."""
    return ground.rooms[host].agent.here(f"blkid -p -o value -s TYPE {ground.device(host, role)}", check=False) == ""


def _asked_anew(room: Ground, name: str) -> None:
    """As docs/guides/operating.md says."""
    room.patch(name, wipe=None)
    room.ask_wipe(name, "signatures")


def _are_given_up(room: Ground, names: Collection[str], namespace: str) -> None:
    """Whoever holds one in the backup is given up first, and whom a controller made of what it knew from before."""
    room.cluster.kubectl("delete", "pvc", GROWN, "-n", namespace, "--ignore-not-found")
    locks = {name: lock for name in names if (lock := room.object(name)["spec"].get("claimRef"))}
    for lock in locks.values():
        room.cluster.kubectl("delete", "pvc", lock["claim"], "-n", lock["namespace"])
    for name in locks:
        room.wait_condition(name, "Wiped", "False", "Refused")
    for name in names:
        _asked_anew(room, name)
    for name in names:
        room.wait_phase(name, "Available")
