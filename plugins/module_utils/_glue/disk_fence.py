# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fence of disk_filesystem: right before a disk is touched, the API server says that its lock is still the same.

Called by plugins/action/disk_filesystem.py, on the controller: a host has no credentials.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ..berth_core.app.node_agents import LEASE_PREFIX, NAMESPACE, agent_of
from ..berth_core.app.prepare import check_alone, check_unchanged
from ..berth_core.model.resources import BERTH, LEASE, LOCAL_DISK
from .client import ApiClient


def fenced(client: ApiClient, given: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The LocalDisk as it is now. Raises LockError where its lock is another one, StateError where an agent works.

    ``given``: as the play has read it.
    """
    disk = client.find(LOCAL_DISK, given["metadata"]["name"])
    ref = ((disk or {}).get("spec") or {}).get("claimRef")
    berth = client.find(BERTH, ref["name"], ref["namespace"]) if ref else None
    fresh = check_unchanged(given, disk, berth)
    lease = client.find(LEASE, LEASE_PREFIX + str(fresh["spec"]["nodeName"]), NAMESPACE)
    check_alone(fresh, agent_of(lease, now) if lease else None)
    return dict(fresh)
