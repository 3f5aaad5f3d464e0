"""When pods were not Ready, as a watch has told it: pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Seen(NamedTuple):
    """``at``: seconds of any clock; ``ready`` is False also for a pod that is going, or gone."""

    at: float
    pod: str
    ready: bool


class Span(NamedTuple):
    """A pod was not Ready from ``since`` until ``until``; one that takes its name goes on with it."""

    pod: str
    since: float
    until: float

    @property
    def seconds(self) -> float:
        return self.until - self.since


def not_ready(seen: Iterable[Seen]) -> list[Span]:
    """In the order of their ends. Raises ValueError where a pod is not Ready at the end."""
    since: dict[str, float] = {}
    found: list[Span] = []
    for one in seen:
        if not one.ready:
            since.setdefault(one.pod, one.at)
        elif one.pod in since:
            found.append(Span(one.pod, since.pop(one.pod), one.at))
    if since:
        raise ValueError(f"not Ready at the end: {', '.join(sorted(since))}")
    return found


def by_pod(spans: Iterable[Span]) -> dict[str, float]:
    """Seconds that each pod was not Ready, in all."""
    found: dict[str, float] = {}
    for one in spans:
        found[one.pod] = found.get(one.pod, 0.0) + one.seconds
    return found
