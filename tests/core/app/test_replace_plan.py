"""What a replica's disk may be exchanged for. The exchange itself: tests/core/lifecycle/test_replica.py."""

from __future__ import annotations

from typing import Any

import pytest

from berth_core.app.claims import app_name, volume_label
from berth_core.app.replace_plan import (
    Replica,
    check_new,
    check_pods,
    check_quorum,
    check_size,
    new_local_disk,
    of_claim,
    owner_of,
    replica_of,
    replica_of_claim,
)
from berth_core.errors import IdentityError, InputError, StateError
from berth_core.lifecycle.replacing import why_not_adopted
from tests.core.app.disk_samples import held, kept, local_disk

OLD, NEW, UID = "h1-d0", "h1-d1", "u1"


def old(**spec: Any) -> dict[str, Any]:
    return local_disk(OLD, **{"claimRef": held(UID, UID), **spec})


def berth(phase: str, name: str) -> dict[str, Any]:
    meta = {"name": "db-0", "namespace": "default", "uid": UID}
    return {
        "metadata": meta,
        "spec": {"disks": [{"claim": "data", "name": name, "size": 1}]},
        "status": {"phase": phase},
    }


def fresh(**spec: Any) -> dict[str, Any]:
    return {**local_disk(NEW, **spec), "status": {"phase": "Available"}}


def stateful_set(name: str, *templates: str, replicas: int = 1, **spec: Any) -> dict[str, Any]:
    made = [{"metadata": {"name": one}} for one in templates]
    return {"metadata": {"name": name}, "spec": {"replicas": replicas, "volumeClaimTemplates": made, **spec}}


def owner(claim: str) -> dict[str, Any]:
    return {"namespace": "shop", "app": app_name(claim), "ordinal": 0, "claim": volume_label(claim), "dataUID": "u"}


LONG = "w" * 60
SETS = [
    stateful_set("web", "log", "data", replicas=3),
    stateful_set("web-1", "data"),
    stateful_set("late", "data", ordinals={"start": 5}),
    stateful_set(LONG, "data"),
    {"metadata": {"name": "none"}, "spec": {"replicas": 1}},
]


@pytest.mark.parametrize(
    ("claim", "replica"),
    [
        ("data-web-2", ("web", 2, "data")),
        ("data-web-1-0", ("web-1", 0, "data")),
        ("data-late-5", ("late", 5, "data")),
        (f"data-{LONG}-0", (LONG, 0, "data")),
    ],
)
def test_a_statefulsets_claim_is_found_by_its_name(claim: str, replica: tuple[str, int, str]) -> None:
    found = replica_of_claim(OLD, owner(claim), SETS)
    assert found == Replica("shop", *replica)
    assert found.claim_name == claim
    assert of_claim(owner(claim))


@pytest.mark.parametrize("claim", ["data", "data-web-3", "data-late-0", "data-none-0"])
def test_a_claim_that_nobody_would_make_again_is_refused_with_the_way_out(claim: str) -> None:
    with pytest.raises(StateError, match="which no StatefulSet makes") as caught:
        replica_of_claim(OLD, owner(claim), SETS)
    assert f"kubectl delete pvc {claim} -n shop" in caught.value.message
    assert "Nothing was changed" in caught.value.message


def pod(name: str, claim: str, phase: str = "Running") -> dict[str, Any]:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
    return {"metadata": {"name": name}, "spec": {"volumes": volumes}, "status": {"phase": phase}}


def test_a_pod_that_nobody_asked_to_stop_is_named() -> None:
    one = Replica("shop", "web", 0, "data")
    check_pods(one, [pod("web-0", "data-web-0"), pod("job", "data-web-0", "Succeeded"), pod("other", "data-web-1")])
    with pytest.raises(StateError, match="pod shop/backup mounts claim data-web-0") as caught:
        check_pods(one, [pod("web-0", "data-web-0"), pod("backup", "data-web-0")])
    assert "kubectl delete pod backup -n shop" in caught.value.message


