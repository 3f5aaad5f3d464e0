"""The end of a run: the table, the slowest tests, the counts, build/times.json and build/flaky.json."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Sequence

from .results import Results, Times
from .runner import LOGS, NEEDS_ROOT, Run

TIMES = pathlib.Path("build/times.json")
FLAKY = pathlib.Path("build/flaky.json")
#: Tests that failed at first; more of them make the run fail.
TOLERATED = 2
SLOWEST = 30
#: Lines of a failed stage's log that the end of the run repeats: those that name a failure, and the last ones.
TELLING_LINES = 16
LAST_LINES = 8
#: How pytest, Ansible (behind molecule's margin), ansible-test, mypy and ruff begin the line of what is wrong.
TELLING = re.compile(r"[\s│]*(fatal: |failed: |E   |FAILED |ERROR[: ]|error: |\S+:\d+:\d+: |\S+:\d+: error)")
COLORS = re.compile(r"\x1b\[[0-9;]*m")


def table(runs: Sequence[Run], seconds: float) -> str:
    """One line for each stage: seconds of wall time, of CPU time (what was waited for), and how it ended."""
    lines = [f"{'stage':<20} {'seconds':>8} {'cpu':>8}  result"]
    lines += [
        f"{run.stage:<20} {run.seconds:>8.1f} {run.cpu:>8.1f}  {run.result} {run.detail}".rstrip() for run in runs
    ]
    lines.append(f"{'total':<20} {seconds:>8.1f} {sum(run.cpu for run in runs):>8.1f}")
    return "\n".join(lines)


def slow_tests(times: Sequence[Times]) -> str:
    """The slowest tests: seconds of call, set-up and tear-down."""
    lines = [f"slowest tests: {'call':>7} {'setup':>7} {'teardown':>8}"]
    lines += [f"{'':<14} {t.call:>7.1f} {t.setup:>7.1f} {t.teardown:>8.1f}  {t.test}" for t in times]
    return "\n".join(lines) if times else ""


def closing(runs: Sequence[Run], results: Results) -> str:
    """The counts: what ran now, what was proved before, what did not run and why, skips and second tries by name."""
    lines = []
    if results.tests or results.skipped:
        lines.append(f"tests: {results.passed} passed, {results.failed} failed, {len(results.skipped)} skipped")
    proved = [run.stage for run in runs if run.result == "PROVED"]
    if proved:
        lines.append(f"proved before, on the same inputs, and not run now: {', '.join(proved)} (FULL=1 runs them)")
    lines += [f"  NOT RUN {run.stage}: {run.detail}" for run in runs if run.result == "NOT RUN"]
    lines += [f"  skipped {name}: {reason}" for name, reason in results.skipped]
    lines += [f"  FLAKY: failed at first, and was run again: {name}" for name in results.again]
    if len(results.again) > TOLERATED:
        lines.append(f"{len(results.again)} tests failed at first; more than {TOLERATED} fail the run")
    return "\n".join(lines)


def failures(runs: Sequence[Run]) -> str:
    """What failed, last of all: each stage with what its log names and ends with, as often only this end is seen."""
    lines = []
    for run in runs:
        if run.result != "FAILED":
            continue
        lines.append(f"FAILED {run.stage}: {run.detail}")
        log = LOGS / f"{run.stage}.log"
        if log.is_file():
            said = COLORS.sub("", log.read_text(encoding="utf-8", errors="replace")).splitlines()
            lines += [f"    {line[:300]}" for line in telling([line for line in said if line.strip()])]
    return "\n".join(lines)


def without_root(runs: Sequence[Run]) -> list[str]:
    """The stages that did not run because this process is not root."""
    return [run.stage for run in runs if run.detail == NEEDS_ROOT]


def not_whole(runs: Sequence[Run], meant: bool) -> str:
    """The very last line where there was no root: nobody takes it for a whole run. ``meant``: it was allowed."""
    lost = without_root(runs)
    if not lost:
        return ""
    rest = "as WITHOUT_ROOT=1 allows" if meant else "run it as root, or with WITHOUT_ROOT=1 if this is meant"
    return f"NOT WHOLE: {len(lost)} of {len(runs)} stages did not run, for they need root: {rest}"


def telling(said: Sequence[str]) -> list[str]:
    """Of a log's lines, in their order: the last ones that name a failure, and the last ones of all."""
    end = max(len(said) - LAST_LINES, 0)
    return [line for line in said[:end] if TELLING.match(line)][-TELLING_LINES:] + list(said[end:])


def write(
    name: str, partial: str, runs: Sequence[Run], seconds: float, times: Sequence[Times], results: Results
) -> None:
    """Keep the record of a run of the set in files, for people and other programs. ``partial``: why it is a part."""
    record = {
        "set": name,
        "partial": partial,
        "seconds": round(seconds, 1),
        "stages": [
            {
                "stage": run.stage,
                "seconds": round(run.seconds, 1),
                "cpu_seconds": round(run.cpu, 1),
                "tests": run.tests,
                "result": run.result,
                "detail": run.detail,
            }
            for run in runs
        ],
        "slowest": [
            {"test": t.test, "call": round(t.call, 1), "setup": round(t.setup, 1), "teardown": round(t.teardown, 1)}
            for t in times
        ],
    }
    TIMES.parent.mkdir(exist_ok=True)
    TIMES.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    FLAKY.write_text(json.dumps(sorted(set(results.again)), indent=1) + "\n", encoding="utf-8")
