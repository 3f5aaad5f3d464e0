# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options that say what a disk is and what it is for: one argument spec for every module that takes a disk.

doc_fragments/disk.py documents just these; validate-modules holds both equal. Nothing is read or decided here.
"""

from __future__ import annotations

from typing import Any

from ..berth_core.app.wipe import METHODS

Options = dict[str, dict[str, Any]]

WIPE_METHODS = list(METHODS)
#: The keys that tell a disk from all others.
IDENTITY: Options = {key: {"type": "str"} for key in ("wwn", "serial", "model", "size", "by_path")}
#: What the disk is for; what is not said is left as it is.
SETTINGS: Options = {
    "storage_class": {"type": "str"},
    "volume_mode": {"type": "str", "choices": ["Filesystem", "Block"]},
    "fs_type": {"type": "str", "choices": ["ext4", "xfs"]},
    "mount_options": {"type": "list", "elements": "str"},
    "reclaim_policy": {"type": "str", "choices": ["Retain", "Delete"]},
    "wipe_method": {"type": "str", "choices": WIPE_METHODS},
    "reserved": {"type": "bool"},
    "labels": {"type": "dict"},
}
#: The wipe of one disk, asked for by name.
WIPE: Options = {
    "identity": {"type": "dict", "required": True, "options": IDENTITY},
    "method": {"type": "str", "choices": WIPE_METHODS},
    "request_id": {"type": "str"},
    "requested_by": {"type": "str"},
}
#: One disk, as local_disk and local_disk_info take it.
DISK: Options = {
    "name": {"type": "str"},
    "node_name": {"type": "str"},
    "identity": {"type": "dict", "options": IDENTITY},
    **SETTINGS,
    "observed": {"type": "dict"},
}
#: One entry of berth_disks: the identity's keys stand beside the settings.
DECLARED: Options = {"name": {"type": "str"}, **IDENTITY, **SETTINGS}
#: One entry of berth_disk_selectors.
SELECTOR: Options = {"query": {"type": "str", "required": True}, **SETTINGS}
