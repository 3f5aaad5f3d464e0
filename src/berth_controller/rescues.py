"""Which visits a change has asked for, and which time alone has: what the latter find to do, no change had told.

A claim that rests is looked at again every so often whatever the watches told. That is a safety net, and each time that
it holds something a wake-up is missing: it is counted, and told. The controller says what is asked for, the binder when
a visit begins and how it ends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from .wakes import ClaimKey

_log = logging.getLogger(__name__)


class Rescues:
    """``pending(key)``: a change is about to have the claim visited. ``count()`` is called for each rescue."""

    def __init__(self, pending: Callable[[ClaimKey], bool], count: Callable[[], None]) -> None:
        self._pending, self._count = pending, count
        self._resting: set[ClaimKey] = set()
        self._asked: set[ClaimKey] = set()
        self._unasked: set[ClaimKey] = set()

    def asked(self, key: ClaimKey) -> None:
        """A change wants the claim looked at, now or soon."""
        self._asked.add(key)

    def begin(self, key: ClaimKey) -> None:
        """A visit begins."""
        if key in self._resting and key not in self._asked and not self._pending(key):
            self._unasked.add(key)
        self.forget(key, visited=True)

    def writes(self, key: ClaimKey, what: str) -> None:
        """The visit has found something to do. In a visit that nobody asked for the first such finding is a rescue.

        It is none where a change has asked for the next visit meanwhile: while it waits for an answer, a visit may
        see what has just changed.
        """
        if key in self._unasked:
            self._unasked.discard(key)
            if key in self._asked or self._pending(key):
                return
            self._count()
            _log.warning("a resync found what no change had told: claim %s/%s: %s", key.namespace, key.uid, what)

    def rests(self, key: ClaimKey) -> None:
        """The visit has come to rest: the next one is asked for by a change, or by time alone."""
        self._unasked.discard(key)
        self._resting.add(key)

    def forget(self, key: ClaimKey, visited: bool = False) -> None:
        """Nothing is known of the claim, or only that it is visited now."""
        self._resting.discard(key)
        self._asked.discard(key)
        if not visited:
            self._unasked.discard(key)
