"""The ControllerRevisions of each app's StatefulSet, listed again when that tells of a change, and now and then.

Called by visit.py at each look. They come and go with the StatefulSet's own status; one that is too many goes a moment
after it, and is seen to have gone at the next resync.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

from berth_core.app.observed import Observed
from berth_core.app.revisions import MOST, images, template_of
from berth_core.app.wanted import AppWanted

from .requests import Obj, Requests
from .target import kept_revisions


class _Known(NamedTuple):
    mark: Hashable
    at: float
    kept: list[Obj] | None


class Kept:
    """``seconds``: how long a list is good for at most, and the answer that they may not be read."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._known: dict[tuple[str, str], _Known] = {}

    async def of(self, api: Requests, app: AppWanted, seen: Observed, back: str | None) -> list[Obj] | None:
        """Those of the app's own StatefulSet, the oldest first; None: they may not be read.

        Without ``back``, the rollback that is asked for, as much of them as the status tells. Raises ForbiddenError
        where they are needed for it.
        """
        key, mark, now = (app.namespace, app.name), _mark(seen.stateful_set, back), self._clock()
        known = self._known.get(key)
        if known is not None and known.mark == mark and now - known.at < self._seconds:
            return known.kept
        self._known.pop(key, None)
        kept = await kept_revisions(api, app, seen, needed=back is not None)
        if seen.stateful_set is None:
            return kept
        if kept is not None and back is None:
            # Templates are large, and of all apps there are many.
            kept = [_of_status(one) for one in kept[-MOST:]]
        self._known[key] = _Known(mark, now, kept)
        return kept

    def forget(self, namespace: str, name: str) -> None:
        """The app is gone, or somebody else's."""
        self._known.pop((namespace, name), None)


def _mark(live: Mapping[str, Any] | None, back: str | None) -> Hashable:
    """What changes with the revisions of a StatefulSet, and with what is asked of them."""
    if live is None:
        return None
    meta, status = live["metadata"], live.get("status") or {}
    told = (status.get(each) for each in ("observedGeneration", "currentRevision", "updateRevision"))
    return (meta.get("uid"), meta.get("generation"), *told, back)


def _of_status(one: Obj) -> Obj:
    containers = [{"name": name, "image": image} for name, image in images(template_of(one)).items()]
    meta = {each: one["metadata"][each] for each in ("name", "creationTimestamp")}
    return {
        "metadata": meta,
        "revision": one["revision"],
        "data": {"spec": {"template": {"spec": {"containers": containers}}}},
    }
