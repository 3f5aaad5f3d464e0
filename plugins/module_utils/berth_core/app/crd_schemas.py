# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which schemas of the custom resources this release is made for: what a program and a cluster have in common.

Called by the module controller before it installs, and by the controller when it starts. Asks no API server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InputError
from ..model.resources import (
    BERTH,
    LOCAL_DEVICE,
    LOCAL_DISK,
    STATEFUL_APP,
    TASK,
    TASK_BATCH,
    TASK_BATCH_SHARD,
    TASK_OFFER,
    TASK_QUEUE,
)
from .crd_plan import schema_of

#: definition -> number of its schema, as deploy/crds has it.
SCHEMAS: Mapping[str, int] = {
    BERTH.definition: 6,
    LOCAL_DEVICE.definition: 2,
    LOCAL_DISK.definition: 6,
    STATEFUL_APP.definition: 10,
    TASK.definition: 3,
    TASK_BATCH.definition: 3,
    TASK_BATCH_SHARD.definition: 1,
    TASK_OFFER.definition: 1,
    TASK_QUEUE.definition: 3,
}


def as_text() -> str:
    """The schemas of this release, for `check_installed_for`."""
    return ",".join(f"{name}={number}" for name, number in sorted(SCHEMAS.items()))


def check_installed_for(text: str, option: str) -> None:
    """Raises InputError where a program is installed for other schemas than it knows."""
    if text != as_text():
        raise InputError(
            f"{option} is {text!r}: this program knows {as_text()}. Its image is of another release than the "
            "collection that installed it; give it the image of that release"
        )


def other_schema(name: str, live: Mapping[str, Any]) -> str:
    """Why a program of this release cannot work with a definition that is there; empty where it can."""
    ours, theirs = SCHEMAS[name], schema_of(live)
    if theirs == ours:
        return ""
    said = f"CustomResourceDefinition {name} has schema {theirs}, and this release is made for schema {ours}"
    if theirs < ours:
        return f"{said}: upgrade it with the module crds"
    return f"{said}: install with the collection of the newer release"
