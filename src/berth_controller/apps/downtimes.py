"""For how long each replica of an app was not Ready while it was updated, told by one Event when the update has ended.

Called by visit.py at each look. What is kept is this process's: a controller that takes over in the middle tells of
what it has seen itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable

from berth_core.app.downtime import Downtime
from berth_core.app.observed import ready
from berth_core.app.stateful_app_status import revision_of

from .run import Run


class Downtimes:
    """``clock`` gives seconds and never goes back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[Hashable, Downtime] = {}

    def look(self, key: Hashable, run: Run) -> None:
        """How the replicas are that the update has touched in looks before."""
        known = self._known.get(key)
        if known is not None:
            self._look(known, run, known.ordinals.intersection(range(run.app.replicas)))

    def begin(self, key: Hashable, run: Run) -> None:
        """Those whose pods this look has touched, as they were before that."""
        if run.touched:
            self._look(self._known.setdefault(key, Downtime()), run, run.touched)

    def _look(self, known: Downtime, run: Run, ordinals: Iterable[int]) -> None:
        known.look({ordinal: ready(run.seen.pod(ordinal)) for ordinal in ordinals}, self._clock())

    def ended(self, key: Hashable, run: Run) -> str:
        """What is told of an update that has ended: every replica is Ready. Empty where there was none."""
        known = self._known.pop(key, None)
        if known is None:
            return ""
        _mark, revision = revision_of(run.app, run.seen)
        return f"updated to revision {revision}; not Ready meanwhile, by ordinal: {known.words()}"

    def forget(self, key: Hashable) -> None:
        """The app is gone, or another driver's."""
        self._known.pop(key, None)
