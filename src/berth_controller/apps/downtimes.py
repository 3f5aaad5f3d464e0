"""For how long each replica of an app was not Ready while it was updated, told by one Event when the update has ended.

Begun by rolling.py before a pod is written, told of pods by watch.py, and ended by visit.py. What is kept is this
process's: a controller that takes over in the middle tells of what it has seen itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable

from berth_core.app.downtime import Downtime
from berth_core.app.observed import ready
from berth_core.app.stateful_app_status import revision_of

from .run import Run


class Downtimes:
    """``clock`` gives seconds and never goes back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[Hashable, Downtime] = {}

    def begin(self, key: Hashable, ordinal: int, is_ready: bool) -> None:
        """An update is going to write that replica's pod."""
        self._known.setdefault(key, Downtime()).look({ordinal: is_ready}, self._clock())

    def tell(self, key: Hashable, ordinal: int, is_ready: bool) -> None:
        """A pod has changed, come or gone: it counts where an update has touched the replica."""
        known = self._known.get(key)
        if known is not None and ordinal in known.ordinals:
            known.look({ordinal: is_ready}, self._clock())

    def ended(self, key: Hashable, run: Run) -> str:
        """What is told of an update that has ended: every replica is Ready. Empty where there was none."""
        known = self._known.pop(key, None)
        if known is None or run.app.suspended:
            return ""
        left = known.ordinals.intersection(range(run.app.replicas))  # the watch may be behind
        known.look({ordinal: ready(run.seen.pod(ordinal)) for ordinal in left}, self._clock())
        _mark, revision = revision_of(run.app, run.seen)
        return f"updated to revision {revision}; not Ready meanwhile, by ordinal: {known.words()}"

    def forget(self, key: Hashable) -> None:
        """The app is gone, or another driver's."""
        self._known.pop(key, None)
