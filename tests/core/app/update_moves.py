"""Random operations and faults in the middle of an update, for the small cluster of test_update and for a real one.

What can happen is drawn here, and what it means there: ``pick`` is Hypothesis's choice, or that of a seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Pick = Callable[[Sequence[Any]], Any]
#: A run that dies after so many of its writes; a kubelet or a second that goes by; another template; a pod that goes.
ACT, KUBELET, LATER, CHANGE, LOST = "act", "kubelet", "later", "change", "lost"
MOVES = (ACT, ACT, KUBELET, KUBELET, CHANGE, LOST, LATER)
#: Of a template, against the first one.
CHANGES: tuple[dict[str, Any], ...] = (
    {"image": 2},
    {"cpu": "1"},
    {"image": 3, "cpu": "2", "labels": {"a": "b"}},
    {"command": ["x"]},
)
FIRST: dict[str, Any] = {}


@dataclass(frozen=True)
class Scenario:
    """``second``: the template that the update begins with. ``moves``: what happens, and its number, ordinal or
    (name, template)."""

    replicas: int
    unavailable: int
    partition: int
    min_ready: int
    primary: bool
    second: dict[str, Any]
    moves: tuple[tuple[str, Any], ...]


def scenario(pick: Pick, replicas: Sequence[int], min_ready: Sequence[int], lengths: Sequence[int]) -> Scenario:
    number = pick(replicas)
    head = (number, pick((1, 2)), pick((0, 1)), pick(min_ready), pick((False, True)), pick(CHANGES))
    return Scenario(*head, tuple(_move(pick, number) for _number in range(pick(lengths))))


def _move(pick: Pick, replicas: int) -> tuple[str, Any]:
    what = pick(MOVES)
    if what == ACT:
        return what, pick(range(5))
    if what == CHANGE:
        name = pick(("one", "two", "three"))
        return what, (name, FIRST if name == "one" else pick(CHANGES))
    return what, None if what == LATER else pick(range(replicas))
