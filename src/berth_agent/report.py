"""What the agent says of itself: conditions and the configuration in force, as annotations of its Lease.

No kind of its own: the Lease berth-system/berth-agent-<node> is there and is renewed anyway, and the agent may write
it. Parts set conditions; `agent` writes the annotations at once when they change, and with each renewal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from berth_core.app.disk_status import conditions

from .config import InForce

PREFIX = "berth.dev/"
CONFIGURATION = "ConfigurationInForce"
DISKS = "DisksDeclared"
ALLOCATABLE = "AllocatableMatches"
READY = "Ready"
SURVEYED = "DisksSurveyed"
COMPARED = "DisksCompared"
_MESSAGE = 1024


class Report:
    """``changed`` is called when what is said differs from before."""

    def __init__(self, now: Callable[[], str], version: str, changed: Callable[[], None]) -> None:
        self._now, self._changed = now, changed
        self._conditions: dict[str, dict[str, Any]] = {}
        self._facts: dict[str, str] = {PREFIX + "agent-version": version}

    def set(self, kind: str, status: str, reason: str, message: str = "") -> bool:
        """Set one condition. Returns whether it says something else than before."""
        (made,) = conditions([(kind, status, reason, message[:_MESSAGE])], self._conditions.values(), self._now())
        if made == self._conditions.get(kind):
            return False
        self._conditions[kind] = made
        self._changed()
        return True

    def configuration(self, in_force: InForce) -> None:
        """Which configuration is in force, since when, and what is wrong with the file if it is another."""
        facts = {PREFIX + "configuration": in_force.digest, PREFIX + "configuration-since": in_force.since}
        if any(self._facts.get(key) != value for key, value in facts.items()):
            self._facts.update(facts)
            self._changed()
        if in_force.problem:
            self.set(CONFIGURATION, "False", "Refused", in_force.problem)
        else:
            self.set(CONFIGURATION, "True", "Read")

    def conditions(self) -> list[dict[str, Any]]:
        """All conditions, by type."""
        return [self._conditions[kind] for kind in sorted(self._conditions)]

    def annotations(self) -> Mapping[str, str]:
        """What goes on the Lease."""
        return {**self._facts, PREFIX + "conditions": json.dumps(self.conditions(), separators=(",", ":"))}
