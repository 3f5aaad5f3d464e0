# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operations behind the modules task_batch and task_batch_info."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from ..berth_core.model.names import check_label
from ..berth_core.model.resources import TASK_BATCH, TASK_BATCH_SHARD
from ..berth_core.tasks.batch import FIELDS, check_new
from ..berth_core.tasks.batch_told import pace, told, words, worked
from ..berth_core.tasks.items import plain
from .base import Context, Operation
from .submitted import OPTIONS, PLACE, Submitted, gang_field, why
from .task_items import load_items, read_items_src

Object = Mapping[str, Any]


def run(context: Context) -> dict[str, Any]:
    """One TaskBatch, by ``state``."""
    began: list[tuple[float, int]] = []
    params = context.params
    context.params = {**params, "items": _items(params), "gang": gang_field(params["gang"])}

    def far(live: Object) -> str:
        status, now = live.get("status") or {}, time.monotonic()
        counts, waits = status.get("counts") or {}, why(live)
        if not began:
            began.append((now, worked(counts)))
        then, earlier = began[0]
        return f"{status.get('state')}{waits and f' ({waits})'}: {words(pace(counts, earlier, now - then))}"

    return Submitted(
        resource=TASK_BATCH,
        result="batch",
        info="task_batch_info",
        fields=FIELDS,
        check=check_new,
        told=_told,
        ended_as=_ended_as,
        far=far,
    ).run(context)


def run_info(context: Context) -> dict[str, Any]:
    params = context.params
    check_label(params["namespace"], "namespace")
    if params["name"] is not None:
        check_label(params["name"], "name")
    live = sorted(context.client.list(TASK_BATCH, params["namespace"]), key=lambda one: str(one["metadata"]["name"]))
    chosen = [one for one in live if params["name"] in (None, one["metadata"]["name"])]
    return {"changed": False, "batches": [_told(context, one) for one in chosen]}


def _told(context: Context, live: Object) -> dict[str, Any]:
    meta, now = live["metadata"], datetime.now(timezone.utc)
    if not meta.get("uid"):  # a dry run's
        return told(live, now)
    return told(live, now, context.client.list(TASK_BATCH_SHARD, meta["namespace"], fields=f"batch={meta['name']}"))


def _items(params: Mapping[str, Any]) -> Any:
    """Those of the option or of the file, where that is not read yet; without what was not given."""
    if params["items_src"] is not None and params["state"] == "present":
        return load_items(params["items_src"])
    return None if params["items"] is None else plain(params["items"])


def _ended_as(live: Object) -> str:
    status = live["status"]
    rows = [
        f"{row['count']} with {row.get('reason')}"
        + (f" and exit code {row['exitCode']}" if row.get("exitCode") is not None else "")
        + f", as {row.get('example')}"
        for row in status.get("reasons") or ()
    ]
    counts = status.get("counts") or {}
    words = f": {counts.get('failed', 0)} tasks failed, {counts.get('killed', 0)} were killed"
    return f"{words} ({'; '.join(rows)})" if rows else words


OPERATION = Operation(
    name="task_batch",
    options={
        **OPTIONS,
        "count": {"type": "int"},
        "items": {
            "type": "list",
            "elements": "dict",
            "options": {
                "name": {"type": "str"},
                "args": {"type": "list", "elements": "str"},
                "env": {"type": "dict"},
                "needs": {"type": "list", "elements": "str"},
            },
        },
        "items_src": {"type": "path"},
        "gang": {"type": "dict", "options": {"min_count": {"type": "int", "required": True}}},
        "parallelism": {"type": "int"},
        "max_failures": {"type": "int"},
        "wait_timeout": {"type": "int", "default": 3600},
    },
    run=run,
    required_if=(("state", "present", ("template",)), ("state", "present", ("count", "items", "items_src"), True)),
    mutually_exclusive=(("count", "items", "items_src"),),
    controller_files=("items_src",),
    prepare=read_items_src,
)
INFO = Operation(name="task_batch_info", options={"name": {"type": "str"}, **PLACE}, run=run_info)
