"""Run make targets one after the other, time each, and end with one table: `make test` and `make demo` are this.

    python3 tools/stages.py [--keep-going] lint 'vm&' unit sanity wait integration

As in a shell, a target with & runs beside those that follow, and `wait` waits for it, as the end does; its output is
printed when it has ended. Stops at the first target that fails, and lets those beside it end. Test results are read
from the JUnit files that the targets leave in build/junit; every skipped test is named at the end, and every one that
failed and was run again. I decide nothing about what a target does.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import pathlib
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET

JUNIT = pathlib.Path("build/junit")


@dataclasses.dataclass
class Stage:
    """One target's run: seconds of wall time and make's exit status."""

    target: str
    seconds: float
    status: int


@dataclasses.dataclass
class Results:
    """What pytest left: numbers of tests, (name, reason) of those that were skipped, and which failed at first."""

    passed: int = 0
    failed: int = 0
    skipped: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    again: list[str] = dataclasses.field(default_factory=list)


def read_results(folder: pathlib.Path) -> Results:
    """Count over all files of a folder."""
    results = Results()
    for path in sorted(folder.glob("*.xml")):
        # Written by our own pytest a moment ago.
        for case in ET.parse(path).iter("testcase"):  # noqa: S314
            skip = case.find("skipped")
            if case.find("failure") is not None or case.find("error") is not None:
                results.failed += 1
            elif skip is not None:
                results.skipped.append((f"{case.get('classname')}::{case.get('name')}", skip.get("message", "")))
            else:
                results.passed += 1
    for path in sorted(folder.glob("*.again")):
        results.again += path.read_text(encoding="utf-8").splitlines()
    return results


def summary(stages: list[Stage], seconds: float, results: Results) -> str:
    """The closing table. ``seconds``: of wall time, for all of them."""
    lines = [f"{'stage':<16} {'seconds':>8}  result"]
    lines += [f"{s.target:<16} {s.seconds:>8.1f}  {'ok' if s.status == 0 else 'FAILED'}" for s in stages]
    lines.append(f"{'total':<16} {seconds:>8.1f}")
    if results.passed or results.failed or results.skipped:
        lines.append(f"tests: {results.passed} passed, {results.failed} failed, {len(results.skipped)} skipped")
    lines += [f"  skipped {name}: {reason}" for name, reason in results.skipped]
    lines += [f"  FLAKY: failed at first, and was run again: {name}" for name in results.again]
    return "\n".join(lines)


def run(target: str) -> Stage:
    """Run one target with this process's own output and no input."""
    print(f"\n=== {target}", flush=True)
    start = time.monotonic()
    status = subprocess.call(["make", target], stdin=subprocess.DEVNULL)
    return Stage(target, time.monotonic() - start, status)


def run_beside(target: str) -> tuple[Stage, bytes]:
    """The same, with its output kept."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as output:
        status = subprocess.call(["make", target], stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        seconds = time.monotonic() - start
        output.seek(0)
        return Stage(target, seconds, status), output.read()


def run_all(targets: list[str], keep_going: bool) -> list[Stage]:
    """The stages in the order in which they ended; none is begun after one has failed, unless ``keep_going``."""
    stages: list[Stage] = []
    beside: list[concurrent.futures.Future[tuple[Stage, bytes]]] = []

    def gather() -> None:
        for each in beside:
            stage, output = each.result()
            print(f"\n=== {stage.target}, which ran beside others", flush=True)
            sys.stdout.buffer.write(output)
            stages.append(stage)
        beside.clear()

    with concurrent.futures.ThreadPoolExecutor() as pool:
        for target in targets:
            if target == "wait":
                gather()
            elif target.endswith("&"):
                print(f"\n=== {target[:-1]} begins, beside the next ones", flush=True)
                beside.append(pool.submit(run_beside, target[:-1]))
            else:
                stages.append(run(target))
            if any(stage.status for stage in stages) and not keep_going:
                break
        gather()
    return stages


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("targets", nargs="+")
    parser.add_argument("--keep-going", action="store_true", help="run the other targets also after one has failed")
    options = parser.parse_args()
    for leftover in (*JUNIT.glob("*.xml"), *JUNIT.glob("*.again")):
        leftover.unlink()
    start = time.monotonic()
    stages = run_all(options.targets, options.keep_going)
    print("\n" + summary(stages, time.monotonic() - start, read_results(JUNIT)), flush=True)
    return int(any(stage.status for stage in stages))


if __name__ == "__main__":
    sys.exit(main())
