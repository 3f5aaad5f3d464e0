# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scoring strategies over resources: columns of requested and allocatable in, a column of scores out.

Called by NodeResourcesFit and NodeResourcesBalancedAllocation. The formulas and the order of integer operations are
kube-scheduler's (v1.36: pkg/scheduler/framework/plugins/noderesources). A resource that a node does not have is left
out for that node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable, NamedTuple

from ..cluster.columns import BoolColumn, FloatColumn, IntColumn, at_rows, bools, ints, np
from ..cluster.snapshot import Snapshot
from ..framework.contract import MAX_SCORE
from ..model.requests import CPU, EPHEMERAL, MEMORY, is_scalar

EXACT = 1 << 52
"""Of whole numbers below it the quotient as floating point has the same whole part: a quotient that is no whole number
is further below the next one than it can be rounded (1/b > (a/b + 1) * 2**-54 for a, b < 2**52)."""
Weights = Sequence[tuple[str, int]]
Shape = Sequence[tuple[int, int]]


class Load(NamedTuple):
    """One resource over the rows: `before` and `after` the pod, and what is allocatable.

    `counts`: the rows in which the resource counts, None for all of them. Zeros where it is left out.
    """

    before: IntColumn
    after: IntColumn
    allocatable: IntColumn
    counts: BoolColumn | None

    @property
    def rows(self) -> BoolColumn:
        """Return `counts` as a column."""
        return bools(len(self.after), True) if self.counts is None else self.counts


def load(snapshot: Snapshot, resource: str, pod_request: int, rows: IntColumn, nonzero: bool) -> Load:
    """Return the load of a resource.

    `nonzero`: count cpu and memory with the defaults for containers that request none.
    """
    nodes = snapshot.nodes
    known = resource in (CPU, MEMORY, EPHEMERAL) or (is_scalar(resource) and pod_request != 0)
    if not known:
        return Load(ints(len(rows)), ints(len(rows)), ints(len(rows)), bools(len(rows)))
    requested = nodes.nonzero if nonzero and resource in (CPU, MEMORY) else nodes.requested
    at = at_rows(rows, len(nodes))
    allocatable: IntColumn = nodes.column(nodes.allocatable, resource)[at]
    before: IntColumn = nodes.column(requested, resource)[at]
    if nodes.everywhere(resource):
        return Load(before, before + pod_request, allocatable, None)
    has = allocatable != 0
    before = np.where(has, before, 0)
    return Load(before, np.where(has, before + pod_request, 0), allocatable, has)


def least_allocated(loads: Sequence[Load], weights: Weights, rows: int) -> IntColumn:
    """Return the weighted mean of the free share of each resource: emptier is better."""
    return _weighted(loads, weights, rows, _free_share)


