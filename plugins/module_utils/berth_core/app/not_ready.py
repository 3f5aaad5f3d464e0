# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a pod is not Ready, in the words of its status. Pure.

Called by whoever waits for pods: the modules, and berth-controller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import StateError
from .observed import ended, unscheduled

#: Waiting reasons of a container that only another image mends.
IMAGE_REASONS = ("InvalidImageName", "ErrImageNeverPull")
#: Waiting reasons of a container that no time mends.
_HOPELESS = (*IMAGE_REASONS, "CreateContainerConfigError")


def why_not_ready(pod: Mapping[str, Any] | None) -> str:
    """The nearest cause in a pod's status. Raises StateError for one that no waiting mends."""
    if pod is None:
        return "does not exist yet"
    status = pod.get("status") or {}
    if ended(pod).startswith("Failed") and not pod["metadata"].get("ownerReferences"):
        name = pod["metadata"]["name"]
        raise StateError(
            f"pod {name} has ended: {ended(pod)}; nothing starts it again: mend the cause, and run the task again",
            changed=True,
        )
    for container in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in _HOPELESS:
            name = pod["metadata"]["name"]
            raise StateError(
                f"pod {name}: container {container['name']}: {waiting['reason']}: {waiting.get('message', '')}".rstrip(
                    ": "
                ),
                changed=True,
            )
        if waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return f"waits: container {container['name']}: {waiting['reason']} {waiting.get('message', '')}".rstrip()
    told = unscheduled(pod)
    if told:
        return f"is not scheduled: {told}"
    return f"is {status.get('phase', 'Unknown')} on node {pod['spec'].get('nodeName') or 'none'}, not Ready"
