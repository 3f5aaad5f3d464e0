"""What a bench measures, and how it is shown: pure, without a clock."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple


class Figure(NamedTuple):
    """One measured number of berth's beside the peer's of the same run. Smaller is better for every unit in use."""

    name: str
    ours: float
    peer: float | None
    unit: str
    peer_name: str | None
    notes: tuple[str, ...] = ()

    @property
    def ratio(self) -> float | None:
        """How many times better berth is; above 1 is better. None where there is no peer or berth's number is 0."""
        return self.peer / self.ours if self.peer is not None and self.ours > 0 else None

    def as_json(self) -> dict[str, Any]:
        ratio = self.ratio
        return {
            "name": self.name,
            "ours": round(self.ours, 4),
            "peer": None if self.peer is None else round(self.peer, 4),
            "ratio": None if ratio is None else round(ratio, 2),
            "unit": self.unit,
            "peer_name": self.peer_name,
            "command": f"make bench ONLY={self.name}",
        }


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def table(figures: Sequence[Figure]) -> str:
    """The figures in columns, each with its notes below it."""
    head = ("name", "ours", "peer", "ratio", "unit", "peer is")
    rows = [head, *(_row(figure) for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = []
    for index, row in enumerate(rows):
        lines.append("  ".join(_aligned(cell, widths[column], column) for column, cell in enumerate(row)).rstrip())
        if index:
            lines += [f"    {note}" for note in figures[index - 1].notes]
    return "\n".join(lines)


def _row(figure: Figure) -> tuple[str, ...]:
    ratio = figure.ratio
    return (
        figure.name,
        f"{figure.ours:.3f}" if figure.unit.startswith("s") else f"{figure.ours:g}",
        "-" if figure.peer is None else f"{figure.peer:.3f}" if figure.unit.startswith("s") else f"{figure.peer:g}",
        "-" if ratio is None else f"{ratio:.1f}x",
        figure.unit,
        figure.peer_name or "",
    )


def _aligned(cell: str, width: int, column: int) -> str:
    return cell.rjust(width) if column in (1, 2, 3) else cell.ljust(width)
