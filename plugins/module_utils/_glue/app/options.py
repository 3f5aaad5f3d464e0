# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the operation stateful_app."""

from __future__ import annotations

from typing import Any

from ...berth_core.app.hook_rules import SECONDS
from ...berth_core.app.node_loss import POLICIES
from ...berth_core.app.stateful_app_object import DRIVERS, PLAYBOOK
from ...berth_core.app.update_rules import BUDGETS, COUNTED, OF_ONE, ORDERS, STRATEGIES
from ...berth_core.app.wanted import POD, STATEFUL_SET
from ...berth_core.lifecycle import states

_PORT = {
    "name": {"type": "str"},
    "port": {"type": "int", "required": True},
    "target_port": {"type": "str"},
    "protocol": {"type": "str", "choices": ["TCP", "UDP", "SCTP"], "default": "TCP"},
}
_DISK = {
    "name": {"type": "str", "required": True},
    "size": {"type": "str", "required": True},
    "storage_class": {"type": "str"},
    "volume_mode": {"type": "str", "choices": ["Filesystem", "Block"], "default": "Filesystem"},
    "fs_type": {"type": "str", "choices": ["ext4", "xfs"]},
    "selector": {"type": "dict"},
    "disk_names": {"type": "list", "elements": "str"},
}
_DEVICE = {
    "name": {"type": "str", "required": True},
    "device_class": {"type": "str", "required": True},
    "count": {"type": "int"},
    "share": {"type": "int"},
}
_HOOKS = {
    "before": {"type": "list", "elements": "str"},
    "after": {"type": "list", "elements": "str"},
    "container": {"type": "str"},
    "timeout": {"type": "int", "default": SECONDS},
}
_OVERRIDE = {
    "ordinal": {"type": "int", "required": True},
    "strategy": {"type": "str", "choices": list(OF_ONE)},
    "hold": {"type": "bool", "default": False},
}
OPTIONS: dict[str, dict[str, Any]] = {
    "name": {"type": "str", "required": True},
    "namespace": {"type": "str", "default": "default"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "replicas": {"type": "int"},
    "workload": {"type": "str", "choices": [STATEFUL_SET, POD], "default": STATEFUL_SET},
    "template": {"type": "dict"},
    "src": {"type": "path"},
    "service": {
        "type": "dict",
        "options": {
            "name": {"type": "str"},
            "cluster_ip": {"type": "str", "default": "None"},
            "publish_not_ready_addresses": {"type": "bool", "default": False},
            "ports": {"type": "list", "elements": "dict", "options": _PORT},
        },
    },
    "disks": {"type": "list", "elements": "dict", "options": _DISK},
    "devices": {"type": "list", "elements": "dict", "options": _DEVICE},
    "topology_spread_constraints": {"type": "list", "elements": "dict"},
    "pod_management_policy": {"type": "str", "choices": ["OrderedReady", "Parallel"]},
    "update_strategy": {"type": "str", "choices": list(STRATEGIES)},
    "update_overrides": {"type": "list", "elements": "dict", "options": _OVERRIDE},
    "partition": {"type": "int"},
    "max_unavailable": {"type": "str"},
    "min_ready_seconds": {"type": "int"},
    "update_order": {"type": "str", "choices": list(ORDERS)},
    "update_primary_label": {"type": "str"},
    "update_primary_command": {"type": "list", "elements": "str"},
    "update_on": {"type": "list", "elements": "str", "choices": list(COUNTED)},
    "paused": {"type": "bool"},
    "pause_on_failure": {"type": "bool", "default": False},
    "progress_deadline_seconds": {"type": "int"},
    "update_hooks": {"type": "dict", "options": _HOOKS},
    "pre_pull": {"type": "bool"},
    "update_hold": {"type": "bool", "default": False},
    "disruption_budgets": {"type": "str", "choices": list(BUDGETS)},
    "suspended": {"type": "bool", "default": False},
    "rollback_to": {"type": "str"},
    "restarted_at": {"type": "str"},
    "driver": {"type": "str", "choices": list(DRIVERS), "default": PLAYBOOK},
    "on_node_loss": {"type": "str", "choices": list(POLICIES), "default": "keep"},
    "release_ordinals": {"type": "list", "elements": "int"},
    "confirm_fenced": {"type": "list", "elements": "str"},
    "inventory_nodes": {"type": "list", "elements": "str"},
    "leave_nodes": {"type": "list", "elements": "str"},
    "leave_data": {"type": "list", "elements": "str"},
    "replace": {"type": "list", "elements": "str"},
    "quorum": {"type": "int"},
    "mount_root": {"type": "path", "default": "/var/lib/berth/disks"},
    "until": {"type": "str", "choices": [states.RESERVED, states.BOUND, states.CREATED], "default": states.CREATED},
    "wait": {"type": "bool", "default": False},
    "wait_timeout": {"type": "int", "default": 120},
    "explain": {"type": "bool", "default": False},
}
