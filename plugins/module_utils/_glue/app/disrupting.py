# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has a say in an update, PodDisruptionBudgets and the nodes to which pods are to come back: reads them, and ends
pods as they allow. Decides nothing: berth_core.app.update_budgets does, and the API server once more at each eviction.

Called by the Updater.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ...berth_core.app.budgets import Budget
from ...berth_core.app.pod_change import PodChange
from ...berth_core.app.update import Roll
from ...berth_core.app.update_budgets import IGNORED, Allowance, Restrictions, Verdict
from ...berth_core.app.way_home import closed
from ...berth_core.errors import TimeoutExpired
from ...berth_core.model.resources import NODE, POD, POD_DISRUPTION_BUDGET
from ..evicting import evict
from .hand import Hand

Object = Mapping[str, Any]
#: Seconds until an eviction is asked for again that the API server has refused, although the budget seemed to allow it.
_PAUSE = 1.0


class Disruptions:
    """``respected``: False where a pod goes whatever budgets say."""

    def __init__(self, hand: Hand, respected: bool) -> None:
        self._hand, self._respected = hand, respected
        self._known: list[Budget] | None = None
        self._closed: dict[str, str] = {}
        self._since: dict[str, float] = {}

    def forget(self) -> None:
        """What was read may be over."""
        self._known = None
        self._closed = {}

    def roll(self, make: Callable[[Restrictions | None], Roll]) -> Roll:
        """What ``make`` says of budgets and nodes; they are read only where they have a say."""
        found = make(None)
        if not found.asks:
            return found
        self._closed.update({name: self._why_closed(name) for name in found.nodes if name not in self._closed})
        return make(Restrictions(self._read(), self._closed))

    def verdict(self, pod: Object, change: PodChange, ends: bool) -> Verdict:
        """What budgets say now of a change of that pod. ``ends``: in place, whether containers are ended for it."""
        if not self._respected or (change.in_place and not ends):
            return Verdict()
        pods = list(self._hand.seen.pods.values())
        allowance = Allowance(Restrictions(self._read()), pods, (), len(pods) == self._hand.app.replicas)
        return allowance.verdict(pod, not change.in_place)

    def end(self, pod: Object) -> None:
        """Have this very pod deleted. Where a budget forbids it nevertheless, it is said, and looked at again.

        Raises TimeoutExpired when that goes on for longer than the run waits.
        """
        hand, name, uid = self._hand, pod["metadata"]["name"], pod["metadata"]["uid"]
        if not self._respected:
            hand.client.delete(POD, name, hand.app.namespace, uid=uid)
            return
        why = evict(hand.client, pod)
        if not why:
            return
        now = time.monotonic()
        if uid not in self._since:
            hand.context.progress(f"waiting for the eviction of pod {name}: {why}")
        if now - self._since.setdefault(uid, now) > hand.timeout:
            raise TimeoutExpired(
                f"waited {hand.timeout:g} s for the eviction of pod {name}, which the API server refuses: {why}. Mend "
                f"that, or go past it with {IGNORED}; run the task again to go on",
                missing=[why],
                changed=True,
            )
        time.sleep(_PAUSE)

    def _why_closed(self, name: str) -> str:
        return closed(name, self._hand.client.find(NODE, name), self._hand.app.template.get("spec") or {})

    def _read(self) -> list[Budget]:
        if not self._respected:
            return []
        if self._known is None:
            listed = self._hand.client.list(POD_DISRUPTION_BUDGET, self._hand.app.namespace)
            self._known = [Budget.of(one) for one in listed]
        return self._known
