"""matching_disks: the engine's verdict on LocalDisks that somebody has listed."""

from __future__ import annotations

from typing import Any

import pytest

from berth_core.app.disk_match import matching_disks
from berth_core.errors import InputError, QuantityError, SelectorError

Gi = 1 << 30


def disk(name: str, size: int = 2 * Gi, tier: str = "fast", phase: str = "Available", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": name, "resourceVersion": "1", "labels": {"tier": tier}},
        "spec": {"nodeName": "h1", "identity": {"serial": name, "size": size}, "storageClassName": "local", **spec},
        "status": {"phase": phase},
    }


LOCK = {"namespace": "shop", "name": "db-0", "uid": "u", "app": "db", "ordinal": 0, "claim": "data", "dataUID": "u"}
DISKS = [
    disk("c-slow", tier="slow"),
    disk("a-good"),
    disk("b-small", size=Gi),
    disk("d-held", phase="Locked", claimRef=LOCK),
    disk("e-raw", volumeMode="Block"),
    disk("f-xfs", fsType="xfs"),
    disk("g-broken", phase="Faulted"),
]


def names(found: list[dict[str, Any]]) -> list[str]:
    return [one["metadata"]["name"] for one in found]


def test_what_a_claim_could_have() -> None:
    assert names(matching_disks(DISKS)) == ["a-good", "b-small", "c-slow", "f-xfs"]
    assert names(matching_disks(DISKS, selector={"matchLabels": {"tier": "fast"}})) == ["a-good", "b-small", "f-xfs"]
    assert names(matching_disks(DISKS, size="1025Mi")) == ["a-good", "c-slow", "f-xfs"]
    assert names(matching_disks(DISKS, fs_type="ext4")) == ["a-good", "b-small", "c-slow"]
    assert names(matching_disks(DISKS, volume_mode="Block")) == ["e-raw"]
    assert matching_disks(DISKS, storage_class="other") == []
    assert matching_disks([]) == []


def test_what_is_against_the_others() -> None:
    why = {one["name"]: (one["reason"], one["detail"]) for one in matching_disks(DISKS, size="2Gi", explain=True)}
    assert why["a-good"] == ("", "")
    assert why["b-small"] == ("too small", "1Gi of 2Gi")
    assert why["d-held"] == ("held", "by shop/db-0")
    assert why["e-raw"][0] == "of another volumeMode"
    assert why["g-broken"][0] == "Faulted"


def test_wrong_questions() -> None:
    with pytest.raises(InputError, match="volume_mode is 'Raw': expected Filesystem or Block"):
        matching_disks(DISKS, volume_mode="Raw")
    with pytest.raises(QuantityError, match="10 GB"):
        matching_disks(DISKS, size="10 GB")
    with pytest.raises(SelectorError, match="unknown field 'labels'"):
        matching_disks(DISKS, selector={"labels": {}})
    with pytest.raises(InputError, match="LocalDisk x"):
        matching_disks([{"metadata": {"name": "x"}, "spec": {}}])
