"""Every rule of the three schemas, on a real API server: what it refuses, in which words, and what it lets through."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import ConflictError, InvalidError
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import (
    BERTH,
    LOCAL_DEVICE,
    LOCAL_DISK,
    Resource,
)
from tests.support.kube import forget

pytestmark = pytest.mark.usefixtures("crds")

DISK: dict[str, Any] = {"nodeName": "n1", "identity": {"serial": "S1", "size": 1024}, "storageClassName": "fast"}
LOCK: dict[str, Any] = {
    "namespace": "default", "name": "db-0", "uid": "u-1", "app": "db", "ordinal": 0, "claim": "data", "dataUID": "u-1"
}  # fmt: skip
KEPT: dict[str, Any] = {"namespace": "default", "app": "db", "ordinal": 0, "claim": "data", "dataUID": "u-1"}
WIPE: dict[str, Any] = {"requestID": "r-1", "identity": {"serial": "S1", "size": 1024}, "requestedBy": "ann"}
DEVICE: dict[str, Any] = {"nodeName": "n1", "deviceClass": "gpu", "uuid": "G1"}
SHARE: dict[str, Any] = {"namespace": "default", "name": "db-0", "uid": "u-1", "claim": "gpu", "shares": 600}
OTHER: dict[str, Any] = {**SHARE, "uid": "u-2", "name": "db-1", "shares": 400}
PLACE: dict[str, Any] = {
    "app": "db",
    "ordinal": 0,
    "nodeName": "n1",
    "disks": [{"claim": "data", "name": "d1", "size": 5}],
    "devices": [{"claim": "gpu", "name": "g1", "shares": 10}],
}

HELD = "a held lock may be kept or cleared"
NOT_HELD = "never wiped while it is held"
WHOLE = "the whole identity of this very disk"
ANEW = "an earlier namespace or pod of that name"
DISK_STEPS = [
    # id, from, to, refusal (None: must be let through)
    ("lock a free disk", {}, {"claimRef": LOCK}, None),
    ("lock a free disk that has data", {}, {"claimRef": {**LOCK, "dataUID": "older"}}, None),
    ("keep the lock", {"claimRef": LOCK}, {"claimRef": LOCK, "storageClassName": "slow"}, None),
    ("clear the lock", {"claimRef": LOCK}, {}, None),
    ("clear and retain", {"claimRef": LOCK}, {"retainedFor": KEPT}, None),
    ("hand the lock over", {"claimRef": LOCK}, {"claimRef": {**LOCK, "uid": "u-2"}}, HELD),
    ("change the lock's claim", {"claimRef": LOCK}, {"claimRef": {**LOCK, "claim": "log"}}, HELD),
    ("change the lock's data", {"claimRef": LOCK}, {"claimRef": {**LOCK, "dataUID": "u-9"}}, HELD),
    (
        "lock a reserved disk",
        {"reserved": True},
        {"reserved": True, "claimRef": LOCK},
        "reserved disk is never given out",
    ),
    ("unreserve and lock at once", {"reserved": True}, {"claimRef": LOCK}, "reserved disk is never given out"),
    ("reserve and lock at once", {}, {"reserved": True, "claimRef": LOCK}, "reserved disk is never given out"),
    ("reserve a held disk", {"claimRef": LOCK}, {"claimRef": LOCK, "reserved": True}, None),
    ("unreserve", {"reserved": True}, {}, None),
    (
        "lock a cordoned disk",
        {"unschedulable": True},
        {"unschedulable": True, "claimRef": LOCK},
        "cordoned disk is never given out",
    ),
    ("cordon a held disk", {"claimRef": LOCK}, {"claimRef": LOCK, "unschedulable": True}, None),
    ("the same replica takes its data again", {"retainedFor": KEPT}, {"claimRef": {**LOCK, "uid": "u-2"}}, None),
    (
        "another app takes retained data",
        {"retainedFor": KEPT},
        {"claimRef": {**LOCK, "app": "x"}},
        "data of another replica",
    ),
    ("another ordinal", {"retainedFor": KEPT}, {"claimRef": {**LOCK, "ordinal": 1}}, "data of another replica"),
    ("another namespace", {"retainedFor": KEPT}, {"claimRef": {**LOCK, "namespace": "x"}}, "data of another replica"),
    ("another claim", {"retainedFor": KEPT}, {"claimRef": {**LOCK, "claim": "log"}}, "data of another replica"),
    (
        "its data under another identity",
        {"retainedFor": KEPT},
        {"claimRef": {**LOCK, "dataUID": "u-9"}},
        "data of another replica",
    ),
    *(
        (name, {"retainedFor": {**KEPT, **kept}}, {"claimRef": {**LOCK, **asking}}, None if may else ANEW)
        for name, kept, asking, may in (
            ("its own namespace, by uid", {"namespaceUID": "n-1"}, {"namespaceUID": "n-1"}, True),
            ("a namespace made anew", {"namespaceUID": "n-1"}, {"namespaceUID": "n-2"}, False),
            ("a namespace that does not say which", {"namespaceUID": "n-1"}, {}, False),
            ("data of an older release", {}, {"namespaceUID": "n-1"}, True),
            ("its own pod, by uid", {"podUID": "p-1"}, {"podUID": "p-1"}, True),
            ("a pod made anew", {"podUID": "p-1"}, {"podUID": "p-2"}, False),
            ("a claim of no pod", {"podUID": "p-1"}, {}, False),
            ("a pod takes data of no pod", {}, {"podUID": "p-1"}, False),
        )
    ),
    ("the uid of a lock changes", {"claimRef": LOCK}, {"claimRef": {**LOCK, "namespaceUID": "n-1"}}, HELD),
    (
        "data of an earlier namespace is assigned to the one of today",
        {"retainedFor": {**KEPT, "namespaceUID": "n-1"}},
        {"retainedFor": {**KEPT, "namespaceUID": "n-2"}},
        "never assigned to another",
    ),
    ("data that was given up is assigned", {}, {"retainedFor": {**KEPT, "namespaceUID": "n-2"}}, None),
    ("give retained data up", {"retainedFor": KEPT}, {}, None),
    ("ask for a wipe", {}, {"wipe": WIPE}, None),
    ("ask for a wipe of retained data", {"retainedFor": KEPT}, {"retainedFor": KEPT, "wipe": WIPE}, None),
    ("take the request back", {"wipe": WIPE}, {}, None),
    ("after the wipe", {"retainedFor": KEPT, "wipe": WIPE}, {}, None),
    ("wipe a held disk", {"claimRef": LOCK}, {"claimRef": LOCK, "wipe": WIPE}, NOT_HELD),
    ("lock a disk that is to be wiped", {"wipe": WIPE}, {"wipe": WIPE, "claimRef": LOCK}, NOT_HELD),
    ("give the lock up and ask for a wipe", {"claimRef": LOCK}, {"retainedFor": KEPT, "wipe": WIPE}, None),
    ("change who asked", {"wipe": WIPE}, {"wipe": {**WIPE, "requestedBy": "eve"}}, "never changed"),
    ("change the method", {"wipe": WIPE}, {"wipe": {**WIPE, "method": "zero"}}, "never changed"),
    ("wipe by another serial", {}, {"wipe": {**WIPE, "identity": {"serial": "S2", "size": 1024}}}, WHOLE),
    ("wipe by another size", {}, {"wipe": {**WIPE, "identity": {"serial": "S1", "size": 1025}}}, WHOLE),
    ("wipe by the size alone", {}, {"wipe": {**WIPE, "identity": {"size": 1024}}}, WHOLE),
    ("wipe by one key too many", {}, {"wipe": {**WIPE, "identity": {**DISK["identity"], "wwn": "0x1"}}}, WHOLE),
    (
        "assign retained data anew",
        {"retainedFor": KEPT},
        {"retainedFor": {**KEPT, "ordinal": 1}},
        "never assigned to another",
    ),
    ("held and retained", {"claimRef": LOCK}, {"claimRef": LOCK, "retainedFor": KEPT}, "either held or retained"),
    (
        "filesystem of a held disk",
        {"claimRef": LOCK, "fsType": "ext4"},
        {"claimRef": LOCK, "fsType": "xfs"},
        "while the disk is held",
    ),
    (
        "no filesystem for a held disk",
        {"claimRef": LOCK, "fsType": "ext4"},
        {"claimRef": LOCK},
        "while the disk is held",
    ),
    ("mode of a held disk", {"claimRef": LOCK}, {"claimRef": LOCK, "volumeMode": "Block"}, "while the disk is held"),
    ("filesystem while locking", {}, {"claimRef": LOCK, "fsType": "xfs"}, None),
    ("filesystem of a free disk", {"fsType": "ext4"}, {"fsType": "xfs"}, None),
    (
        "filesystem of retained data",
        {"retainedFor": KEPT, "fsType": "ext4"},
        {"retainedFor": KEPT, "fsType": "xfs"},
        "holds data",
    ),
    ("another node", {}, {"nodeName": "n2"}, "a disk does not change its node"),
    ("another serial", {}, {"identity": {"serial": "S2", "size": 1024}}, "a disk's identity never changes"),
    ("one key more", {}, {"identity": {"serial": "S1", "size": 1024, "wwn": "W"}}, "a disk's identity never changes"),
    ("another size", {}, {"identity": {"serial": "S1", "size": 2048}}, "a disk's identity never changes"),
]

DEVICE_STEPS = [
    ("first share", {}, {"claimRefs": [SHARE]}, None),
    ("second share", {"claimRefs": [SHARE]}, {"claimRefs": [SHARE, OTHER]}, None),
    (
        "one share too many",
        {"claimRefs": [SHARE]},
        {"claimRefs": [SHARE, {**OTHER, "shares": 401}]},
        "more shares are given out",
    ),
    ("give a share back", {"claimRefs": [SHARE, OTHER]}, {"claimRefs": [OTHER]}, None),
    ("give all back", {"claimRefs": [SHARE]}, {}, None),
    (
        "a share in the place of another holder's",
        {"claimRefs": [SHARE]},
        {"claimRefs": [{**OTHER, "uid": "u-9"}]},
        "not handed to another holder",
    ),
    (
        "one of two shares goes to a third",
        {"claimRefs": [SHARE, OTHER]},
        {"claimRefs": [OTHER, {**SHARE, "uid": "u-9"}]},
        "not handed to another holder",
    ),
    (
        "change a held share",
        {"claimRefs": [SHARE]},
        {"claimRefs": [{**SHARE, "shares": 100}]},
        "a held share may be kept or cleared",
    ),
    (
        "hand a share over",
        {"claimRefs": [SHARE]},
        {"claimRefs": [{**SHARE, "name": "db-7"}]},
        "a held share may be kept or cleared",
    ),
    (
        "shrink below what is held",
        {"claimRefs": [SHARE]},
        {"claimRefs": [SHARE], "capacity": {"shares": 500}},
        "more shares",
    ),
    (
        "give out a reserved device",
        {"reserved": True},
        {"reserved": True, "claimRefs": [SHARE]},
        "reserved device is never given out",
    ),
    (
        "a second one of a reserved device",
        {"reserved": True, "claimRefs": []},
        {"claimRefs": [SHARE]},
        "reserved device is never given",
    ),
    ("reserve a held device", {"claimRefs": [SHARE]}, {"reserved": True, "claimRefs": [SHARE]}, None),
    ("another node", {}, {"nodeName": "n2"}, "a device does not change its node"),
    ("another class", {}, {"deviceClass": "fpga"}, "a device's class never changes"),
    ("another uuid", {}, {"uuid": "G2"}, "a device's uuid never changes"),
]

BERTH_STEPS = [
    # id, phase before, change of the spec, refusal
    ("Selected may move", "Selected", {"nodeName": "n2", "disks": [], "devices": []}, None),
    ("no phase yet may move", None, {"nodeName": "n2"}, None),
    ("Reserved keeps its node", "Reserved", {"nodeName": "n2"}, "never change"),
    ("Bound keeps its disks", "Bound", {"disks": []}, "never change"),
    ("Created keeps its disks", "Created", {"disks": [{"claim": "data", "name": "d2", "size": 5}]}, "never change"),
    ("Running keeps its devices", "Running", {"devices": None}, "never change"),
    ("Running takes a new revision", "Running", {"revision": "r2", "requests": {"cpu": "1"}}, None),
    ("another app", "Selected", {"app": "x"}, "does not change its app"),
    ("another ordinal", "Selected", {"ordinal": 1}, "does not change its ordinal"),
]


def _step(
    api: ApiClient, kind: Resource, base: dict[str, Any], name: str, before: dict[str, Any], after: dict[str, Any]
) -> None:
    made = api.create(
        kind,
        {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": {**base, **before}},
    )
    api.replace(kind, {**made, "spec": {**base, **after}})


def _try(api: ApiClient, kind: Resource, base: dict[str, Any], name: str, step: tuple[Any, ...]) -> None:
    label, before, after, refusal = step
    try:
        if refusal is None:
            _step(api, kind, base, name, before, after)
            return
        with pytest.raises(InvalidError, match=refusal) as caught:
            _step(api, kind, base, name, before, after)
        assert caught.value.status == 422
        assert caught.value.causes, label
        assert {key: value for key, value in {**base, **before}.items() if value != []}.items() <= api.get(kind, name)[
            "spec"
        ].items()
    finally:
        forget(api, kind, name)


@pytest.mark.promise
@pytest.mark.parametrize("step", DISK_STEPS, ids=lambda step: step[0])
def test_local_disk_step(api: ApiClient, name: str, step: tuple[Any, ...]) -> None:
    _try(api, LOCAL_DISK, DISK, name, step)


@pytest.mark.promise
@pytest.mark.parametrize("step", DEVICE_STEPS, ids=lambda step: step[0])
def test_local_device_step(api: ApiClient, name: str, step: tuple[Any, ...]) -> None:
    base = {**DEVICE, "capacity": {"shares": 1000}, "reserved": False}
    _try(api, LOCAL_DEVICE, base, name, step)


@pytest.mark.parametrize("step", BERTH_STEPS, ids=lambda step: step[0])
def test_berth_step(api: ApiClient, namespace: str, step: tuple[Any, ...]) -> None:
    _label, phase, change, refusal = step
    made = api.create(BERTH, _object(BERTH, "db-0", PLACE, namespace))
    if phase:
        made = api.replace(BERTH, {**made, "status": {"phase": phase}}, subresource="status")
    spec = {key: value for key, value in {**PLACE, **change}.items() if value is not None}
    if refusal is None:
        assert api.replace(BERTH, {**made, "spec": spec})["spec"] == spec
        return
    with pytest.raises(InvalidError, match=refusal):
        api.replace(BERTH, {**made, "spec": spec})
    assert api.get(BERTH, "db-0", namespace)["spec"] == PLACE


@pytest.mark.promise
@pytest.mark.parametrize("phase", ["Reserved", "Bound", "Created", "Running", "Replacing", "Releasing"])
def test_a_berth_that_may_carry_data_is_never_sent_back(api: ApiClient, namespace: str, phase: str) -> None:
    """Not to Selected, in which its node could be changed, and not by way of no phase at all."""
    made = api.create(BERTH, _object(BERTH, "db-0", PLACE, namespace))
    made = api.replace(BERTH, {**made, "status": {"phase": phase}}, subresource="status")
    for status in ({"phase": "Selected"}, {}, {"podName": "db-0"}):
        with pytest.raises(InvalidError, match=r"never Selected again|does not come back"):
            api.replace(BERTH, {**made, "status": status}, subresource="status")
    with pytest.raises(InvalidError, match=r"never Selected again|does not come back"):
        api.patch(BERTH, "db-0", namespace, {"status": None}, "status")
    with pytest.raises(InvalidError, match="never change"):
        api.replace(BERTH, {**made, "spec": {**PLACE, "nodeName": "n2"}, "status": {"phase": "Selected"}})
    there = api.get(BERTH, "db-0", namespace)
    assert (there["spec"]["nodeName"], there["status"]["phase"]) == (PLACE["nodeName"], phase)


def _object(kind: Resource, name: str, spec: dict[str, Any], namespace: str | None = None) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": copy.deepcopy(spec)}


BAD = [
    (
        "identity without a key",
        LOCAL_DISK,
        {**DISK, "identity": {"size": 5}},
        "name at least one of wwn, serial, byPath",
    ),
    ("identity without size", LOCAL_DISK, {**DISK, "identity": {"serial": "x"}}, "size"),
    ("no identity", LOCAL_DISK, {"nodeName": "n1"}, "identity"),
    ("no bytes", LOCAL_DISK, {**DISK, "identity": {"serial": "x", "size": 0}}, "greater than or equal to 1"),
    ("unknown filesystem", LOCAL_DISK, {**DISK, "fsType": "ntfs"}, "ext4"),
    ("mount option with a shell's sign", LOCAL_DISK, {**DISK, "mountOptions": ["noatime;reboot"]}, "should match"),
    ("a wipe that nobody asked for", LOCAL_DISK, {**DISK, "wipe": {**WIPE, "requestedBy": ""}}, "requestedBy"),
    ("a wipe without identity", LOCAL_DISK, {**DISK, "wipe": {"requestID": "r", "requestedBy": "a"}}, "identity"),
    ("unknown method of a wipe", LOCAL_DISK, {**DISK, "wipe": {**WIPE, "method": "burn"}}, "signatures"),
    ("unknown wipe method", LOCAL_DISK, {**DISK, "wipeMethod": "burn"}, "signatures"),
    (
        "held from the first moment although reserved",
        LOCAL_DISK,
        {**DISK, "reserved": True, "claimRef": LOCK},
        "reserved",
    ),
    ("device without uuid", LOCAL_DEVICE, {"nodeName": "n1", "deviceClass": "gpu"}, "uuid"),
    ("born with too many shares", LOCAL_DEVICE, {**DEVICE, "claimRefs": [{**SHARE, "shares": 1001}]}, "more shares"),
    ("device with memory that is no quantity", LOCAL_DEVICE, {**DEVICE, "capacity": {"memory": "lots"}}, "80Gi"),
    ("device with less than no memory", LOCAL_DEVICE, {**DEVICE, "capacity": {"memory": "-1Gi"}}, "80Gi"),
    ("berth that asks for no quantity", BERTH, {**PLACE, "requests": {"cpu": "1", "memory": "lots"}}, "500m or 10Gi"),
    ("berth that asks for less than nothing", BERTH, {**PLACE, "requests": {"cpu": "-1"}}, "500m or 10Gi"),
    ("berth with a negative ordinal", BERTH, {**PLACE, "ordinal": -1}, "greater than or equal to 0"),
    ("one claim twice", BERTH, {**PLACE, "disks": PLACE["disks"] * 2}, "Duplicate"),
    (
        "one disk under two claims",
        BERTH,
        {**PLACE, "disks": [*PLACE["disks"], {"claim": "log", "name": "d1", "size": 5}]},
        "one disk",
    ),
]


@pytest.mark.parametrize(("label", "kind", "spec", "refusal"), BAD, ids=[case[0] for case in BAD])
def test_bad_object(api: ApiClient, name: str, label: str, kind: Resource, spec: dict[str, Any], refusal: str) -> None:
    with pytest.raises(InvalidError, match=refusal):
        api.create(kind, _object(kind, name, spec, "default" if kind.namespaced else None))
    assert api.find(kind, name, "default" if kind.namespaced else None) is None


def test_defaults(api: ApiClient, name: str) -> None:
    spec = api.create(LOCAL_DISK, _object(LOCAL_DISK, name, {key: DISK[key] for key in ("nodeName", "identity")}))[
        "spec"
    ]
    wanted = {
        "storageClassName": "",
        "volumeMode": "Filesystem",
        "reclaimPolicy": "Retain",
        "wipeMethod": "signatures",
        "reserved": False,
    }
    assert {key: spec[key] for key in wanted} == wanted
    device = api.create(LOCAL_DEVICE, _object(LOCAL_DEVICE, name, DEVICE))["spec"]
    assert (device["capacity"], device["reserved"]) == ({"shares": 1000}, False)
    for kind in (LOCAL_DISK, LOCAL_DEVICE):
        forget(api, kind, name)


def test_unknown_fields_are_refused_not_dropped(api: ApiClient, name: str) -> None:
    with pytest.raises(Exception, match="unknown field"):
        api.create(LOCAL_DISK, _object(LOCAL_DISK, name, {**DISK, "storageClass": "fast"}))


def test_status_is_its_own_subresource(api: ApiClient, name: str) -> None:
    made = api.create(LOCAL_DISK, {**_object(LOCAL_DISK, name, DISK), "status": {"phase": "InUse"}})
    assert "status" not in made
    made = api.replace(
        LOCAL_DISK, {**made, "spec": {**DISK, "nodeName": "n9"}, "status": {"phase": "Available"}}, subresource="status"
    )
    assert (made["status"]["phase"], made["spec"]["nodeName"]) == ("Available", "n1")
    made = api.replace(LOCAL_DISK, {**made, "status": {"phase": "Faulted"}})
    assert made["status"]["phase"] == "Available"
    with pytest.raises(InvalidError, match="Unsupported value"):
        api.replace(LOCAL_DISK, {**made, "status": {"phase": "Fine"}}, subresource="status")
    forget(api, LOCAL_DISK, name)


@pytest.mark.promise
def test_a_lock_is_won_once(api: ApiClient, name: str) -> None:
    """Two that saw the disk free at the same moment: the second write carries an old resourceVersion."""
    seen = api.create(LOCAL_DISK, _object(LOCAL_DISK, name, DISK))
    api.replace(LOCAL_DISK, {**seen, "spec": {**seen["spec"], "claimRef": LOCK}})
    with pytest.raises(ConflictError):
        api.replace(LOCAL_DISK, {**seen, "spec": {**seen["spec"], "claimRef": {**LOCK, "uid": "u-2"}}})
    assert api.get(LOCAL_DISK, name)["spec"]["claimRef"]["uid"] == "u-1"
    forget(api, LOCAL_DISK, name)


def test_selectable_fields(api: ApiClient, name: str, namespace: str) -> None:
    api.create(LOCAL_DISK, _object(LOCAL_DISK, name, {**DISK, "nodeName": name, "claimRef": {**LOCK, "app": name}}))
    api.create(LOCAL_DEVICE, _object(LOCAL_DEVICE, name, {**DEVICE, "nodeName": name}))
    api.create(BERTH, _object(BERTH, "db-0", {**PLACE, "app": name}, namespace))
    assert [item["metadata"]["name"] for item in api.list(LOCAL_DISK, fields=f"spec.nodeName={name}")] == [name]
    assert [item["metadata"]["name"] for item in api.list(LOCAL_DISK, fields=f"spec.claimRef.app={name}")] == [name]
    assert [item["metadata"]["name"] for item in api.list(LOCAL_DEVICE, fields=f"spec.nodeName={name}")] == [name]
    assert [item["metadata"]["name"] for item in api.list(BERTH, fields=f"spec.app={name}")] == ["db-0"]
    for kind in (LOCAL_DISK, LOCAL_DEVICE):
        forget(api, kind, name)


def test_a_berth_is_a_berth_alone(control_plane: Any, api: ApiClient, name: str, namespace: str) -> None:
    """As a word of kubectl: with a category of that name `kubectl delete berth --all` takes the LocalDisks, too."""
    api.create(LOCAL_DISK, _object(LOCAL_DISK, name, DISK))
    api.create(BERTH, _object(BERTH, "db-0", PLACE, namespace))
    assert control_plane.kubectl("get", "berth", "-n", namespace, "-o", "name").split() == ["berth.berth.dev/db-0"]
    assert "patched" in control_plane.kubectl(
        "patch", "berth", "db-0", "-n", namespace, "--type=merge", "-p", '{"metadata": {"labels": {"a": "b"}}}'
    )
    forget(api, LOCAL_DISK, name)


def test_columns_that_a_person_reads(control_plane: Any, api: ApiClient, name: str) -> None:
    api.create(LOCAL_DISK, _object(LOCAL_DISK, name, {**DISK, "claimRef": LOCK}))
    head, line = control_plane.kubectl("get", "ld", name).splitlines()
    assert head.split()[:6] == ["NAME", "NODE", "CLASS", "MODE", "SIZE", "PHASE"]
    assert line.split()[:4] == [name, "n1", "fast", "Filesystem"]
    assert "db-0" in line
    assert "retained" in control_plane.kubectl("get", "ld", "-o", "wide").splitlines()[0].lower()
    assert name in control_plane.kubectl("get", "berth-all")
    forget(api, LOCAL_DISK, name)
