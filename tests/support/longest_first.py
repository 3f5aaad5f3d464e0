"""The order of test files: those that take longest first, so that several workers end together.

With --dist=loadfile and --no-loadscope-reorder pytest-xdist hands out files in the order of the tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest


def begin_with(items: list[pytest.Item], names: Sequence[str], within: Path | None = None) -> None:
    """Files of these names come first, in that order. ``within``: only what lies in that folder, among itself."""
    places = [place for place, item in enumerate(items) if within is None or item.path.is_relative_to(within)]
    ranks = {name: rank for rank, name in enumerate(names)}
    ordered = sorted((items[place] for place in places), key=lambda item: ranks.get(item.path.name, len(ranks)))
    for place, item in zip(places, ordered, strict=True):
        items[place] = item
