"""Faults that are told as a story: several steps, each looked at. Called by the tests, one after the other."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import BerthError
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_core.app.observed import ready
from tests.daemons.agent.disk_ground import Ground
from tests.daemons.chaos import faults
from tests.daemons.chaos.apps import shell
from tests.daemons.chaos.ground import BANK, BY_DAEMONSET, BY_SERVICE, NAMESPACE, ChaosGround
from tests.daemons.controller.world import World, until
from tests.dev.hosts_help import eventually
from tests.support.agent import AgentOnHost
from tests.support.kube import forget_disks

Chance = random.Random


def with_more(ground: ChaosGround, *names: str, **more: Any) -> dict[str, Any]:
    """The configuration of the agent that is a service, and disks that the ground does not know; ``more``: of each."""
    settings, plugged = ground.settings_of(BY_SERVICE), ground.rooms[BY_SERVICE].plugged
    return {**settings, "disks": [*settings["disks"], *({"serial": plugged[name]["serial"], **more} for name in names)]}


def lun_of_two_nodes(ground: ChaosGround, _chance: Chance) -> None:
    """A held disk of one host comes up in another one, too: both say so, and it is given to nobody there."""
    owner, name = ground.rooms[BY_DAEMONSET[1]], ground.names[BY_DAEMONSET[1], "still"]
    room, lock = ground.rooms[BY_SERVICE], owner.object(name)["spec"]["claimRef"]
    twin = room.plug("48Mi")
    room.name_it(twin, owner.plugged[name]["wwn"])
    room.agent.here(f"head -c 4M /dev/urandom | dd of={room.device(twin)} bs=1M conv=notrunc status=none; sync")
    before = room.checksum(twin)
    room.agent.configure(**with_more(ground, twin))
    try:
        assert f"node {owner.host} sees the same disk" in room.wait_condition(twin, "Matched", "False", "Shared")
        assert f"node {room.host} sees the same disk" in owner.wait_condition(name, "Matched", "False", "Shared")
        with pytest.raises(BerthError, match="another node sees this disk, too"):
            room.ask_wipe(twin, "zero")
        disk = owner.object(name)
        assert (disk["spec"]["claimRef"], disk["status"]["phase"]) == (lock, "InUse")
        assert owner.agent.here(f"findmnt -no SOURCE {owner.point(name)}") == owner.device(name)
        assert room.checksum(twin) == before
        room.pull(twin)
        owner.wait_condition(name, "Matched", "True", "Found")
    finally:
        room.agent.configure(**with_more(ground))
        forget_disks(ground.api, room.object_name(twin))


def namespace_made_anew(ground: ChaosGround, _chance: Chance) -> None:
    """A namespace is deleted with its pod and claim, and somebody else makes one of its name, with the same in it: the
    disk is given to nobody there, and not a byte of it changes."""
    room, name = ground.rooms[BY_SERVICE], ground.rooms[BY_SERVICE].plug("48Mi")
    tenants = World(ground.api, f"{ground.world.name}-tenants")
    settings, entry = ground.settings_of(BY_SERVICE), {"serial": room.plugged[name]["serial"]}
    room.agent.configure(**{**settings, "disks": [*settings["disks"], {**entry, "storage_class": tenants.name}]})
    try:
        tenants.storage_class()
        room.wait_phase(name, "Available")
        _move_in(tenants)
        file = f"{room.point(name)}/data/file"
        until(lambda: room.agent.here(f"cat {file}", check=False) == "precious", lambda: tenants.story("data"))
        lock = room.object(name)["spec"]["claimRef"]
        tenants.delete(kinds.NAMESPACE, tenants.name)
        until(lambda: ground.api.find(kinds.NAMESPACE, tenants.name) is None, lambda: _what_keeps(tenants), 300)
        room.wait(name, "unmounted", lambda disk: disk["status"]["journal"]["step"] == "Unmounted")
        kept, before = room.wait_phase(name, "Released")["spec"]["retainedFor"], room.checksum(name)
        assert (kept["namespaceUID"], kept["dataUID"]) == (lock["namespaceUID"], lock["uid"])
        tenants = World(ground.api, tenants.name)
        _move_in(tenants)
        told = f"LocalDisk {room.object_name(name)} keeps the data of {tenants.name}/pvc.data-0 of an earlier namespace"
        until(lambda: tenants.told("data", "NoDisk", told), lambda: tenants.story("data"))
        spec = room.object(name)["spec"]
        assert (spec.get("claimRef"), spec["retainedFor"]) == (None, kept)
        assert "nodeName" not in ground.api.get(kinds.POD, "app", tenants.name)["spec"]
        assert room.checksum(name) == before
    finally:
        tenants.clear()
        room.agent.configure(**settings)
        forget_disks(ground.api, room.object_name(name))
        room.pull(name)


def _what_keeps(tenants: World) -> str:
    """Why a namespace that is deleted is still there."""
    namespace = tenants.api.find(kinds.NAMESPACE, tenants.name) or {}
    told = [condition.get("message") for condition in (namespace.get("status") or {}).get("conditions") or []]
    remaining = {
        f"{kind.kind} {each['metadata']['name']}": each["metadata"].get("finalizers")
        for kind in (kinds.POD, kinds.PVC, kinds.BERTH)
        for each in tenants.api.list(kind, tenants.name)
    }
    return f"{told}; remaining objects and their finalizers: {remaining}"


def _move_in(tenants: World) -> None:
    """A claim, and a pod that shows what it finds: it writes where there is nothing."""
    write = "[ -e /data/file ] || echo precious > /data/file; sync; exec sleep 3600"
    container = shell(write, volumeMounts=[{"name": "v0", "mountPath": "/data"}])
    tenants.claim("data", "32Mi")
    tenants.pod("app", "data", containers=[container], terminationGracePeriodSeconds=1)


def at(room: Ground, name: str, slot: str) -> bool:
    """The disk has that kernel name, for which it is plugged in again: somebody else's loop device may have it."""
    if room.device(name) != slot:
        room.pull(name)
        room.put_back(name)
    return room.device(name) == slot


