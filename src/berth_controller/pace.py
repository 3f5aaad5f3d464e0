"""How often one claim is told something else: at once, then after pauses that grow while the facts keep changing.

Asked by reports, so that a claim's last Event is seconds behind the facts, and yet a hundred claims that wait while a
hundred disks change one after the other do not make ten thousand Events.
"""

from __future__ import annotations

#: Seconds from one Event of a claim to its next other one: at first, and at most.
FIRST, MOST = 2.0, 30.0
#: Who has been told nothing for so long begins anew.
QUIET = 60.0


class Pace:
    """Of one claim. ``now``: seconds of one clock."""

    def __init__(self) -> None:
        self._gap, self._said = 0.0, float("-inf")

    def pause(self, now: float) -> float:
        """Seconds until the claim may be told something else; 0: now."""
        return max(0.0, self._said + self._gap - now)

    def said(self, now: float) -> None:
        """It is told something."""
        fresh = now - self._said >= QUIET or not self._gap
        self._gap = FIRST if fresh else min(2 * self._gap, MOST)
        self._said = now
