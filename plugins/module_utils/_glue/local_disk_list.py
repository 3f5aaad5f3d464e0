# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one LIST that every local_disk module makes. Never writes."""

from __future__ import annotations

from typing import Any

from ..berth_core.errors import NotFoundError
from ..berth_core.model.resources import LOCAL_DISK
from .base import Context


def list_disks(context: Context, labels: str | None = None, fields: str | None = None) -> list[dict[str, Any]]:
    """The LocalDisks that a selector finds.

    Check mode may come before the custom resources are installed, in one play with them: there are no LocalDisks then,
    and the play can still show what it would do.
    """
    try:
        return context.client.list(LOCAL_DISK, labels=labels, fields=fields)
    except NotFoundError as exc:
        if not context.check_mode:
            raise
        context.warn(f"taken as if there were no LocalDisks: {exc.message}")
        return []
