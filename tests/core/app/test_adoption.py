"""The plan by which an application is released from berth, and what its hosts are told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from berth_core.app.adoption import plan_release, rows, tried, warnings
from berth_core.app.fsid import filesystem_uuid
from berth_core.app.observed import Observed
from berth_core.errors import StateError
from berth_core.lifecycle.locks import BERTH_ANNOTATION

UID = "0123abcd-0000-4000-8000-000000000000"
VOLUME = "n1-a-0123abcd"
OURS = {"berth.dev/app": "db", "app.kubernetes.io/managed-by": "berth"}
ROOT = "/srv/berth"


def marked(name, **more):
    """An object with berth's labels and mark, and a label of somebody else's."""
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": "7", "labels": {**OURS, "tier": "gold"}}
    return {"metadata": {**meta, "annotations": {BERTH_ANNOTATION: UID, "note": "x"}, **more}}


def seen(mode="Filesystem", strategy="RollingUpdate"):
    lock = {"namespace": "shop", "name": "db-0", "uid": UID, "app": "db", "ordinal": 0, "claim": "data"}
    spec = {"volumeMode": mode, "mountOptions": ["noatime", "nofail"], "claimRef": {**lock, "dataUID": "first"}}
    disk = {"metadata": {"name": "n1-a"}, "spec": spec, "status": {"observed": {"filesystem": {"type": "xfs"}}}}
    berth = {
        "metadata": {"name": "db-0", "namespace": "shop", "uid": UID},
        "spec": {"app": "db", "ordinal": 0, "nodeName": "n1", "disks": [{"claim": "data", "name": "n1-a", "size": 1}]},
        "status": {"phase": "Running"},
    }
    return Observed(
        "db",
        "shop",
        berths={0: berth},
        disks={"n1-a": disk},
        volumes={VOLUME: marked(VOLUME)},
        claims={"data-db-0": marked("data-db-0", namespace="shop")},
        stateful_set={**marked("db", namespace="shop"), "spec": {"updateStrategy": {"type": strategy}}},
        beside={("ConfigMap", "conf"): marked("conf", namespace="shop")},
    )


def test_berths_labels_and_mark_go_and_nothing_else_of_an_object():
    plan = plan_release(seen())
    assert [(one.resource.kind, one.thing["metadata"]["name"]) for one in plan.shared] == [
        ("StatefulSet", "db"),
        ("ConfigMap", "conf"),
    ]
    assert plan.berths == (0,)
    assert [one.resource.kind for one in plan.changes[2:]] == [
        "Berth",
        "PersistentVolumeClaim",
        "PersistentVolume",
        "LocalDisk",
    ]
    taken = {"labels": dict.fromkeys(OURS), "annotations": {BERTH_ANNOTATION: None}}
    for one in (*plan.shared, plan.changes[3], plan.changes[4]):
        assert one.before == {**OURS, BERTH_ANNOTATION: UID}
        patched = {key: one.patch["metadata"][key] for key in ("labels", "annotations")}
        assert patched == taken
        assert one.patch["metadata"]["resourceVersion"] == "7", "a compare-and-swap"
    assert plan.changes[-1].after == {"retainedFor": "shop/db-0 (claim data)", "volume": VOLUME}


def test_what_is_tried_first_has_one_write_of_each_kind():
    steps = tried(seen())
    assert [(one.do, one.resource.kind) for one in steps] == [
        ("patch", "PersistentVolumeClaim"),
        ("patch", "PersistentVolume"),
        ("replace", "LocalDisk"),
    ]
    assert "claimRef" not in steps[-1].body["spec"]
    assert steps[-1].body["spec"]["retainedFor"]["volume"] == VOLUME
    assert tried(replace(seen(), berths={})) == []


def test_hosts_are_told_the_line_that_mounts_a_disk_after_a_reboot():
    (row,) = rows(seen(), ROOT)
    (disk,) = row["disks"]
    uuid = filesystem_uuid("first", "n1-a")
    assert disk["fstab"] == f"UUID={uuid} {ROOT}/n1-a xfs noatime,nofail,x-berth.localdisk=n1-a 0 0"
    assert (row["node"], row["pod"], disk["volume"], disk["claim"]) == ("n1", None, VOLUME, "data-db-0")
    assert rows(seen("Block"), ROOT)[0]["disks"][0]["fstab"] is None
    assert rows(replace(seen(), disks={}), ROOT)[0]["disks"][0]["fstab"] is None, "its lock went before"


def test_on_delete_is_told():
    assert warnings(seen()) == []
    assert "StatefulSet shop/db has updateStrategy OnDelete" in warnings(seen(strategy="OnDelete"))[0]


def test_what_is_not_there_or_not_whole_is_refused():
    nothing = Observed("db", "shop")
    assert plan_release(replace(nothing, foreign=("StatefulSet shop/db",))).changes == (), "released before"
    for there, words in (
        (nothing, "there is no StatefulSet shop/db, and neither is a Berth of that name"),
        (replace(seen(), stateful_set=None), "there is no StatefulSet shop/db, and its Berths are there"),
        (replace(seen(), volumes={}), "Berth shop/db-0: a claim or volume of it is missing"),
        (replace(seen(), claims={}), "Berth shop/db-0: a claim or volume of it is missing"),
    ):
        with pytest.raises(StateError, match=words):
            plan_release(there)
