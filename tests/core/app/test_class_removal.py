"""Which claims a StorageClass that is removed leaves behind."""

from __future__ import annotations

from typing import Any

from berth_core.app.class_removal import bound, waiting


def claim(name: str, of: str | None = "fast", volume: str = "", **meta: Any) -> dict[str, Any]:
    spec = {"storageClassName": of, "volumeName": volume}
    return {
        "metadata": {"namespace": "db", "name": name, **meta},
        "spec": {key: value for key, value in spec.items() if value},
    }


def test_those_without_a_volume_wait_and_others_live_on():
    found = [claim("b"), claim("a"), claim("has", volume="pv-1"), claim("other", of="slow"), claim("none", of=None)]
    assert waiting(found, ["fast"]) == ["db/a", "db/b"]
    assert waiting(found, ["fast", "slow"]) == ["db/a", "db/b", "db/other"]
    assert bound(found, ["fast"]) == ["db/has"]
    assert (waiting(found, []), bound(found, [])) == ([], [])


def test_one_that_is_deleted_is_no_reason():
    assert waiting([claim("going", deletionTimestamp="2026-01-01T00:00:00Z")], ["fast"]) == []


def test_the_old_annotation_names_the_class_too():
    old = claim("old", of=None, annotations={"volume.beta.kubernetes.io/storage-class": "fast"})
    assert waiting([old], ["fast"]) == ["db/old"]
