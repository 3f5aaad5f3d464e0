# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects through which locked devices come into containers: whether the cluster has them.

Called by the flow (stateful_app). What is needed is said in berth_core.app.handed; here it is only read.
"""

from __future__ import annotations

import contextlib

from ...berth_core.app import handed
from ...berth_core.errors import ForbiddenError
from .hand import Hand


def check(hand: Hand) -> None:
    """Refuse before anything is written where no pod could ever get its devices. Raises StateError."""
    for resource, name in handed.needed(hand.app):
        with contextlib.suppress(ForbiddenError):  # who may not look finds out from the pod's events
            if hand.client.find(resource, name) is None:
                raise handed.missing(hand.app, resource, name)
