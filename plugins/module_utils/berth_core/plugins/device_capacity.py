# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much of a device's capacity a request takes, and whether so much is left: kube-scheduler's rules for shares.

Called by device_search.py. Amounts are texts as they were written wherever they go into an object of the API.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..model.quantity import Number, bytes_, parse_quantity
from ..model.resource_slice import Capacity, RequestPolicy

Amounts = Mapping[str, Number]


def consumption(asked: Mapping[str, str], capacity: Mapping[str, Capacity]) -> dict[str, str]:
    """Return what a request takes of each capacity: all of those that it does not name, or their policy's default."""
    return {name: _taken(asked.get(name), one) for name, one in capacity.items()}


def enough(
    asked: Mapping[str, str], capacity: Mapping[str, Capacity], given_out: Amounts | None, being_given: Amounts | None
) -> bool:
    """Tell whether a request can have its part beside what is given out already.

    Not where it names a capacity that the device does not have, or an amount that the capacity's policy forbids.
    """
    if any(name not in capacity for name in asked):
        return False
    for name, text in consumption(asked, capacity).items():
        one = capacity[name]
        if one.policy is not None and not _allowed(text, one.policy):
            return False
        beside = sum((had.get(name, 0) for had in (given_out, being_given) if had), parse_quantity(text))
        if beside > one.amount:
            return False
    return True


def _taken(asked: str | None, capacity: Capacity) -> str:
    policy = capacity.policy
    if asked is None:
        return policy.default if policy is not None and policy.default is not None else capacity.value
    if policy is None:
        return asked
    if policy.lowest is not None:
        return _in_steps(asked, policy)
    return next((one for one in policy.values if parse_quantity(asked) <= parse_quantity(one)), asked)


def _in_steps(asked: str, policy: RequestPolicy) -> str:
    """Round up to the next step from the lowest amount on."""
    lowest = policy.lowest or "0"
    if parse_quantity(asked) < parse_quantity(lowest):
        return lowest
    if policy.step is None:
        return asked
    start, step = bytes_(lowest), bytes_(policy.step)
    return str(start + -(-(bytes_(asked) - start) // step) * step) if step > 0 else asked


def _allowed(text: str, policy: RequestPolicy) -> bool:
    amount = parse_quantity(text)
    if policy.default is not None and amount == parse_quantity(policy.default):
        return True
    if policy.lowest is not None or policy.highest is not None or policy.step is not None:
        if policy.highest is not None and amount > parse_quantity(policy.highest):
            return False
        step = bytes_(policy.step) if policy.step is not None else 0
        return step <= 0 or (bytes_(text) - bytes_(policy.lowest or "0")) % step == 0
    return not policy.values or any(amount == parse_quantity(one) for one in policy.values)
