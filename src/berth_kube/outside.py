"""What packages from outside bring to a daemon: found by entry point, loaded, and told apart from what is there.

    [project.entry-points."berth.scheduler.plugins"]
    QuietHours = "example:QuietHours"

For daemons, which run on Python 3.11 and newer. Each calls it once, at its start.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from berth_core.errors import InputError


def found(
    group: str, what: str, taken: Container[str], points: Iterable[EntryPoint] | None = None
) -> Iterator[tuple[EntryPoint, Any]]:
    """Each entry point of the group, by name, and what it names. ``what``: one of them in a message, as ``plugin``.

    ``taken``: names that are there already; ``points``: in place of those of the packages that are installed. Raises
    InputError.
    """
    seen = set()
    listed = entry_points(group=group) if points is None else points
    for one in sorted(listed, key=lambda point: point.name):
        if one.name in taken or one.name in seen:
            raise InputError(f"{what} {one.name} of {one.value} has the name of another {what}: give it its own")
        seen.add(one.name)
        yield one, _load(one, what)


def _load(point: EntryPoint, what: str) -> Any:
    try:
        return point.load()
    except Exception as exc:
        raise InputError(f"{what} {point.name}: {point.value} cannot be loaded: {type(exc).__name__}: {exc}") from exc
