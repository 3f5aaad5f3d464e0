"""What is kept from ansible-test, and what pages show without a check: both should be nothing."""

from __future__ import annotations

from pathlib import Path

from tests.support import pages

from .figures import Figure
from .ground import Ground

ROOT = Path(__file__).resolve().parents[2]


def ignores(_ground: Ground, root: Path = ROOT) -> list[Figure]:
    """Lines of the files that ansible-test sanity would take for each ansible-core."""
    files = sorted((root / "tests" / "sanity").glob("ignore*.txt"))
    lines = sum(len(file.read_text(encoding="utf-8").split("\n")) - 1 for file in files)
    note = ", ".join(file.name for file in files) or "there is no tests/sanity/ignore*.txt"
    return [Figure("sanity/ignores", lines, None, "lines", None, (note,))]


def examples(_ground: Ground, every: list[pages.Example] | None = None) -> list[Figure]:
    """Examples that no check knows what to do with, of all that pages and plugins show."""
    shown = [one for one in (pages.every() if every is None else every) if one.language not in pages.SHOWN]
    unknown = [one.id for one in shown if not _known(one)]
    notes = (f"{len(shown) - len(unknown)} of {len(shown)} have a check", *unknown)
    return [Figure("docs/examples", len(unknown), None, "unchecked", None, notes)]


def _known(example: pages.Example) -> bool:
    try:
        return pages.kind_of(example) in pages.CHECKED
    except ValueError:
        return False
