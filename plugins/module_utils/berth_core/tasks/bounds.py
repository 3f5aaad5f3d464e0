# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What bounds tasks beside their queues: the ResourceQuotas of their namespace, and the ceiling of the whole backend.

Both count what pods reserve: a filler task counts as one pod, and with nothing of its requests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ..app.quota import Demand, QuotaRoom, of_object, of_pod
from ..errors import InputError
from ..model.fields import Object
from ..model.pod import Amounts
from ..model.quantity import exact_bytes, format_cpu, parse_quantity
from ..model.requests import CPU, EPHEMERAL, MEMORY, PODS, amount, is_extended
from .filler import lowered
from .gangs import Unit
from .offers import Wants
from .queues import QueueKey
from .task import Task

#: Why a task waits: a ResourceQuota of its namespace leaves too little; all tasks together have what they may.
EXCEEDED_QUOTA, BACKEND_CEILING = "ExceededQuota", "BackendCeiling"
Why = tuple[str, str]


def read_ceiling(where: str, text: str) -> dict[str, int]:
    """`cpu=64,memory=256Gi,pods=500` in whole units; empty: no ceiling. Raises InputError that begins with `where`."""
    found: dict[str, int] = {}
    for part in text.split(",") if text else ():
        name, equals, value = (each.strip() for each in part.partition("="))
        if not equals or name in found or not (name in (CPU, MEMORY, EPHEMERAL, PODS) or is_extended(name)):
            raise InputError(f"{where} is {text!r}: expected each resource once, as in cpu=64,memory=256Gi,pods=500")
        found[name] = amount(name, parse_quantity(value, where, name))
        if found[name] < 0:
            raise InputError(f"{where}: {name} is {value}: expected 0 or more")
    return found


def demand_of(wanted: Wants, filler: bool = False) -> Demand:
    """What the pod of a task, or of who takes an offer, counts for in a quota."""
    if isinstance(wanted, Task):
        spec: dict[str, Any] = dict(wanted.template["spec"])
        spec = lowered(spec, "") if filler else spec
    else:
        requests = {name: format_cpu(value) if name == CPU else str(value) for name, value in wanted.requests}
        spec = {"containers": [{"name": "held", "resources": {"requests": requests}}]}
    return Demand(1, {**of_object("pods"), **of_pod(spec)}, spec)


class Bounds:
    """While it is decided who starts; changed by `take`.

    `quotas`: by namespace; `pending`: pods of tasks that are in no quota's status yet, by namespace. `ceiling`: what
    all tasks together may have; `used`: what they have. `fillers`: the queues of filler tasks.
    """

    def __init__(
        self,
        quotas: Mapping[str, Sequence[Object]] | None = None,
        pending: Iterable[tuple[str, Demand]] = (),
        ceiling: Mapping[str, int] | None = None,
        used: Mapping[str, int] | None = None,
        fillers: Collection[QueueKey] = (),
    ) -> None:
        self._rooms = {namespace: [QuotaRoom(one) for one in listed] for namespace, listed in (quotas or {}).items()}
        self._ceiling, self._used, self._fillers = dict(ceiling or {}), dict(used or {}), fillers
        self._demands: dict[tuple[str | Amounts, bool], Demand] = {}
        for namespace, demand in pending:
            for room in self._rooms.get(namespace, ()):
                room.take((demand,))

    def never(self, unit: Unit) -> str:
        """Why it could not start even if nothing ran; empty where it could."""
        for name, value in self._wants(unit).items():
            if value > self._ceiling[name]:
                return f"asks for {name} {_text(name, value)}, and {self._of(name)}"
        lines = (line for room in self._quotas(unit) for line in room.never(self._asks(unit)))
        return next(lines, "")

    def obstacle(self, unit: Unit) -> Why:
        """Why it cannot start now: reason and words; empty where it can."""
        for name, value in self._wants(unit).items():
            has = self._used.get(name, 0)
            if has + value > self._ceiling[name]:
                figures = f"they have {_text(name, has)}, asked for {_text(name, value)}"
                return BACKEND_CEILING, f"{self._of(name)}: {figures}"
        lines = [line for room in self._quotas(unit) for line in room.exceeded(self._asks(unit))]
        return (EXCEEDED_QUOTA, "; ".join(lines)) if lines else ("", "")

    def take(self, unit: Unit) -> None:
        """It starts."""
        for name, value in self._wants(unit).items():
            self._used[name] = self._used.get(name, 0) + value
        for room in self._quotas(unit):
            room.take(self._asks(unit))

    def _quotas(self, unit: Unit) -> Sequence[QuotaRoom]:
        return self._rooms.get(unit.first.namespace, ())

    def _filler(self, unit: Unit) -> bool:
        return (unit.first.namespace, unit.first.queue) in self._fillers

    def _wants(self, unit: Unit) -> dict[str, int]:
        """What it takes of the ceiling, without what that does not limit."""
        asked = {PODS: len(unit.tasks), **({} if self._filler(unit) else dict(unit.requests))}
        return {name: asked[name] for name in self._ceiling if asked.get(name)}

    def _asks(self, unit: Unit) -> list[Demand]:
        filler = self._filler(unit)
        return [self._demand(one, filler) for one in unit.tasks]

    def _demand(self, wanted: Wants, filler: bool) -> Demand:
        """Worked out once for each template, and size of an offer."""
        key = (wanted.content if isinstance(wanted, Task) else wanted.requests, filler)
        if key not in self._demands:
            self._demands[key] = demand_of(wanted, filler)
        return self._demands[key]

    def _of(self, name: str) -> str:
        return f"all tasks of this backend may have {name} {_text(name, self._ceiling[name])} (--ceiling)"


def _text(name: str, value: int) -> str:
    if name == CPU:
        return format_cpu(value)
    return exact_bytes(value) if name in (MEMORY, EPHEMERAL) else str(value)
