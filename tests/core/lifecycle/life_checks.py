"""What must be so of every write that berth makes, whoever makes it and whatever was interrupted before.

`race_checks.check`, of disks, locks and data, is asked beside it, after every change of the world.
"""

from __future__ import annotations

from berth_core.app.pod_revision import RESIZING, updating
from berth_core.app.wanted import ORDINAL_LABEL
from berth_core.lifecycle import states
from berth_core.lifecycle.locks import BERTH_ANNOTATION
from berth_core.lifecycle.view import disks_of, recorded
from berth_core.model.over_disk import berth_uid, disk_below
from berth_core.model.resources import BERTH, LOCAL_DISK, POD, PV, PVC, STATEFUL_SET

#: How a request is called in the table of states.
CALLED = {
    ("create", PV): ("create", "PersistentVolume"),
    ("create", PVC): ("create", "PersistentVolumeClaim"),
    ("delete", PV): ("delete", "PersistentVolume"),
    ("delete", PVC): ("delete", "PersistentVolumeClaim"),
    ("delete", BERTH): ("delete", "Berth"),
}
#: What is made again where it is missing, in every later phase of the way forward (situations: hold, prebind).
KEPT_UP = (("create", "PersistentVolume"), ("create", "PersistentVolumeClaim"), ("lock", "LocalDisk"))


def written(world, actor, request, before, after, options):
    """``request``: (verb, kind, subresource). ``before``, ``after``: the object, None: it is not there."""
    do, resource, _subresource = request
    if resource == LOCAL_DISK and before is not None and after is not None:
        _disk(world, actor, before, after)
    elif resource == BERTH:
        _berth(world, actor, do, before, after)
    elif (do, resource) in CALLED:
        _is_a_step(world, CALLED[do, resource], before or after)
    elif resource == POD and before is not None:
        _pod(world, actor, before, after, options.get("grace"))
    elif resource == STATEFUL_SET and after is not None and actor.now is not None:
        _set(world, actor, before, after)


# -- the table of states ---------------------------------------------------------------------------------------------


def _sources(called):
    """The phases in which the table has such a write."""
    rows = [row for row in states.TABLE if called in {(effect.verb, effect.what) for effect in row.writes}]
    found = {phase for row in rows for phase in row.sources}
    if called in KEPT_UP:
        found |= {
            later for phase in found & {*states.PHASES} for later in states.PHASES if states.reached(later, phase)
        }
    return found


def _is_a_step(world, called, thing, record=None):
    """The write is one of a row of the table that begins in the phase of its Berth. What is left of a Berth that is
    gone may go at any time."""
    record = record or (_record_of(world, thing) if thing is not None else None)
    if record is not None:
        name, phase = thing["metadata"]["name"], recorded(record)
        assert phase in _sources(called), f"{' '.join(called)} {name} in phase {phase} of {record['metadata']['name']}"


def _record_of(world, thing):
    """The Berth that it was made for; of what a StatefulSet's controller has made, that of the volume it has."""
    uid = (thing["metadata"].get("annotations") or {}).get(BERTH_ANNOTATION)
    if uid is None:
        volume = world.store.get((PV, thing["spec"].get("volumeName")))
        uid = berth_uid(volume) if volume is not None else None
    return next((one for one in world.all(BERTH) if one["metadata"]["uid"] == uid), None)


def _disk(world, actor, before, after):
    was, now = (one["spec"].get("claimRef") for one in (before, after))
    name, node = after["metadata"]["name"], after["spec"]["nodeName"]
    if was is None and now is not None:
        record = _berth_with(world, now["uid"])
        assert record is not None, f"{name} is locked for a Berth that is not there"
        assert name in [each["name"] for each in disks_of(record)]
        _is_a_step(world, ("lock", "LocalDisk"), after, record)
    if was is not None and now is None:
        users = [pod for pod, taken in world.pods.items() if name in taken]
        record = _berth_with(world, was["uid"])
        over = [
            one["metadata"]["name"] for one in world.all(PV) if disk_below(one) == name and berth_uid(one) == was["uid"]
        ]
        assert record is None or not (users or over), f"{name} is given up under {users or over}"
        if record is not None:
            _is_a_step(world, ("unlock", "LocalDisk"), after, record)
    if after["spec"].get("unschedulable") and not before["spec"].get("unschedulable"):
        ref = was or before["spec"].get("retainedFor")
        lost = node in (world.off if was else world.lost)
        named = actor.now is None or actor.now.gives_up(ref["ordinal"], node, lost)
        assert named, f"{actor.name} gives up the data of db-{ref['ordinal']} on {name}, which nobody has named"


