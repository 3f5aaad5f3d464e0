# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes and deletes the pull pods of an update, and takes the time. Decides nothing: app.update and app.pre_pull do.

Called by the Updater; by the flow for those that nobody asks for any more.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Any

from ...berth_core.app import pre_pull, update
from ...berth_core.errors import ApiError, ConflictError
from ...berth_core.model.resources import POD
from ..client import ApiClient
from .hand import Hand

Object = Mapping[str, Any]


def delete(client: ApiClient, pods: Iterable[Object]) -> None:
    """Delete these very pull pods."""
    for pod in pods:
        meta = pod["metadata"]
        client.delete(POD, meta["name"], meta["namespace"], uid=meta["uid"])


class Puller:
    """``seconds``: for how long this run has waited for the images of each replica."""

    def __init__(self, hand: Hand) -> None:
        self._hand = hand
        self._without: set[int] = set()
        self._since: dict[int, float] = {}
        self._warned: set[str] = set()
        self.seconds: dict[int, float] = {}

    def begin(self) -> None:
        """What an earlier run could not have pulled is tried anew by this one: its kubelet may wait for minutes."""
        now = datetime.now(timezone.utc)
        delete(self._hand.client, [pod for pod in self._hand.seen.pulls.values() if pre_pull.troubled(pod, now)])

    def known(self, pods: Mapping[str, Object]) -> pre_pull.Pulls:
        """What app.update has to know of ``pods``, all of the app."""
        return pre_pull.Pulls(pre_pull.of_app(pods, self._hand.app.name), frozenset(self._without))

    def do(self, act: update.Act) -> bool:
        """Carry the act out, if it is one of a pull pod. A replica's time ends with its next act of another kind."""
        if act.do == update.PULL:
            self._since.setdefault(act.ordinal, time.monotonic())
            self._make(act)
        elif act.do == update.DROP:
            delete(self._hand.client, [act.body])
        else:
            if act.ordinal in self._since:
                self.seconds[act.ordinal] = round(time.monotonic() - self._since.pop(act.ordinal), 1)
            return False
        return True

    def _make(self, act: update.Act) -> None:
        hand = self._hand
        try:
            hand.client.create(POD, act.body)
        except ConflictError:
            return  # somebody has made it: it is looked at again
        except ApiError as exc:
            if not pre_pull.no_pull_pod(exc):
                raise
            self._without.add(act.ordinal)
            self.warn([pre_pull.goes_on_without(hand.app.berth_name(act.ordinal), exc.message)])

    def warn(self, notes: Iterable[str]) -> None:
        """Each note once."""
        for note in notes:
            if note not in self._warned:
                self._warned.add(note)
                self._hand.context.warn(note)
