"""Groups of pods that found no place as a whole: held back together, and tried again together.

Called by the scheduler. Without it the members of a group that does not fit would take turns in holding a place for
nobody. Pure: the time is an argument.
"""

from __future__ import annotations

from dataclasses import dataclass

from berth_core.framework.queue import backoff

Group = tuple[str, str]


@dataclass
class _Failed:
    times: int
    until: float
    why: str
    woken: bool = False


class HeldBack:
    """Groups by namespace and name."""

    def __init__(self, initial: float = 1.0, maximum: float = 10.0) -> None:
        self._initial, self._maximum = initial, maximum
        self._groups: dict[Group, _Failed] = {}

    def failed(self, group: Group, now: float, why: str) -> None:
        """A member found no place. The others' failures in the same moment are the same failure."""
        known = self._groups.get(group)
        if known is not None and now < known.until:
            return
        times = 1 if known is None else known.times + 1
        self._groups[group] = _Failed(times, now + backoff(times, self._initial, self._maximum), why)

    def holds(self, group: Group | None, now: float) -> str | None:
        """Tell why no member may wait for the others now; None where it may."""
        known = self._groups.get(group) if group is not None else None
        return known.why if known is not None and now < known.until else None

    def placed(self, group: Group) -> None:
        """All that were needed have a place: the next failure is the first."""
        self._groups.pop(group, None)

    def due(self, now: float) -> list[Group]:
        """Return the groups whose time has come, each once."""
        found = [group for group, known in self._groups.items() if now >= known.until and not known.woken]
        for group in found:
            self._groups[group].woken = True
        return found

    def gone(self, group: Group) -> None:
        """The group has no member any more."""
        self._groups.pop(group, None)
