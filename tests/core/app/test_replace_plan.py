"""What a replica's disk may be exchanged for. The exchange itself: tests/core/lifecycle/test_replica.py."""

from __future__ import annotations

from typing import Any

import pytest

from berth_core.app.replace_plan import check_new, check_size, new_local_disk, replica_of
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


def test_a_claim_without_an_app_is_refused() -> None:
    with pytest.raises(StateError, match="no app of stateful_app owns"):
        replica_of(old(claimRef={**held(), "app": "pvc.data"}))


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
    replica = replica_of(old())
    assert replica is not None
    with pytest.raises(StateError, match="take a larger disk"):
        check_size(record, replica, declared)


def test_what_is_waited_for_is_told() -> None:
    assert why_not_adopted(None) == "it is not declared yet"
    assert "has not looked" in why_not_adopted(local_disk(NEW))
    missing = [{"type": "Matched", "status": "False", "reason": "NotFound", "message": "no device"}]
    assert why_not_adopted({**fresh(), "status": {"phase": "Missing", "conditions": missing}}) == (
        "it is Missing: Matched: NotFound no device"
    )
