# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands in the way of an app and is not its own. Pure; asked before anything is planned."""

from __future__ import annotations

from typing import Any

from ..errors import StateError
from .observed import Observed
from .wanted import APP_LABEL, POD, STATEFUL_SET, AppWanted


def refuse_foreign(app: AppWanted, observed: Observed) -> None:
    """An app does not change its kind while its pods are there, and takes over nothing that is not its own."""
    if observed.foreign:
        raise StateError(
            f"{', '.join(observed.foreign)} is there and does not belong to the app {app.name} (label {APP_LABEL}): "
            "give the app another name, or remove it; nothing was changed"
        )
    other = observed.stateful_set is None and any(_owner(pod) == STATEFUL_SET for pod in observed.pods.values())
    bare = any(_owner(pod) is None for pod in observed.pods.values())
    if (app.workload == POD and other) or (app.workload == STATEFUL_SET and bare):
        have = STATEFUL_SET if app.workload == POD else POD
        raise StateError(
            f"{app.namespace}/{app.name} runs as workload {have}, and {app.workload} is asked for: "
            "scale it down to 0 first (its data is kept), or use another name"
        )


def _owner(pod: Any) -> str | None:
    return next((str(owner["kind"]) for owner in pod["metadata"].get("ownerReferences") or ()), None)
