"""Runs one operation of an app in a process of its own, so that a test can kill it at any write or break its writes.

The process is forked from the test's: everything is imported already, so a hundred deaths take seconds. The faults are
at the wire: the real operation talks to the real API server, and a death is a real SIGKILL.
"""

from __future__ import annotations

import json
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.berth.stateful.plugins.module_utils._glue import client as client_module
from ansible_collections.berth.stateful.plugins.module_utils._glue.base import Context, Operation, execute
from ansible_collections.berth.stateful.plugins.module_utils._glue.stateful_app import OPERATION
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.errors import ConflictError

#: In a trace: what a run of stateful_app says of its application, and of what has become of it.
SPEC, STATUS = "apply StatefulApp", "apply StatefulApp status"


@dataclass(frozen=True)
class Faults:
    """``kill_at``: the write (from 1) at which the process dies, before or after it is sent; ``of``: of this name
    ("patch Berth status") alone. ``hold``: start when it is there."""

    kill_at: int = 0
    of: str = ""
    before: bool = False
    conflict: bool = False
    conflict_once: str = ""  # the first write of this name ("create Berth") is refused
    conflict_on: str = ""  # every write of this name is
    check: bool = False
    hold: Path | None = None


@dataclass
class Running:
    pid: int
    pipe: int
    told: bytearray = field(default_factory=bytearray)

    def finish(self) -> dict[str, Any] | None:
        """The result; None where it was killed."""
        with os.fdopen(self.pipe, "rb") as stream:
            text = stream.read()
        _pid, status = os.waitpid(self.pid, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            return None
        assert os.WEXITSTATUS(status) == 0, text.decode()
        return json.loads(text)


def start(options: dict[str, Any], operation: Operation = OPERATION, **faults: Any) -> Running:
    checked = ArgumentSpecValidator(operation.argument_spec(), **operation.rules()).validate(options)
    assert not checked.error_messages, checked.error_messages
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return Running(pid, reading)
    code = 1
    try:
        os.close(reading)
        answer = _operate(operation, checked.validated_parameters, Faults(**faults))
        code = 0
    except BaseException:  # noqa: BLE001 whatever it is, the parent must hear of it
        answer = traceback.format_exc()
    with os.fdopen(writing, "w") as stream:
        stream.write(answer)
    os._exit(code)


def deaths(act: Callable[..., dict[str, Any] | None]) -> Iterator[None]:
    """Runs that follow one another: each goes on where the last one died, and is killed when it has written once.

    ``act``: runs the operation with the faults that it is given. Yields after each death, and ends with the run that
    finds nothing to write any more, and fails at nothing.
    """
    for _run in range(80):
        done = act(kill_at=1)
        if done is not None:
            calm(done)
            return
        yield
    raise AssertionError("every run has something to write")


def run(options: dict[str, Any], operation: Operation = OPERATION, **faults: Any) -> Any:
    return start(options, operation, **faults).finish()


def calm(result: dict[str, Any] | None) -> dict[str, Any]:
    """The result of a run that has neither died nor failed."""
    assert result is not None
    assert not result.get("failed"), result
    return result


def _operate(operation: Operation, params: dict[str, Any], faults: Faults) -> str:
    trace = _break_the_wire(faults)
    while faults.hold and not faults.hold.exists():  # all runners of a race start at one moment
        time.sleep(0.002)
    warnings: list[str] = []
    result = execute(operation, Context(params, faults.check, warnings.append))
    return json.dumps({**result, "warnings": warnings, "writes": len(trace), "trace": trace})


def _break_the_wire(faults: Faults) -> list[str]:
    """Put the faults between the client and its wire (of this process alone); the list names the writes."""
    real, trace = client_module.ApiClient._once, []

    def once(self: Any, method: str, url: str, *arguments: Any) -> Any:
        if method == "GET" or "dryRun=All" in url:
            return real(self, method, url, *arguments)
        request = arguments[-1]
        part = {None: "", "": "", "eviction": " eviction"}.get(request.subresource, " status")
        trace.append(f"{request.verb} {request.resource.kind}{part}")
        first_of_it = trace[-1] == faults.conflict_once and trace.count(trace[-1]) == 1
        if faults.conflict or first_of_it or trace[-1] == faults.conflict_on:
            raise ConflictError("somebody else wrote first", 409, "Conflict")
        number = trace.count(faults.of) if trace[-1] == faults.of else 0 if faults.of else len(trace)
        last = number == faults.kill_at > 0
        if last and faults.before:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            return real(self, method, url, *arguments)
        finally:
            if last:  # also where the answer was a refusal: it was the last thing that was done
                os.kill(os.getpid(), signal.SIGKILL)

    client_module.ApiClient._once = once
    return trace