def test_a_new_disk_with_the_claims_own_data_is_the_claims() -> None:
    declared = new_local_disk(old(), {"identity": {"serial": "SERIAL-sdc", "size": "4Gi"}, "name": NEW})
    keeps = {"metadata": {"name": NEW}, "spec": {**declared["spec"], "retainedFor": owner("data-web-0")}}
    check_new(declared, keeps, {**owner("data-web-0"), "uid": "u", "name": "pvc-u"})
    with pytest.raises(StateError, match="keeps the data"):
        check_new(declared, keeps, owner("data-web-1"))


def test_the_new_disk_is_as_the_old_one_where_nothing_is_said() -> None:
    made = new_local_disk(
        old(storageClassName="fast", reserved=True), {"identity": {"serial": "T", "size": "4Gi"}, "labels": None}
    )
    assert (made["spec"]["nodeName"], made["spec"]["storageClassName"], made["spec"]["fsType"]) == (
        "h1",
        "fast",
        "ext4",
    )
    assert "claimRef" not in made["spec"]
    assert not made["spec"].get("reserved")


@pytest.mark.parametrize(
    ("new", "error", "words"),
    [
        ({"identity": {"serial": "SERIAL-sdb", "size": "4Gi"}}, IdentityError, "is that very disk"),
        ({"identity": {"model": "Disk", "size": "4Gi"}, "name": NEW}, IdentityError, "cannot name one disk"),
        ({"identity": {"serial": "T", "size": "4Gi"}, "name": OLD}, InputError, "same name"),
        ({"identity": {"serial": "T", "size": "4Gi"}, "fs_type": "xfs"}, InputError, "fsType cannot differ"),
    ],
)
def test_a_new_disk_that_cannot_be(new: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        new_local_disk(old(), new)


def test_another_disk_under_the_name_is_given_nothing() -> None:
    declared = new_local_disk(old(), {"identity": {"serial": "T", "size": "4Gi"}, "name": NEW})
    with pytest.raises(IdentityError, match="declared is serial T"):
        check_new(declared, local_disk(NEW))
    same = {"metadata": {"name": NEW}, "spec": {**declared["spec"], "retainedFor": kept()}}
    with pytest.raises(StateError, match="keeps the data of default/db-0"):
        check_new(declared, same)


def test_a_disk_that_is_too_small_is_refused() -> None:
    declared = new_local_disk(old(), {"identity": {"serial": "T", "size": "1Gi"}, "name": NEW})
    record = berth("Running", OLD)
    record["spec"]["disks"][0]["size"] = 1 << 31
    holder = owner_of(old())
    assert holder is not None
    assert not of_claim(holder)
    replica = replica_of(holder)
    with pytest.raises(StateError, match="take a larger disk"):
        check_size(record, replica, declared)


@pytest.mark.parametrize(
    ("up", "quorum", "refused"),
    [("012", 2, False), ("01", 2, True), ("12", 2, False), ("1", 2, False), ("0", None, False), ("0", 1, True)],
)
def test_a_disk_is_exchanged_while_enough_others_are_ready(up: str, quorum: int | None, refused: bool) -> None:
    """db-0's, which is down already, or one that is Ready less."""
    replica = Replica("default", "db", 0, "data")
    pods = [
        {
            "metadata": {"name": f"db-{ordinal}"},
            "status": {"conditions": [{"type": "Ready", "status": str(str(ordinal) in up)}]},
        }
        for ordinal in range(3)
    ]
    of_app = {"spec": {"quorum": quorum} if quorum else {}}
    if not refused:
        check_quorum(of_app, replica, pods)
        return
    with pytest.raises(StateError, match=rf"{len(up) - 1} others are Ready \(.*\), and quorum is {quorum}\. Bring"):
        check_quorum(of_app, replica, pods)


def test_what_is_waited_for_is_told() -> None:
    assert why_not_adopted(None) == "it is not declared yet"
    assert "has not looked" in why_not_adopted(local_disk(NEW))
    missing = [{"type": "Matched", "status": "False", "reason": "NotFound", "message": "no device"}]
    assert why_not_adopted({**fresh(), "status": {"phase": "Missing", "conditions": missing}}) == (
        "it is Missing: Matched: NotFound no device"
    )
