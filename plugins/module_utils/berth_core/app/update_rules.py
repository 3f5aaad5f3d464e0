# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of stateful_app that say how a changed template reaches the pods, checked. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import InputError
from ..model.labels import LabelSelector, check_labels
from ..model.names import shown
from .given import agreed
from .given_strategy import rolling_of
from .hook_rules import Hooks, command_of, hook_rules

IN_PLACE_IF_POSSIBLE = "in_place_if_possible"
IN_PLACE_ONLY = "in_place_only"
SAME_NODE = "same_node"
RESCHEDULE = "reschedule"
STRATEGIES = (IN_PLACE_IF_POSSIBLE, IN_PLACE_ONLY, SAME_NODE, RESCHEDULE)
#: Those that a single replica may have in the place of its app's.
OF_ONE = (IN_PLACE_IF_POSSIBLE, IN_PLACE_ONLY, SAME_NODE)
REVERSE, PRIMARY_LAST = "reverse", "primary_last"
ORDERS = (REVERSE, PRIMARY_LAST)
#: What a PodDisruptionBudget that forbids it is to an update (disruption_budgets).
RESPECT, IGNORE = "respect", "ignore"
BUDGETS = (RESPECT, IGNORE)
#: What of a template's surroundings may count as a revision (update_on; app.contents).
CONFIG_MAPS, SECRETS = "config_maps", "secrets"
COUNTED = (CONFIG_MAPS, SECRETS)
#: A run waits for it: more than a day is a mistake.
_MOST_READY = 86_400
_NUMBER_OR_SHARE = re.compile("([0-9]{1,9})(%?)")
#: Seconds for which a replica may be not Ready before its update has failed, as a Deployment has it.
_DEADLINE = 600
#: The options that say anything of an update.
_OURS = (
    "update_strategy",
    *("partition", "max_unavailable", "min_ready_seconds", "update_order", "update_primary_label", "paused"),
    *("update_hooks", "pre_pull", "update_hold", "disruption_budgets"),
    *("pause_on_failure", "progress_deadline_seconds"),
    *("quorum", "update_overrides", "update_primary_command"),
)


class Failure(NamedTuple):
    """How an update has failed (app.update_failure). ``revision``: of the app. ``generation``: of the StatefulApp that
    asked for it; None: a task did."""

    pod: str
    revision: str
    why: str
    since: str
    generation: int | None = None


@dataclass(frozen=True)
class UpdateRules:
    """``partition``: ordinals below it keep their pods. ``unavailable``: how many replicas may be not Ready at once.

    ``min_ready``: for how many seconds a replica has to be Ready before it counts. ``primary``: whose pods are begun
    when all others are done; None: nobody's. ``paused``: what is begun is finished, and nothing more is begun.
    ``asked``: an option says so, and not the default. ``hooks``: commands in the pods; None: none. ``pre_pull``: a node
    pulls new images before a replica that is Ready is touched. ``hold``: a replica's room is held while it has no pod.
    ``budgets``: PodDisruptionBudgets are respected.

    ``deadline``: seconds after which a replica that is not Ready has failed, and the update pauses; None: it never
    does. ``failure``: for which it is paused. ``resumed``: somebody says that it is not to be paused, in the
    StatefulApp of this ``generation``, or, with None, in a task. ``quorum``: how many replicas stay Ready; 0: no word
    of it. ``overrides``: (ordinal, strategy), of single replicas; without a strategy that one is left as it is.
    ``primary_command``: ends with 0 in the pod of a primary, where no label says it.
    """

    strategy: str
    partition: int
    unavailable: int
    min_ready: int = 0
    primary: LabelSelector | None = None
    paused: bool = False
    asked: bool = True
    hooks: Hooks | None = None
    pre_pull: bool = False
    hold: bool = False
    budgets: bool = True
    deadline: int | None = None
    failure: Failure | None = None
    resumed: bool = False
    generation: int | None = None
    quorum: int = 0
    overrides: tuple[tuple[int, str], ...] = ()
    primary_command: tuple[str, ...] = ()

    def strategy_of(self, ordinal: int) -> str:
        """How this replica comes to the new template."""
        return dict(self.overrides).get(ordinal) or self.strategy

    def keeps(self, ordinal: int) -> bool:
        """Whether this replica is left as it is."""
        return ordinal < self.partition or dict(self.overrides).get(ordinal) == ""


def update_rules(
    options: Mapping[str, Any], replicas: int, told: Mapping[str, Any], template: Mapping[str, Any] | None = None
) -> UpdateRules:
    """The rules that are asked for, by options and by the StatefulSet's manifest. Raises InputError.

    ``told``: fields of that manifest; ``template``: of the pods.
    """
    given = [name for name in _OURS if options.get(name) not in (None, False, [])]
    strategy = options.get("update_strategy") or IN_PLACE_IF_POSSIBLE
    rolling = rolling_of(told.get("updateStrategy"), options)
    partition = rolling.partition
    if partition is not None and not 0 <= partition <= replicas:
        raise InputError(f"{rolling.partition_name} is {partition}: expected 0 to {replicas} (replicas)")
    if strategy == RESCHEDULE and options.get("update_hooks"):
        raise InputError(
            f"update_hooks is given with update_strategy {RESCHEDULE}: a hook runs in a replica that keeps its berth, "
            "and here its pod goes for good. Leave update_hooks out, and let tasks run between the replicas by "
            f"partition (docs/guides/updating.md); or keep the berths with {IN_PLACE_IF_POSSIBLE} or {SAME_NODE}"
        )
    unavailable = _unavailable(rolling.unavailable_name, rolling.unavailable, replicas)
    return UpdateRules(
        strategy,
        partition or 0,
        unavailable,
        _min_ready(options.get("min_ready_seconds"), told.get("minReadySeconds")),
        _primary(options),
        bool(options.get("paused")),
        bool(given),
        hook_rules(options.get("update_hooks"), template),
        options.get("pre_pull") is not False,
        bool(options.get("update_hold")),
        options.get("disruption_budgets") != IGNORE,
        deadline=_deadline(options, strategy),
        resumed=options.get("paused") is False,
        generation=options.get("generation"),
        quorum=_quorum(options.get("quorum"), replicas, unavailable),
        primary_command=_primary_command(options.get("update_primary_command"), strategy),
        overrides=_overrides(options.get("update_overrides") or (), replicas),
    )


