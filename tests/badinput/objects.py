"""Bad custom resources: what was there before (None: nothing), what is written, and words of the refusal.

tests/apiserver/test_bad_objects.py writes them. Rules between two states of an object are all in test_crd_rules.py;
here stand what one cannot mean by itself, and what goes round those rules.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.badinput.schemas import CONDITION, IDENTITY, KEPT, LOCK, SEEN

DISK: dict[str, Any] = {"nodeName": "n1", "identity": {"serial": "S1", "size": 1024}}
DEVICE: dict[str, Any] = {"nodeName": "n1", "deviceClass": "gpu", "uuid": "G1"}
BERTH: dict[str, Any] = {"app": "db", "ordinal": 0, "nodeName": "n1"}
WIPE: dict[str, Any] = {"requestID": "r-1", "identity": DISK["identity"], "requestedBy": "ann"}
SHARE: dict[str, Any] = {"namespace": "default", "name": "db-0", "uid": "u-1", "claim": "gpu", "shares": 600}
APP: dict[str, Any] = {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
ROLL: dict[str, Any] = {"type": "SameNode"}
GIVEN: dict[str, Any] = {"name": "data", "size": "1Gi"}
TASK: dict[str, Any] = {"template": APP["template"]}
RING: dict[str, Any] = {"name": "ring", "minCount": 2}
RING_IN_AN_OFFER: dict[str, Any] = {"offer": "o", "gang": RING}
_SPECS = {"LocalDisk": DISK, "LocalDevice": DEVICE, "Berth": BERTH, "StatefulApp": APP, "Task": TASK}


class Row(NamedTuple):
    """``before``: spec and status of the object that is replaced. ``status``: the write is one of status."""

    name: str
    kind: str
    before: dict[str, Any] | None
    written: dict[str, Any]
    words: tuple[str, ...]
    status: bool = False


def less(what: dict[str, Any], *fields: str) -> dict[str, Any]:
    return {key: value for key, value in what.items() if key not in fields}


def made(name: str, kind: str, /, *words: str, **spec: Any) -> Row:
    """An object that never was."""
    return Row(name, kind, None, {"spec": {**_SPECS[kind], **spec}}, words)


def said(name: str, kind: str, status: dict[str, Any], *words: str, before: Any = None) -> Row:
    """A status that nobody can have observed."""
    return Row(name, kind, {"spec": _SPECS[kind], "status": before}, {"status": status}, words, status=True)


def turned(name: str, kind: str, before: dict[str, Any], after: dict[str, Any], *words: str, status: Any = None) -> Row:
    """A spec in the place of another."""
    base = _SPECS[kind]
    return Row(name, kind, {"spec": {**base, **before}, "status": status}, {"spec": {**base, **after}}, words)


def lock(what: str, /, *words: str, **change: Any) -> Row:
    return made(f"a lock with {what}", "LocalDisk", *words, claimRef={**LOCK, **change})


PLACE = [{"claim": "data", "name": "d1", "size": 5}]
HELD = {"disks": PLACE, "devices": [{"claim": "gpu", "name": "g1", "shares": 10}]}
OF_BERTH = "the node, disks and devices of a berth that is Reserved or later never change"
ROWS: tuple[Row, ...] = (
    # -- LocalDisk: which disk
    made("no node", "LocalDisk", "spec.nodeName", "at least 1 chars", nodeName=""),
    made("a node that none can be", "LocalDisk", "spec.nodeName", "should match", nodeName="Node 1"),
    made("a node of 254 letters", "LocalDisk", "spec.nodeName", "Too long", nodeName="n" * 254),
    made("an identity without size", "LocalDisk", "spec.identity.size", "Required", identity={"serial": "S"}),
    made("an identity of a size alone", "LocalDisk", "name at least one of wwn", identity={"size": 5}),
    made("a model and a size", "LocalDisk", "name at least one of wwn", identity={"size": 5, "model": "M"}),
    made("a size with a unit", "LocalDisk", "spec.identity.size", "integer", identity={"serial": "S", "size": "5Gi"}),
    made("half a byte", "LocalDisk", "spec.identity.size", "integer", identity={"serial": "S", "size": 1.5}),
    made("a size below nothing", "LocalDisk", "spec.identity.size", identity={"serial": "S", "size": -1}),
    made("a serial of blanks", "LocalDisk", "spec.identity.serial", identity={"serial": "  ", "size": 5}),
    made("a wwn of blanks", "LocalDisk", "spec.identity.wwn", identity={"wwn": "\t", "size": 5}),
    made("a slot in another folder", "LocalDisk", "byPath", identity={"byPath": "../by-id/x", "size": 5}),
    made("a key that no disk has", "LocalDisk", "unknown field", identity={**IDENTITY, "uuid": "x"}),
    # -- LocalDisk: what for
    made("a class that none can be", "LocalDisk", "spec.storageClassName", storageClassName="Fast Disks"),
    made("a mode that is none", "LocalDisk", "spec.volumeMode", "Filesystem", volumeMode="Raw"),
    made("a filesystem that is none", "LocalDisk", "spec.fsType", "ext4", fsType="zfs"),
    made("two options in one", "LocalDisk", "spec.mountOptions[0]", mountOptions=["ro,noatime"]),
    made("an option with a line break", "LocalDisk", "spec.mountOptions[0]", mountOptions=["ro\n"]),
    made("33 options", "LocalDisk", "spec.mountOptions", "at most 32", mountOptions=["ro"] * 33),
    made("a policy of volumes that is none of berth's", "LocalDisk", "spec.reclaimPolicy", reclaimPolicy="Recycle"),
    made("reserved in words", "LocalDisk", "spec.reserved", "boolean", reserved="yes"),
    made("cordoned by a number", "LocalDisk", "spec.unschedulable", "boolean", unschedulable=1),
    # -- LocalDisk: whose
    lock("no uid", "spec.claimRef.uid", "Required", uid=None),
    lock("an empty uid", "spec.claimRef.uid", uid=""),
    lock("a uid of two lines", "spec.claimRef.uid", "should match", uid="u\n1"),
    lock("no dataUID", "spec.claimRef.dataUID", "Required", dataUID=None),
    lock("a dataUID that leads elsewhere", "spec.claimRef.dataUID", "should match", dataUID="../u"),
    lock("a negative ordinal", "spec.claimRef.ordinal", ordinal=-1),
    lock("an ordinal that no replica has", "spec.claimRef.ordinal", "2147483647", ordinal=1 << 40),
    lock("a namespace that none can be", "spec.claimRef.namespace", namespace="a/b"),
    lock("a berth that none can be", "spec.claimRef.name", name="DB_0"),
    lock("no claim", "spec.claimRef.claim", claim=None),
    lock("an app of blanks", "spec.claimRef.app", app=" "),
    made("data of nobody", "LocalDisk", "spec.retainedFor.app", "Required", retainedFor=less(KEPT, "app")),
    made("data without its uid", "LocalDisk", "spec.retainedFor.dataUID", retainedFor=less(KEPT, "dataUID")),
    made("held and kept", "LocalDisk", "either held or retained", claimRef=LOCK, retainedFor=KEPT),
    made("held and kept out", "LocalDisk", "a reserved disk is never given out", claimRef=LOCK, reserved=True),
    made("held and cordoned", "LocalDisk", "a cordoned disk is never given out", claimRef=LOCK, unschedulable=True),
    # -- LocalDisk: wipes
    made("a wipe of a held disk", "LocalDisk", "never wiped while it is held", claimRef=LOCK, wipe=WIPE),
    made("a wipe of another disk", "LocalDisk", "whole identity", wipe={**WIPE, "identity": IDENTITY}),
    made("a wipe that names nothing", "LocalDisk", "spec.wipe.identity", wipe=less(WIPE, "identity")),
    made("a wipe without a request", "LocalDisk", "spec.wipe.requestID", wipe={**WIPE, "requestID": ""}),
    made("a wipe that nobody asks for", "LocalDisk", "spec.wipe.requestedBy", wipe=less(WIPE, "requestedBy")),
    made("a wipe by fire", "LocalDisk", "spec.wipe.method", "signatures", wipe={**WIPE, "method": "burn"}),
    turned(
        "a held disk of another node", "LocalDisk", {"claimRef": LOCK}, {"claimRef": LOCK, "nodeName": "n2"}, "its node"
    ),
    turned(
        *("another holder by name alone", "LocalDisk", {"claimRef": LOCK}, {"claimRef": {**LOCK, "name": "db-1"}}),
        "a held lock may be kept or cleared",
    ),
    turned(
        *("a disk that another node sees", "LocalDisk", {}, {"claimRef": LOCK}, "another node sees this disk"),
        status={"observed": {"sharedWith": "n2"}},
    ),
    said("a phase that is none", "LocalDisk", {"phase": "Fine"}, "status.phase", "Available"),
    said("a path that is a list", "LocalDisk", {"observed": {"devicePath": ["/dev/sdb"]}}, "observed.devicePath"),
    said("65 mounts", "LocalDisk", {"observed": {"mounts": ["/a"] * 65}}, "observed.mounts"),
    said("a wipe at no step", "LocalDisk", {"wipe": {"requestID": "r"}}, "status.wipe.step"),
    said("a wipe that ended half", "LocalDisk", {"lastWipe": {"requestID": "r", "result": "Half"}}, "lastWipe.result"),
    said("a journal for no lock", "LocalDisk", {"journal": {"step": "Mounted"}}, "status.journal.lockUID"),
    said("a condition twice", "LocalDisk", {"conditions": [CONDITION, CONDITION]}, "Duplicate"),
    said(
        "a condition of no time", "LocalDisk", {"conditions": [{**CONDITION, "lastTransitionTime": "now"}]}, "date-time"
    ),
    said("health since never", "LocalDisk", {"health": {"since": SEEN[:10] + " "}}, "status.health.since"),
    # -- LocalDevice
    made("a class that none can be", "LocalDevice", "spec.deviceClass", deviceClass="Some GPU"),
    made("a node that none can be", "LocalDevice", "spec.nodeName", nodeName="../n1"),
    made("no uuid", "LocalDevice", "spec.uuid", uuid=""),
    made("no shares", "LocalDevice", "spec.capacity.shares", capacity={"shares": 0}),
    made("more shares than a device can have", "LocalDevice", "capacity.shares", capacity={"shares": 1 << 40}),
    made("memory in words", "LocalDevice", "80Gi", capacity={"memory": "lots"}),
    made("less than no memory", "LocalDevice", "80Gi", capacity={"memory": "-1"}),
    made("memory as a number", "LocalDevice", "spec.capacity.memory", "string", capacity={"memory": 5}),
    made("a share of nothing", "LocalDevice", "claimRefs[0].shares", claimRefs=[{**SHARE, "shares": 0}]),
    made("a share without uid", "LocalDevice", "claimRefs[0].uid", claimRefs=[less(SHARE, "uid")]),
    made(
        "a share below nothing, to have more",
        "LocalDevice",
        "shares",
        claimRefs=[SHARE, {**SHARE, "claim": "b", "shares": -500}],
    ),
    made("one share twice", "LocalDevice", "Duplicate", claimRefs=[SHARE, SHARE]),
    made(
        "shares of two that are too many",
        "LocalDevice",
        "more shares are given out",
        claimRefs=[SHARE, {**SHARE, "uid": "u-2"}],
    ),
    turned(
        *(
            "a share taken from its holder",
            "LocalDevice",
            {"claimRefs": [SHARE]},
            {"claimRefs": [{**SHARE, "uid": "u-2"}]},
        ),
        "not handed to another holder",
    ),
    turned(
        *("a share that grows", "LocalDevice", {"claimRefs": [SHARE]}, {"claimRefs": [{**SHARE, "shares": 700}]}),
        "a held share may be kept or cleared",
    ),
    turned(
        "less than is held",
        "LocalDevice",
        {"claimRefs": [SHARE]},
        {"claimRefs": [SHARE], "capacity": {"shares": 1}},
        "more",
    ),
    # -- Berth
    made("no app", "Berth", "spec.app", app=""),
    made("an app that none can be", "Berth", "spec.app", "should match", app="My App"),
    made("a negative ordinal", "Berth", "spec.ordinal", ordinal=-1),
    made("an ordinal that no replica has", "Berth", "spec.ordinal", "2147483647", ordinal=1 << 40),
    made("a node that none can be", "Berth", "spec.nodeName", nodeName="n1\nn2"),
    made("memory in words", "Berth", "500m or 10Gi", requests={"memory": "lots"}),
    made("less than no memory", "Berth", "500m or 10Gi", requests={"memory": "-1Gi"}),
    made("memory that no number is", "Berth", "500m or 10Gi", requests={"memory": "NaN"}),
    made("a processor as a number", "Berth", "spec.requests.cpu", "string", requests={"cpu": 1}),
    made("65 requests", "Berth", "spec.requests", requests={f"a{number}": "1" for number in range(65)}),
    made("one disk for two claims", "Berth", "one disk cannot fill", disks=[*PLACE, {**PLACE[0], "claim": "log"}]),
    made("one claim twice", "Berth", "Duplicate", disks=[*PLACE, {**PLACE[0], "name": "d2"}]),
    made("a disk that none can be", "Berth", "disks[0].name", disks=[{**PLACE[0], "name": "../d1"}]),
    made("a disk of less than nothing", "Berth", "disks[0].size", disks=[{**PLACE[0], "size": -5}]),
    made("65 disks", "Berth", "spec.disks", disks=[{**PLACE[0], "claim": f"c{n}", "name": f"d{n}"} for n in range(65)]),
    made("a share of nothing", "Berth", "devices[0].shares", devices=[{**HELD["devices"][0], "shares": 0}]),
    made("a label that none can be", "Berth", "podLabels", podLabels={"rack": "row 1"}),
    made("port 0", "Berth", "hostPorts[0].port", hostPorts=[{"port": 0}]),
    made("a port in words", "Berth", "hostPorts[0].port", hostPorts=[{"port": "http"}]),
    made("a protocol that is none", "Berth", "hostPorts[0].protocol", hostPorts=[{"port": 1, "protocol": "ICMP"}]),
    made("an address that is none", "Berth", "hostPorts[0].hostIP", hostPorts=[{"port": 1, "hostIP": "localhost"}]),
    turned("a bound berth moves", "Berth", HELD, {**HELD, "nodeName": "n2"}, OF_BERTH, status={"phase": "Bound"}),
    turned("a bound berth loses its disk", "Berth", HELD, less(HELD, "disks"), OF_BERTH, status={"phase": "Bound"}),
    said("Bound to Selected", "Berth", {"phase": "Selected"}, "is never Selected again", before={"phase": "Bound"}),
    said("Releasing to Running", "Berth", {"phase": "Running"}, "does not come back", before={"phase": "Releasing"}),
    said("a phase that is none", "Berth", {"phase": "Lost"}, "status.phase", "Selected"),
    said("an exchange of nothing", "Berth", {"replacing": {"claim": "data", "from": "d1"}}, "status.replacing.to"),
    said("data that becomes dust", "Berth", {"release": "Burn"}, "status.release", "Retain"),
    # -- StatefulApp
    made("no template", "StatefulApp", "spec.template", template=None),
    made("a driver that is none", "StatefulApp", "spec.driver", "playbook", driver="operator"),
    made("fewer than no replicas", "StatefulApp", "spec.replicas", replicas=-1),
    made("replicas in words", "StatefulApp", "spec.replicas", replicas="three"),
    made("a workload that is none", "StatefulApp", "spec.workload", workload="DaemonSet"),
    made("a partition of more", "StatefulApp", "at most replicas", replicas=2, updateStrategy={**ROLL, "partition": 3}),
    made("a strategy that is none", "StatefulApp", "updateStrategy.type", updateStrategy={"type": "Recreate"}),
    made("a content that cannot count", "StatefulApp", "updateOn[0]", "ConfigMaps", updateOn=["Nodes"]),
    made("nobody at a time", "StatefulApp", "a number from 1", updateStrategy={**ROLL, "maxUnavailable": 0}),
    made("more than all at a time", "StatefulApp", "such as 25%", updateStrategy={**ROLL, "maxUnavailable": "101%"}),
    made("a disk of nothing", "StatefulApp", "more than 0", disks=[{**GIVEN, "size": "0"}]),
    made("a disk in words", "StatefulApp", "for example 10Gi", disks=[{**GIVEN, "size": "big"}]),
    made("a disk twice", "StatefulApp", "Duplicate", disks=[GIVEN, GIVEN]),
    made("a raw filesystem", "StatefulApp", "no meaning", disks=[{**GIVEN, "volumeMode": "Block", "fsType": "xfs"}]),
    made("two shares", "StatefulApp", "exclude", devices=[{"name": "g", "deviceClass": "g", "count": 1, "share": 5}]),
    made("a mount root that is none", "StatefulApp", "spec.mountRoot", mountRoot="here"),
    made("a rollback to nothing", "StatefulApp", "rollbackTo", "or previous", rollbackTo=0),
    made("a rollback to no name", "StatefulApp", "rollbackTo", "or previous", rollbackTo="Last One"),
    made("a rollback of bare pods", "StatefulApp", "rollbackTo", "bare pods", workload="Pod", rollbackTo=1),
    turned("another workload", "StatefulApp", {}, {"workload": "Pod"}, "only while replicas is 0"),
    turned(
        "another disk",
        "StatefulApp",
        {"disks": [GIVEN]},
        {"disks": [{**GIVEN, "name": "log"}]},
        "the names of the disks",
    ),
    turned("a disk less", "StatefulApp", {"disks": [GIVEN]}, {}, "the names of the disks"),
    said("a count of less than none", "StatefulApp", {"replicas": -1}, "status.replicas"),
    said(
        "a revision without a name", "StatefulApp", {"replicas": 0, "revisions": [{"number": 1}]}, "revisions[0].name"
    ),
    # -- Task
    made("an offer for a gang", "Task", "spec.offer", "room for one task", "leave one of them out", **RING_IN_AN_OFFER),
    turned("a gang that gets an offer", "Task", {"gang": RING}, RING_IN_AN_OFFER, "spec.offer", "room for one task"),
    turned("an offer that gets a gang", "Task", {"offer": "o"}, RING_IN_AN_OFFER, "spec.offer", "room for one task"),
    made("a gang without a name", "Task", "spec.gang.name", gang={"minCount": 2}),
    made("a gang of none", "Task", "spec.gang.minCount", gang={**RING, "minCount": 0}),
)
