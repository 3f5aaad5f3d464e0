"""Ground of every test: the collection is importable, generated examples are the same in every run, skips are named.

Read by pytest. Nothing is started here: the fixtures of the development cluster live in berth_dev.pytest_plugin.
"""

from __future__ import annotations

import gc
import importlib.util
import itertools
import json
import os
import sys
from pathlib import Path

import hypothesis
import pytest

COLLECTIONS = Path(sys.prefix) / "collections"

# One checkout gives one answer; `make explore` looks for new examples instead, with a seed for each round.
hypothesis.settings.register_profile("fixed", deadline=None, derandomize=True, database=None)
hypothesis.settings.register_profile("explore", deadline=None, derandomize=False, max_examples=300, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("BERTH_HYPOTHESIS", "fixed"))

pytest_plugins = ["berth_dev.pytest_plugin"] if importlib.util.find_spec("berth_dev") else []


def _find_collection() -> None:
    """Let `ansible_collections.berth.stateful` be found as Ansible finds it, here and in processes that tests start.

    When this file is imported, not in a hook: the conftest.py of a folder below imports from the collection too.
    """
    if not (COLLECTIONS / "ansible_collections" / "berth" / "stateful").is_dir():
        pytest.exit(
            "the collection is not linked into this environment: run `make venv`, then .venv/bin/pytest", returncode=4
        )
    # Read by ansible when it is imported: set before, and never the user's own configuration.
    os.environ["ANSIBLE_COLLECTIONS_PATH"] = str(COLLECTIONS)
    os.environ["ANSIBLE_CONFIG"] = str(Path(__file__).parent.parent / "ansible.cfg")
    from ansible.plugins.loader import init_plugin_loader

    init_plugin_loader([str(COLLECTIONS)])


_find_collection()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A promise that was broken once is broken: these are never run again (docs/decisions/0020)."""
    for item in items:
        if item.get_closest_marker("promise"):
            item.add_marker(pytest.mark.flaky(reruns=0))


def pytest_collection_finish() -> None:
    """Modules and tests stay to the end: the collector would spend a tenth of the time on looking at them again."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what is folded or kept quiet otherwise: skipped tests, and how those failed that passed when run again."""
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        terminalreporter.section(f"{len(skipped)} skipped, by name")
    for report in skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        terminalreporter.line(f"{report.nodeid}: {str(reason).removeprefix('Skipped: ')}")
    again = terminalreporter.stats.get("rerun", [])
    if again:
        terminalreporter.section(f"{len(again)} failed at first and were run again")
    for report in again:
        terminalreporter.section(report.nodeid, "-")
        terminalreporter.line(report.longreprtext)
    _leave(terminalreporter, [report.nodeid for report in again])


def _leave(reporter: pytest.TerminalReporter, again: list[str]) -> None:
    """Beside the JUnit file, which knows last results and sums only; tools/proving/results.py reads both."""
    if not reporter.config.option.xmlpath:
        return
    stage = Path(reporter.config.option.xmlpath)
    stage.with_suffix(".again").write_text("".join(f"{name}\n" for name in again))
    stage.with_suffix(".times.json").write_text(json.dumps(_times(reporter)))


def _times(reporter: pytest.TerminalReporter) -> list[tuple[str, float, float, float]]:
    """Seconds of set-up, call and tear-down of every test, all tries together."""
    seconds: dict[str, dict[str, float]] = {}
    for report in itertools.chain.from_iterable(reporter.stats.values()):
        if isinstance(report, pytest.TestReport) and report.when:
            phases = seconds.setdefault(report.nodeid, {"setup": 0.0, "call": 0.0, "teardown": 0.0})
            phases[report.when] += report.duration
    return [(test, *(round(phases[when], 2) for when in phases)) for test, phases in seconds.items()]
