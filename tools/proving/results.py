"""What the tests of a run left in build/junit: counts, skips, second tries, and how long each test took.

STAGE.xml          pytest's JUnit file
STAGE.again        one line for each test that failed at first and was run again (tests/conftest.py)
STAGE.times.json   [[test, setup, call, teardown], ...], seconds (tests/conftest.py)
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import xml.etree.ElementTree as ET

JUNIT = pathlib.Path("build/junit")
PATTERNS = ("*.xml", "*.again", "*.times.json")


@dataclasses.dataclass
class Results:
    """Numbers of tests, (name, reason) of those that were skipped, and which failed at first."""

    passed: int = 0
    failed: int = 0
    skipped: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    again: list[str] = dataclasses.field(default_factory=list)

    @property
    def tests(self) -> int:
        """How many have run."""
        return self.passed + self.failed

    @property
    def green(self) -> bool:
        """Every test has run, and passed at its first try."""
        return not (self.failed or self.skipped or self.again)

    def add(self, other: Results) -> None:
        """Count another stage's in."""
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.again += other.again


@dataclasses.dataclass(frozen=True)
class Times:
    """Seconds of one test."""

    test: str
    setup: float
    call: float
    teardown: float

    @property
    def total(self) -> float:
        """All three together."""
        return self.setup + self.call + self.teardown


def clear(folder: pathlib.Path = JUNIT) -> None:
    """Remove what an earlier run left."""
    for pattern in PATTERNS:
        for leftover in folder.glob(pattern):
            leftover.unlink()


def of_stage(name: str, folder: pathlib.Path = JUNIT) -> Results:
    """What one stage left; empty where it runs no tests. Raises ET.ParseError for a file that was cut off."""
    results = Results()
    path = folder / f"{name}.xml"
    if path.exists():
        # Written by the project's own pytest a moment ago.
        for case in ET.parse(path).iter("testcase"):  # noqa: S314
            _count(case, results)
    again = folder / f"{name}.again"
    if again.exists():
        results.again += again.read_text(encoding="utf-8").splitlines()
    return results


def _count(case: ET.Element, results: Results) -> None:
    skip = case.find("skipped")
    if case.find("failure") is not None or case.find("error") is not None:
        results.failed += 1
    elif skip is not None:
        results.skipped.append((f"{case.get('classname')}::{case.get('name')}", skip.get("message", "")))
    else:
        results.passed += 1


def slowest(number: int, folder: pathlib.Path = JUNIT) -> list[Times]:
    """The tests that took longest, over all stages of this run."""
    times = [
        Times(str(test), float(setup), float(call), float(teardown))
        for path in folder.glob("*.times.json")
        for test, setup, call, teardown in json.loads(path.read_text(encoding="utf-8"))
    ]
    return sorted(times, key=lambda each: (-each.total, each.test))[:number]
