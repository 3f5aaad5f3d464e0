# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operation behind the module report: one LIST per kind, one file written. Nothing in the cluster is.

What stands on the page: berth_core/app/html_report.py. A page on which nothing but its time would change is left alone.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from ..berth_core.app.berth_history import latest, rows
from ..berth_core.app.cluster_drift import KINDS, cluster_drift, living
from ..berth_core.app.disk_change import check_declared
from ..berth_core.app.history import history
from ..berth_core.app.html_report import made_at, render
from ..berth_core.app.overview import overview, snapshot_of
from ..berth_core.errors import ForbiddenError, InputError, NotFoundError
from ..berth_core.model.resources import BERTH, LOCAL_DISK, TASK_BATCH
from ..berth_core.tasks.batch_told import told
from .base import Context, Operation
from .overview import read_lists

_MOST = 100_000_000
"""Bytes of a file that is there: nothing that large is a page of berth's."""
_EVENTS = 100_000


def run(context: Context) -> dict[str, Any]:
    params = context.params
    dest, mode = _dest(params["dest"]), _mode(params["mode"])
    check_declared(params["declared"] or (), "declared")
    if not 0 <= params["history"] <= _EVENTS:
        raise InputError(f"history is {params['history']}: expected 0 to {_EVENTS} entries")
    lists = read_lists(context.client, kinds=KINDS)
    alive = living(lists)
    snapshot = snapshot_of(alive)
    found, findings = overview(alive, snapshot=snapshot), cluster_drift(lists, params["declared"], snapshot.unreadable)
    happened = history(lists, params["history"])
    changes = latest(rows(lists[BERTH.kind], lists[LOCAL_DISK.kind]), params["history"])

    batches = _batches(context)

    def page(made: str) -> str:
        return render(found, findings, happened, params["title"], made, changes, batches)

    before, now = _read(dest), time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    text = page(made_at(before) or now)
    changed = text != before
    if changed:
        text = page(now)
        if not context.check_mode:
            _write(dest, text, mode)
    summary = _summary(found, findings)
    shown = {"before_header": dest, "after_header": dest, "before": "", "after": summary}
    result = {"changed": changed, "dest": dest, "size": len(text.encode()), "summary": summary, "findings": findings}
    return {**result, "diff": [shown] if changed else []}


def _batches(context: Context) -> list[dict[str, Any]] | None:
    """Rows of TaskBatches; None: this account may not list them, and has the rest of the page all the same."""
    try:
        return [told(one, datetime.now(timezone.utc)) for one in context.client.list(TASK_BATCH)]
    except NotFoundError:  # custom resources of an earlier release
        return []
    except ForbiddenError:
        return None


def _dest(path: str) -> str:
    if os.path.isdir(path):
        raise InputError(f"dest {path} is a folder: expected the path of a file, as {os.path.join(path, 'berth.html')}")
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise InputError(f"dest {path}: there is no folder {folder}; make it first")
    return path


def _mode(text: str) -> int:
    try:
        mode = int(text, 8)
    except ValueError:
        mode = -1
    if not 0 <= mode <= 0o777:
        raise InputError(f"mode is {text!r}: expected three octal digits in quotes, such as '0640'")
    return mode


def _read(path: str) -> str:
    """What is there; empty for what is no page of berth's, which is replaced whole."""
    try:
        if os.path.getsize(path) > _MOST:
            return ""
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        return ""
    except OSError as exc:
        raise InputError(f"dest {path} cannot be read: {exc.strerror}") from exc


def _write(path: str, text: str, mode: int) -> None:
    """All of it or nothing, and never readable by more than ``mode`` says."""
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(path)), prefix=".berth-report-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except OSError as exc:
        os.unlink(temporary)
        raise InputError(f"dest {path} cannot be written: {exc.strerror}") from exc


def _summary(found: Mapping[str, Any], findings: Sequence[Any]) -> dict[str, int]:
    disks = found["totals"]["disks"]
    numbers = {"nodes": found["totals"]["nodes"], "berths": len(found["berths"]), "findings": len(findings)}
    return {**numbers, "disks": disks["total"], "free_disks": disks["free"], "free_bytes": disks["free_bytes"]}


OPERATION = Operation(
    name="report",
    options={
        "dest": {"type": "path", "required": True},
        "mode": {"type": "str", "default": "0600"},
        "title": {"type": "str", "default": "berth"},
        "declared": {"type": "list", "elements": "dict"},
        "history": {"type": "int", "default": 200},
    },
    run=run,
)
