"""Run stages in two lanes side by side: what computes beside what waits.

A lane takes its own stages in order, and the other's when it has none left. A stage's output goes to
build/logs/STAGE.log and is printed as a whole when it has ended.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

from . import plan, reads
from .table import LANES, Stage

LOGS = pathlib.Path("build/logs")
#: While nothing ends, a line that says what runs is printed this often (seconds).
SIGN_OF_LIFE = 60.0
#: Why a stage did not run whose table asks for root.
NEEDS_ROOT = "it needs root"


@dataclasses.dataclass
class Run:
    """How one stage ended. ``seconds`` of wall time, ``cpu`` of what it started and waited for.

    ``result`` is one of ok, PROVED, FAILED, NOT RUN; ``detail`` says more about it; ``tests`` have run now.
    """

    stage: str
    result: str
    seconds: float = 0.0
    cpu: float = 0.0
    detail: str = ""
    tests: int = 0


@dataclasses.dataclass(frozen=True)
class Hooks:
    """What the caller adds: a `Run` for a stage that need not run; what to say of one that has ended."""

    before: Callable[[Stage], Run | None]
    after: Callable[[Stage, Run], Run]


def call(target: str, environment: dict[str, str] | None = None, output: int | None = None) -> Run:
    """`make target` without input, with this process's own output unless ``output`` is a file's descriptor."""
    start = time.monotonic()
    stderr = None if output is None else subprocess.STDOUT
    process = subprocess.Popen(
        ["make", target],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=stderr,
        env={**os.environ, **(environment or {})},
    )
    status, used = os.wait4(process.pid, 0)[1:]
    process.returncode = os.waitstatus_to_exitcode(status)
    detail = "" if process.returncode == 0 else f"make's status {process.returncode}"
    result = "FAILED" if detail else "ok"
    return Run(target, result, time.monotonic() - start, used.ru_utime + used.ru_stime, detail)


class Lanes:
    """One run of many stages."""

    def __init__(self, stages: Sequence[Stage], hooks: Hooks, keep_going: bool) -> None:
        self.runs: list[Run] = []
        self._waiting = list(stages)
        self._running: dict[str, float] = {}
        self._hooks = hooks
        self._at_work = len(LANES)
        self._keep_going = keep_going
        self._changed = threading.Condition()

    def run(self) -> list[Run]:
        """All stages, in the order in which they ended; those that were not begun come last, and say why."""
        threads = [threading.Thread(target=self._work, args=(lane,), daemon=True) for lane in LANES]
        for thread in threads:
            thread.start()
        with self._changed:
            while self._at_work:
                if not self._changed.wait(SIGN_OF_LIFE):
                    self._say_what_runs()
        self.runs += [Run(stage.name, "NOT RUN", detail="an earlier stage failed") for stage in self._waiting]
        return self.runs

    def _say_what_runs(self) -> None:
        now = time.monotonic()
        names = [f"{name} {now - since:.0f} s" for name, since in sorted(self._running.items())]
        print(f"... running: {', '.join(names)}; {len(self._waiting)} to come", flush=True)

    def _work(self, lane: str) -> None:
        try:
            self._run_stages(lane)
        finally:
            with self._changed:
                self._at_work -= 1
                self._changed.notify_all()

    def _run_stages(self, lane: str) -> None:
        while True:
            with self._changed:
                stage = plan.choose(self._waiting, self._running, lane)
                while stage is None and self._waiting and not self._over():
                    self._changed.wait()
                    stage = plan.choose(self._waiting, self._running, lane)
                if stage is None or self._over():
                    return
                self._waiting.remove(stage)
                self._running[stage.name] = time.monotonic()
            try:
                run = self._one(stage)
            except Exception as error:  # noqa: BLE001 whatever goes wrong is this stage's failure, never a silent end
                run = Run(stage.name, "FAILED", detail=f"{type(error).__name__}: {error}")
            with self._changed:
                del self._running[stage.name]
                self.runs.append(run)
                self._changed.notify_all()

    def _over(self) -> bool:
        return not self._keep_going and any(run.result == "FAILED" for run in self.runs)

    def _one(self, stage: Stage) -> Run:
        if stage.root and os.geteuid() != 0:
            return Run(stage.name, "NOT RUN", detail=NEEDS_ROOT)
        lost = [run.stage for run in self.runs if run.stage in stage.after and run.result in ("FAILED", "NOT RUN")]
        if lost:
            return Run(stage.name, "NOT RUN", detail=f"{lost[0]} did not end well")
        known = self._hooks.before(stage)
        if known is not None:
            return known
        print(f"\n=== {stage.name} begins", flush=True)
        LOGS.mkdir(parents=True, exist_ok=True)
        log = LOGS / f"{stage.name}.log"
        with open(log, "wb") as stream:
            watched = {reads.VARIABLE: str(reads.file_of(stage.name).absolute())} if stage.inputs else {}
            run = call(stage.name, watched, stream.fileno())
        run = self._hooks.after(stage, run)
        with self._changed:
            print(f"\n=== {stage.name} ended after {run.seconds:.0f} s: {run.result} {run.detail}", flush=True)
            sys.stdout.buffer.write(log.read_bytes())
            sys.stdout.flush()
        return run
