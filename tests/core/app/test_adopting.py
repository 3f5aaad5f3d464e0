"""Whether a StatefulSet over local volumes can come under berth, what is refused by name, and what is written then."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from berth_core.app.adopting import Replica, Seen, check_set, judged, manifest_of
from berth_core.app.adopting_writes import (
    changes,
    label_patch,
    pod_patch,
    recorded_disk,
    rows,
    set_patch,
    warnings,
)
from berth_core.app.wanted import parse_app
from berth_core.errors import StateError
from berth_core.lifecycle.locks import BERTH_ANNOTATION
from berth_core.model.resources import SERVICE
from berth_core.model.tenant import Tenant

GI = 1 << 30
OURS = {"berth.dev/app": "db", "app.kubernetes.io/managed-by": "berth"}
TEMPLATE = {
    "metadata": {"labels": {"app": "db"}, "creationTimestamp": None},
    "spec": {"containers": [{"name": "db", "image": "db:1", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]},
}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
         "storageClassName": "local", "volumeMode": "Filesystem"}  # fmt: skip
NONE = dict.fromkeys(("replicas", "disks", "devices", "service", "pod_management_policy"))
RETAIN = {"whenDeleted": "Retain", "whenScaled": "Retain"}


def stateful_set(replicas=2):
    spec = {
        "replicas": replicas,
        "serviceName": "db",
        "podManagementPolicy": "OrderedReady",
        "selector": {"matchLabels": {"app": "db"}},
        "template": copy.deepcopy(TEMPLATE),
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "volumeClaimTemplates": [{"metadata": {"name": "data", "labels": {"x": "y"}}, "spec": CLAIM}],
        "persistentVolumeClaimRetentionPolicy": dict(RETAIN),
        "revisionHistoryLimit": 10,
    }
    meta = {"name": "db", "namespace": "shop", "uid": "set", "resourceVersion": "5", "labels": {"team": "a"}}
    status = {"currentRevision": "db-1", "updateRevision": "db-1"}
    return {"metadata": meta, "spec": spec, "status": status}


def pod(ordinal):
    owner = [{"kind": "StatefulSet", "name": "db", "uid": "set", "controller": True}]
    labels = {"app": "db", "controller-revision-hash": "db-1"}
    meta = {"name": f"db-{ordinal}", "namespace": "shop", "uid": f"pod-{ordinal}", "resourceVersion": "6"}
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {**meta, "labels": labels, "ownerReferences": owner}, "spec": {"nodeName": f"n{ordinal}"},
            "status": ready}  # fmt: skip


def claim(ordinal):
    meta = {"name": f"data-db-{ordinal}", "namespace": "shop", "uid": f"claim-{ordinal}", "resourceVersion": "7"}
    return {"metadata": meta, "spec": {"volumeName": f"pv-{ordinal}"}, "status": {"phase": "Bound"}}


def volume(ordinal, path=None, name=None):
    host = {"key": "kubernetes.io/hostname", "operator": "In", "values": [f"host-n{ordinal}"]}
    spec = {
        "local": {"path": path or f"/mnt/disks/{ordinal}"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}},
        "claimRef": {"namespace": "shop", "name": f"data-db-{ordinal}", "uid": f"claim-{ordinal}"},
        "persistentVolumeReclaimPolicy": "Delete",
        "volumeMode": "Filesystem",
        "storageClassName": "local",
    }
    meta = {"name": name or f"pv-{ordinal}", "uid": f"pv-uid-{ordinal}", "resourceVersion": "8"}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Bound"}}


def disk(ordinal, **spec):
    observed = {
        "devicePath": "/dev/sdb",
        "mounts": [f"/mnt/disks/{ordinal}", f"/var/lib/kubelet/pods/{ordinal}/volumes/x"],
        "filesystem": {"type": "ext4", "uuid": f"fs-{ordinal}"},
    }
    identity = {"serial": f"S{ordinal}", "size": 4 * GI}
    whole = {"nodeName": f"n{ordinal}", "identity": identity, "storageClassName": "local", **spec}
    return {"metadata": {"name": f"n{ordinal}-a"}, "spec": whole, "status": {"phase": "Pending", "observed": observed}}


def named(*things):
    return {one["metadata"]["name"]: one for one in things}


def seen(live=None, given=None, **changed):
    live = live or stateful_set()
    manifest = given if given is not None else manifest_of(live)
    app = parse_app({**NONE, "name": "db", "namespace": "shop", "workload": "StatefulSet", "template": manifest,
                     "mount_root": "/var/lib/berth/disks"})  # fmt: skip
    both = range(2)
    made = Seen(
        app,
        given is not None,
        live,
        pods=named(*(pod(each) for each in both)),
        claims=named(*(claim(each) for each in both)),
        volumes=named(*(volume(each) for each in both)),
        disks=named(*(disk(each) for each in both)),
        hostnames={f"host-n{each}": f"n{each}" for each in both},
        berths={},
        tenant=Tenant("ns-1"),
        templates={"db-1": copy.deepcopy(TEMPLATE)},
    )
    return replace(made, **changed)


def with_one(part, thing):
    """The world with one object in another state."""
    world = seen()
    return replace(world, **{part: {**getattr(world, part), thing["metadata"]["name"]: thing}})


def edited(thing, path, value):
    """A copy with a field changed; None: taken out."""
    made = copy.deepcopy(thing)
    at = made
    *way, last = path.split("/")
    for key in way:
        at = at[int(key)] if isinstance(at, list) else at.setdefault(key, {})
    if value is None:
        at.pop(last)
    else:
        at[last] = value
    return made


def test_each_replica_has_what_is_below_it_and_its_data_is_put_on_record():
    first, second = judged(seen())
    assert (first.ordinal, first.node, dict(first.disks), dict(first.volumes)) == (
        0,
        "n0",
        {"data": "n0-a"},
        {"data": "pv-0"},
    )
    (part,) = second.parts
    assert recorded_disk(part, part.disk)["spec"]["retainedFor"] == {
        "namespace": "shop",
        "app": "db",
        "ordinal": 1,
        "claim": "data",
        "dataUID": "pv-uid-1",
        "namespaceUID": "ns-1",
        "filesystemUUID": "fs-1",
        "volume": "pv-1",
        "mountPoint": "/mnt/disks/1",
    }


AFFINITY = "spec/nodeAffinity/required/nodeSelectorTerms"
TWO_NODES = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["host-n0", "b"]}]}]
OTHERS = {"namespace": "shop", "app": "web", "ordinal": 0, "claim": "data", "dataUID": "d", "namespaceUID": "ns-1"}
MINE = {**OTHERS, "app": "db"}
LOCK = {"namespace": "shop", "name": "web-0", "uid": "b", "app": "web", "ordinal": 0, "claim": "data", "dataUID": "b"}
GONE = {"namespace": "shop", "name": "db-0", "uid": "gone", "app": "db", "ordinal": 0, "claim": "data", "dataUID": "b"}


@pytest.mark.promise
@pytest.mark.parametrize(
    ("part", "thing", "words"),
    [
        ("volumes", edited(edited(volume(0), "spec/local", None), "spec/csi", {}), r"pv-0 has no spec.local \(csi\)"),
        ("volumes", edited(edited(volume(0), "spec/local", None), "spec/nfs", {}), r"pv-0 has no spec.local \(nfs\)"),
        ("volumes", edited(volume(0), "spec/volumeMode", "Block"), "pv-0 has volumeMode Block"),
        ("volumes", edited(volume(0), AFFINITY, TWO_NODES), "pv-0 is not of exactly one node"),
        ("volumes", edited(volume(0), AFFINITY, TWO_NODES * 2), "pv-0 is not of exactly one node"),
        ("volumes", edited(volume(0), "spec/nodeAffinity", None), "pv-0 is not of exactly one node"),
        ("volumes", edited(volume(0), AFFINITY + "/0/matchExpressions/0/values", ["h9"]), "is of node h9, and no Node"),
        (
            "volumes",
            edited(volume(0), AFFINITY + "/0/matchExpressions/0/values", ["host-n1"]),
            "is of node n1, and its",
        ),
        ("volumes", edited(volume(0), "spec/claimRef/uid", "other"), r"bound to claim shop/data-db-0 \(uid other\)"),
        ("volumes", edited(volume(0), "status/phase", "Released"), "pv-0 is Released, expected Bound"),
        ("volumes", edited(volume(0), "metadata/deletionTimestamp", "now"), "pv-0 is going"),
        (
            "volumes",
            edited(volume(0), "metadata/annotations", {BERTH_ANNOTATION: "b"}),
            "the mark of a Berth with uid b",
        ),
        ("volumes", edited(volume(0), "spec/local/path", "/mnt/lvm/x"), "no LocalDisk of node n0 shows a filesystem"),
        ("volumes", volume(0, "/mnt/disks/0/sub", "pv-9"), "pv-9 .* lies on the same filesystem as pv-0"),
        ("volumes", volume(0, "/mnt/disks/0/", "pv-9"), "pv-9 .* lies on the same filesystem as pv-0"),
        (
            "volumes",
            edited(volume(0, "/mnt/x", "n0-a-01234567"), "metadata/annotations", {BERTH_ANNOTATION: "0123456789"}),
            "LocalDisk n0-a is below PersistentVolume n0-a-01234567 of berth's, too, whose lock is gone",
        ),
        ("claims", edited(claim(0), "status/phase", "Lost"), "data-db-0 is Lost, expected Bound"),
        ("claims", edited(claim(0), "metadata/deletionTimestamp", "now"), "data-db-0 is going"),
        (
            "claims",
            edited(claim(0), "spec/volumeName", "pv-8"),
            "PersistentVolume pv-8 of claim data-db-0 is not there",
        ),
        ("claims", edited(claim(0), "metadata/annotations", {BERTH_ANNOTATION: "b"}), "the mark of a Berth with uid b"),
        ("pods", edited(pod(0), "status/conditions/0/status", "False"), "db-0: its pod is not Ready"),
        ("pods", edited(pod(0), "metadata/deletionTimestamp", "now"), "db-0: its pod is not Ready"),
        ("pods", edited(pod(0), "metadata/ownerReferences", []), "db-0: its pod is not there"),
        ("pods", edited(pod(0), "metadata/labels/controller-revision-hash", "db-0"), "of another revision"),
        ("disks", disk(0, claimRef=LOCK), r"n0-a is held by Berth shop/web-0 \(claim data\)"),
        ("disks", disk(0, claimRef=GONE), "n0-a is held by Berth shop/db-0"),
        ("disks", disk(0, retainedFor=OTHERS), "n0-a keeps the data of shop/web-0"),
        ("disks", disk(0, retainedFor=MINE), "n0-a keeps the data of shop/db-0"),
        ("disks", disk(0, retainedFor={**MINE, "volume": "pv-7"}), "shop/db-0 .* for PersistentVolume pv-7"),
        ("disks", disk(0, retainedFor={**MINE, "volume": "pv-0", "namespaceUID": "ns-0"}), "keeps the data of"),
        (
            "disks",
            disk(0, storageClassName="fast"),
            r"n0-a is of class fast, and .* pv-0 of local: declare the disk with",
        ),
        ("disks", disk(0, unschedulable=True), "n0-a is cordoned"),
        ("disks", disk(0, wipe={"requestID": "r"}), "n0-a is to be wiped"),
        ("disks", disk(0, volumeMode="Block"), "n0-a has volumeMode Block"),
        ("disks", disk(0, identity={"serial": "S0", "size": 5}), "n0-a has 5 bytes, and its claim asks for"),
        ("disks", edited(disk(0), "spec/nodeName", "n1"), "no LocalDisk of node n0 shows"),
        ("disks", edited(disk(0), "status/observed/mounts", ["/mnt"]), "no LocalDisk of node n0 shows"),
        ("disks", edited(disk(0), "status/observed/holders", ["dm-0"]), "held on its host by dm-0"),
        ("disks", edited(disk(0), "status/observed/partlyMounted", True), "is a folder of its filesystem"),
        ("disks", edited(disk(0), "status/observed/filesystem/type", "btrfs"), "carries btrfs fs-0: expected"),
        ("disks", edited(disk(0), "status/observed/filesystem/uuid", None), "carries ext4 without UUID"),
        ("disks", edited(disk(0), "status/observed/sharedWith", "n7"), "is seen by node n7, too"),
        ("disks", edited(disk(0), "status/observed/health", "Faulted"), "n0-a is faulted"),
        ("disks", edited(disk(0), "status/observed/devicePath", None), "has not been seen in its node"),
        ("disks", edited(disk(0), "metadata/name", "n0-b"), "LocalDisks n0-a, n0-b show /mnt/disks/0: name the right"),
    ],
)
def test_what_cannot_be_adopted_is_refused_by_name(part, thing, words):
    with pytest.raises(StateError, match=words) as caught:
        judged(with_one(part, thing))
    assert str(caught.value).startswith("shop/db is not adopted: ")
    assert str(caught.value).endswith("; nothing was changed")


def test_a_topolvm_volume_is_refused_with_its_driver_and_the_way_out():
    csi = {"driver": "topolvm.io", "volumeHandle": "1f0c", "fsType": "xfs"}
    node = [{"matchExpressions": [{"key": "topology.topolvm.io/node", "operator": "In", "values": ["n0"]}]}]
    lvm = edited(edited(edited(volume(0), "spec/local", None), "spec/csi", csi), AFFINITY, node)
    with pytest.raises(StateError) as told:
        judged(with_one("volumes", lvm))
    assert "PersistentVolume pv-0 has no spec.local (csi, driver topolvm.io)" in told.value.message
    assert "make a new application with stateful_app and bring the data there" in told.value.message


def test_all_that_is_in_the_way_is_told_at_once():
    world = with_one("disks", disk(0, wipe={"requestID": "r"}))
    world = replace(world, disks={**world.disks, "n1-a": disk(1, unschedulable=True)})
    with pytest.raises(StateError, match=r"db-0: LocalDisk n0-a is to be wiped.*db-1: LocalDisk n1-a is cordoned"):
        judged(world)
    same = {**seen().volumes, "pv-1": edited(volume(1), "spec/local/path", "/mnt/disks/0")}
    other = edited(disk(1), "status/observed/mounts", ["/mnt/disks/0"])
    judged(replace(seen(), volumes=same, disks={**seen().disks, "n1-a": other}))  # two nodes, one path: two disks


def test_a_disk_is_named_where_it_cannot_be_found():
    two = replace(seen(), disks={**seen().disks, "n0-b": edited(disk(0), "metadata/name", "n0-b")})
    first, _second = judged(replace(two, named={(0, "data"): "n0-b"}))
    assert dict(first.disks) == {"data": "n0-b"}
    for name, words in (("n1-a", "it is in node n1"), ("nowhere", "there is none")):
        with pytest.raises(StateError, match=f"LocalDisk {name} was named for it: {words}"):
            judged(replace(two, named={(0, "data"): name}))
    elsewhere = edited(disk(0), "status/observed/mounts", ["/srv"])
    with pytest.raises(StateError, match="is mounted at /srv, and the volume is /mnt/disks/0"):
        judged(replace(seen(), disks={**seen().disks, "n0-a": elsewhere}, named={(0, "data"): "n0-a"}))


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (
            "metadata/ownerReferences",
            [{"kind": "Postgres", "name": "db"}],
            r"belongs to Postgres db \(ownerReferences\)",
        ),
        ("metadata/deletionTimestamp", "now", "it is being deleted"),
        ("metadata/labels", {"berth.dev/app": "web"}, "it is another app's"),
        ("spec/persistentVolumeClaimRetentionPolicy/whenScaled", "Delete", "set both to Retain first"),
        ("spec/replicas", 0, "it has 0 replicas"),
    ],
)
def test_a_stateful_set_that_is_somebody_elses_or_runs_nothing_is_refused(path, value, words):
    with pytest.raises(StateError, match=words):
        check_set(edited(stateful_set(), path, value), "shop/db", "db")
    with pytest.raises(StateError, match="there is no StatefulSet shop/db"):
        check_set(None, "shop/db", "db")


def given(**changed):
    """A manifest of the user's own, spelt as people do."""
    spec = {"serviceName": "db", "replicas": 2, "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": TEMPLATE["spec"]},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": CLAIM}]}  # fmt: skip
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": {**spec, **changed}}