def _free_share(one: Load) -> IntColumn:
    whole = one.allocatable if one.counts is None else np.maximum(one.allocatable, 1)
    free = (one.allocatable - one.after) * MAX_SCORE
    # More than there is leaves a share below 0, which is none.
    share: IntColumn
    if max(free.max(initial=0), whole.max(initial=0)) < EXACT:  # many times as quick, and never rounded up
        share = np.maximum(free / whole, 0.0).astype(np.int64)
    else:
        share = np.maximum(free // whole, 0)
    return share


def most_allocated(loads: Sequence[Load], weights: Weights, rows: int) -> IntColumn:
    """Return the weighted mean of the used share of each resource: fuller is better."""
    return _weighted(loads, weights, rows, _used_share)


def _used_share(one: Load) -> IntColumn:
    whole = one.allocatable if one.counts is None else np.maximum(one.allocatable, 1)
    share: IntColumn = np.minimum(one.after, one.allocatable) * MAX_SCORE // whole
    return share


def _weighted(loads: Sequence[Load], weights: Weights, rows: int, rate: Callable[[Load], IntColumn]) -> IntColumn:
    total, scalar, varying = ints(rows), 0, None
    for one, (_name, weight) in zip(loads, weights):
        rated = rate(one) * weight
        if one.counts is None:
            total += rated
            scalar += weight
        else:
            total += np.where(one.counts, rated, 0)
            mine = np.where(one.counts, weight, 0)
            varying = mine if varying is None else varying + mine
    if varying is None:
        return total // scalar if scalar else total
    weight_sum = varying + scalar
    score: IntColumn = np.where(weight_sum > 0, total // np.maximum(weight_sum, 1), 0)
    return score


def requested_to_capacity(loads: Sequence[Load], weights: Weights, shape: Shape, rows: int) -> IntColumn:
    """Return the weighted mean of a piecewise linear function of utilization.

    Resources that score 0 are left out of the mean.
    """
    total, weight_sum = ints(rows), ints(rows)
    for one, (_name, weight) in zip(loads, weights):
        used = np.where(one.after > one.allocatable, MAX_SCORE, one.after * MAX_SCORE // np.maximum(one.allocatable, 1))
        rated = broken_line(shape, used)
        counts = one.rows & (rated > 0)
        total += np.where(counts, rated * weight, 0)
        weight_sum += np.where(counts, weight, 0)
    mean = total / np.maximum(weight_sum, 1)
    score: IntColumn = np.where(weight_sum > 0, round_half_away(mean), 0)
    return score


def broken_line(shape: Shape, at: IntColumn) -> IntColumn:
    """Evaluate the line through the points (utilization, score), flat outside.

    Integer division truncates toward zero.
    """
    value = ints(len(at), shape[-1][1])
    for index in range(len(shape) - 1, 0, -1):
        (left, low), (right, high) = shape[index - 1], shape[index]
        step = (high - low) * (at - left)
        truncated = np.sign(step) * (np.abs(step) // (right - left))
        value = np.where(at <= right, low + truncated, value)
    result: IntColumn = np.where(at <= shape[0][0], shape[0][1], value)
    return result


def round_half_away(values: FloatColumn) -> IntColumn:
    """Round numbers of at least 0 to the nearest whole, halves up.

    Exactly: adding 0.5 would round 0.49999999999999994 to 1.
    """
    whole = np.floor(values)
    rounded: IntColumn = (whole + (values - whole >= 0.5)).astype(np.int64)
    return rounded


def balanced(loads: Sequence[Load], rows: int) -> IntColumn:
    """Return how much the pod brings the used shares of the resources together.

    75 no change, 100 at best, 50 at worst.
    """
    two = len(loads) == 2 and loads[0].counts is None and loads[1].counts is None
    balance = _balance_of_two if two else _balance
    with_pod = balance([one.after for one in loads], loads, rows)
    without = balance([one.before for one in loads], loads, rows)
    return MAX_SCORE // 2 + (MAX_SCORE // 2 + with_pod - without) // 2


def _balance_of_two(used: Sequence[IntColumn], loads: Sequence[Load], _rows: int) -> IntColumn:
    """Return what `_balance` returns where two resources count in every row: half of their difference."""
    first = used[0] / loads[0].allocatable
    np.minimum(first, 1.0, out=first)
    second = used[1] / loads[1].allocatable
    np.minimum(second, 1.0, out=second)
    first -= second
    first /= 2
    np.abs(first, out=first)
    np.subtract(1.0, first, out=first)
    first *= float(MAX_SCORE)
    score: IntColumn = first.astype(np.int64)
    return score


def _balance(used: Sequence[IntColumn], loads: Sequence[Load], rows: int) -> IntColumn:
    """Return 100 * (1 - standard deviation of the used shares), truncated.

    Half the difference where there are just two.
    """
    count, total = ints(rows), np.zeros(rows)
    first, second = np.zeros(rows), np.zeros(rows)
    shares = []
    for column, one in zip(used, loads):
        counts = one.rows
        share = np.minimum(column / np.maximum(one.allocatable, 1), 1.0)
        first = np.where(counts & (count == 0), share, first)
        second = np.where(counts & (count == 1), share, second)
        total = total + np.where(counts, share, 0.0)
        count += counts
        shares.append(share)
    mean = total / np.maximum(count, 1)
    squares = np.zeros(rows)
    for share, one in zip(shares, loads):
        squares = squares + np.where(one.rows, (share - mean) * (share - mean), 0.0)
    many = np.sqrt(squares / np.maximum(count, 1))
    deviation = np.where(count == 2, np.abs((first - second) / 2), np.where(count > 2, many, 0.0))
    score: IntColumn = ((1 - deviation) * float(MAX_SCORE)).astype(np.int64)
    return score