def host_comes_back_as_another(ground: ChaosGround, _chance: Chance) -> None:
    """The bank's host dies and its Node is deleted. It comes back under its name: two disks have swapped their kernel
    names, and where the bank's disk was there is a stranger. Then the right disk is put back."""
    room, hosts = ground.rooms[BANK], ground.cluster.hosts
    bank, lock = ground.names[BANK, "bank"], ground.disk(BANK, "bank")["spec"]["claimRef"]
    slot = ground.device(BANK, "bank")
    ground.power_off(BANK)
    ground.cluster.kubectl("delete", "node", BANK)
    room.pull(bank)
    stranger = room.plug("384Mi")
    until(lambda: at(room, stranger, slot), f"{slot} is free again")
    faults.swap_names(ground, BANK, "log", "still")
    ground.power_on(BANK)
    before = room.checksum(stranger)
    message = room.wait_condition(bank, "Matched", "False", "Drift")
    assert hosts.disks(BANK)[0]["serial"] not in message
    assert ground.disk(BANK, "bank")["spec"]["claimRef"] == lock
    for role in ("log", "still"):
        there = ground.device(BANK, role)
        room.wait(
            ground.names[BANK, role],
            f"mounted from {there}",
            lambda disk, there=there: (
                disk["status"]["phase"] == "InUse" and disk["status"]["observed"].get("devicePath") == there
            ),
        )
    assert room.agent.here(f"ls -A {room.point(bank)}") == "", "the bank would begin anew in an empty folder"
    assert not [one for one in ground.pods() if one["metadata"]["name"] == "bank-0" and ready(one)]
    assert room.checksum(stranger) == before
    room.pull(stranger)
    room.put_back(bank)


def node_is_made_again_with_empty_disks(ground: ChaosGround, _chance: Chance) -> None:
    """A new machine takes over the name of a dead one: its empty disks are new disks, and nobody's data is made up."""
    room, lost = ground.rooms[BY_SERVICE], ("queue", "log", "still")
    locks = {role: ground.disk(BY_SERVICE, role)["spec"]["claimRef"] for role in lost}
    ground.power_off(BY_SERVICE)
    ground.cluster.kubectl("delete", "node", BY_SERVICE)
    for role in lost:
        room.pull(ground.names[BY_SERVICE, role])
    empty = room.plug("56Mi")
    entry = {"serial": room.plugged[empty]["serial"], "storage_class": f"{ground.world.name}-queue"}
    ground.power_on(BY_SERVICE, entry)
    room.wait_phase(empty, "Available")
    before = room.checksum(empty)
    for role in lost:
        disk = room.wait_phase(ground.names[BY_SERVICE, role], "Missing")
        assert disk["spec"]["claimRef"] == locks[role]
        assert room.agent.here(f"ls -A {room.point(ground.names[BY_SERVICE, role])}") == ""
    assert "claimRef" not in room.object(empty)["spec"]
    assert room.checksum(empty) == before
    for role in lost:
        room.put_back(ground.names[BY_SERVICE, role])
    forget_disks(ground.api, room.object_name(empty))
    room.agent.configure(**ground.settings_of(BY_SERVICE))
    room.pull(empty)


def leaders_are_paused(ground: ChaosGround, chance: Chance) -> None:
    """An agent that stops in the middle of its work for longer than its Lease, with a second one on its node; and the
    leading controller the same. Both come back and think that nothing has happened."""
    host = "h2"
    second = AgentOnHost(ground.cluster, host, "second").install(**ground.settings_of(host))
    first = ground.agent_pid(host)
    held = second.lease()["spec"]["holderIdentity"]
    second.start()
    try:
        eventually(lambda: "leads, " in second.log(), 60, "the second agent stands back")
        assert second.lease()["spec"]["holderIdentity"] == held
        losses = ground.losses(host)
        second.here(f"kill -STOP {first}")
        try:
            faults.leading_controller_is_paused(ground, chance)
            until(lambda: second.lease()["spec"]["holderIdentity"] != held, ground.story)
            served = ground.churn.served
            until(lambda: ground.churn.served > served + 2, ground.story)
        finally:
            second.here(f"kill -CONT {first}")
        until(lambda: ground.losses(host) > losses, lambda: _log_of(ground, host))
        assert second.lease()["spec"]["holderIdentity"] != held
    finally:
        second.stop()
        until(lambda: second.lease()["spec"].get("holderIdentity") == held, ground.story)
        second.clean()


def _log_of(ground: ChaosGround, host: str) -> str:
    pod = ground.agent_pod(host)
    assert pod is not None
    return str(ground.cluster.kubectl("logs", pod["metadata"]["name"], "-n", NAMESPACE, "--tail", "200"))
