"""Each change of a replica's Berth becomes an Event on it, whoever made it: the watch brings its history.

Used by the leader alone, so that nothing is told twice. The record is the history; an Event is news, and a change that
no leader watched gets none. Of a claim the volume's name tells, and what it waits for (reports.py).
"""

from __future__ import annotations

from typing import Any

from berth_core.app.berth_history import news
from berth_core.lifecycle.history import of_berth
from berth_core.model.berth import CLAIM_APP

from .caches import Caches
from .reports import Reports

Obj = dict[str, Any]


class Changes:
    """Begins to tell of what comes after it was made."""

    def __init__(self, caches: Caches, reports: Reports) -> None:
        self._reports, self._begun = reports, False
        caches.berths.on(self._added, self._changed)  # tells at once of what is there: that is old
        self._begun = True

    def _added(self, record: Obj) -> None:
        if self._begun:
            self._tell(record, [])

    def _changed(self, old: Obj, new: Obj) -> None:
        if old["metadata"]["uid"] == new["metadata"]["uid"]:
            self._tell(new, of_berth(old))
        else:
            self._tell(new, [])

    def _tell(self, record: Obj, known: list[dict[str, Any]]) -> None:
        if record["spec"]["app"].startswith(CLAIM_APP):
            return
        for entry in of_berth(record):
            if entry not in known:
                said = news(entry)
                self._reports.event(record, "Normal", said.reason, said.note, "CarryOut")
