"""Run make targets, time each, and end with one table: `make test`, `make check` and `make demo` use this.

    python3 tools/stages.py deps venv cluster demo-play          one after the other; stops at the first failure
    python3 tools/stages.py --set test [--keep-going] [--full] [--without-root]
                                                                 a set of tools/stages.ini, in two lanes
    python3 tools/stages.py what-if src/berth_agent              what `make test` runs if these change, and how long
    python3 tools/stages.py record                               keeps what each stage of a whole run cost, for what-if

A stage of a set that was green on exactly the same inputs is not run again, unless --full is given: the table says
PROVED then, by which commit, with how many tests. Test results are read from the files that the targets leave in
build/junit. The table, the slowest tests and the counts are printed, and kept in build/times.json and
build/flaky.json; what the run took stands beside its target. A set of which stages did not run for want of root
fails, unless --without-root says that this is meant.
"""

from __future__ import annotations

import argparse
import fcntl
import functools
import os
import pathlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from proving import costs, inputs, proofs, reads, report, results, runner, table, targets, what_if

TABLE = pathlib.Path("tools/stages.ini")
LOCK = pathlib.Path("build/.stages.lock")
#: Arguments that change what a stage proves. With one of them no proof is used, and none is kept.
PARTIAL = (
    "AGAIN",
    "ARGS",
    "BERTH_HYPOTHESIS",
    "BERTH_KUBECONFIG",
    "BERTH_VM",
    "MINUTES",
    "ONLY",
    "PYTEST_ADDOPTS",
    "SEED",
)


class Proving:
    """The hooks of the runner: what is proved already is not run, and what was green is written down."""

    def __init__(self, full: bool) -> None:
        self.store = proofs.Store(proofs.default_path())
        self.paths = inputs.files_of_the_tree()
        # Program versions, cached by package list. A list is read when the first stage that names it starts, because an
        # earlier stage installs the packages.
        self._programs = functools.cache(inputs.programs)
        self.full = full
        self.trouble = _reason_against(self.paths)
        self._digests: dict[str, str] = {}

    def before(self, stage: table.Stage) -> runner.Run | None:
        """The proof of an earlier run as this one's result, where there is one."""
        reads.FOLDER.mkdir(parents=True, exist_ok=True)
        reads.file_of(stage.name).unlink(missing_ok=True)
        if not stage.inputs or self.trouble:
            return None
        digest = self._digests[stage.name] = self._digest(stage)
        proof = None if self.full else self.store.find(stage.name, digest)
        if proof is None:
            return None
        tests = f"{proof.tests} tests, " if proof.tests else ""
        detail = f"at {proof.commit}, {tests}{proof.seconds:.0f} s, {proof.date}"
        return runner.Run(stage.name, "PROVED", detail=detail)

    def after(self, stage: table.Stage, run: runner.Run) -> runner.Run:
        """Count a stage's tests, and keep a proof if it was green on what its inputs still are."""
        counted = results.of_stage(stage.name)
        run.tests = counted.tests
        if counted.tests and run.result == "ok":
            run.detail = f"{counted.tests} tests"
        if not stage.inputs:
            return run
        foreign = reads.undeclared(stage.name, stage.inputs, self.paths)
        if foreign and run.result == "ok":
            more = f" and {len(foreign) - 5} more" if len(foreign) > 5 else ""
            run.result = "FAILED"
            run.detail = f"it reads {', '.join(foreign[:5])}{more}: add them to [{stage.name}] inputs in {TABLE}"
        digest = self._digests.get(stage.name)
        if run.result == "ok" and counted.green and digest is not None and digest == self._digest(stage):
            today = time.strftime("%Y-%m-%d", time.gmtime())
            self.store.keep(stage.name, digest, proofs.Proof(commit(), today, round(run.seconds, 1), counted.tests))
        return run

    def _digest(self, stage: table.Stage) -> str:
        return inputs.digest(stage.name, stage.inputs, self.paths, self._programs(stage.packages))


