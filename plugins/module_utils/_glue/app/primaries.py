# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""update_primary_command: asks each pod whether it is the primary, by a command in it.

Called by the Updater before a replica is begun. That a primary's turn is the last says app.update.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...berth_core.app.hook_rules import SECONDS
from ...berth_core.app.observed import ready
from ...berth_core.errors import ApiError, StateError
from ...berth_core.model.names import shown
from ..pod_exec import run_in_pod
from .hand import Hand
from .hooks import check_rights

OPTION = "update_primary_command"
#: By convention of shells: the command is there and cannot be run, or is not there. Neither says that a pod is none.
_NO_ANSWER = (126, 127)


class Primaries:
    """``uids``: of the pods that said so when they were asked last."""

    def __init__(self, hand: Hand, command: Sequence[str]) -> None:
        self._hand, self._command = hand, command
        self.uids: frozenset[str] = frozenset()

    def check(self) -> None:
        """Raise InputError or ForbiddenError where no pod could be asked."""
        check_rights(self._hand, OPTION)

    def ask(self, pods: Mapping[str, Mapping[str, Any]]) -> bool:
        """Ask those that are Ready: whether they answer otherwise than before. Raises StateError without an answer."""
        names = [self._hand.app.berth_name(ordinal) for ordinal in range(self._hand.app.replicas)]
        asked = [pods[name] for name in names if ready(pods.get(name))]
        found = frozenset(str(pod["metadata"]["uid"]) for pod in asked if self._says_so(pod))
        before, self.uids = self.uids, found
        return found != before

    def _says_so(self, pod: Mapping[str, Any]) -> bool:
        hand, name = self._hand, str(pod["metadata"]["name"])
        container = str(pod["spec"]["containers"][0]["name"])
        try:
            done = run_in_pod(hand.client, hand.app.namespace, name, container, self._command, SECONDS)
        except ApiError as exc:
            raise self._unknown(name, f"cannot be run: {exc.message}") from exc
        if done.ended is None:
            raise self._unknown(name, f"did not end within {SECONDS} s, and may still run")
        if done.ended.code is None or done.ended.code in _NO_ANSWER:
            raise self._unknown(name, f"could not be run: {done.ended.why or f'exit code {done.ended.code}'}")
        return done.ended.code == 0

    def _unknown(self, pod: str, why: str) -> StateError:
        """Of the command its first word alone is told: the others may hold what nobody should read."""
        return StateError(
            f"{OPTION} ({shown(self._command[0])}) in pod {self._hand.app.namespace}/{pod} {why}: whether that is the "
            "primary is not known, and no further replica is begun. Run the task again when it can be asked",
            changed=True,
        )
