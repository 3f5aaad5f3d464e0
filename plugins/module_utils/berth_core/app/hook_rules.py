# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option update_hooks of stateful_app, checked, and what is known of its hooks in the middle of an update. Pure.

``before`` runs in the pod of a replica before an update touches it, ``after`` when the replica is Ready with the new
template. That the second is still to be run is written in the replica's Berth, which outlives the pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import InputError
from ..model.names import check_label, shown

BEFORE, AFTER = "before", "after"
#: On a Berth, with the value "true": the hook ``after`` of its replica is still to be run.
OWED = "berth.dev/after-hook"
#: Seconds that a hook has where nobody says it, and the most that make sense.
SECONDS, _MOST_SECONDS = 60, 86_400


@dataclass(frozen=True)
class Hooks:
    """Commands as argument vectors; empty: none. ``container``: None: the first of the pod. ``timeout``: seconds."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    container: str | None = None
    timeout: int = SECONDS

    def command(self, when: str) -> tuple[str, ...]:
        return self.before if when == BEFORE else self.after


class HookState(NamedTuple):
    """What decides about the next hook. ``ran``: uids of the pods in which this run has run ``before``. ``owed``:
    ordinals whose ``after`` is still to be run. ``primaries``: uids of the pods that have said that they are one."""

    hooks: Hooks = Hooks()
    ran: frozenset[str] = frozenset()
    owed: frozenset[int] = frozenset()
    primaries: frozenset[str] = frozenset()


NO_HOOKS = HookState()


def hook_rules(option: Mapping[str, Any] | None, template: Mapping[str, Any] | None) -> Hooks | None:
    """The hooks that are asked for. ``template``: of the pods, in which ``container`` has to be. Raises InputError."""
    if option is None:
        return None
    before, after = _command(option, BEFORE), _command(option, AFTER)
    if not before and not after:
        raise InputError(
            "update_hooks names no command: give before, after, or both, such as before: [pg_ctl, promote]"
        )
    seconds = option.get("timeout")
    seconds = SECONDS if seconds is None else seconds
    if isinstance(seconds, bool) or not isinstance(seconds, int) or not 1 <= seconds <= _MOST_SECONDS:
        raise InputError(f"update_hooks.timeout is {shown(seconds)}: expected 1 to {_MOST_SECONDS} seconds")
    container = option.get("container")
    if container is not None:
        check_label(container, "update_hooks.container")
        _check_there(container, template, bool(after))
    return Hooks(before, after, container, seconds)


def _command(option: Mapping[str, Any], when: str) -> tuple[str, ...]:
    words = option.get(when)
    return () if words is None else command_of(f"update_hooks.{when}", words)


def command_of(name: str, words: Any) -> tuple[str, ...]:
    """An argument vector that option ``name`` gives. Raises InputError."""
    if not isinstance(words, Sequence) or isinstance(words, str) or not words or not str(words[0]).strip():
        raise InputError(f"{name} is {shown(words)}: expected a command and its arguments, a list of texts")
    if any("\0" in str(word) for word in words):
        raise InputError(f"{name} has a NUL character: no command can be given one")
    return tuple(str(word) for word in words)


def _check_there(name: str, template: Mapping[str, Any] | None, needed: bool) -> None:
    """What ``before`` runs in may go with the old template."""
    names = [str(one.get("name")) for one in ((template or {}).get("spec") or {}).get("containers") or ()]
    if needed and names and name not in names:
        raise InputError(f"update_hooks.container is {shown(name)}: the template has the containers {', '.join(names)}")


def owes(record: Mapping[str, Any] | None) -> bool:
    """Whether the hook ``after`` of the Berth's replica is still to be run."""
    meta = record["metadata"] if record is not None else {}
    return bool((meta.get("annotations") or {}).get(OWED))


def with_debt(record: Mapping[str, Any], owed: bool) -> dict[str, Any]:
    """The Berth that says it, or does not say it any more."""
    meta = dict(record["metadata"])
    others = {key: value for key, value in (meta.pop("annotations", None) or {}).items() if key != OWED}
    annotations = {**others, OWED: "true"} if owed else others
    return {**record, "metadata": {**meta, **({"annotations": annotations} if annotations else {})}}
