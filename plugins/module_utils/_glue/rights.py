# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the account has a right, asked of the API server before it is needed. Called by the operations."""

from __future__ import annotations

from ..berth_core.app.install_rights import REVIEW, Right
from .client import ApiClient


def may(client: ApiClient, right: Right) -> bool:
    """The API server's own word. A review is an answer and no object: as a dry run it counts for no write."""
    answer = client.create(REVIEW, right.review(), dry_run=True)
    return bool((answer.get("status") or {}).get("allowed"))
