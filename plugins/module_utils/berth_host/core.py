# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rest of this package takes from berth_core, however the package was installed.

Ansible bundles both under ``module_utils`` of the collection; the agent finds both at the top of its path.
"""

from __future__ import annotations

try:
    from ..berth_core.app.fs_plan import DATA, MARK, FilesystemPlan, find_device, fstab_line, plan_prepared
    from ..berth_core.app.fsid import DATA_DIRECTORY, MOVED_DIRECTORY, NAMESPACES_DIRECTORY, mount_point
    from ..berth_core.errors import BerthError, DataError, StateError
except ImportError:
    from berth_core.app.fs_plan import (  # type: ignore[no-redef]
        DATA,
        MARK,
        FilesystemPlan,
        find_device,
        fstab_line,
        plan_prepared,
    )
    from berth_core.app.fsid import DATA_DIRECTORY, MOVED_DIRECTORY, NAMESPACES_DIRECTORY, mount_point  # type: ignore[no-redef]
    from berth_core.errors import BerthError, DataError, StateError  # type: ignore[no-redef]

__all__ = [
    "DATA",
    "DATA_DIRECTORY",
    "MARK",
    "MOVED_DIRECTORY",
    "NAMESPACES_DIRECTORY",
    "BerthError",
    "DataError",
    "FilesystemPlan",
    "StateError",
    "find_device",
    "fstab_line",
    "mount_point",
    "plan_prepared",
]