def commit() -> str:
    """The commit that is checked out; with a + where the work tree differs from it."""
    command = ["git", "describe", "--always", "--exclude=*", "--dirty=+"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return done.stdout.decode().strip() or "unknown"


def partial() -> str:
    """Why stages prove less than they are for in this run; empty where they do not."""
    given = [name for name in PARTIAL if os.environ.get(name)]
    # `make test ARGS=-x` hands what was given to its own makes in MAKEFLAGS, behind two dashes.
    overrides = os.environ.get("MAKEFLAGS", "").partition("-- ")[2]
    given += [name for name in PARTIAL if any(word.startswith(f"{name}=") for word in overrides.split())]
    return f"{given[0]} is set" if given else ""


def _reason_against(paths: list[str]) -> str:
    """Why no proof counts in this run; empty where they do."""
    reason = partial() or ("" if paths else "not a git checkout")
    return reason and f"{reason}: every stage runs, and no proof is kept"


@contextmanager
def alone() -> Iterator[None]:
    """One run of a set at a time in a checkout: they would share environments and results."""
    LOCK.parent.mkdir(exist_ok=True)
    with open(LOCK, "a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            sys.exit(f"process {holder} runs the stages of this checkout already; wait for it, or use another clone")
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        # Stages do not inherit the lock: what one of them leaves running must not keep the next run out.
        os.set_inheritable(lock.fileno(), False)
        yield


def run_plain(targets: list[str]) -> list[runner.Run]:
    """Targets one after the other, with their output as it comes; none begins after a failure."""
    runs: list[runner.Run] = []
    for target in targets:
        print(f"\n=== {target}", flush=True)
        runs.append(runner.call(target))
        if runs[-1].result == "FAILED":
            break
    return runs


def run_set(name: str, chosen: table.Set, options: argparse.Namespace) -> int:
    """A whole set. Returns the exit status."""
    start = time.monotonic()
    results.clear()
    shutil.rmtree(runner.LOGS, ignore_errors=True)
    runs = run_plain(list(chosen.first))
    proving = Proving(options.full)
    if not any(run.result == "FAILED" for run in runs):
        for line in filter(None, (proving.trouble, proving.store.trouble)):
            print(f"proofs: {line}", flush=True)
        hooks = runner.Hooks(proving.before, proving.after)
        runs += runner.Lanes(chosen.stages, hooks, options.keep_going).run()
    else:
        runs += [runner.Run(stage.name, "NOT RUN", detail=f"{runs[-1].stage} failed") for stage in chosen.stages]
    total = results.Results()
    for stage in chosen.stages:
        total.add(results.of_stage(stage.name))
    tell(name, runs, time.monotonic() - start, total, proving.store.unkept, options.without_root)
    lost = report.without_root(runs) and not options.without_root
    flaky = len(total.again) > report.TOLERATED
    return int(bool(lost) or flaky or any(run.result == "FAILED" for run in runs))


def tell(
    name: str, runs: list[runner.Run], seconds: float, total: results.Results, unkept: str, without_root: bool
) -> None:
    """The end of a run of a set: on paper, and in files."""
    slowest = results.slowest(report.SLOWEST)
    report.write(name, partial(), runs, seconds, slowest, total)
    parts = [report.table(runs, seconds), report.slow_tests(slowest), report.closing(runs, total)]
    parts += [unkept and f"proofs: {unkept}", targets.told(name, runs, seconds, partial())]
    parts += [report.failures(runs), report.not_whole(runs, without_root)]
    print("\n" + "\n\n".join(part for part in parts if part), flush=True)


def run_targets(targets: list[str]) -> int:
    """Plain targets, and their table. Returns the exit status."""
    start = time.monotonic()
    runs = run_plain(targets)
    print("\n" + report.table(runs, time.monotonic() - start), flush=True)
    return int(any(run.result == "FAILED" for run in runs))


def run_command(sets: dict[str, table.Set], command: str, given: list[str]) -> int:
    """`what-if PATH...` or `record`. Returns the exit status."""
    try:
        known = costs.read(costs.FILE)
        if command == "what-if":
            changed = what_if.expanded(given, inputs.files_of_the_tree())
            print(what_if.told(what_if.answer(sets["test"], changed, known)))
        else:
            whole = [*sets["test"].first, *(stage.name for stage in sets["test"].stages)]
            costs.write(costs.FILE, costs.updated(known, costs.last_run(report.TIMES), whole, table.names(sets)))
    except (costs.CostsError, ValueError) as error:
        print(f"{command}: {error}", file=sys.stderr)
        return 2
    return 0


COMMANDS = ("what-if", "record")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("targets", nargs="*", help="make targets; or what-if and files, or record")
    parser.add_argument("--set", metavar="NAME", help=f"run a set of {TABLE}")
    parser.add_argument("--keep-going", action="store_true", help="begin further stages of a set after one has failed")
    parser.add_argument("--without-root", action="store_true", help="what needs root is not run where there is none")
    parser.add_argument("--full", action="store_true", help="run what is proved already, too")
    options = parser.parse_args()
    if bool(options.targets) == bool(options.set):
        parser.error("name targets, or one --set")
    if options.targets and options.targets[0] not in COMMANDS:
        return run_targets(options.targets)
    try:
        sets = table.read(TABLE)
    except table.TableError as error:
        parser.error(str(error))
    if options.targets:
        return run_command(sets, options.targets[0], options.targets[1:])
    if options.set not in sets:
        parser.error(f"--set {options.set}: no such set; there are {', '.join(sorted(sets))}")
    with alone():
        return run_set(options.set, sets[options.set], options)


if __name__ == "__main__":
    sys.exit(main())
