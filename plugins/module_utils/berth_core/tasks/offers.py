# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Offers: what is free on each node now, and what finds room there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ..model.pod import Amounts
from ..model.requests import PODS

if TYPE_CHECKING:
    from .task import Gang

Free = dict[str, int]


class Offer(NamedTuple):
    """What is free on one node."""

    node: str
    free: Free


class Wants(Protocol):
    """What waits in a queue: a Task, or a TaskOffer, which is room for one."""

    @property
    def key(self) -> tuple[str, str]: ...

    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def queue(self) -> str: ...

    @property
    def priority(self) -> int: ...

    @property
    def created(self) -> str: ...

    @property
    def requests(self) -> Amounts: ...

    @property
    def gang(self) -> Gang | None: ...

    @property
    def gang_key(self) -> str: ...


def subtract(offers: Sequence[Offer], requests: Amounts) -> str:
    """Take one pod's amount from the first offer that has room for it. Returns its node; empty where none has."""
    for offer in offers:
        if fits(requests, offer.free):
            take(offer.free, requests)
            return offer.node
    return ""


def subtract_alike(offers: Sequence[Offer], requests: Amounts, count: int) -> None:
    """Take the amounts of so many pods that are alike, each as `subtract` does it, without a look at each of them."""
    for offer in offers:
        if not count:
            return
        if fits(requests, offer.free):
            room = min(offer.free[PODS], *(offer.free[name] // value for name, value in requests if value), count)
            take(offer.free, requests, room)
            count -= room


def place(offers: Sequence[Offer], many: Sequence[Amounts]) -> int:
    """Take the amounts of pods that start together, the largest first. How many have room; all, or nothing is taken."""
    left = [Offer(offer.node, dict(offer.free)) for offer in offers]
    whole = total(offer.free for offer in offers)

    def size(requests: Amounts) -> list[float]:
        return sorted((value / whole[name] for name, value in requests if whole.get(name)), reverse=True)

    placed, at, before = 0, 0, None
    for requests in sorted(many, key=size, reverse=True):
        at = at if requests == before else 0  # where the one before, just like it, found no room there is none for it
        while at < len(left) and not fits(requests, left[at].free):
            at += 1
        before = requests
        if at < len(left):
            take(left[at].free, requests)
            placed += 1
    if placed == len(many):
        for offer, after in zip(offers, left):
            offer.free.update(after.free)
    return placed


def take(free: Free, requests: Amounts, count: int = 1) -> None:
    """Take one pod's amount, or that of so many; with `count` -1 give one back."""
    free[PODS] = free.get(PODS, 0) - count
    for name, value in requests:
        free[name] = free.get(name, 0) - count * value


def fits(requests: Amounts, free: Mapping[str, int]) -> bool:
    """Whether a pod has room in what is free."""
    return free.get(PODS, 0) >= 1 and all(value <= free.get(name, 0) for name, value in requests if value)


def never_fits(requests: Amounts, nodes: Mapping[str, Mapping[str, int]]) -> str:
    """Why no node could take it even if it were empty: which resource, and the largest node; empty where one could."""
    if not nodes or any(fits(requests, whole) for whole in nodes.values()):
        return ""
    for name, value in requests:
        node, most = max(((node, whole.get(name, 0)) for node, whole in nodes.items()), key=lambda one: one[1])
        if value > 0 and not most:  # a device that is spelled otherwise, most often
            return f"asks for {name} {value}, and no node has any {name}"
        if value > most:
            return f"asks for {name} {value}, and the largest node ({node}) has {most}"
    return "no single node has all that it asks for"


def total(parts: Iterable[Mapping[str, int]]) -> Free:
    """The sums by resource."""
    found: Free = {}
    for part in parts:
        for name, value in part.items():
            found[name] = found.get(name, 0) + value
    return found
