"""Gauges and counters in Prometheus's text format (0.0.4): all that an agent needs. Used by `metrics` and the parts.

prometheus-client is what the controller uses; it brings a web server and an e-mail package along, 5 MB of the 40 that
an agent may have (docs/decisions). The tests read the text with prometheus-client's own parser.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Callable

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})
_HELP_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n"})


class Family:
    """One metric: a value for each set of label values. Without label names there is one value."""

    def __init__(self, kind: str, name: str, text: str, labels: Iterable[str] = ()) -> None:
        self.kind, self.name, self.text, self.labels = kind, name, text, tuple(labels)
        self._values: dict[tuple[str, ...], float] = {} if self.labels else {(): 0.0}

    def set(self, value: float, *labels: object) -> None:
        """The value of these labels from now on. Raises ValueError for another number of labels."""
        self._values[self._key(labels)] = float(value)

    def add(self, amount: float = 1.0, *labels: object) -> None:
        """Count."""
        key = self._key(labels)
        self._values[key] = self._values.get(key, 0.0) + amount

    def replace(self, labels: Iterable[tuple[object, ...]]) -> None:
        """These sets of labels from now on, each with the value 1, and no others."""
        self._values = {self._key(each): 1.0 for each in labels}

    def samples(self) -> Mapping[tuple[str, ...], float]:
        """Value by label values."""
        return self._values

    def _key(self, labels: tuple[object, ...]) -> tuple[str, ...]:
        if len(labels) != len(self.labels):
            raise ValueError(f"{self.name} has labels {self.labels}, given {labels}")
        return tuple(map(str, labels))

    def lines(self) -> Iterator[str]:
        """The text format."""
        yield f"# HELP {self.name} {self.text.translate(_HELP_ESCAPES)}"
        yield f"# TYPE {self.name} {self.kind}"
        for values, number in sorted(self.samples().items()):
            pairs = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(self.labels, values))
            yield f"{self.name}{{{pairs}}} {number!r}" if pairs else f"{self.name} {number!r}"


class Asked(Family):
    """A metric whose values somebody else keeps: asked for when they are read."""

    def __init__(self, kind: str, name: str, text: str, label: str, ask: Callable[[], Mapping[str, float]]) -> None:
        super().__init__(kind, name, text, (label,))
        self._ask = ask

    def samples(self) -> Mapping[tuple[str, ...], float]:
        """Value by label value."""
        return {(str(key),): float(value) for key, value in self._ask().items()}


class Figures:
    """All metrics of a process."""

    def __init__(self) -> None:
        self._families: dict[str, Family] = {}

    def gauge(self, name: str, text: str, labels: Iterable[str] = ()) -> Family:
        """A number that goes up and down."""
        return self.keep(Family("gauge", name, text, labels))

    def counter(self, name: str, text: str, labels: Iterable[str] = ()) -> Family:
        """A number that grows; its name ends in _total."""
        return self.keep(Family("counter", name, text, labels))

    def keep(self, family: Family) -> Family:
        """Show this one too. Raises ValueError when the name is taken."""
        if family.name in self._families:
            raise ValueError(f"metric {family.name} is there already")
        self._families[family.name] = family
        return family

    def text(self) -> bytes:
        """What /metrics answers."""
        return "".join(f"{line}\n" for family in self._families.values() for line in family.lines()).encode()
