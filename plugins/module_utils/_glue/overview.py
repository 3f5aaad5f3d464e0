# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the lists of berth_core/app/overview.py with the synchronous client: one LIST per kind, no write.

Called by the inventory plugin, the lookup and the module report.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..berth_core.app.overview import KINDS
from ..berth_core.errors import NotFoundError
from ..berth_core.model.resources import BERTH, LIVING, NODE, POD, Resource
from .client import ApiClient


def read_lists(
    client: ApiClient, node_labels: str | None = None, kinds: Sequence[Resource] | None = None
) -> dict[str, list[dict[str, Any]]]:
    """Objects by kind; ``node_labels`` selects nodes. Other ``kinds`` are listed whole, with pods that have ended.

    Raises BerthError.
    """
    labels = {} if kinds else {NODE.kind: node_labels}
    fields = {} if kinds else {POD.kind: LIVING}
    try:
        return {
            kind.kind: client.list(kind, labels=labels.get(kind.kind), fields=fields.get(kind.kind))
            for kind in kinds or KINDS
        }
    except NotFoundError as exc:
        raise NotFoundError(
            f"berth is not installed in this cluster: {exc.message}; the module berth.stateful.crds installs its "
            f"custom resources ({BERTH.group})",
            exc.status,
            exc.reason,
            exc.causes,
        ) from exc