def _overrides(given: Sequence[Mapping[str, Any]], replicas: int) -> tuple[tuple[int, str], ...]:
    found: dict[int, str] = {}
    for index, one in enumerate(given):
        where, ordinal, strategy = f"update_overrides[{index}]", one.get("ordinal"), one.get("strategy")
        if isinstance(ordinal, bool) or not isinstance(ordinal, int) or not 0 <= ordinal < replicas:
            raise InputError(
                f"{where}.ordinal is {shown(ordinal)}, and replicas is {replicas}: expected 0 to {replicas - 1}"
            )
        if ordinal in found:
            raise InputError(f"{where}.ordinal is {ordinal} for a second time: expected each replica once")
        if (strategy is None) == (not one.get("hold")):
            raise InputError(
                f"{where} (ordinal {ordinal}) has to have either strategy or hold: true: a replica that is left as it "
                "is has no strategy"
            )
        if strategy is not None and strategy not in OF_ONE:
            raise InputError(
                f"{where}.strategy is {shown(strategy)}: expected {', '.join(OF_ONE)}; replace has a single replica "
                "get another place"
            )
        found[ordinal] = strategy or ""
    return tuple(sorted(found.items()))


def _quorum(given: Any, replicas: int, unavailable: int) -> int:
    if given is None:
        return 0
    if not 1 <= given <= replicas:
        raise InputError(
            f"quorum is {given}, and replicas is {replicas}: expected 1 to {replicas}, the number of replicas that "
            "have to stay Ready; nothing was changed"
        )
    if given + unavailable > replicas:
        raise InputError(
            f"quorum is {given}, max_unavailable is {unavailable}, and replicas is {replicas}: with so many not Ready "
            f"no more than {replicas - unavailable} would be left. Give a smaller one of them, or more replicas; "
            "nothing was changed"
        )
    return int(given)


def _deadline(options: Mapping[str, Any], strategy: str) -> int | None:
    seconds, pauses = options.get("progress_deadline_seconds"), bool(options.get("pause_on_failure"))
    if seconds is not None and not pauses:
        raise InputError(
            "progress_deadline_seconds is given without pause_on_failure: true, which it belongs to: give both, or "
            "leave it out"
        )
    if not pauses:
        return None
    if strategy == RESCHEDULE:
        raise InputError(
            f"pause_on_failure is given with update_strategy {RESCHEDULE}: there a replica leaves its place when all "
            "others are Ready, and no failure is recorded. Leave pause_on_failure out"
        )
    seconds = _DEADLINE if seconds is None else seconds
    if isinstance(seconds, bool) or not isinstance(seconds, int) or not 1 <= seconds <= _MOST_READY:
        raise InputError(f"progress_deadline_seconds is {shown(seconds)}: expected 1 to {_MOST_READY} seconds")
    return seconds


def _min_ready(asked: Any, told: Any) -> int:
    value = agreed("min_ready_seconds", asked, "spec.minReadySeconds", told, 0)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_READY:
        raise InputError(f"min_ready_seconds is {shown(value)}: expected 0 to {_MOST_READY} seconds")
    return value


def _primary(options: Mapping[str, Any]) -> LabelSelector | None:
    order, label = options.get("update_order") or REVERSE, options.get("update_primary_label")
    command = options.get("update_primary_command")
    for name, given in (("update_primary_label", label), ("update_primary_command", command)):
        if order == REVERSE and given is not None:
            raise InputError(f"{name} is given with update_order {REVERSE}: use {PRIMARY_LAST}")
    if order == REVERSE:
        return None
    if label is not None and command is not None:
        raise InputError(
            "update_primary_label and update_primary_command are given: keep the one that says which pod is the primary"
        )
    if command is not None:
        return None
    key, equals, value = str(label or "").partition("=")
    if not equals or not value:
        raise InputError(
            f"update_primary_label is {shown(label)}: expected the label that the primary's pod has, such as "
            f"role=primary; update_order {PRIMARY_LAST} needs it, or update_primary_command"
        )
    check_labels({key: value}, "update_primary_label")
    return LabelSelector.from_labels({key: value})


def _primary_command(given: Any, strategy: str) -> tuple[str, ...]:
    if given is None:
        return ()
    if strategy == RESCHEDULE:
        raise InputError(
            f"update_primary_command is given with update_strategy {RESCHEDULE}: whose turn is the last, there a label "
            "alone says (update_primary_label)"
        )
    return command_of("update_primary_command", given)


def _unavailable(name: str, given: str | None, replicas: int) -> int:
    """A number, or a share of the replicas, rounded down and at least 1, as a StatefulSet's maxUnavailable."""
    found = _NUMBER_OR_SHARE.fullmatch("1" if given is None else given)
    number, percent = (int(found[1]), found[2]) if found else (0, "")
    if number < 1 or (percent and number > 100):
        raise InputError(f"{name} is {shown(given)}: expected a number from 1, or a percentage such as 25%")
    return max(1, math.floor(replicas * number / 100)) if percent else number