def test_what_is_given_has_to_be_what_runs():
    judged(seen(given=given()))
    with pytest.raises(StateError, match=r"differs from the StatefulSet that runs in spec.replicas: adopt it as it is"):
        judged(seen(given=given(replicas=3)))
    other = {"metadata": {"name": "wal"}, "spec": CLAIM}
    template = copy.deepcopy(TEMPLATE)
    template["spec"]["containers"][0]["volumeMounts"][0]["name"] = "wal"
    with pytest.raises(StateError, match="its volumeClaimTemplates are data, and what is given has others"):
        judged(seen(given=given(volumeClaimTemplates=[other], template=template)))
    live = edited(stateful_set(), "spec/selector/matchLabels", {"app.kubernetes.io/managed-by": "Helm"})
    with pytest.raises(StateError, match="would not match its pods with berth's labels"):
        judged(seen(live, given=given(selector=None)))


def test_the_set_gets_its_labels_in_one_write_with_on_delete():
    world = seen(given=given())
    patch = set_patch(world, world.live)
    version = {"name": "db", "namespace": "shop", "uid": "set", "resourceVersion": "5"}
    notes = {"berth.dev/revision": world.app.set_revision}
    assert patch["metadata"] == {**version, "labels": OURS, "annotations": notes}
    assert patch["spec"] == {"template": {"metadata": {"labels": OURS}},
                             "updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}  # fmt: skip
    assert "annotations" not in set_patch(seen(), seen().live)["metadata"], "nobody said which manifest it is"
    done = copy.deepcopy(world.live)
    done["metadata"].update(labels=OURS, annotations=patch["metadata"]["annotations"])
    done["spec"]["template"]["metadata"]["labels"].update(OURS)
    assert set_patch(world, done) is None


def test_a_pod_gets_the_labels_and_the_sets_revision_where_it_differs_by_these_alone():
    live = edited(stateful_set(), "status/updateRevision", "db-2")
    live["spec"]["template"]["metadata"]["labels"].update(OURS)
    world = seen()
    assert pod_patch(world, pod(0), live)["metadata"] == {
        "name": "db-0",
        "namespace": "shop",
        "uid": "pod-0",
        "resourceVersion": "6",
        "labels": {**OURS, "controller-revision-hash": "db-2"},
    }
    live["spec"]["template"]["spec"]["containers"][0]["image"] = "db:2"
    assert pod_patch(world, pod(0), live)["metadata"]["labels"] == OURS, "it is outdated, and stays so"
    assert pod_patch(replace(world, templates={}), pod(0), live)["metadata"]["labels"] == OURS
    done = edited(pod(0), "metadata/labels", {**OURS, "controller-revision-hash": "db-2"})
    assert pod_patch(world, done, live) is None


def test_a_service_of_the_app_gets_its_labels_and_one_of_another_app_is_refused():
    world = seen()
    live = {"metadata": {"name": "db", "namespace": "shop", "uid": "s", "resourceVersion": "3"}}
    assert label_patch(world.app.service, live, world.app)["metadata"]["labels"] == OURS
    assert label_patch(world.app.service, edited(live, "metadata/labels", OURS), world.app) is None
    others = edited(live, "metadata/labels", {"berth.dev/app": "web"})
    with pytest.raises(StateError, match="Service shop/db is of the app web"):
        judged(replace(world, beside=((SERVICE, world.app.service, others),)))


def berth(ordinal, phase, **more):
    entry = {"claim": "data", "name": f"n{ordinal}-a", "size": GI, "volume": f"pv-{ordinal}"}
    meta = {"name": f"db-{ordinal}", "namespace": "shop", "uid": f"berth-{ordinal}"}
    spec = {"app": "db", "ordinal": ordinal, "nodeName": f"n{ordinal}", "disks": [entry]}
    return {"metadata": meta, "spec": spec, "status": {"phase": phase, **more}}


def test_what_an_earlier_run_has_done_is_found_done():
    kept = {**MINE, "volume": "pv-0", "mountPoint": "/mnt/disks/0", "filesystemUUID": "fs-0"}
    on_record = with_one("disks", disk(0, retainedFor=kept))
    assert dict(judged(on_record)[0].parts[0].kept) == kept
    lock = {**GONE, "uid": "berth-0", "volume": "pv-0"}
    locked = replace(with_one("disks", disk(0, claimRef=lock)), berths={0: berth(0, "Reserved")})
    assert judged(locked)[0].parts[0].kept["uid"] == "berth-0"
    bound = replace(locked, berths={0: berth(0, "Bound")})
    assert judged(bound)[0].parts == ()
    done = replace(bound, berths={0: berth(0, "Running")}, pods={"db-1": pod(1)})
    assert judged(done)[0] == Replica(0, "n0"), "whatever its pod does now"
    assert rows(done, judged(done))[0]["pod"] is None
    assert all(one.thing["metadata"]["name"] != "db-0" for one in changes(done, judged(done)))
    assert rows(bound, judged(bound))[0]["disks"][0]["volume"] == "pv-0"
    other = berth(0, "Selected")
    other["spec"]["disks"][0]["name"] = "n0-z"
    for record, words in (
        (other, "is of other disks or volumes"),
        (berth(0, "Releasing", release="Leave"), "is being released from berth"),
        (edited(berth(0, "Running"), "metadata/deletionTimestamp", "now"), "is being given up"),
        (berth(5, "Running"), "Berths of ordinals that it does not have: 5"),
    ):
        with pytest.raises(StateError, match=words):
            judged(replace(locked, berths={record["spec"]["ordinal"]: record}))
    marked = edited(claim(0), "metadata/annotations", {BERTH_ANNOTATION: "berth-0"})
    going = replace(locked, berths={0: berth(0, "Releasing", release="Retain")})
    assert len(judged(going)) == 2, "it could not lock its disks: made anew"
    with pytest.raises(StateError, match="let stateful_app finish that first"):
        judged(replace(going, claims={**going.claims, "data-db-0": marked}))


def test_everything_that_is_going_to_be_written_is_told():
    world = seen()
    told = list(changes(world, judged(world)))
    assert [(one.resource.kind, one.thing["metadata"]["name"]) for one in told] == [
        *(
            ("Berth", "db-0"),
            ("LocalDisk", "n0-a"),
            ("PersistentVolume", "pv-0"),
            ("PersistentVolumeClaim", "data-db-0"),
        ),
        *(
            ("Berth", "db-1"),
            ("LocalDisk", "n1-a"),
            ("PersistentVolume", "pv-1"),
            ("PersistentVolumeClaim", "data-db-1"),
        ),
        *(("StatefulSet", "db"), ("Pod", "db-0"), ("Pod", "db-1")),
    ]
    assert told[0].after == {"phase": "Running", "node": "n0", "disks": {"data": "n0-a"}, "volumes": {"data": "pv-0"}}
    assert told[1].after == {"claimRef": "shop/db-0 (claim data)", "filesystemUUID": "fs-0", "volume": "pv-0",
                             "mountPoint": "/mnt/disks/0"}  # fmt: skip
    assert told[2].after["persistentVolumeReclaimPolicy"] == "Retain"
    row = rows(world, judged(world))[1]
    assert (row["node"], row["pod"]) == ("n1", "db-1")
    assert row["disks"] == [{"claim": "data-db-1", "name": "n1-a", "volume": "pv-1", "mount_point": "/mnt/disks/1",
                             "filesystem_uuid": "fs-1"}]  # fmt: skip


def test_volumes_that_a_provisioner_would_make_again_are_told():
    assert warnings(judged(seen())) == []
    static = {"pv.kubernetes.io/provisioned-by": "local-volume-provisioner-n0-abc"}
    (text,) = warnings(judged(with_one("volumes", edited(volume(0), "metadata/annotations", static))))
    assert "PersistentVolume pv-0 (/mnt/disks/0) was made by local-volume-provisioner" in text