def _berth_with(world, uid):
    return next((one for one in world.all(BERTH) if one["metadata"]["uid"] == uid), None)


def _berth(world, actor, do, before, after):
    if before is None and after is not None:
        assert recorded(after) == states.SELECTED
        for each in disks_of(after):
            _keeps_its_data(world, after, each)
    elif do == "delete" and before is not None and after is None:
        held = [one["metadata"]["name"] for one in world.all(LOCAL_DISK) if _holder(one) == before["metadata"]["uid"]]
        assert not held, f"Berth {before['metadata']['name']} goes before its locks {held}"
        assert recorded(before) in _sources(("delete", "Berth")), f"a Berth in {recorded(before)} is deleted"
    elif before is not None and after is not None and recorded(before) != recorded(after):
        assert states.may_follow(recorded(before), recorded(after))
        if recorded(after) == states.RUNNING:
            pod = world.store.get((POD, after["metadata"]["name"]))
            assert pod is not None
            assert pod["spec"].get("nodeName") in (None, after["spec"]["nodeName"])


def _holder(disk):
    return (disk["spec"].get("claimRef") or {}).get("uid")


def _keeps_its_data(world, record, each):
    """A replica is placed where its data is, unless its disk was cordoned for it: that is looked at when it happens."""
    claim = f"{each['claim']}-{record['metadata']['name']}"
    home = world.store.get((LOCAL_DISK, world.homes.get(claim)))
    if home is None or home["metadata"]["name"] == each["name"] or home["spec"].get("unschedulable"):
        return
    kept = home["spec"].get("claimRef") or home["spec"].get("retainedFor") or {}
    mine = (kept.get("ordinal"), kept.get("claim")) == (record["spec"]["ordinal"], each["claim"])
    assert not mine, f"{record['metadata']['name']} gets {each['name']}, and its data is on {home['metadata']['name']}"


# -- pods ------------------------------------------------------------------------------------------------------------


def _pod(world, actor, before, after, grace):
    """Nobody takes a healthy one down but when enough others work, as far as who does it has looked."""
    name = before["metadata"]["name"]
    node = before["spec"].get("nodeName")
    if grace == 0:
        assert node in world.off, f"{name} is deleted by force, and nothing proves that {node} runs nothing"
        return
    gone = after is None or after["metadata"].get("deletionTimestamp")
    if not gone and _images(before) == _images(after):
        return
    asked, ordinal = actor.now, int(before["metadata"]["labels"].get(ORDINAL_LABEL, name.rpartition("-")[2]))
    if asked is None or asked.suspended or ordinal >= asked.replicas or busy(actor.pods.get(name)):
        return
    others = [f"db-{other}" for other in range(asked.replicas) if other != ordinal]
    down = [other for other in others if busy(actor.pods.get(other))]
    rules = asked.params()
    words = f"{actor.name} takes {name} down while {down} are down"
    assert len(down) < int(rules.get("max_unavailable") or 1), words
    assert len(others) - len(down) >= (rules.get("quorum") or 0), f"{words}: quorum"


def _images(pod):
    return [one["image"] for one in pod["spec"]["containers"]]


def busy(pod):
    """Not Ready, going, or about to be started anew with another image."""
    if pod is None or pod["metadata"].get("deletionTimestamp"):
        return True
    conditions = pod["status"].get("conditions") or ()
    begun = updating(pod)
    runs = {one["name"]: one["runs"] for one in pod["status"].get("containerStatuses") or ()}
    restarts = begun is not None and RESIZING not in begun and list(runs.values()) != _images(pod)
    return restarts or not any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _set(world, actor, before, after):
    """The workload is told of no other size than the one that is asked for, and of none before its Berths are Bound."""
    count, asked = after["spec"]["replicas"], actor.now
    known = len([one for one in world.all(BERTH) if one["spec"]["ordinal"] < asked.replicas])
    sizes = (asked.replicas, 0 if asked.suspended else asked.replicas, before and before["spec"]["replicas"])
    assert count in sizes, f"{count} pods are asked for, and not {sizes}"
    if before is not None and count > before["spec"]["replicas"]:
        assert known >= count, f"{count} pods are asked for, and {known} have Berths"
