"""10,000 tasks of one TaskBatch on the real API server, from a file; what fits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model.resources import TASK_BATCH
from berth_core.tasks.items import LARGEST_ITEMS, MOST_ITEMS

pytestmark = pytest.mark.usefixtures("crds")
TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "none"}]}}
#: JSON of 104 bytes each: nearly as much as fits.
ITEMS: list[dict[str, Any]] = [
    {"name": f"part-{number:05}", "args": ["x" * 30], "env": {"PART": f"s3://bucket/{number:05}"}}
    for number in range(MOST_ITEMS)
]


def play(namespace: str, name: str, **options: Any) -> dict[str, Any]:
    shared = {"name": name, "namespace": namespace, "template": TEMPLATE, "wait": False}
    return {"berth.stateful.task_batch": {**shared, **options}, "register": name}


def test_ten_thousand_tasks_from_one_file(
    api: ApiClient, namespace: str, playbook: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "parts.jsonl"
    file.write_text("".join(f"{json.dumps(one)}\n" for one in ITEMS))
    assert file.stat().st_size > 0.9 * LARGEST_ITEMS
    tasks = [play(namespace, "many", items_src=str(file)) for _time in range(2)]
    ran = playbook(tasks).ok()
    assert [one.result["changed"] for one in ran.tasks] == [True, False]
    assert api.get(TASK_BATCH, "many", namespace)["spec"]["items"] == ITEMS

    wrong = {"name": "last", "needs": ["part-99999"]}
    file.write_text("".join(f"{json.dumps(one)}\n" for one in (*ITEMS[:5000], wrong)))
    refused = playbook([play(namespace, "other", items_src=str(file))]).failed()
    assert "line 5001: needs names 'part-99999': expected names of other items" in refused["msg"]
    assert api.find(TASK_BATCH, "other", namespace) is None


def test_the_largest_list_leaves_room_for_template_and_status(api: ApiClient, namespace: str) -> None:
    """Of the widest characters, too: etcd takes what the check lets through."""
    items = [{"args": ["&" * 4000]} for _number in range(LARGEST_ITEMS // (6 * 4000 + 15))]
    meta = {"name": "wide", "namespace": namespace, "annotations": {"note": "x" * 200_000}}
    body = {"apiVersion": TASK_BATCH.api_version, "kind": TASK_BATCH.kind, "metadata": meta}
    template = {**TEMPLATE, "metadata": {"annotations": {"note": "y" * 100_000}}}
    api.create(TASK_BATCH, {**body, "spec": {"items": items, "template": template}})
    row = {"reason": "r" * 128, "exitCode": 1, "count": 1, "example": "e" * 63}
    status = {"state": "Running", "message": "m" * 1024, "reasons": [row] * 32}
    api.patch(TASK_BATCH, "wide", namespace, {"status": status}, "status")
    assert len(api.get(TASK_BATCH, "wide", namespace)["spec"]["items"]) == len(items)
