# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hooks of an update: commands in the pods, before each is touched and after it is Ready again.

Called by the Updater; when which is due says app.update. That ``after`` is still to be run is written in the Berth
before its pod is touched, so that a run which dies leaves it to the next.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ...berth_core.app.hook_rules import AFTER, BEFORE, Hooks, HookState, owes, with_debt
from ...berth_core.app.install_rights import Right
from ...berth_core.app.observed import ready
from ...berth_core.app.pod_change import PodChange
from ...berth_core.errors import ApiError, ForbiddenError, StateError
from ...berth_core.model.names import shown
from ..pod_exec import Done, check_possible, run_in_pod
from ..rights import may
from .hand import Hand

Object = dict[str, Any]
_NOT_READY = "the pod is not Ready"


def check_rights(hand: Hand, option: str) -> None:
    """Raise InputError or ForbiddenError where no command of that option could be run in a pod."""
    check_possible(hand.client)
    rights = [Right(verb, "", "pods/exec", hand.app.namespace) for verb in ("get", "create")]
    lacks = [str(right) for right in rights if not may(hand.client, right)]
    if lacks:
        raise ForbiddenError(
            f"{option} runs commands in pods, and the account lacks the right to: {'; '.join(lacks)}. Give it a Role "
            f"with these verbs on pods/exec (docs/guides/updating.md), or leave {option} out; nothing was changed",
            403,
            "Forbidden",
        )


class HookRunner:
    """``rows``: what was run, or was not, in that order; for the result."""

    def __init__(self, hand: Hand, hooks: Hooks) -> None:
        self._hand, self._hooks = hand, hooks
        self._ran: set[str] = set()
        self._owed = {ordinal for ordinal, view in hand.views.items() if owes(view.berth)}
        self.rows: list[dict[str, Any]] = []

    @property
    def state(self) -> HookState:
        """What app.update has to know."""
        return HookState(self._hooks, frozenset(self._ran), frozenset(self._owed))

    def check(self) -> None:
        """Raise InputError or ForbiddenError where no hook could be run. Before anything is written."""
        check_rights(self._hand, "update_hooks")

    def planned(self, changes: Mapping[int, PodChange]) -> list[dict[str, Any]]:
        """What a run would run, replica after replica."""
        found = []
        for ordinal in self._hand.plan.update:
            pod = self._hand.seen.pod(ordinal)
            if self._hooks.before and ordinal in changes:
                found.append(self._row(ordinal, BEFORE, skipped=None if ready(pod) else _NOT_READY))
            if self._hooks.after and (ordinal in changes or ordinal in self._owed):
                found.append(self._row(ordinal, AFTER))
        return found

    def _row(self, ordinal: int, when: str, **more: Any) -> dict[str, Any]:
        return {"pod": self._hand.app.berth_name(ordinal), "ordinal": ordinal, "hook": when, "skipped": None, **more}

    # -- in the middle of an update

    def touched(self, ordinal: int, pod: Object) -> None:
        """To be called before the first write to a pod."""
        if self._hooks.before and pod["metadata"]["uid"] not in self._ran:
            self.rows.append(self._row(ordinal, BEFORE, skipped=_NOT_READY))
        if self._hooks.after:
            self._owe(ordinal, True)

    def run(self, when: str, ordinal: int, pod: Object) -> None:
        """Raises StateError for a command that fails: the update ends there."""
        hand, name = self._hand, pod["metadata"]["name"]
        command, container = self._hooks.command(when), self._container(pod, when)
        hand.context.progress(f"running the hook {when} in pod {name}")
        begun = time.monotonic()
        try:
            done = run_in_pod(hand.client, hand.app.namespace, name, container, command, self._hooks.timeout)
        except ApiError as exc:
            raise self._failed(when, ordinal, command, f"cannot be run: {exc.message}") from exc
        why = self._why(done)
        if why:
            raise self._failed(when, ordinal, command, why, done)
        self.rows.append(self._row(ordinal, when, seconds=round(time.monotonic() - begun, 1)))
        if when == BEFORE:
            self._ran.add(pod["metadata"]["uid"])
        else:
            self._owe(ordinal, False)

    def _container(self, pod: Object, when: str) -> str:
        names = [str(one["name"]) for one in pod["spec"]["containers"]]
        asked = self._hooks.container or names[0]
        if asked not in names:
            raise StateError(
                f"the hook {when} cannot be run: pod {self._hand.app.namespace}/{pod['metadata']['name']} has the "
                f"containers {', '.join(names)}, and update_hooks.container is {asked}"
            )
        return asked

    def _why(self, done: Done) -> str:
        """What is wrong with how it ended; empty: nothing."""
        if done.ended is None:
            return f"did not end within {self._hooks.timeout} s (update_hooks.timeout), and may still run"
        if done.ended.code is None:
            return f"could not be run: {done.ended.why}"
        return f"ended with exit code {done.ended.code}" if done.ended.code else ""

    def _failed(
        self, when: str, ordinal: int, command: Sequence[str], why: str, done: Done | None = None
    ) -> StateError:
        """Of the command its first word alone is told: the others may hold what nobody should read."""
        output = done.output if done is not None else ""
        told = f"; the end of its output: {output}" if output else ""
        rest = "the pod was not touched" if when == BEFORE else "the pod has the new template"
        code = done.ended.code if done is not None and done.ended is not None else None
        hook = self._row(ordinal, when, exit_code=code, output=output)
        return StateError(
            f"the hook {when} ({shown(command[0])}) in pod {self._hand.title(ordinal)} {why}: the update stops here, "
            f"and {rest}. Run the task again to go on: the hook is run again{told}",
            changed=True,
            hook=hook,
            hooks=self.rows,
        )

    def _owe(self, ordinal: int, owed: bool) -> None:
        """Write in the Berth whether its hook is still to be run, once."""
        if (ordinal in self._owed) == owed:
            return
        self._hand.rewrite(ordinal, lambda record: with_debt(record, owed))
        (self._owed.add if owed else self._owed.discard)(ordinal)
