"""A claim without an app is called by its pod wherever people look, never by the uid in the name of its Berth."""

from __future__ import annotations

from typing import Any

import pytest

from berth_cli import tables
from berth_core.app.html_report import render
from berth_core.app.overview import overview
from tests.core.app.claim_world import disk

UID = "4c68421a-4f4b-4f0e-a5cf-c1a9f0c3a4c2"


def found(**status: str) -> dict[str, Any]:
    """An overview of one disk, held for the claim data of namespace shop."""
    lock = {"namespace": "shop", "name": f"pvc-{UID}", "uid": "u", "app": "pvc.data", "ordinal": 0, "claim": "data"}
    berth = {
        "metadata": {"name": f"pvc-{UID}", "namespace": "shop", "uid": "u"},
        "spec": {
            "app": "pvc.data",
            "ordinal": 0,
            "nodeName": "n1",
            "disks": [{"claim": "data", "name": "n1-d0", "size": 1}],
        },
        "status": status,
    }
    held = disk(phase="Locked", claimRef={**lock, "dataUID": "u"})
    return overview({"Node": [], "LocalDisk": [held], "LocalDevice": [], "Berth": [berth], "Pod": []})


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({"phase": "Running", "podName": "pg-1", "workload": "StatefulSet pg"}, "pg-1 (StatefulSet pg)"),
        ({"phase": "Running", "podName": "pg-1"}, "pg-1"),
        ({"phase": "Bound"}, "pvc.data"),
    ],
)
def test_a_claims_disk_is_held_by_its_pod(status: dict[str, str], words: str) -> None:
    seen = found(**status)
    text = tables.show(seen)
    (berth, held) = [line for line in text.splitlines() if "n1-d0" in line]
    assert f"shop/{words}   data" in held
    assert words in berth
    assert status["phase"] in berth
    page = render(seen, [], [], "berth", "now")
    assert f"shop/{words}, data" in page
    assert UID not in text + page
