# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules that write objects share: one shape of diff, one way to wait, one check of labels. Called by the
operations.

Sends no request and decides nothing about objects.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Callable, TypeVar

from ..berth_core.errors import InputError
from ..berth_core.model.labels import check_labels
from ..berth_core.model.resources import Resource

_T = TypeVar("_T")


def diff_entry(
    resource: Resource, name: str, before: Any, after: Any, namespace: str | None = None, absent: bool = False
) -> dict[str, Any]:
    """One element of a result's ``diff`` list; an empty ``before`` is a creation, ``absent`` a removal."""
    header = resource.describe(name, namespace)
    return {
        "before_header": header if before else f"{header} (absent)",
        "after_header": f"{header} (absent)" if absent else header,
        "before": before or "",
        "after": "" if absent else after,
    }


def text_map(option: str, value: Mapping[Any, Any] | None) -> dict[str, str]:
    """Labels or annotations as the API wants them: YAML's ``on``, ``1`` and ``null`` are refused with what to do
    (InputError)."""
    for key, item in (value or {}).items():
        if not isinstance(item, str) or not isinstance(key, str):
            raise InputError(
                f"{option}: {key!r} has the value {item!r} ({_kind(item)}); expected text, put it in quotes"
            )
    return {str(key): str(item) for key, item in (value or {}).items()}


def label_map(option: str, value: Mapping[Any, Any] | None) -> dict[str, str]:
    """Labels, or a node selector: `text_map`, and each key and value one that a label can have (InputError)."""
    made = text_map(option, value)
    check_labels(made, option)
    return made


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, (int, float)):
        return "a number"
    return {str: "text", list: "a list", dict: "a mapping", type(None): "nothing"}.get(
        type(value), type(value).__name__
    )


def poll(probe: Callable[[], _T | None], seconds: float, first: float = 0.05, most: float = 1.0) -> _T | None:
    """Call ``probe`` until it returns something or ``seconds`` are over; pauses double from ``first`` to ``most``."""
    deadline, pause = time.monotonic() + seconds, first
    while True:
        found = probe()
        if found is not None:
            return found
        left = deadline - time.monotonic()
        if left <= 0:
            return None
        time.sleep(min(pause, left))
        pause = min(pause * 2, most)
