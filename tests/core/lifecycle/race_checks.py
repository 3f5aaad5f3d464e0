"""What must be so after every write, whoever made it and whoever was killed: the invariants of disks and locks."""

from __future__ import annotations

from collections import Counter

from berth_core.app import orphans
from berth_core.app.claim_disks import not_free
from berth_core.app.observing import Answers, Question, observed
from berth_core.app.phase import AVAILABLE, disk_phase
from berth_core.lifecycle.locks import BERTH_ANNOTATION
from berth_core.lifecycle.view import disks_of
from berth_core.model.disk import LocalDisk
from berth_core.model.resources import BERTH, LOCAL_DEVICE, LOCAL_DISK, POD, PV, PVC
from tests.core.lifecycle.replica_world import APP


def check(world):
    """Raises AssertionError. Of a disk in ``world.torn`` nothing on record tells any more whose its data is: it is not
    Available, nobody's to take, and written to by its owner's pod alone. No other volume is made over a disk below a
    volume whose lock a person has cleared; one that is made ``blind`` of that, from a cache, keeps no holder from its
    own."""
    _one_holder(world)
    _no_data_is_available(world)
    _each_lock_lives_or_is_reported(world)


def _one_holder(world):
    """No two pods have one disk, and no disk that is used or carries data is another one's."""
    used = Counter(disk for taken in world.pods.values() for disk in taken)
    assert all(count == 1 for count in used.values()), f"two pods have one disk: {world.pods}"
    pointed = {}
    for volume in _all(world, PV):
        disk, uid = volume["spec"]["local"]["path"].split("/")[-2], volume["metadata"]["annotations"][BERTH_ANNOTATION]
        if volume["metadata"]["name"] not in world.blind:
            pointed.setdefault(disk, set()).add(world.owners[uid, disk])
    assert all(len(owners) == 1 for owners in pointed.values()), f"two owners' volumes over one disk: {pointed}"
    for pod, taken in world.pods.items():
        for disk, owner in taken.items():
            assert world.data[disk] == owner, f"{pod} writes to {disk}, where the data of {world.data[disk]} is"
    named = {record["metadata"]["uid"]: [each["name"] for each in disks_of(record)] for record in _all(world, BERTH)}
    for disk in _all(world, LOCAL_DISK):
        name, ref = disk["metadata"]["name"], disk["spec"].get("claimRef") or {}
        assert name in named.get(ref.get("uid"), [name]), (
            f"{name} is held by Berth {ref['name']}, which does not name it"
        )


def _no_data_is_available(world):
    """A disk with data is its owner's, or nobody's where a person has cleared its lock; nobody else can have it."""
    for name, owner in world.data.items():
        disk = world.store[LOCAL_DISK, name]
        keeper = disk["spec"].get("claimRef") or disk["spec"].get("retainedFor")
        assert keeper or name in world.torn, f"{name} carries the data of {owner}, and is nobody's"
        ours = keeper is None or keeper["dataUID"] == owner
        assert ours, f"{name} carries the data of {owner}, and is {keeper}"
        assert disk["status"]["phase"] != AVAILABLE, f"{name} carries the data of {owner}, and is Available"
        assert disk_phase(disk["spec"], disk["status"]["observed"]) != AVAILABLE
        assert disk["spec"].get("claimRef") or not_free(LocalDisk.from_object(disk)), f"{name} could be given away"


def _each_lock_lives_or_is_reported(world):
    """By the controller's watch for orphans, and of the app's own by stateful_app_info. Nothing else is reported."""
    stale = _without_berth(world)
    found = world.orphans()
    locks = [one for one in found if one.reason == orphans.LOCK_WITHOUT_BERTH]
    told = {(one.about["metadata"]["name"], one.about["spec"]["claimRef"]["uid"]) for one in locks}
    shares = [one for one in found if one.reason == orphans.DEVICE_WITHOUT_BERTH]
    devices = {one.about["metadata"]["name"] for one in shares}
    held = {(name, uid) for name, uid in stale if (LOCAL_DISK, name) in world.store}
    assert told == held, f"locks without a Berth: {held}; reported: {told}"
    assert devices == {name for name, _uid in stale - held}, f"shares without a Berth: {stale - held}; {devices}"
    lost = {one.about["metadata"]["name"] for one in found if one.reason == orphans.VOLUME_WITHOUT_LOCK}
    cleared = {one["metadata"]["name"] for one in _all(world, PV) if _is_cleared(world, one)}
    assert cleared <= lost, f"volumes whose lock a person has cleared: {cleared}; reported: {lost}"
    seen = seen_of_app(world)
    ours = {(name, uid) for name, uid in held if world.store[LOCAL_DISK, name]["spec"]["claimRef"]["app"] == APP.name}
    assert {(one["metadata"]["name"], one["spec"]["claimRef"]["uid"]) for one in seen.stale_disks()} == ours
    assert {(one["metadata"]["name"], uid) for one, uid in seen.stale_devices()} == stale - held


def _is_cleared(world, volume):
    uid, disk = volume["metadata"]["annotations"][BERTH_ANNOTATION], volume["spec"]["local"]["path"].split("/")[-2]
    ref = world.store[LOCAL_DISK, disk]["spec"].get("claimRef") or {}
    return (uid, disk) in world.cleared and ref.get("uid") != uid


def _without_berth(world):
    """(disk or device, uid) of each lock that no Berth has."""
    alive = {one["metadata"]["uid"] for one in _all(world, BERTH)}
    held = [(one, one["spec"]["claimRef"]) for one in _all(world, LOCAL_DISK) if one["spec"].get("claimRef")]
    held += [(one, ref) for one in _all(world, LOCAL_DEVICE) for ref in one["spec"].get("claimRefs") or ()]
    return {(one["metadata"]["name"], ref["uid"]) for one, ref in held if ref["uid"] not in alive}


def _all(world, resource):
    return [one for (kind, _name), one in world.store.items() if kind == resource]


def seen_of_app(world):
    """The app as stateful_app and stateful_app_info see it."""
    disks = [one for one in _all(world, LOCAL_DISK) if (one["spec"].get("claimRef") or {}).get("app") == APP.name]
    records = [one for one in _all(world, BERTH) if one["spec"]["app"] == APP.name]
    rest = [_all(world, resource) for resource in (PV, PVC, POD)]
    answers = Answers(disks, _all(world, LOCAL_DEVICE), records, *rest, {})
    return observed(Question(APP.name, APP.namespace, APP.workload, None), answers)
